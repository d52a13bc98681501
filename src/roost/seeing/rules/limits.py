"""What bounds how many servers of one request still fit: limits on single hosts, and on sets of hosts.

A server takes amounts of rows of the index: of its host, of a segment, of a provider that shares. Where a host leaves
no choice, each (row, resource class) is one limit on the hosts that take of it. Rows among which hosts do choose are
one limit together. What follows from the limits is for `packing.py` to say.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from roost.placement.search.candidates import options_by_root
from roost.placement.search.funnel import options_of
from roost.placement.search.index import I64, Index, Mask
from roost.placement.search.narrowing import Plan, make_plan
from roost.seams.placement import CandidateQuery

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
    """All limits of a request. A place is a host in one of the request's alternatives.

    roots: int64, shape (places,), the host's row. most: int64, shape (places,), how many servers the host itself
    could take. binding: int64, shape (places,), by which of `classes` that is. sets: those of several places. choices:
    why what fits may depend on the order of the servers, in sentences.
    """

    roots: I64
    most: I64
    binding: I64
    classes: tuple[str, ...]
    sets: tuple[LimitSet, ...]
    choices: tuple[str, ...] = ()


class _Edges(NamedTuple):
    """What places take of rows without a choice: int64, shape (edges,) each; group: the slot that asks."""

    place: I64
    row: I64
    resource_class: I64
    amount: I64
    group: I64


class _Choice(NamedTuple):
    """What a place takes of one of several rows. wants: (class, amount), of the same row."""

    place: int
    rows: tuple[int, ...]
    wants: tuple[tuple[int, int], ...]
    group: int


class _Ground:
    """The limits of a request as they are gathered, as in Limits. unlike: places take unlike amounts of a row."""

    def __init__(self, places: int) -> None:
        self.most = np.full(places, UNBOUNDED, np.int64)
        self.binding = np.zeros(places, np.int64)
        self.sets: list[LimitSet] = []
        self.sentences: list[str] = []
        self.unlike = False

    def narrow(self, places: I64, limits: I64, names: I64) -> None:
        """Take over limits of one place each; of a place that comes twice the last narrower one binds."""
        order = np.argsort(-limits, kind="stable")
        places, limits, names = places[order], limits[order], names[order]
        narrower = limits < self.most[places]
        self.most[places[narrower]] = limits[narrower]
        self.binding[places[narrower]] = names[narrower]


def find_limits(index: Index, queries: Sequence[CandidateQuery]) -> Limits:
    """Return the limits of a request, whose alternatives are these queries. Limits of queries are ignored.

    Cost: some array operations for each part of a query, and some steps for each place with a choice.
    """
    classes: dict[str, int] = {}
    roots: list[I64] = []
    edges: list[_Edges] = []
    choices: list[_Choice] = []
    couplings: list[str] = []
    places = 0
    for query in queries:
        plan = make_plan(index, query)
        hosts = _hosts_of(index, plan)
        for name in (want.resource_class for slot in plan.slots for want in slot.wants):
            classes.setdefault(name, len(classes))
        edges_of_query, choices_of_query = _takes(index, plan, hosts, classes, places)
        edges += edges_of_query
        choices += choices_of_query
        couplings += _couplings(plan, choices_of_query)
        roots.append(hosts)
        places += len(hosts)
    ground, names = _Ground(places), tuple(classes)
    _single_rows(index, names, _without_chosen(edges, choices), ground)
    _chosen_rows(index, names, choices, ground)
    sentences = [*couplings, *ground.sentences, *["hosts take unlike amounts of one provider"] * ground.unlike]
    root = np.concatenate(roots) if roots else np.empty(0, np.int64)
    return Limits(root, ground.most, ground.binding, names, tuple(ground.sets), tuple(dict.fromkeys(sentences)))


def _hosts_of(index: Index, plan: Plan) -> I64:
    """Return the roots where every part of a query fits by itself, without those where two parts must share a row."""
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


def _takes(
    index: Index, plan: Plan, hosts: I64, classes: dict[str, int], first: int
) -> tuple[list[_Edges], list[_Choice]]:
    """Return what each host takes where it has no choice, and where it has. first: the number of the first place."""
    edges: list[_Edges] = []
    several: list[tuple[int, Mask]] = []
    for number, slot in enumerate(plan.slots):
        count, pick = options_by_root(index, slot)
        sole = count[hosts] == 1
        if not sole.all():
            several.append((number, ~sole))
        place, row = np.flatnonzero(sole) + first, pick[hosts[sole]]
        for want in slot.wants:
            same = [np.full(len(row), value, np.int64) for value in (classes[want.resource_class], want.amount, number)]
            edges.append(_Edges(place, row, *same))
    choices = []
    for place in np.flatnonzero(np.logical_or.reduce([mask for _, mask in several])).tolist() if several else ():
        options = options_of(index, plan, int(hosts[place]))
        for number, mask in several:
            if mask[place]:
                wants = tuple((classes[want.resource_class], want.amount) for want in plan.slots[number].wants)
                choices.append(_Choice(first + place, tuple(sorted(options[number])), wants, number))
    return edges, choices


def _couplings(plan: Plan, choices: Sequence[_Choice]) -> Iterator[str]:
    """Yield what makes one choice depend on another."""
    chosen = {choice.group for choice in choices}
    if plan.isolate and any(group >= plan.spread for group in chosen):
        yield "group_policy isolate keeps groups of the flavor from providers that others of them take"
    if plan.any_of and any(group < plan.spread for group in chosen):
        yield "some host's providers have the traits asked for only together"


def _without_chosen(edges: Sequence[_Edges], choices: list[_Choice]) -> _Edges:
    """Return the edges as one, without those of rows that others choose among; these become choices of one row."""
    parts = [np.concatenate(column) for column in zip(*edges, strict=True)] if edges else [np.empty(0, np.int64)] * 5
    edge = _Edges(*parts)
    rows_chosen = {(row, name) for choice in choices for row in choice.rows for name, _ in choice.wants}
    if not rows_chosen:
        return edge
    contested = np.isin(edge.row, [row for row, _ in rows_chosen])
    for at in np.flatnonzero(contested).tolist():
        place, row, name, amount, group = (int(column[at]) for column in edge)
        if (row, name) in rows_chosen:
            choices.append(_Choice(place, (row,), ((name, amount),), group))
        else:
            contested[at] = False
    return _Edges(*(column[~contested] for column in edge))


def _single_rows(index: Index, classes: Sequence[str], edge: _Edges, ground: "_Ground") -> None:
    """Add the limit of each (row, resource class) that places take without a choice."""
    if not len(edge.place):
        return
    # What several parts of one request take of a row adds up.
    places, kinds = int(edge.place.max()) + 1, len(classes)
    keys, where = np.unique((edge.row * kinds + edge.resource_class) * places + edge.place, return_inverse=True)
    amounts, groups = np.zeros(len(keys), np.int64), np.full(len(keys), edge.group.max())
    np.add.at(amounts, where, edge.amount)
    np.minimum.at(groups, where, edge.group)
    limit_keys, members = np.divmod(keys, places)
    starts = np.flatnonzero(np.concatenate(([True], limit_keys[1:] != limit_keys[:-1])))
    sizes = np.diff(np.append(starts, len(keys)))
    rows, names = np.divmod(limit_keys[starts], kinds)
    free = np.array([_free(index, row, classes[name]) for row, name in zip(rows.tolist(), names.tolist(), strict=True)])
    limits = np.clip(free // np.minimum.reduceat(amounts, starts), 0, UNBOUNDED)
    alone = sizes == 1
    ground.narrow(members[starts[alone]], limits[alone], names[alone])
    ground.unlike |= bool((np.minimum.reduceat(amounts, starts) != np.maximum.reduceat(amounts, starts)).any())
    for at in np.flatnonzero(~alone).tolist():
        start, end = starts[at], starts[at] + sizes[at]
        row, name = int(rows[at]), classes[names[at]]
        ground.sets.append(LimitSet((row,), name, int(limits[at]), members[start:end], int(groups[start])))


def _chosen_rows(index: Index, classes: Sequence[str], choices: Sequence[_Choice], ground: "_Ground") -> None:
    """Add one limit for rows that the same places choose among, directly or by way of others."""
    for cluster in _clusters(choices):
        asked = {(choice.rows, choice.wants) for choice in cluster}
        wants = sorted({want for _, want in asked})
        rows = sorted({row for choice in cluster for row in choice.rows})
        units = sum(
            max(min(_free(index, row, classes[name]) // amount for name, amount in want), 0)
            for row in rows
            for want in wants
        )
        if len(asked) > 1:
            shown = ", ".join(index.names[row] for row in rows[:ROWS_SHOWN])
            more = " and others" if len(rows) > ROWS_SHOWN else ""
            ground.sentences.append(f"hosts choose among {shown}{more}, and not all of them among the same")
        counts = Counter(choice.place for choice in cluster)
        ground.unlike |= len(set(counts.values())) > 1
        limit = min(units // min(counts.values()), UNBOUNDED)
        name = wants[0][0][0]
        members = np.array(sorted(counts), np.int64)
        if len(members) == 1:
            ground.narrow(members, np.array([limit]), np.array([name]))
        else:
            group = min(choice.group for choice in cluster)
            ground.sets.append(LimitSet(tuple(rows), classes[name], limit, members, group))


def _clusters(choices: Sequence[_Choice]) -> Collection[list[_Choice]]:
    """Return the choices, those together that have a (row, resource class) in common, or are linked by such."""
    parent: dict[tuple[int, int], tuple[int, int]] = {}

    def top_of(key: tuple[int, int]) -> tuple[int, int]:
        while parent.setdefault(key, key) != key:
            parent[key] = key = parent[parent[key]]
        return key

    for rows, wants in {(choice.rows, choice.wants) for choice in choices}:
        keys = [(row, name) for row in rows for name, _ in wants]
        for key in keys:
            parent[top_of(key)] = top_of(keys[0])
    clusters: dict[tuple[int, int], list[_Choice]] = {}
    for choice in choices:
        clusters.setdefault(top_of((choice.rows[0], choice.wants[0][0])), []).append(choice)
    return clusters.values()


def _free(index: Index, row: int, resource_class: str) -> int:
    """Return what a row has free of a class, whatever one claim may take at most; below zero when overcommitted."""
    return index.inventories[row][resource_class].capacity - index.used[row][resource_class]
