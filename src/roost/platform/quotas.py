"""Decides what of its quotas a project may still have, for any service. Each declares its resources and its words.

A resource is a name, such as `instances`. Reading, locking and counting are in `quota_tables.py`.
"""

from collections.abc import Mapping
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

    def count_that_fit(self, each: int, *, most: int) -> int:
        """Return how many things fit that take `each` of the resource, at most `most`."""
        if each <= 0 or self.maximum < 0:
            return most
        return max(0, min(most, (self.maximum - self.used) // each))


def effective(*layers: Quotas) -> dict[str, int]:
    """Return what holds for a project. layers: the defaults of every resource, then what overrides them, in order."""
    return {resource: maximum for layer in layers for resource, maximum in layer.items()}


def fill_in(settings: S, quotas: Quotas) -> S:
    """Return the settings with these quotas where they have none. quotas: by option."""
    return replace(settings, **{name: n for name, n in quotas.items() if getattr(settings, name) is None})


def defaults_of(settings: Struct, options: Mapping[str, str]) -> dict[str, int]:
    """Return resource -> what the settings say, UNLIMITED where nothing. options: resource -> option."""
    quotas = {resource: getattr(settings, option) for resource, option in options.items()}
    return {resource: UNLIMITED if maximum is None else maximum for resource, maximum in quotas.items()}
