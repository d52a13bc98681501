"""Which changes would help a server that finds no host: each is tried on a copy of the index, by the search itself.

Single changes first, the cheapest first; where none helps alone, two at once.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import combinations, islice
from random import Random

from msgspec.structs import replace

from roost.placement.search.index import Index
from roost.scheduling.request import Request
from roost.scheduling.settings import SchedulingSettings
from roost.seams.placement import VCPU
from roost.seeing.rules.changes import Change, ChangeKind, make
from roost.seeing.rules.nearest import Near, show_amounts
from roost.seeing.rules.trials import place

REMEDIES_MAX = 5
TRIALS_MAX, TRIALS_MIN = 32, 8
"""Single changes, and as many pairs, that are tried: fewer for more than CHEAP_SERVERS, which take longer to place."""
CHEAP_SERVERS = 100
PAIRED_MAX = 8
"""Of the single changes those that are tried in pairs, beside those of one host."""

COST = {kind: rank for rank, kind in enumerate(ChangeKind)}

Remedy = tuple[Change, ...]
"""Changes that help together; nearly always one."""


def find_remedies(
    index: Index,
    requests: Sequence[Request],
    nearest: Sequence[Near],
    random: Random,
    settings: SchedulingSettings,
    *,
    servers: int = 1,
) -> list[Remedy]:
    """Return up to REMEDIES_MAX changes each of which makes `servers` servers of the request fit; else the first pair.

    index: as it is, it is left so. Nothing is returned where no change that was tried helps, nor two.
    Cost: a copy of the index and the placing of the servers for each trial.
    """

    def helps(remedy: Remedy) -> bool:
        changed = index.copy()
        make(changed, remedy)
        return len(place(changed, requests, servers, random, settings)) == servers

    lacks = [lack for near in nearest for lack in near.lacks if lack.change is not None]
    shares = {lack.change: lack.share for lack in lacks if lack.change and _is_possible(index, lack.change)}
    by_cost = sorted(shares, key=lambda change: (COST[change.kind], shares[change], change.place))
    alone = dict.fromkeys(near.lacks[0].change for near in nearest if len(near.lacks) == 1)
    singles = [change for change in by_cost if change in alone or servers > 1]
    singles += [raised for change in alone if change and (raised := _raise_ratio(index, change))]
    singles.sort(key=lambda change: COST[change.kind])
    trials = max(TRIALS_MIN, min(TRIALS_MAX, TRIALS_MAX * CHEAP_SERVERS // servers))
    remedies = _first(helps, [(change,) for change in singles][:trials], most=REMEDIES_MAX)
    if remedies:
        return remedies
    pairs = _pairs(nearest, shares, by_cost[:PAIRED_MAX] if servers > 1 else ())
    return _first(helps, islice(pairs, trials), most=1)


def _raise_ratio(index: Index, change: Change) -> Change | None:
    """Return the raise of an allocation ratio that gives what a host is short of, where its VCPUs are overcommitted."""
    if change.kind is not ChangeKind.FREE_ON_HOST or [name for name, _ in change.amounts] != [VCPU]:
        return None
    inventory = index.inventories[index.row_by_uuid[change.provider_uuid]][VCPU]
    size = inventory.total - inventory.reserved
    if inventory.allocation_ratio <= 1 or size <= 0:
        return None
    ratio = math.ceil((inventory.capacity + change.amounts[0][1]) / size * 100) / 100
    return replace(change, kind=ChangeKind.RAISE_RATIO, ratio=ratio)


def _is_possible(index: Index, change: Change) -> bool:
    """Return whether as much is used as is to be freed."""
    row = index.row_by_uuid[change.provider_uuid]
    freed = change.amounts if change.kind is ChangeKind.FREE_ON_HOST else ()
    return all(index.used[row][name] >= amount for name, amount in freed)


def _pairs(nearest: Sequence[Near], possible: Collection[Change], singles: Sequence[Change]) -> Iterable[Remedy]:
    """Yield the two changes of hosts that lack two things, then pairs of single ones."""
    for near in nearest:
        changes = [lack.change for lack in near.lacks if lack.change is not None and lack.change in possible]
        if len(near.lacks) == len(changes) == 2:
            yield tuple(changes)
    yield from combinations(singles, 2)


def _first(helps: Callable[[Remedy], bool], remedies: Iterable[Remedy], *, most: int) -> list[Remedy]:
    helping: list[Remedy] = []
    for remedy in remedies:
        if helps(remedy):
            helping.append(remedy)
            if len(helping) == most:
                break
    return helping


def describe(change: Change) -> str:
    """Return a change as a sentence in the imperative, without its point. Where a host is closed see its state."""
    match change.kind:
        case ChangeKind.OPEN_HOST:
            return f"open host {change.place}"
        case ChangeKind.FREE_ON_HOST:
            return f"free {show_amounts(change.amounts)} on host {change.place}"
        case ChangeKind.RAISE_RATIO:
            return f"raise the allocation ratio of {change.amounts[0][0]} on host {change.place} to {change.ratio:g}"
        case ChangeKind.GROW_SEGMENT if change.network:
            return f"give segment {change.place} of network {change.network} {show_amounts(change.amounts)} more"
        case ChangeKind.GROW_SEGMENT:
            return f"give {change.place} {show_amounts(change.amounts)} more"
        case ChangeKind.REACH_SEGMENT:
            return f"connect host {change.place} to segment {change.segment} of network {change.network}"
