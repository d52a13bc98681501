"""How many more servers of one request fit, what binds them, and what is stranded, by segment and by group of hosts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from roost.placement.search.index import Index, Mask
from roost.scheduling.request import Request, build_query
from roost.scheduling.settings import SchedulingSettings
from roost.seams.network import NetworkView
from roost.seams.placement import ADDRESS_CLASSES, Candidate
from roost.seeing.rules.limits import UNBOUNDED, Limits, find_limits, within
from roost.seeing.rules.packing import pack
from roost.seeing.rules.trials import SERVERS_MAX, boot_all, count_alike, place_all

ADDRESSES = "addresses"
TRIALS_MAX = 8
COST_MAX = 1500
"""Boots that are tried one by one, 1 ms each."""
PROVIDERS_AS_DEAR = 500
"""A search over so many more providers takes as long again."""


class Binding(Struct, frozen=True):
    """What binds: a resource class, or ADDRESSES. more: how many servers more would fit without it, None for any."""

    limit: str
    more: int | None


class SegmentRoom(Struct, frozen=True, kw_only=True):
    """How many servers fit on a segment. hosts: those that reach it and have all else that is asked for, full or not.

    on_hosts: for how many servers these have room. by_addresses: for how many it has addresses. fits: of all that fit
    so many are here. stranded_on_hosts, stranded_addresses: for how many more one has room and the other has not.
    """

    network: str
    segment: str
    hosts: int
    on_hosts: int
    by_addresses: int
    fits: int
    stranded_on_hosts: int
    stranded_addresses: int


class GroupRoom(Struct, frozen=True):
    """How many servers fit in a zone or a host aggregate, if all are to be there. exact: else that is a bound."""

    name: str
    hosts: int
    most: int
    exact: bool


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
    candidates = [] if packing.nested else _place_today(index, requests, packing.most, random, settings)
    least = packing.most if packing.nested else len(candidates)
    networks = {nic.network.id: nic.network for request in possible for nic in request.nics}
    flows = {limit_set.rows: flow for limit_set, flow in zip(limits.sets, packing.flows, strict=True)}
    if not packing.nested:
        servers = Counter[int]()
        for candidate, count in count_alike(candidates):
            servers.update(dict.fromkeys((index.row_by_uuid[uuid] for uuid in candidate.allocations), count))
        flows = {rows: min(sum(servers[row] for row in rows), least) for rows in flows}
    names = {name: row for row, name in enumerate(index.names)}

    def rooms(groups: Mapping[str, Iterable[str]]) -> tuple[GroupRoom, ...]:
        return tuple(_group(limits, name, [names[h] for h in hosts if h in names]) for name, hosts in groups.items())

    return Capacity(
        exact=packing.nested,
        least=least,
        most=packing.most,
        choices=() if packing.nested else tuple(_choices(limits, least)),
        bindings=_bindings(limits, packing.most),
        segments=tuple(_segments(index, limits, networks, flows)),
        zones=rooms(zones),
        aggregates=rooms(aggregates),
    )


def _place_today(
    index: Index, requests: Sequence[Request], most: int, random: Random, settings: SchedulingSettings
) -> list[Candidate]:
    """Return where the conductor would place as many servers as fit; by lot, so of several trials the worst.

    In a trial servers boot one by one. Where that takes too long, all are one bulk boot.
    """
    cost = max(most, 1) * (1 + len(index) / PROVIDERS_AS_DEAR)
    if cost > COST_MAX:
        return place_all(index.copy(), requests, random, settings)
    trials = [boot_all(index.copy(), requests, random, settings) for _ in range(min(int(COST_MAX / cost), TRIALS_MAX))]
    return min(trials, key=len)


def _choices(limits: Limits, least: int) -> Iterator[str]:
    """Yield why there are two numbers, and where the first one was not looked for to its end."""
    crossing = "hosts that share one limit are apart under another: neither set is within the other"
    yield from limits.choices or (crossing,)
    if least == SERVERS_MAX:
        yield f"no more than {SERVERS_MAX:,} servers were tried"


def _bindings(limits: Limits, most: int) -> tuple[Binding, ...]:
    """Return the classes without whose limits more would fit, the one that costs most first."""
    bindings = []
    names = {ADDRESSES if name in ADDRESS_CLASSES else name: {name} for name in limits.classes}
    if ADDRESSES in names:
        names[ADDRESSES] = set(ADDRESS_CLASSES)
    for name, classes in names.items():
        own = limits.own.copy()
        own[[number for number, class_name in enumerate(limits.classes) if class_name in classes]] = UNBOUNDED
        sets = tuple(limit_set for limit_set in limits.sets if limit_set.resource_class not in classes)
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
        on_hosts, fits = min(int(most[limit_set.members].sum()), UNBOUNDED), flows[limit_set.rows]
        rooms[limit_set.rows] = SegmentRoom(
            network=names[0][0],
            segment=", ".join(name for _, name in names),
            hosts=len(np.unique(limits.roots[limit_set.members])),
            on_hosts=on_hosts,
            by_addresses=by_addresses,
            fits=fits,
            stranded_on_hosts=max(on_hosts - by_addresses, 0),
            stranded_addresses=max(by_addresses - on_hosts, 0),
        )
    return sorted(rooms.values(), key=lambda room: (room.network, room.segment))


def _group(limits: Limits, name: str, rows: Sequence[int]) -> GroupRoom:
    """Return the room of a group of hosts."""
    places: Mask = np.isin(limits.roots, rows)
    packing = pack(within(limits, places))
    return GroupRoom(name, len(rows), packing.most, packing.nested)
