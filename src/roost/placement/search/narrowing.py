"""Which trees could satisfy a query, by arrays over all providers at once: from a query to its slots.

Every slot is narrowed by itself; which providers go together, and how often, is for `candidates.py` to find out.
Source: Placement API 1.39, GET /allocation_candidates, and its guide "Modeling with Provider Trees".
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from roost.placement.search.index import Column, Index, Mask, rows_of_aggregates, takes
from roost.seams.placement import CandidateQuery, Distinct, RequestGroup

AGGREGATE_COST_ROWS = 8
"""Marking the rows of one placement aggregate costs as much as looking at the aggregates of so many rows."""


class Want(Struct, frozen=True):
    """An amount of one resource class, with the class's column."""

    resource_class: str
    amount: int
    column: Column


class Slot(Struct, frozen=True):
    """A part of the request that one provider must satisfy: a granular group, or one class of the unsuffixed group.

    own: the rows that may fill it for their own tree; shared: those that may for the trees that they serve, None
    when there are none. group: its place in the query. twin: an earlier slot that asks for the very same, or -1.
    wants: empty for a group without resources.
    """

    group: int
    suffix: str
    wants: tuple[Want, ...]
    own: Mask
    shared: Mask | None
    twin: int = -1


class Plan(Struct, frozen=True):
    """A query, worked out against one index. viable: the roots whose trees can fill every slot, each by itself.

    spread: how many slots, the first ones, are of the unsuffixed group. any_of: of each of these trait sets, the
    providers of the unsuffixed group must have one together. subtrees: the slots that must be in one subtree.
    flat: no two providers of one tree may be used.
    """

    slots: tuple[Slot, ...]
    viable: Mask
    spread: int
    any_of: tuple[frozenset[str], ...]
    isolate: bool
    subtrees: tuple[tuple[int, ...], ...]
    flat: bool
    distinct: Distinct


def make_plan(index: Index, query: CandidateQuery) -> Plan:
    """Work a query out against the index: its slots, and the trees that can fill each of them."""
    slots: list[Slot] = []
    viable = _roots_with_traits(index, query)
    any_of: tuple[frozenset[str], ...] = ()
    twins: dict[object, int] = {}
    for number, group in enumerate(query.groups):
        if group.suffix == "":
            spread = _spread_slots(index, number, group)
            slots += spread
            any_of = group.required
            viable = _narrow_spread(index, group, spread, viable)
            continue
        likeness = _likeness(group, query)
        twin = twins.get(likeness, -1)
        if twin >= 0:
            same = slots[twin]
            slot = Slot(number, group.suffix, same.wants, same.own, same.shared, twin)
        else:
            slot = _granular_slot(index, number, group)
            viable = viable & reached_trees(index, slot.own, slot.shared)
        twins[likeness] = len(slots)
        slots.append(slot)
    of_spread = sum(1 for slot in slots if not slot.suffix)
    assert not any(slot.suffix for slot in slots[:of_spread]), "the unsuffixed group comes first"
    subtrees = [
        tuple(number for number, slot in enumerate(slots) if slot.suffix in suffixes) for suffixes in query.same_subtree
    ]
    return Plan(
        tuple(slots), viable, of_spread, any_of, query.group_policy == "isolate",
        tuple(subtree for subtree in subtrees if len(subtree) > 1), not query.nested and index.trees().nested,
        query.distinct,
    )  # fmt: skip


def _roots_with_traits(index: Index, query: CandidateQuery) -> Mask:
    roots = index.trees().roots
    for trait in query.root_required:
        roots = roots & index.trait_mask(trait)
    for trait in query.root_forbidden:
        roots = roots & ~index.trait_mask(trait)
    return roots


def reached_trees(index: Index, own: Mask, shared: Mask | None) -> Mask:
    """Mark the roots whose tree has a row in `own`, or is served by a row in `shared`."""
    if index.trees().nested:
        reached = np.zeros(index.rows, np.bool_)
        reached[index.root_row[own]] = True
    else:
        reached = own.copy() if shared is not None else own
    if shared is not None:
        sharing = index.sharing()
        reached[sharing.edge_root[shared[sharing.edge_row]]] = True
    return reached


def _wants(index: Index, group: RequestGroup) -> tuple[Want, ...]:
    return tuple(Want(name, amount, index.column(name)) for name, amount in group.resources.items())


def fitting(index: Index, group: RequestGroup) -> Mask:
    """Mark the providers that satisfy all of a group by themselves; bool, shape (rows,)."""
    fits = index.alive
    for name, amount in group.resources.items():
        fits = fits & takes(index.column(name), amount)
    if group.in_tree is not None:
        fits = fits & _tree_of(index, group.in_tree)
    fits = _without_forbidden_traits(index, group, fits)
    for traits in group.required:
        fits = fits & _any_trait(index, traits)
    for aggregates in dict.fromkeys(group.member_of):
        fits = _in_aggregates(index, fits, aggregates)
    if group.forbidden_aggregates:
        fits = fits & ~rows_of_aggregates(index, group.forbidden_aggregates)
    return fits


def _granular_slot(index: Index, number: int, group: RequestGroup) -> Slot:
    fits = fitting(index, group)
    return Slot(number, group.suffix, _wants(index, group), fits, _sharing_part(index, fits))


def _spread_slots(index: Index, number: int, group: RequestGroup) -> list[Slot]:
    """Return one slot for each class of the unsuffixed group; its required traits concern the slots together."""
    members = [rows_of_aggregates(index, aggregates) for aggregates in dict.fromkeys(group.member_of)]
    slots = []
    for want in _wants(index, group):
        fits = _without_forbidden_traits(index, group, takes(want.column, want.amount))
        if group.forbidden_aggregates:
            fits = fits & ~rows_of_aggregates(index, group.forbidden_aggregates)
        shared = None if group.in_tree is not None else _sharing_part(index, fits)
        if group.in_tree is not None:
            fits = fits & _tree_of(index, group.in_tree)
        if members:
            # The aggregates of a root span its whole tree; a sharing provider has to be in them itself.
            inside = np.logical_and.reduce(members)
            fits = fits & (inside | inside[index.root_row])
            shared = None if shared is None else shared & inside
        slots.append(Slot(number, "", (want,), fits, shared))
    return slots


def _narrow_spread(index: Index, group: RequestGroup, slots: Sequence[Slot], viable: Mask) -> Mask:
    for slot in slots:
        viable = viable & reached_trees(index, slot.own, slot.shared)
    if group.forbidden_aggregates:
        viable = viable & ~rows_of_aggregates(index, group.forbidden_aggregates)
    for traits in group.required if slots else ():
        having = _any_trait(index, traits)
        own = np.logical_or.reduce([slot.own for slot in slots]) & having
        shares = [slot.shared for slot in slots if slot.shared is not None]
        shared = np.logical_or.reduce(shares) & having if shares else None
        viable = viable & reached_trees(index, own, shared)
    return viable


def _sharing_part(index: Index, fits: Mask) -> Mask | None:
    rows = index.sharing().rows
    if not len(rows) or not fits[rows].any():
        return None
    return fits


def _tree_of(index: Index, uuid: str) -> Mask:
    row = index.find_row(uuid)
    if row is None:
        return np.zeros(index.rows, np.bool_)
    mask: Mask = index.root_row == index.root_row[row]
    return mask & index.alive


def _any_trait(index: Index, traits: frozenset[str]) -> Mask:
    mask = np.zeros(index.rows, np.bool_)
    for trait in traits:
        mask |= index.trait_mask(trait)
    return mask


def _without_forbidden_traits(index: Index, group: RequestGroup, fits: Mask) -> Mask:
    return fits & ~_any_trait(index, group.forbidden) if group.forbidden else fits


def _in_aggregates(index: Index, fits: Mask, aggregates: frozenset[str]) -> Mask:
    if len(aggregates) * AGGREGATE_COST_ROWS < np.count_nonzero(fits):
        return fits & rows_of_aggregates(index, aggregates)
    inside = np.zeros(index.rows, np.bool_)
    aggregates_by_row = index.placement_aggregates
    inside[[row for row in np.flatnonzero(fits).tolist() if not aggregates.isdisjoint(aggregates_by_row[row])]] = True
    return inside


def _likeness(group: RequestGroup, query: CandidateQuery) -> object:
    """Return a key, equal for groups that ask for the same and are in the same subtrees: they can be exchanged."""
    return (
        frozenset(group.resources.items()),
        frozenset(group.required),
        group.forbidden,
        frozenset(group.member_of),
        group.forbidden_aggregates,
        group.in_tree,
        tuple(group.suffix in suffixes for suffixes in query.same_subtree),
    )
