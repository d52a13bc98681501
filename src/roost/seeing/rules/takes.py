"""What servers of one request take of which rows of the index, for each host where they may be.

A place is a host in one of the request's alternatives. Where it leaves no choice, a part of the request takes of one
row. Where several rows would do, these are a choice; choices that have rows in common are a cluster.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from roost.placement.search.candidates import options_by_root
from roost.placement.search.combinations import Options
from roost.placement.search.funnel import options_of
from roost.placement.search.index import I64, Index, Mask
from roost.placement.search.narrowing import Plan, make_plan
from roost.platform.grouping import grouped
from roost.seams.placement import CAPACITY_MAX, CandidateQuery


class Plans(NamedTuple):
    """shape: of the query without amounts, whose slots want the amounts all the same; whole: of the query itself."""

    shape: Plan
    whole: Plan


class Edges(NamedTuple):
    """What places take of rows without a choice: int64, shape (edges,) each. group: the part of the request.

    name: number of the resource class.
    """

    place: I64
    row: I64
    name: I64
    amount: I64
    group: I64


class Choice(NamedTuple):
    """What a place takes of one of several rows. wants: (number of the class, amount), all of the same row."""

    place: int
    rows: tuple[int, ...]
    wants: tuple[tuple[int, int], ...]
    group: int


class Takes(NamedTuple):
    """What the places take. roots: int64, shape (places,), the hosts' rows. classes: names of resource classes."""

    roots: I64
    classes: tuple[str, ...]
    edges: Edges
    choices: tuple[Choice, ...]


class Rows(NamedTuple):
    """Rows that places take of without a choice, by row and resource class; int64.

    rows, names, free, least, largest, groups, starts, sizes: shape (rows,); least, largest: what one server takes.
    members: shape (edges,), the places, those of each row from its start on.
    """

    rows: I64
    names: I64
    free: I64
    least: I64
    largest: I64
    groups: I64
    starts: I64
    sizes: I64
    members: I64

    def members_of(self, at: int) -> I64:
        """Return the places that take of a row."""
        return self.members[self.starts[at] : self.starts[at] + self.sizes[at]]


class Cluster(NamedTuple):
    """Rows that places choose among. units: parts of servers that they can take; needed: parts that one server has.

    alike: all places choose among the same rows, for as many parts. members: int64, the places.
    """

    rows: tuple[int, ...]
    name: int
    units: int
    needed: int
    group: int
    alike: bool
    members: I64


def make_plans(index: Index, query: CandidateQuery, shape: CandidateQuery) -> Plans:
    """Return the plans of a query, and of its shape: with the same groups and resource classes."""
    whole, bare = make_plan(index, query), make_plan(index, shape)
    slots = tuple(replace(slot, wants=asks.wants) for slot, asks in zip(bare.slots, whole.slots, strict=True))
    return Plans(replace(bare, slots=slots), whole)


def find_takes(index: Index, plans: Sequence[Plans], hosts: Sequence[I64]) -> Takes:
    """Return what servers take on these hosts, int64 rows of roots, one array for each of a request's alternatives."""
    classes: dict[str, int] = {}
    for pair in plans:
        for slot in pair.shape.slots:
            for want in slot.wants:
                classes.setdefault(want.resource_class, len(classes))
    edges: list[Edges] = []
    choices: list[Choice] = []
    first = 0
    for pair, rows in zip(plans, hosts, strict=True):
        edges += _sole_takes(index, pair.shape, rows, classes, first)
        choices += _choices(index, pair, rows, classes, first)
        first += len(rows)
    columns = [np.concatenate(column) for column in zip(*edges, strict=True)] if edges else [_NONE] * 5
    roots = np.concatenate(hosts) if hosts else _NONE
    return _with_contested(Takes(roots, tuple(classes), Edges(*columns), tuple(choices)))


_NONE = np.empty(0, np.int64)


def _sole_takes(index: Index, plan: Plan, hosts: I64, classes: dict[str, int], first: int) -> list[Edges]:
    edges = []
    for number, slot in enumerate(plan.slots):
        count, pick = options_by_root(index, slot)
        sole = np.flatnonzero(count[hosts] == 1)
        for want in slot.wants:
            same = [np.full(len(sole), value) for value in (classes[want.resource_class], want.amount, number)]
            edges.append(Edges(sole + first, pick[hosts[sole]], *same))
    return edges


def _choices(index: Index, plans: Plans, hosts: I64, classes: dict[str, int], first: int) -> list[Choice]:
    """Return the choices: among rows that can take a part now; where none can, among those that could."""
    several: list[tuple[int, Mask]] = []
    for number, slot in enumerate(plans.shape.slots):
        count, _ = options_by_root(index, slot)
        if (mask := count[hosts] > 1).any():
            several.append((number, mask))
    if not several:
        return []
    choices = []
    for place in np.flatnonzero(np.logical_or.reduce([mask for _, mask in several])).tolist():
        root = int(hosts[place])
        options, now = options_of(index, plans.shape, root), options_of(index, plans.whole, root)
        for number, mask in several:
            if mask[place]:
                choices.append(_choice(plans.shape, now, options, number, classes, first + place))
    return choices


def _choice(plan: Plan, now: Options, options: Options, number: int, classes: dict[str, int], place: int) -> Choice:
    rows = tuple(sorted(now[number] or options[number]))
    wants = tuple((classes[want.resource_class], want.amount) for want in plan.slots[number].wants)
    return Choice(place, rows, wants, number)


def _with_contested(takes: Takes) -> Takes:
    """Return the same where rows that some places choose among are a choice of one row for the others."""
    edges, choices = takes.edges, list(takes.choices)
    contested_rows = {(row, name) for choice in choices for row in choice.rows for name, _ in choice.wants}
    if not contested_rows:
        return takes
    contested = np.isin(edges.row, [row for row, _ in contested_rows])
    for at in np.flatnonzero(contested).tolist():
        place, row, name, amount, group = (int(column[at]) for column in edges)
        if (row, name) in contested_rows:
            choices.append(Choice(place, (row,), ((name, amount),), group))
        else:
            contested[at] = False
    return takes._replace(edges=Edges(*(column[~contested] for column in edges)), choices=tuple(choices))


def sum_rows(index: Index, takes: Takes) -> Rows:
    """Return what is taken without a choice, by row and class; what several parts of a request take of one adds up."""
    edges, kinds = takes.edges, len(takes.classes)
    if not len(edges.place):
        return Rows(*[_NONE] * 9)
    places = len(takes.roots)
    keys, where = np.unique((edges.row * kinds + edges.name) * places + edges.place, return_inverse=True)
    amounts, groups = np.zeros(len(keys), np.int64), np.full(len(keys), edges.group.max())
    np.add.at(amounts, where, edges.amount)
    np.minimum.at(groups, where, edges.group)
    row_keys, members = np.divmod(keys, places)
    starts = np.flatnonzero(np.concatenate(([True], row_keys[1:] != row_keys[:-1])))
    rows, names = np.divmod(row_keys[starts], kinds)
    least, largest = np.minimum.reduceat(amounts, starts), np.maximum.reduceat(amounts, starts)
    free = np.empty(len(rows), np.int64)
    for number, name in enumerate(takes.classes):
        of_class = names == number
        free[of_class] = _list_free(index, rows[of_class], name, least[of_class])
    return Rows(
        rows, names, free, least, largest, groups[starts], starts, np.diff(np.append(starts, len(keys))), members
    )


def _list_free(index: Index, rows: I64, resource_class: str, amounts: I64) -> I64:
    """Return what `_free` says of many rows, which all have inventory of the class; int64, shape (rows,)."""
    had = [(index.inventories[row][resource_class], index.used[row][resource_class]) for row in rows.tolist()]
    columns = [(i.total - i.reserved, i.allocation_ratio, i.min_unit, i.max_unit, i.step_size, used) for i, used in had]
    size, ratio, min_unit, max_unit, step_size, used = np.array(columns, np.float64).reshape(-1, 6).T
    free: I64 = np.minimum(size * ratio, CAPACITY_MAX).astype(np.int64) - used.astype(np.int64)
    return np.where((min_unit <= amounts) & (amounts <= max_unit) & (amounts % step_size == 0), free, 0)


def list_clusters(index: Index, takes: Takes) -> list[Cluster]:
    """Return the choices, those together that have a (row, resource class) in common, or are linked by such."""
    clusters = []
    for choices in _link(takes.choices):
        rows = tuple(sorted({row for choice in choices for row in choice.rows}))
        counts = Counter(choice.place for choice in choices)
        kinds = {(choice.rows, choice.wants) for choice in choices}
        clusters.append(
            Cluster(
                rows=rows,
                name=min(choices[0].wants)[0],
                units=sum(_units(index, takes, row, wants) for row in rows for wants in {wants for _, wants in kinds}),
                needed=min(counts.values()),
                group=min(choice.group for choice in choices),
                alike=len(kinds) == 1 and len(set(counts.values())) == 1,
                members=np.array(sorted(counts), np.int64),
            )
        )
    return clusters


def _units(index: Index, takes: Takes, row: int, wants: Sequence[tuple[int, int]]) -> int:
    """Return how often a row could give this."""
    names = takes.classes
    return max(min(_free(index, row, names[name], amount) // amount for name, amount in wants), 0)


def _link(choices: Sequence[Choice]) -> Collection[list[Choice]]:
    parent: dict[tuple[int, int], tuple[int, int]] = {}

    def top_of(key: tuple[int, int]) -> tuple[int, int]:
        while parent.setdefault(key, key) != key:
            parent[key] = key = parent[parent[key]]
        return key

    for rows, wants in {(choice.rows, choice.wants) for choice in choices}:
        keys = [(row, name) for row in rows for name, _ in wants]
        for key in keys:
            parent[top_of(key)] = top_of(keys[0])
    return grouped((top_of((choice.rows[0], choice.wants[0][0])), choice) for choice in choices).values()


def _free(index: Index, row: int, resource_class: str, amount: int) -> int:
    """Return what a row has free of a class, below zero when overcommitted; 0 where no claim may have so much."""
    inventory = index.inventories[row].get(resource_class)
    if inventory is None or not inventory.min_unit <= amount <= inventory.max_unit or amount % inventory.step_size:
        return 0
    return inventory.capacity - index.used[row][resource_class]
