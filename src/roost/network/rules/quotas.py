"""Decides how much of what a project may have. Counting and locking are in service/quotas.py."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Resource = Literal["network", "subnet", "port"]
RESOURCES: tuple[Resource, ...] = ("network", "subnet", "port")
UNLIMITED = -1
MAXIMUM_MAX = 2**31 - 1

Quotas = Mapping[Resource, int]
"""Resource -> how many a project may have at most; UNLIMITED for no limit."""


class QuotaUsage(Struct, frozen=True):
    """How many of a resource a project may have at most (UNLIMITED: any number), and how many it has."""

    project_id: str
    resource: Resource
    maximum: int
    used: int


def effective(defaults: Quotas, own: Quotas) -> dict[Resource, int]:
    """What holds for a project: its own quota of a resource, or else the default."""
    return {resource: own.get(resource, defaults[resource]) for resource in RESOURCES}


def refusal(usage: QuotaUsage, more: int) -> str | None:
    """Why the project cannot have so many more, in a sentence that begins as upstream's; None if it can."""
    if usage.maximum < 0 or usage.used + more <= usage.maximum:
        return None
    return (
        f"Quota exceeded for resources: ['{usage.resource}']. Project {usage.project_id} has {usage.used} of at most "
        f"{usage.maximum}, and {more} more {'was' if more == 1 else 'were'} asked for."
    )


def refusal_of_limit(resource: Resource, maximum: int, used: int) -> str | None:
    """Why a new quota would be too small for what the project has already; None if it would not. Source: upstream."""
    if maximum < 0 or used <= maximum:
        return None
    return f"Quota limit {maximum} for {resource} must be greater than or equal to already used {used}"
