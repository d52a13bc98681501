"""How many servers fit at most below given limits, and whether that is how many fit in any order.

Where of any two sets of places one is in the other, or they have no place in common, the sets nest: whoever places as
long as a place is left places the same number, whatever the order. Sets that cross are a second family of nested sets
where they can be; then the most is a flow through both, which a bad order does not reach. What crosses both families
is left out: the most is a bound all the same.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from roost.placement.search.index import I64
from roost.seeing.rules.limits import Limits, LimitSet

TOP = -1
"""In place of the set around another: there is none."""

SOURCE, SINK = 0, 1


class Packing(Struct, frozen=True):
    """most: how many servers fit at most. nested: so many fit in any order. flows: of each set, so many of them."""

    most: int
    nested: bool
    flows: tuple[int, ...]


def pack(limits: Limits) -> Packing:
    """Return how many servers fit below the limits.

    Cost: some array operations for each set, and a flow through a graph that has a node for each set, and an edge for
    each two sets that have a place in common.
    """
    most_of_place, sets = _open_places(limits)
    families = _choose_families(sets, len(most_of_place))
    graph = _Graph(len(limits.sets) + 2)
    edges = [TOP] * len(limits.sets)
    for number, family in enumerate(families):
        for at, parent in family.parents.items():
            outer, inner = (SOURCE if parent == TOP else parent + 2), at + 2
            if number:
                outer, inner = inner, (SINK if parent == TOP else parent + 2)
            edges[at] = graph.add(outer, inner, limits.sets[at].limit)
    # Places between the same two sets are one edge: their numbers as one key, which sorts faster than pairs.
    width = len(sets) + 1
    between, where = np.unique((families[0].leaf + 1) * width + families[1].leaf + 1, return_inverse=True)
    most = np.zeros(len(between), np.int64)
    np.add.at(most, where, most_of_place)
    for key, amount in zip(between.tolist(), most.tolist(), strict=True):
        first, second = divmod(key, width)
        graph.add(first + 1 if first else SOURCE, second + 1 if second else SINK, amount)
    total = graph.flow()
    in_order = len(families[0].parents) == sum(len(limit_set.members) > 0 for limit_set in sets) and not limits.choices
    nested = in_order or total == 0
    return Packing(total, nested, tuple(0 if edge == TOP else graph.flow_of(edge) for edge in edges))


def _open_places(limits: Limits) -> tuple[I64, list[LimitSet]]:
    """Return how many servers each place could take by itself, and the sets without places that can take none."""
    most = limits.most
    for limit_set in limits.sets:
        if limit_set.limit == 0:
            most[limit_set.members] = 0
    return most, [replace(s, members=s.members[most[s.members] > 0]) for s in limits.sets]


class _Family(NamedTuple):
    """Sets that nest. parents: number of each set -> of the smallest set around it, TOP for none.

    leaf: int64, shape (places,), the smallest set with each place, TOP for none.
    """

    parents: dict[int, int]
    leaf: I64


def _choose_families(sets: Sequence[LimitSet], places: int) -> list[_Family]:
    """Return two families of sets that nest; what crosses sets of both is in neither.

    Sets of one group come into the same family, if they can: a network's segments.
    """
    families = [_nest(sets, [], places)] * 2
    for group in sorted({limit_set.group for limit_set in sets}):
        members = [n for n, limit_set in enumerate(sets) if limit_set.group == group and len(limit_set.members)]
        if not _add(families, sets, members, places):
            for number in members:
                _add(families, sets, [number], places)
    return families


def _add(families: list[_Family], sets: Sequence[LimitSet], numbers: Sequence[int], places: int) -> bool:
    """Add sets to the first family in which all nest; return whether there is one."""
    for which, family in enumerate(families):
        joined = _nest(sets, [*family.parents, *numbers], places)
        if len(joined.parents) == len(family.parents) + len(numbers):
            families[which] = joined
            return True
    return False


def _nest(sets: Sequence[LimitSet], numbers: Sequence[int], places: int) -> _Family:
    """Return the family of these sets, the largest first; without those that cross another."""
    parents: dict[int, int] = {}
    leaf = np.full(places, TOP, np.int64)
    for number in sorted(numbers, key=lambda number: -len(sets[number].members)):
        sets_around = leaf[sets[number].members]
        if (sets_around == sets_around[0]).all():
            parents[number] = int(sets_around[0])
            leaf[sets[number].members] = number
    return _Family(parents, leaf)


class _Graph:
    """A directed graph with capacities. Source: Dinic's algorithm, by shortest paths in phases."""

    def __init__(self, nodes: int) -> None:
        self._edges_of: list[list[int]] = [[] for _ in range(nodes)]
        self._to: list[int] = []
        self._rest: list[int] = []

    def add(self, start: int, end: int, capacity: int) -> int:
        """Add an edge, and return its number."""
        for node, other, rest in ((start, end, capacity), (end, start, 0)):
            self._edges_of[node].append(len(self._to))
            self._to.append(other)
            self._rest.append(rest)
        return len(self._to) - 2

    def flow_of(self, edge: int) -> int:
        """Return what flows through an edge."""
        return self._rest[edge + 1]

    def flow(self) -> int:
        """Let as much flow from SOURCE to SINK as can; return how much that is."""
        total = 0
        while (levels := self._levels())[SINK] >= 0:
            following = [0] * len(levels)
            while pushed := self._push(levels, following):
                total += pushed
        return total

    def _levels(self) -> list[int]:
        """Return how far each node is from SOURCE, -1 where nothing more can flow to it."""
        levels = [-1] * len(self._edges_of)
        levels[SOURCE] = 0
        queue = deque([SOURCE])
        while queue:
            node = queue.popleft()
            for edge in self._edges_of[node]:
                if self._rest[edge] > 0 and levels[self._to[edge]] < 0:
                    levels[self._to[edge]] = levels[node] + 1
                    queue.append(self._to[edge])
        return levels

    def _push(self, levels: Sequence[int], following: list[int]) -> int:
        """Let as much flow along one shortest path as can, 0 where there is none. following: each node's next edge."""
        path: list[int] = []
        node = SOURCE
        while node != SINK:
            edges = self._edges_of[node]
            while following[node] < len(edges):
                edge = edges[following[node]]
                if self._rest[edge] > 0 and levels[self._to[edge]] == levels[node] + 1:
                    break
                following[node] += 1
            else:
                if not path:
                    return 0
                edge = path.pop()  # nothing leads on from here: back, and past the edge that led here
                node = self._to[edge ^ 1]
                following[node] += 1
                continue
            path.append(edge)
            node = self._to[edge]
        amount = min(self._rest[edge] for edge in path)
        for edge in path:
            self._rest[edge] -= amount
            self._rest[edge ^ 1] += amount
        return amount
