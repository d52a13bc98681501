"""What bounds how many servers of one request still fit: limits on single hosts, and on sets of hosts.

Each (row, resource class) of the index that hosts share is one limit on all of them; rows among which hosts choose are
one limit together. What follows from the limits is for `packing.py` to say.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from roost.placement.search.candidates import options_by_root
from roost.placement.search.index import I64, Index, Mask
from roost.placement.search.narrowing import Plan
from roost.seams.placement import CandidateQuery
from roost.seeing.rules.takes import Takes, find_takes, list_clusters, make_plans, sum_rows

ROWS_SHOWN = 3
UNBOUNDED = 2**40
"""More servers than any cloud has; sums of it stay within 64 bits."""


class LimitSet(Struct, frozen=True):
    """How many servers a set of places can take together. rows: of the index, that give what is counted.

    members: int64, the places. group: sets of one group are alike, and seldom share a place.
    """

    rows: tuple[int, ...]
    resource_class: str
    limit: int
    members: I64
    group: int


class Limits(Struct, frozen=True):
    """All limits of a request. A place is a host in one of the request's alternatives, whether it is full or not.

    roots: int64, shape (places,), the host's row. own: int64, shape (classes, places), how many servers the host could
    take by what it has of each of `classes` itself. sets: limits of what hosts share. choices: why what fits may depend
    on the order of the servers, in sentences.
    """

    roots: I64
    own: I64
    classes: tuple[str, ...]
    sets: tuple[LimitSet, ...]
    choices: tuple[str, ...] = ()

    @property
    def most(self) -> I64:
        """Return how many servers each host could take by what it has itself; int64, shape (places,)."""
        most: I64 = self.own.min(axis=0, initial=UNBOUNDED)
        return most


class Short(Struct, frozen=True):
    """Rows that have less free of a resource class than one server takes. members: int64, the hosts' rows.

    needed, free: units of the class; of several rows, how many parts of a server they are to take, and can.
    """

    rows: tuple[int, ...]
    resource_class: str
    needed: int
    free: int
    members: I64


def find_limits(index: Index, queries: Sequence[CandidateQuery]) -> Limits:
    """Return the limits of a request, whose alternatives are these queries; how many candidates they ask for is left.

    Cost: some array operations for each part of a query, and some steps for each place with a choice.
    """
    plans = [make_plans(index, query, zero_amounts(query)) for query in queries]
    takes = find_takes(index, plans, [_hosts_of(index, pair.shape) for pair in plans])
    own = np.full((len(takes.classes), len(takes.roots)), UNBOUNDED, np.int64)
    sets: list[LimitSet] = []
    sentences = [sentence for pair in plans for sentence in _couplings(pair.shape, takes)]
    rows = sum_rows(index, takes)
    limits = np.clip(rows.free // rows.least, 0, UNBOUNDED)
    alone = rows.sizes == 1
    alone[alone] = index.root_row[rows.rows[alone]] == takes.roots[rows.members[rows.starts[alone]]]
    np.minimum.at(own, (rows.names[alone], rows.members[rows.starts[alone]]), limits[alone])
    for at in np.flatnonzero(~alone).tolist():
        name, group = takes.classes[rows.names[at]], int(rows.groups[at])
        sets.append(LimitSet((int(rows.rows[at]),), name, int(limits[at]), rows.members_of(at), group))
    if (rows.least != rows.largest).any():
        sentences.append("hosts take unlike amounts of one provider")
    for cluster in list_clusters(index, takes):
        limit = min(cluster.units // cluster.needed, UNBOUNDED)
        sets.append(LimitSet(cluster.rows, takes.classes[cluster.name], limit, cluster.members, cluster.group))
        if not cluster.alike:
            shown = ", ".join(index.names[row] for row in cluster.rows[:ROWS_SHOWN])
            more = " and others" if len(cluster.rows) > ROWS_SHOWN else ""
            sentences.append(f"hosts choose among {shown}{more}, and not all of them among the same")
    return Limits(takes.roots, own, takes.classes, tuple(sets), tuple(dict.fromkeys(sentences)))


def find_shorts(index: Index, query: CandidateQuery, shape: CandidateQuery) -> list[Short]:
    """Return what is too little on any host that has the shape: the query's groups, with amounts of 0."""
    hosts = np.flatnonzero(index.trees().hosts)
    takes = find_takes(index, [make_plans(index, query, shape)], [hosts])
    rows = sum_rows(index, takes)
    shorts = [
        Short(
            (int(rows.rows[at]),),
            takes.classes[rows.names[at]],
            int(rows.largest[at]),
            int(rows.free[at]),
            hosts[rows.members_of(at)],
        )
        for at in np.flatnonzero(rows.free < rows.largest).tolist()
    ]
    return shorts + [
        Short(cluster.rows, takes.classes[cluster.name], cluster.needed, cluster.units, hosts[cluster.members])
        for cluster in list_clusters(index, takes)
        if cluster.units < cluster.needed
    ]


def zero_amounts(query: CandidateQuery) -> CandidateQuery:
    """Return the query with amounts of 0: who has what is asked for at all, free or not."""
    groups = [replace(group, resources=dict.fromkeys(group.resources, 0)) for group in query.groups]
    return replace(query, groups=tuple(groups))


def within(limits: Limits, places: Mask) -> Limits:
    """Return the limits of some places alone; bool, shape (places,)."""
    number = np.cumsum(places) - 1
    sets = []
    for limit_set in limits.sets:
        members = limit_set.members[places[limit_set.members]]
        if len(members):
            sets.append(replace(limit_set, members=number[members]))
    return replace(limits, roots=limits.roots[places], own=limits.own[:, places], sets=tuple(sets))


def _hosts_of(index: Index, plan: Plan) -> I64:
    """Return the roots that have every part of a query, without those where two parts that must not share a row do."""
    viable = plan.viable
    if plan.isolate:
        picks: list[tuple[Mask, I64]] = []
        for slot in plan.slots[plan.spread :]:
            count, pick = options_by_root(index, slot)
            sole = count == 1
            for sole_before, pick_before in picks:
                viable = viable & ~(sole & sole_before & (pick == pick_before))
            picks.append((sole, pick))
    return np.flatnonzero(viable)


def _couplings(plan: Plan, takes: Takes) -> Iterator[str]:
    """Yield what makes one choice depend on another."""
    chosen = {choice.group for choice in takes.choices}
    if plan.isolate and any(group >= plan.spread for group in chosen):
        yield "group_policy isolate keeps groups of the flavor from providers that others of them take"
    if plan.any_of and any(group < plan.spread for group in chosen):
        yield "some host's providers have the traits asked for only together"
