"""How many more servers of one request fit, what binds them, and what is stranded, by segment and by group of hosts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from roost.placement.search.index import Index, Mask
from roost.scheduling.request import Request, build_query
from roost.scheduling.settings import SchedulingSettings
from roost.seams.network import NetworkView
from roost.seeing.rules.limits import UNBOUNDED, Limits, find_limits, within
from roost.seeing.rules.packing import pack
from roost.seeing.rules.trials import place_all


class Binding(Struct, frozen=True):
    """A resource class that binds. more: how many servers more would fit without that limit, None for any number."""

    resource_class: str
    more: int | None


class SegmentRoom(Struct, frozen=True, kw_only=True):
    """How many servers fit on a segment. hosts: of the request's, that reach it. on_hosts: how many these have room for.

    by_addresses: for how many it has addresses. fits: of all that fit so many are here; without them, what is left on
    the hosts, or of the addresses, is stranded.
    """

    network: str
    segment: str
    hosts: int
    on_hosts: int
    by_addresses: int
    fits: int

    @property
    def stranded(self) -> tuple[int, int]:
        """Return for how many servers hosts have room here without addresses, and addresses without hosts."""
        return max(self.on_hosts - self.fits, 0), max(self.by_addresses - self.fits, 0)


class GroupRoom(Struct, frozen=True):
    """How many servers fit in a zone or a host aggregate, if all are to be there."""

    name: str
    hosts: int
    least: int
    most: int


class Capacity(Struct, frozen=True, kw_only=True):
    """How many more servers of a request fit.

    exact: `least` and `most` are one number, which is reached in any order; else the conductor's choice places `least`,
    and no order more than `most`. choices: why it is not. bindings: what binds, by how much, first what binds most.
    """

    exact: bool
    least: int
    most: int
    choices: tuple[str, ...] = ()
    bindings: tuple[Binding, ...] = ()
    segments: tuple[SegmentRoom, ...] = ()
    zones: tuple[GroupRoom, ...] = ()
    aggregates: tuple[GroupRoom, ...] = ()


def find_capacity(
    index: Index,
    requests: Sequence[Request],
    random: Random,
    settings: SchedulingSettings,
    *,
    zones: Mapping[str, Iterable[str]] = {},
    aggregates: Mapping[str, Iterable[str]] = {},
) -> Capacity:
    """Return how many more servers of one request fit, by the index, which is left as it is.

    requests: its alternatives, narrowed. zones, aggregates: name -> names of hosts.
    Cost: see find_limits and pack, once, for each resource class, zone and aggregate; where the limits do not nest, the
    placing of all servers that fit.
    """
    possible = [request for request in requests if request.impossible is None]
    limits = find_limits(index, [build_query(request, limit=0) for request in possible])
    packing = pack(limits)
    placed = Counter[int]()
    least = packing.most
    if not packing.nested:
        candidates = place_all(index.copy(), requests, random, settings)
        least = len(candidates)
        for candidate in candidates:
            placed.update(index.row_by_uuid[uuid] for uuid in candidate.allocations)
    networks = {nic.network.id: nic.network for request in possible for nic in request.nics}
    flows = {limit_set.rows: flow for limit_set, flow in zip(limits.sets, packing.flows, strict=True)}
    if placed:
        flows = {rows: sum(placed[row] for row in rows) for rows in flows}
    names = {name: row for row, name in enumerate(index.names)}

    def rooms(groups: Mapping[str, Iterable[str]]) -> tuple[GroupRoom, ...]:
        return tuple(_group(limits, name, [names[h] for h in hosts if h in names]) for name, hosts in groups.items())

    return Capacity(
        exact=packing.nested,
        least=least,
        most=packing.most,
        choices=_choices(limits, nested=packing.nested),
        bindings=_bindings(limits, packing.most),
        segments=tuple(_segments(index, limits, networks, flows)),
        zones=rooms(zones),
        aggregates=rooms(aggregates),
    )


def _choices(limits: Limits, *, nested: bool) -> tuple[str, ...]:
    if nested:
        return ()
    return limits.choices or ("hosts that share one limit are apart under another: neither set is within the other",)


def _bindings(limits: Limits, most: int) -> tuple[Binding, ...]:
    """Return the classes without whose limits more would fit, the one that costs most first."""
    bindings = []
    for number, name in enumerate(limits.classes):
        own = limits.own.copy()
        own[number] = UNBOUNDED
        sets = tuple(limit_set for limit_set in limits.sets if limit_set.resource_class != name)
        without = pack(replace(limits, own=own, sets=sets)).most
        if without > most:
            bindings.append(Binding(name, without - most if without < UNBOUNDED else None))
    return tuple(sorted(bindings, key=lambda binding: -(binding.more or UNBOUNDED)))


def _segments(
    index: Index, limits: Limits, networks: Mapping[str, NetworkView], flows: Mapping[tuple[int, ...], int]
) -> Iterable[SegmentRoom]:
    """Yield a row for each segment, or for each set of pools that the same hosts choose among."""
    named = {s.provider_uuid: (network.name, s.name) for network in networks.values() for s in network.segments}
    most = limits.most
    rooms: dict[tuple[int, ...], SegmentRoom] = {}
    for limit_set in limits.sets:
        names = [named[index.uuids[row]] for row in limit_set.rows if index.uuids[row] in named]
        if len(names) < len(limit_set.rows):
            continue
        before = rooms.get(limit_set.rows)
        by_addresses = limit_set.limit if before is None else min(limit_set.limit, before.by_addresses)
        rooms[limit_set.rows] = SegmentRoom(
            network=names[0][0],
            segment=", ".join(name for _, name in names),
            hosts=len(np.unique(limits.roots[limit_set.members])),
            on_hosts=min(int(most[limit_set.members].sum()), UNBOUNDED),
            by_addresses=by_addresses,
            fits=flows[limit_set.rows],
        )
    return sorted(rooms.values(), key=lambda room: (room.network, room.segment))


def _group(limits: Limits, name: str, rows: Sequence[int]) -> GroupRoom:
    """Return the room of a group of hosts; exact where both numbers are equal."""
    places: Mask = np.isin(limits.roots, rows)
    packing = pack(within(limits, places))
    return GroupRoom(name, len(rows), packing.most if packing.nested else 0, packing.most)
