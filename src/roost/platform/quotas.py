"""Decides what of its quotas a project may still have, for any service. Each declares its resources and its words.

A resource is a name, such as `instances`. Reading, locking and counting are in `quota_tables.py`.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import replace

UNLIMITED = -1
MAXIMUM_MAX = 2**31 - 1

S = TypeVar("S", bound=Struct)
Maximum = Annotated[int, Meta(ge=UNLIMITED, le=MAXIMUM_MAX)]
"""How many a project may have at most; UNLIMITED for any number."""

Quotas = Mapping[str, int]
"""Resource -> how many a project may have at most; UNLIMITED for no limit."""


class QuotaUsage(Struct, frozen=True):
    """How many of a resource a project may have at most (UNLIMITED: any number), and how many it has."""

    project_id: str
    resource: str
    maximum: int
    used: int

    def has_room(self, more: int) -> bool:
        """Return whether the project may have so many more. What asks for none is never too much."""
        return more <= 0 or self.maximum < 0 or self.used + more <= self.maximum

    @property
    def is_over(self) -> bool:
        """Return whether the project has more than it may."""
        return 0 <= self.maximum < self.used

    def count_that_fit(self, each: int, *, most: int) -> int:
        """Return how many things fit that take `each` of the resource, at most `most`."""
        if each <= 0 or self.maximum < 0:
            return most
        return max(0, min(most, (self.maximum - self.used) // each))


Usages = dict[str, dict[str, QuotaUsage]]
"""Project -> resource -> how much of it the project may have, and has."""


def effective(*layers: Quotas) -> dict[str, int]:
    """Return what holds for a project. layers: the defaults of every resource, then what overrides them, in order."""
    return {resource: maximum for layer in layers for resource, maximum in layer.items()}


def usages_of(maxima: Mapping[str, Quotas], used: Mapping[str, Quotas]) -> Usages:
    """Return how much each project may have of its resources, and has. used: of the same; of others 0."""
    return {
        project_id: {
            resource: QuotaUsage(project_id, resource, maximum, used.get(project_id, {}).get(resource, 0))
            for resource, maximum in quotas.items()
        }
        for project_id, quotas in maxima.items()
    }


def limited(maxima: Mapping[str, Quotas]) -> dict[str, Quotas]:
    """Return those of the projects that have a limit of a resource, with all of theirs."""
    return {project_id: quotas for project_id, quotas in maxima.items() if any(n >= 0 for n in quotas.values())}


def limit_refusal(usages: Mapping[str, QuotaUsage], quotas: Quotas, text: str) -> str | None:
    """Return why the first of the new quotas that is below what the project has is too small; None if none is.

    text: the sentence, with the maximum, the resource, and what is used.
    """
    for resource, maximum in quotas.items():
        if 0 <= maximum < usages[resource].used:
            return text.format(maximum=maximum, resource=resource, used=usages[resource].used)
    return None


def fill_in(settings: S, quotas: Quotas) -> S:
    """Return the settings with these quotas where they have none. quotas: by option."""
    return replace(settings, **{name: n for name, n in quotas.items() if getattr(settings, name) is None})


def defaults_of(settings: Struct, resources: Iterable[str]) -> dict[str, int]:
    """Return resource -> what its option `quota_…` says, UNLIMITED where nothing."""
    quotas = {resource: getattr(settings, f"quota_{resource}") for resource in resources}
    return {resource: UNLIMITED if maximum is None else maximum for resource, maximum in quotas.items()}
