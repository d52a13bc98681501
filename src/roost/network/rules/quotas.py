"""Refuses a project more than its quota, in upstream's words. service/quotas.py counts what it uses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from roost.platform.quotas import QuotaUsage

Resource = Literal["network", "subnet", "port"]
RESOURCES: tuple[Resource, ...] = ("network", "subnet", "port")
"""Names of tables, of options `quota_…`, and of attributes in api/quotas.py."""


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
        so_far = usage and replace(usage, used=usage.used + granted[project_id])
        reasons.append(refusal(so_far, more) if so_far and more else None)
        granted[project_id] += more if reasons[-1] is None else 0
    return reasons


def refusal_of_limit(usage: QuotaUsage, maximum: int) -> str | None:
    """Return why a new quota is too small for what the project has, in upstream's words; None if it is not."""
    if maximum < 0 or usage.used <= maximum:
        return None
    return f"Quota limit {maximum} for {usage.resource} must be greater than or equal to already used {usage.used}"
