"""Which hosts come nearest to taking a server, and what each lacks: closed, too little of something, out of reach.

A lack is of a host, or of a segment, which many hosts lack alike. What one change would mend says which change.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from roost.placement.search.index import I64, Index, Mask
from roost.placement.search.narrowing import make_plan
from roost.platform.grouping import grouped
from roost.scheduling.explain import joined, show_amount
from roost.scheduling.request import Kind, Narrowing, NicRequest, Request, build_query
from roost.seams.placement import (
    ADDRESS_CLASSES,
    DISABLED,
    DISK_GB,
    FAMILY_WORDS,
    IPV4_ADDRESS,
    MEMORY_MB,
    VCPU,
    CandidateQuery,
    RequestGroup,
    Requirement,
)
from roost.seeing.rules.changes import Change, ChangeKind
from roost.seeing.rules.limits import Short, find_shorts

CLASS_ORDER = (VCPU, MEMORY_MB, DISK_GB, *ADDRESS_CLASSES)
INVENTORY = Requirement.INVENTORY
HOSTS_EXAMINED_MAX = 256
"""The nearest hosts whose lacks are told apart."""


Segments = Mapping[str, tuple[str, str]]
"""Provider UUID -> (name of the network, name of the segment)."""


class Lack(Struct, frozen=True, kw_only=True):
    """What keeps a host from taking a server. place: the host or the segment that lacks it. change: that would mend it.

    share: how much of what is asked for is missing, from 0 to 1.
    """

    place: str
    words: str
    share: float = 1.0
    change: Change | None = None


class Near(Struct, frozen=True):
    """Hosts that lack the same: one, or all those of segments. hosts: their names, in order."""

    lacks: tuple[Lack, ...]
    hosts: tuple[str, ...]

    @property
    def distance(self) -> tuple[int, float]:
        """Return a key that is smaller for what is nearer."""
        return len(self.lacks), sum(lack.share for lack in self.lacks)


class _Condition(Struct, frozen=True):
    """Something that a host is or has. meets: bool, shape (rows,). narrowing: what a filter said of it, if one did."""

    meets: Mask
    narrowing: Narrowing | None
    requirement: Requirement | None
    names: tuple[str, ...]


def find_nearest(index: Index, requests: Sequence[Request], *, servers: int = 1) -> list[Near]:
    """Return what hosts lack, those that lack least first; each host once, by the alternative that it is nearest to.

    requests: the alternatives of one request, narrowed. servers: how many are to find a place; of segments all of them
    are wanted, of a host one. Cost: a search's narrowing for each requirement.
    """
    nearest: dict[str, tuple[Lack, ...]] = {}
    for request in requests:
        if request.impossible is None:
            for host, lacks in _hosts(index, request, servers):
                if host not in nearest or _near(host, lacks).distance < _near(host, nearest[host]).distance:
                    nearest[host] = lacks
    alike = grouped((lacks, host) for host, lacks in nearest.items())
    nears = [Near(lacks, tuple(sorted(hosts))) for lacks, hosts in alike.items()]
    return sorted(nears, key=lambda near: (near.distance, near.hosts))


def _near(host: str, lacks: tuple[Lack, ...]) -> Near:
    return Near(lacks, (host,))


def _hosts(index: Index, request: Request, servers: int) -> Iterator[tuple[str, tuple[Lack, ...]]]:
    """Yield the nearest hosts with what they lack."""
    query = build_query(request, limit=1)
    hosts = np.flatnonzero(index.trees().hosts)
    conditions = list(_conditions(index, request, query))
    shorts = find_shorts(index, query, _shape_of(query))
    shares = [_share(index, short, servers) for short in shorts]
    count, weight = np.zeros(index.rows, np.int64), np.zeros(index.rows)
    for condition in conditions:
        count += ~condition.meets
    for short, share in zip(shorts, shares, strict=True):
        count[short.members] += 1
        weight[short.members] += share
    order = hosts[np.lexsort((weight[hosts], count[hosts]))][:HOSTS_EXAMINED_MAX]
    shorts_by_host = _by_host(shorts, order)
    segments = {s.provider_uuid: (nic.network.name, s.name) for nic in request.nics for s in nic.network.segments}
    for host in order.tolist():
        lacks = [_fault(index, host, condition) for condition in conditions if not condition.meets[host]]
        shorts_there = [shorts[number] for number in shorts_by_host.get(host, ())]
        lacks += _shortages(index, shorts_there, segments, servers)
        lacks = list(dict.fromkeys(lacks))
        if lacks and index.names[host] not in request.excluded_hosts:
            yield index.names[host], tuple(lacks)


def _by_host(shorts: Sequence[Short], hosts: I64) -> dict[int, list[int]]:
    """Return the row of each of the hosts -> the numbers of what it is short of."""
    if not shorts:
        return {}
    members = np.concatenate([short.members for short in shorts])
    numbers = np.repeat(np.arange(len(shorts)), [len(short.members) for short in shorts])
    here = np.isin(members, hosts)
    return grouped(zip(members[here].tolist(), numbers[here].tolist(), strict=True))


# What hosts are.


def _shape_of(query: CandidateQuery) -> CandidateQuery:
    """Return the query without amounts, and without what it asks of the host that no amount depends on."""
    groups = [
        RequestGroup(suffix=group.suffix, resources=dict.fromkeys(group.resources, 0))
        if group.suffix == ""
        else replace(group, resources=dict.fromkeys(group.resources, 0))
        for group in query.groups
    ]
    return replace(query, groups=tuple(groups), group_policy="none")


def _conditions(index: Index, request: Request, query: CandidateQuery) -> list[_Condition]:
    """Return what a host is to be, one by one; all that one NIC asks of where the host is, is one."""
    conditions: dict[object, _Condition] = {}
    for group in query.groups:
        for requirement, names, part in _parts_of(group):
            narrowing = _narrowing_of(request, group.suffix, requirement, names)
            meets = make_plan(index, CandidateQuery(groups=(part,))).viable
            nic = narrowing.nic if narrowing else None
            key = (nic.tag,) if nic else (group.suffix, requirement, names)
            if key in conditions:
                meets = meets & conditions[key].meets
                narrowing = conditions[key].narrowing
            conditions[key] = _Condition(meets, narrowing, requirement, names)
    return list(conditions.values())


def _parts_of(group: RequestGroup) -> Iterator[tuple[Requirement | None, tuple[str, ...], RequestGroup]]:
    """Yield what a group asks hosts to be: the host's own one by one, of the other groups all together."""
    nothing = dict.fromkeys(group.resources, 0)
    if group.suffix:
        yield None, tuple(nothing), replace(group, resources=nothing)
        return
    bare = RequestGroup(suffix="", resources=dict.fromkeys(list(nothing)[:1], 0))  # the size: every host has that
    for name in nothing:
        yield Requirement.INVENTORY, (name,), replace(bare, resources={name: 0})
    for trait in sorted(group.forbidden):
        yield Requirement.NO_TRAIT, (trait,), replace(bare, forbidden=frozenset({trait}))
    for traits in group.required:
        yield Requirement.TRAIT, tuple(sorted(traits)), replace(bare, required=(traits,))
    if group.in_tree is not None:
        yield Requirement.IN_TREE, (group.in_tree,), replace(bare, in_tree=group.in_tree)
    if group.forbidden_aggregates:
        yield Requirement.NOT_MEMBER_OF, (), replace(bare, forbidden_aggregates=group.forbidden_aggregates)
    for clause in dict.fromkeys(group.member_of):
        yield Requirement.MEMBER_OF, tuple(sorted(clause)), replace(bare, member_of=(clause,))


def _narrowing_of(
    request: Request, suffix: str, requirement: Requirement | None, names: tuple[str, ...]
) -> Narrowing | None:
    """Return what a filter said of this requirement; of a group as a whole what it said of its shape."""
    for narrowing in request.narrowings:
        if narrowing.suffix == suffix and narrowing.requirement in (None, requirement):
            if requirement is None and narrowing.requirement is not None:
                continue
            if narrowing.names in ((), names):
                return narrowing
    return None


def _fault(index: Index, host: int, condition: _Condition) -> Lack:
    """Return what a host is not, and the change that would make it so."""
    name, uuid = index.names[host], index.uuids[host]
    narrowing = condition.narrowing
    if condition.names == (DISABLED,):
        change = Change(kind=ChangeKind.OPEN_HOST, provider_uuid=uuid, place=name)
        return Lack(place=name, words="closed", change=change)
    if narrowing is None:
        what = " and ".join(condition.names)
        return Lack(place=name, words=f"no {what} at all" if condition.requirement in (None, INVENTORY) else what)
    if narrowing.nic is not None:
        network = f"network {narrowing.nic.network.name}"
        return Lack(place=name, words=f"does not reach {network}", change=_reach(index, host, narrowing.nic))
    word = {Kind.HAVE: "no", Kind.BE: "not"}.get(narrowing.kind, "not")
    return Lack(place=name, words=f"{word} {narrowing.words}")


def _reach(index: Index, host: int, nic: NicRequest) -> Change | None:
    """Return the change that brings a host to the segment with the most addresses that the NIC may be on."""
    free_by_segment = {}
    for segment in nic.network.segments:
        row = index.find_row(segment.provider_uuid)
        if row is None or segment.placement_aggregate is None or nic.pinned_to not in (None, segment.provider_uuid):
            continue
        if nic.classes is not None and segment.classes != nic.classes:
            continue
        inventories, used = index.inventories[row], index.used[row]
        free = min((inventories[name].capacity - used[name] for name in inventories), default=0)
        free_by_segment[segment] = free
    if not free_by_segment:
        return None
    segment = max(free_by_segment, key=lambda segment: (free_by_segment[segment], segment.name))
    assert segment.placement_aggregate is not None
    return Change(
        kind=ChangeKind.REACH_SEGMENT,
        provider_uuid=index.uuids[host],
        place=index.names[host],
        segment=segment.name,
        network=nic.network.name,
        placement_aggregate=segment.placement_aggregate,
    )


# What they have too little of.


def show_amounts(amounts: Sequence[tuple[str, int]]) -> str:
    """Return amounts of resource classes in words; addresses are IPv4 unless it is said."""
    parts = []
    families = [name for name, _ in amounts if name in ADDRESS_CLASSES]
    for name, amount in amounts:
        if name in ADDRESS_CLASSES:
            family = "" if families == [IPV4_ADDRESS] else f"{FAMILY_WORDS[name]} "
            parts.append(f"{amount} {family}address{'' if amount == 1 else 'es'}")
        else:
            parts.append(show_amount(name, amount))
    return joined(parts)


def _rank(amount: tuple[str, int]) -> tuple[int, str]:
    """Return a key by which amounts are told in the usual order."""
    return (CLASS_ORDER.index(amount[0]) if amount[0] in CLASS_ORDER else len(CLASS_ORDER)), amount[0]


def _is_of_host(index: Index, short: Short) -> bool:
    return bool(index.trees().hosts[index.root_row[short.rows[0]]])


def _missing(index: Index, short: Short, servers: int) -> int:
    """Return how much is missing: on a host for one server, of what hosts share for all."""
    return short.needed * (1 if _is_of_host(index, short) else servers) - short.free


def _share(index: Index, short: Short, servers: int) -> float:
    """Return how much of what is asked for is missing, from 0 to 1."""
    return min(_missing(index, short, servers) / (short.needed * servers), 1.0)


def _shortages(index: Index, shorts: Sequence[Short], segments: Segments, servers: int) -> Iterator[Lack]:
    """Yield what a host, and each segment that it is on, are short of, all classes of one provider together."""
    by_row: dict[int, list[Short]] = {}
    for short in shorts:
        capacities = {row: index.inventories[row][short.resource_class].capacity for row in short.rows}
        by_row.setdefault(max(short.rows, key=lambda row: (capacities[row], -row)), []).append(short)
    for row, shorts_there in by_row.items():
        of_host = _is_of_host(index, shorts_there[0])
        amounts = tuple(
            sorted(((short.resource_class, _missing(index, short, servers)) for short in shorts_there), key=_rank)
        )
        network, name = segments.get(index.uuids[row], ("", index.names[int(index.root_row[row])]))
        change = Change(
            kind=ChangeKind.FREE_ON_HOST if of_host else ChangeKind.GROW_SEGMENT,
            provider_uuid=index.uuids[row],
            place=name,
            amounts=amounts,
            network=network,
        )
        bounds = [
            (short.resource_class, most)
            for short in shorts_there
            if of_host and short.needed > (most := index.inventories[row][short.resource_class].max_unit)
        ]
        if bounds:  # no claim may have so much, whatever is free
            yield Lack(place=name, words=f"one server gets at most {show_amounts(bounds)}")
            continue
        yield Lack(
            place=name,
            words=show_amounts(amounts),
            share=max(_share(index, short, servers) for short in shorts_there),
            change=change,
        )
