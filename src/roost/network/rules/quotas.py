"""Refuses a project more than its quota, in upstream's words. store/quotas.py counts what it uses."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from msgspec.structs import replace

from roost.platform.quotas import QuotaUsage

Resource = Literal["network", "subnet", "port"]
RESOURCES: tuple[Resource, ...] = get_args(Resource)
"""Names of tables, of options `quota_…`, and of attributes in api/quotas.py."""
LIMIT_TOO_SMALL = "Quota limit {maximum} for {resource} must be greater than or equal to already used {used}"


def grant(usages: Mapping[str, QuotaUsage], wants: Sequence[tuple[str, int]]) -> list[str | None]:
    """Return for each want, (project id, how many more), why the project cannot have them; None if it can.

    The first wants get what there is. The sentence begins as upstream's. usages: by project id, of those with a limit.
    """
    usages_now = dict(usages)
    reasons: list[str | None] = []
    for project_id, more in wants:
        usage, reason = usages_now.get(project_id), None
        if usage is not None and usage.has_room(more):
            usages_now[project_id] = replace(usage, used=usage.used + more)
        elif usage is not None:
            reason = (
                f"Quota exceeded for resources: ['{usage.resource}']. Project {project_id} has {usage.used} of at most "
                f"{usage.maximum}, and {more} more {'was' if more == 1 else 'were'} asked for."
            )
        reasons.append(reason)
    return reasons
