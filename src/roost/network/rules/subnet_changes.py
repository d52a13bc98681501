"""Decides what becomes of pools, free ranges and held addresses while a subnet's pools change; all by whole numbers.

A change has two ends. When it begins, the new pools are there and what leaves them is still given to whoever has a
claim already; when it ends, what leaves is gone. In between the ledger is told. Free and held are the pools always.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from roost.network.model.networks import AddressRange
from roost.network.model.ports import Holding
from roost.network.rules.ranges import Ranges, holds, intersect, join, subtract


class ChangeBegun(Struct, frozen=True):
    """leaving: what the pools lose at the end. free: all ranges. held: those of the holdings that are others now."""

    leaving: Ranges
    free: Ranges
    held: tuple[Holding, ...]


class ChangeEnded(Struct, frozen=True):
    """free: all ranges. held: those of the holdings that are others now; unclaimed: what lost its claim, of those."""

    free: Ranges
    held: tuple[Holding, ...]
    unclaimed: tuple[int, ...]


def begin_change(
    pools: Sequence[AddressRange],
    target: Sequence[AddressRange],
    *,
    free: Sequence[AddressRange],
    held: Iterable[Holding],
    counts: bool,
) -> ChangeBegun:
    """The pools get what is new, of which nobody holds is free; what should go stays until the end.

    pools: with those that are leaving already. counts: the subnet is capacity, so that what its pools hold is claimed.
    Whoever loses an address that is claimed gives it back to the ledger: so it is marked before the ledger counts it.
    """
    gained, wanted = subtract(target, pools), join(target)
    holdings = list(held)
    taken_in = [AddressRange(item.address, item.address) for item in holdings if not item.in_pool]
    changed = []
    for item in holdings:
        in_pool = item.in_pool or holds(gained, item.address)
        claimed = item.claimed or (counts and not item.of_unknown_guest and holds(wanted, item.address))
        if (in_pool, claimed) != (item.in_pool, item.claimed):
            changed.append(replace(item, in_pool=in_pool, claimed=claimed))
    return ChangeBegun(
        leaving=subtract(pools, target),
        free=join([*free, *subtract(gained, taken_in)]),
        held=tuple(changed),
    )


def end_change(
    pools: Sequence[AddressRange],
    *,
    free: Sequence[AddressRange],
    held: Iterable[Holding],
    counts: bool,
) -> ChangeEnded:
    """The pools are these only: what is not in them is neither free nor claimed."""
    changed, unclaimed, wanted = [], [], join(pools)
    for item in held:
        in_pool = holds(wanted, item.address)
        claimed = counts and in_pool and not item.of_unknown_guest
        if (in_pool, claimed) != (item.in_pool, item.claimed):
            changed.append(replace(item, in_pool=in_pool, claimed=claimed))
        if item.claimed and not claimed:
            unclaimed.append(item.address)
    return ChangeEnded(free=intersect(free, pools), held=tuple(changed), unclaimed=tuple(unclaimed))
