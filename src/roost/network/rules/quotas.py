"""Refuses a project more than its quota, in upstream's words. store/quotas.py counts what it uses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from msgspec.structs import replace

from roost.platform.quotas import QuotaUsage

Resource = Literal["network", "subnet", "port"]
RESOURCES: tuple[Resource, ...] = get_args(Resource)
"""Names of tables, of options `quota_…`, and of attributes in api/quotas.py."""
LIMIT_TOO_SMALL = "Quota limit {maximum} for {resource} must be greater than or equal to already used {used}"


def refusal(usage: QuotaUsage, more: int) -> str | None:
    """Return why the project cannot have so many more, in a sentence that begins as upstream's; None if it can."""
    if usage.has_room(more):
        return None
    return (
        f"Quota exceeded for resources: ['{usage.resource}']. Project {usage.project_id} has {usage.used} of at most "
        f"{usage.maximum}, and {more} more {'was' if more == 1 else 'were'} asked for."
    )


def grant(usages: Mapping[str, QuotaUsage], wants: Sequence[tuple[str, int]]) -> list[str | None]:
    """Return for each want, (project id, how many more), why the project cannot have them; None if it can.

    The first wants get what there is. usages: by project id, of those that have a limit.
    """
    granted: Counter[str] = Counter()
    reasons = []
    for project_id, more in wants:
        usage = usages.get(project_id)
        reason = refusal(replace(usage, used=usage.used + granted[project_id]), more) if usage else None
        reasons.append(reason)
        granted[project_id] += 0 if reason else more
    return reasons
