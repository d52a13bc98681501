"""Which memberships change when hosts are to be in some host aggregates; what is not managed is never touched."""

from collections.abc import Mapping

from msgspec import Struct

Membership = tuple[str, str]
"""(host aggregate UUID, host name)."""

Memberships = Mapping[str, frozenset[str]]
"""Host name -> UUIDs of host aggregates that it is in."""


class MembershipChange(Struct, frozen=True):
    """What to write, each sorted."""

    added: tuple[Membership, ...]
    removed: tuple[Membership, ...]


def decide_memberships(current: Memberships, desired: Memberships, managed: frozenset[str]) -> MembershipChange:
    """Return what turns `current` into `desired`.

    current: the named hosts' memberships. managed: the aggregates that the caller keeps and that exist; others that
    `desired` names are gone by now, and others in current are somebody else's: both are left out.
    """
    added: set[Membership] = set()
    removed: set[Membership] = set()
    for host, aggregates in desired.items():
        has, needs = current.get(host, frozenset()) & managed, aggregates & managed
        added.update((aggregate, host) for aggregate in needs - has)
        removed.update((aggregate, host) for aggregate in has - needs)
    return MembershipChange(tuple(sorted(added)), tuple(sorted(removed)))
