"""Who could take a request: the search over the index for allocation candidates.

`narrowing.py` says which trees can satisfy each part of the request by itself. Where only one provider can fill each
part, arrays give the candidates of all such trees at once; for the others `combinations.py` enumerates, only as far as
the limit asks. Which candidate is best is for scheduling to say; whether it can be claimed is for `claims.py`.

Source: Placement API 1.39, GET /allocation_candidates, and its guide "Modeling with Provider Trees".
"""

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from roost.placement.search.combinations import Chosen, Options, SearchBudget, combinations, only_combination
from roost.placement.search.index import I64, NO_ROW, Index, Mask
from roost.placement.search.narrowing import Plan, Slot
from roost.seams.placement import Candidate, CandidateQuery, Candidates, ProviderSummary

ROOTS_AT_ONCE = 64
"""Roots taken out of an array in one go: a search with a small limit leaves most of them there."""

SOLE_LIMIT_MIN = 32
"""From so many candidates on, arrays find them faster than one tree after the other."""


class CandidateRows(Struct, frozen=True):
    """One candidate by rows: the root of its tree, and the provider of each slot of the plan."""

    root: int
    rows: Chosen


class Gathered(Struct, frozen=True):
    """Candidates by rows.

    sole: int64, shape (slots, candidates), of trees that give one each; sole_roots: int64, shape (candidates,), the
    roots of these trees; others: all the rest.
    """

    sole: I64
    sole_roots: I64
    others: list[CandidateRows]

    def __len__(self) -> int:
        """How many candidates there are."""
        return int(self.sole.shape[1]) + len(self.others)

    def all(self) -> list[CandidateRows]:
        """Return every candidate, those of `sole` first."""
        columns = zip(*self.sole.tolist(), strict=True)
        return [*map(CandidateRows, self.sole_roots.tolist(), columns), *self.others]


def find(index: Index, plan: Plan, *, limit: int, start: int = 0, depth_first: bool = False) -> Iterator[CandidateRows]:
    """Yield the candidates of a plan, limit 0 for all of them.

    One of each tree comes before a second of any; depth_first: all of a tree before the first of the next.
    """
    return _find(index, plan, plan.viable, set(), limit=limit, start=start, depth_first=depth_first)


def gather(index: Index, plan: Plan, *, limit: int, start: int = 0, depth_first: bool = False) -> Gathered:
    """Return the candidates that `find` yields, those of trees that give only one first.

    Cost: some array operations for each slot, and some steps for each candidate that is not the only one of its tree.
    """
    if 0 < limit < SOLE_LIMIT_MIN or plan.subtrees or plan.flat:
        matches = find(index, plan, limit=limit, start=start, depth_first=depth_first)
        return Gathered(np.empty((len(plan.slots), 0), np.int64), np.empty(0, np.int64), list(matches))
    sole, picks = _sole(index, plan)
    rows = _in_order(index, sole, start)
    columns = np.stack([pick[rows] for pick in picks])
    keep, seen = _once(index, columns)
    if not keep.all():  # copying the rows of all hosts would take as long as the rest of the search
        columns, rows = columns[:, keep], rows[keep]
    if limit and columns.shape[1] >= limit:
        return Gathered(columns[:, :limit], rows[:limit], [])
    rest = limit - columns.shape[1] if limit else 0
    matches = _find(index, plan, plan.viable & ~sole, seen, limit=rest, start=start, depth_first=depth_first)
    return Gathered(columns, rows, list(matches))


def to_candidates(index: Index, query: CandidateQuery, plan: Plan, gathered: Gathered) -> Candidates:
    """Return the candidates by UUIDs, with what their providers have. Cost: some steps for each candidate."""
    matches = gathered.all()
    patterns: dict[Chosen, _Pattern] = {}
    candidates = tuple(_candidate(index, query, plan, match, patterns) for match in matches)
    rows = dict.fromkeys(row for match in matches for row in match.rows)
    return Candidates(candidates, {index.uuids[row]: summarize(index, row) for row in rows})


def rows_by_suffix(plan: Plan, chosen: Chosen) -> dict[str, tuple[int, ...]]:
    """Return the mapping of a candidate: suffix -> the rows of its providers, without repetition."""
    rows: dict[str, tuple[int, ...]] = {}
    for slot, row in zip(plan.slots, chosen, strict=True):
        rows_before = rows.get(slot.suffix, ())
        if row not in rows_before:
            rows[slot.suffix] = (*rows_before, row)
    return rows


def amounts_of(plan: Plan, chosen: Chosen) -> dict[int, dict[str, int]]:
    """Return what a candidate takes: row -> resource class -> amount, of all its groups together."""
    amounts: dict[int, dict[str, int]] = {}
    for slot, row in zip(plan.slots, chosen, strict=True):
        for want in slot.wants:
            taken = amounts.setdefault(row, {})
            taken[want.resource_class] = taken.get(want.resource_class, 0) + want.amount
    return amounts


def summarize(index: Index, row: int) -> ProviderSummary:
    """Return what a provider has of every class: (capacity, used)."""
    used = index.used[row]
    return ProviderSummary(
        index.uuids[row],
        index.names[row],
        {name: (inventory.capacity, used[name]) for name, inventory in index.inventories[row].items()},
    )


class _Pattern(NamedTuple):
    """What candidates have in common of which the same slots have the same provider; numbers: of their slots."""

    numbers_by_suffix: dict[str, tuple[int, ...]]
    amounts_by_number: dict[int, dict[str, int]]


def _candidate(
    index: Index, query: CandidateQuery, plan: Plan, match: CandidateRows, patterns: dict[Chosen, _Pattern]
) -> Candidate:
    firsts = tuple(map(match.rows.index, match.rows))
    pattern = patterns.get(firsts)
    if pattern is None:
        by_suffix = rows_by_suffix(plan, firsts)
        numbers = {group.suffix: by_suffix.get(group.suffix, ()) for group in query.groups}
        pattern = patterns[firsts] = _Pattern(numbers, amounts_of(plan, firsts))
    uuids = [index.uuids[row] for row in match.rows]
    return Candidate(
        index.uuids[match.root],
        {suffix: tuple([uuids[n] for n in numbers]) for suffix, numbers in pattern.numbers_by_suffix.items()},
        {uuids[n]: amounts for n, amounts in pattern.amounts_by_number.items()},
    )


# The only candidate of each tree, for all trees at once.


def _sole(index: Index, plan: Plan) -> tuple[Mask, list[I64]]:
    """Mark the viable roots whose slots have one provider each, no two groups the same one; and these, by root."""
    sole, picks = plan.viable, list[I64]()
    for slot in plan.slots:
        count, pick = options_by_root(index, slot)
        sole = sole & (count == 1)
        if slot.suffix:
            # What groups take together of one provider has to be looked at, and whether they may share it.
            for other in picks:
                sole &= pick != other
        picks.append(pick)
    return sole, picks


def options_by_root(index: Index, slot: Slot) -> tuple[I64, I64]:
    """Return how many rows may fill a slot for each root, and one of them; int64, shape (rows,)."""
    rows = index.rows
    if index.trees().nested:
        own = np.flatnonzero(slot.own)
        roots = index.root_row[own]
        count = np.bincount(roots, minlength=rows)
        pick = np.full(rows, NO_ROW, np.int64)
        pick[roots] = own
    else:
        count, pick = slot.own.astype(np.int64), np.where(slot.own, index.root_row, NO_ROW)
    if slot.shared is not None:
        sharing = index.sharing()
        serves = slot.shared[sharing.edge_row]
        roots = sharing.edge_root[serves]
        count += np.bincount(roots, minlength=rows)
        pick[roots] = sharing.edge_row[serves]
    return count, pick


def _once(index: Index, columns: I64) -> tuple[Mask, set[Chosen]]:
    """Mark the candidates but those of sharing providers alone that an earlier tree gave; and all of that kind."""
    shares = np.zeros(index.rows, np.bool_)
    shares[index.sharing().rows] = True
    alone = np.flatnonzero(shares[columns[0]])
    for column in columns[1:]:
        alone = alone[shares[column[alone]]]
    keep = np.ones(columns.shape[1], np.bool_)
    seen: set[Chosen] = set()
    for at in alone.tolist():
        chosen = tuple(columns[:, at].tolist())
        keep[at] = chosen not in seen
        seen.add(chosen)
    return keep, seen


# One tree after the other.


def _in_order(index: Index, mask: Mask, start: int) -> I64:
    """Return the marked roots: host trees first, rotated to begin at `start`; then trees of sharing providers."""
    of_hosts = index.trees().hosts
    hosts = np.flatnonzero(mask & of_hosts)
    first = start % len(hosts) if len(hosts) else 0
    return np.concatenate((hosts[first:], hosts[:first], np.flatnonzero(mask & ~of_hosts)))


def _find(
    index: Index, plan: Plan, viable: Mask, seen: set[Chosen], *, limit: int, start: int, depth_first: bool
) -> Iterator[CandidateRows]:
    """Yield the candidates of the viable trees that are not in `seen`."""
    repeats = all(slot.shared is not None for slot in plan.slots)
    remaining = limit
    for root, chosen in _walk(index, plan, viable, start, depth_first):
        if repeats:
            if chosen in seen:
                continue  # the same providers, found from another tree that they serve as well
            seen.add(chosen)
        yield CandidateRows(root, chosen)
        remaining -= 1
        if remaining == 0:
            return


def _walk(index: Index, plan: Plan, viable: Mask, start: int, depth_first: bool) -> Iterator[tuple[int, Chosen]]:
    """Yield the combinations of all viable trees, each with its root: in rounds, or one tree after the other."""
    dead: set[tuple[int, ...]] = set()
    budget = SearchBudget()
    contagious: bool | None = None
    waiting: list[tuple[int, Iterator[Chosen]]] = []
    for root, options in _options(index, plan, viable, start, dead):
        only = only_combination(plan, options)
        if only is not None:
            yield root, only
            continue
        choices = combinations(index, plan, options, budget)
        first = next(choices, None)
        if first is None:
            contagious = _fails_by_sharing_alone(index, plan) if contagious is None else contagious
            if contagious:
                dead.add(index.sharing().rows_by_root.get(root, ()))
            continue
        yield root, first
        if depth_first:
            yield from ((root, chosen) for chosen in choices)
        else:
            waiting.append((root, choices))
    while waiting:
        still_waiting = []
        for root, choices in waiting:
            chosen = next(choices, None)
            if chosen is not None:
                yield root, chosen
                still_waiting.append((root, choices))
        waiting = still_waiting


def _options(
    index: Index, plan: Plan, viable: Mask, start: int, dead: Container[tuple[int, ...]]
) -> Iterator[tuple[int, Options]]:
    """Yield viable roots with the rows that may fill each slot, but for hosts of `dead` sharing providers."""
    trees, sharing = index.trees(), index.sharing()
    shared_options: dict[tuple[int, ...], list[list[int]]] = {}
    roots = _in_order(index, viable, start)
    for at in range(0, len(roots), ROOTS_AT_ONCE):
        for root in roots[at : at + ROOTS_AT_ONCE].tolist():
            serving = sharing.rows_by_root.get(root, ())
            if serving in dead and trees.hosts[root]:
                continue
            shared = shared_options.get(serving)
            if shared is None:
                shared = shared_options[serving] = [_rows_of(slot.shared, serving) for slot in plan.slots]
            rows = trees.rows_of(root)
            options: list[list[int]] = []
            for slot, theirs in zip(plan.slots, shared, strict=True):
                if slot.twin >= 0:
                    options.append(options[slot.twin])
                else:
                    # In ascending order, so that exchangeable groups are filled in the same order from every tree.
                    own = _rows_of(slot.own, rows)
                    options.append(sorted(own + theirs) if theirs else own)
            yield root, options


def _fails_by_sharing_alone(index: Index, plan: Plan) -> bool:
    """Whether a host tree that fails takes with it every other host tree that the same sharing providers serve.

    So it is when granular groups can only be served by sharing providers and the unsuffixed one only by the tree: then
    what each can take was checked before, and only the granular groups together ask for too much.
    """
    if plan.any_of or plan.flat:
        return False
    in_host_tree = index.trees().hosts[index.root_row]
    return not any((slot.own & in_host_tree).any() if slot.suffix else slot.shared is not None for slot in plan.slots)


def _rows_of(mask: Mask | None, rows: Sequence[int]) -> list[int]:
    return [] if mask is None else [row for row in rows if mask[row]]
