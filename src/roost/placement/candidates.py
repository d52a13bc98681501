"""Who could take a request: the search over the index for allocation candidates.

Arrays narrow the trees at once to those that can satisfy each part of the request by itself; for these, combinations
of providers are enumerated one by one, only as far as the limit asks, one of each host before a second of any.
Which candidate is best is for scheduling to say; whether it can be claimed is for `claims.py`.

Source: Placement API 1.39, GET /allocation_candidates, and its guide "Modeling with Provider Trees".
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from roost.placement.index import Column, Index, Mask, rows_of_aggregates, takes
from roost.seams.placement import (
    Candidate,
    CandidateQuery,
    Candidates,
    Funnel,
    FunnelStep,
    ProviderSummary,
    RequestGroup,
    Requirement,
)

AGGREGATE_COST_ROWS = 8
"""Marking the rows of one placement aggregate costs as much as looking at the aggregates of so many rows."""

ROOTS_AT_ONCE = 64
"""Roots taken out of an array in one go: a search with a small limit leaves most of them there."""

Options = Sequence[Sequence[int]]
"""For each slot of a plan, the rows that may fill it."""


class Want(Struct, frozen=True):
    """An amount of one resource class, with the class's column."""

    resource_class: str
    amount: int
    column: Column


class Slot(Struct, frozen=True):
    """A part of the request that one provider must satisfy: a granular group, or one class of the unsuffixed group.

    own: the rows that may fill it for their own tree; shared: those that may for the trees that they serve, None
    when there are none. group: its place in the query. twin: an earlier slot that asks for the very same, or -1.
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
    providers of the unsuffixed group must have one together.
    """

    slots: tuple[Slot, ...]
    viable: Mask
    spread: int
    any_of: tuple[frozenset[str], ...]
    isolate: bool


class Found(Struct, frozen=True):
    """One candidate by rows: the root of its tree, and the provider of each slot of the plan."""

    root: int
    rows: tuple[int, ...]


def search(index: Index, query: CandidateQuery, *, start: int = 0) -> Candidates:
    """The candidates of a query, or the funnel that says why there are none.

    start: which of the viable hosts comes first; searchers that start elsewhere meet less on one host.
    Cost: some array operations over all rows, and some steps for each candidate.
    """
    plan = make_plan(index, query)
    found = list(find(index, plan, limit=query.limit, start=start))
    if not found:
        return Candidates((), {}, explain(index, query))
    candidates = tuple(_candidate(index, query, plan, one) for one in found)
    rows = dict.fromkeys(row for one in found for row in one.rows)
    return Candidates(candidates, {index.uuids[row]: summarize(index, row) for row in rows})


def find(index: Index, plan: Plan, *, limit: int, start: int = 0) -> Iterator[Found]:
    """The candidates of a plan, one of each tree before a second of any; limit 0 for all of them."""
    seen: set[tuple[int, ...]] = set()
    for root, chosen in _breadth_first(index, plan, start):
        if chosen in seen:
            continue  # the same providers, found from another tree that they serve as well
        seen.add(chosen)
        yield Found(root, chosen)
        if len(seen) == limit:
            return


def amounts_of(plan: Plan, found: Found) -> dict[int, dict[str, int]]:
    """What a candidate takes: row -> resource class -> amount, of all its groups together."""
    amounts: dict[int, dict[str, int]] = {}
    for slot, row in zip(plan.slots, found.rows, strict=True):
        taken = amounts.setdefault(row, {})
        for want in slot.wants:
            taken[want.resource_class] = taken.get(want.resource_class, 0) + want.amount
    return amounts


def rows_by_suffix(plan: Plan, found: Found) -> dict[str, tuple[int, ...]]:
    """The mapping of a candidate: suffix -> the rows of its providers, without repetition."""
    rows: dict[str, tuple[int, ...]] = {}
    for slot, row in zip(plan.slots, found.rows, strict=True):
        held = rows.get(slot.suffix, ())
        if row not in held:
            rows[slot.suffix] = (*held, row)
    return rows


def summarize(index: Index, row: int) -> ProviderSummary:
    """What a provider has of every class: (capacity, used)."""
    used = index.used[row]
    return ProviderSummary(
        index.uuids[row],
        index.names[row],
        {name: (inventory.capacity, used[name]) for name, inventory in index.inventories[row].items()},
    )


def _candidate(index: Index, query: CandidateQuery, plan: Plan, found: Found) -> Candidate:
    uuids = index.uuids
    by_suffix = rows_by_suffix(plan, found)
    return Candidate(
        uuids[found.root],
        {group.suffix: tuple(uuids[row] for row in by_suffix.get(group.suffix, ())) for group in query.groups},
        {uuids[row]: taken for row, taken in amounts_of(plan, found).items()},
    )


# Narrowing: from a query to its slots and the trees that can fill them.


def make_plan(index: Index, query: CandidateQuery) -> Plan:
    """Work a query out against the index: its slots, and the trees that can fill each of them."""
    slots: list[Slot] = []
    viable = index.trees().roots
    any_of: tuple[frozenset[str], ...] = ()
    twins: dict[object, int] = {}
    for number, group in enumerate(query.groups):
        if group.suffix == "":
            spread = _spread_slots(index, number, group)
            slots += spread
            any_of = group.required
            viable = _narrow_spread(index, group, spread, viable)
            continue
        likeness = _likeness(group)
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
    return Plan(tuple(slots), viable, of_spread, any_of, query.group_policy == "isolate")


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
    for aggregates in group.member_of:
        fits = _in_aggregates(index, fits, aggregates)
    if group.forbidden_aggregates:
        fits = fits & ~rows_of_aggregates(index, group.forbidden_aggregates)
    return fits


def _granular_slot(index: Index, number: int, group: RequestGroup) -> Slot:
    fits = fitting(index, group)
    return Slot(number, group.suffix, _wants(index, group), fits, _sharing_part(index, fits))


def _spread_slots(index: Index, number: int, group: RequestGroup) -> list[Slot]:
    """One slot for each class of the unsuffixed group; its required traits concern the slots together."""
    members = [rows_of_aggregates(index, aggregates) for aggregates in group.member_of]
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
    held = index.placement_aggregates
    inside[[row for row in np.flatnonzero(fits).tolist() if not aggregates.isdisjoint(held[row])]] = True
    return inside


def _likeness(group: RequestGroup) -> object:
    """Equal for groups that ask for the same, so that they can be exchanged."""
    return (
        frozenset(group.resources.items()),
        frozenset(group.required),
        group.forbidden,
        frozenset(group.member_of),
        group.forbidden_aggregates,
        group.in_tree,
    )


# Enumerating: the combinations of one tree, then of all in turn.


def _roots_in_order(index: Index, viable: Mask, start: int) -> Iterator[int]:
    """Host trees first, from `start` on and around; then the trees of sharing providers."""
    of_hosts = index.trees().hosts
    hosts = np.flatnonzero(viable & of_hosts)
    first = start % len(hosts) if len(hosts) else 0
    for part in (hosts[first:], hosts[:first]):
        for at in range(0, len(part), ROOTS_AT_ONCE):
            yield from part[at : at + ROOTS_AT_ONCE].tolist()
    yield from np.flatnonzero(viable & ~of_hosts).tolist()


def _rows_of(mask: Mask | None, rows: tuple[int, ...]) -> list[int]:
    return [] if mask is None else [row for row in rows if mask[row]]


def _breadth_first(index: Index, plan: Plan, start: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The combinations of all viable trees in rounds, each with its root."""
    trees, sharing = index.trees(), index.sharing()
    dead: set[tuple[int, ...]] = set()
    shared_options: dict[tuple[int, ...], list[list[int]]] = {}
    waiting: list[tuple[int, Iterator[tuple[int, ...]]]] = []
    for root in _roots_in_order(index, plan.viable, start):
        serving = sharing.rows_by_root.get(root, ())
        if serving in dead:
            continue
        shared = shared_options.get(serving)
        if shared is None:
            shared = shared_options[serving] = [_rows_of(slot.shared, serving) for slot in plan.slots]
        rows = trees.rows_of(root)
        options = [_rows_of(slot.own, rows) + theirs for slot, theirs in zip(plan.slots, shared, strict=True)]
        only = _only_combination(plan, options)
        if only is not None:
            yield root, only
            continue
        choices = _combinations(index, plan, options)
        first = next(choices, None)
        if first is not None:
            yield root, first
            waiting.append((root, choices))
        elif _fails_by_sharing_alone(plan, [_rows_of(slot.own, rows) for slot in plan.slots], shared):
            dead.add(serving)
    while waiting:
        still_waiting = []
        for root, choices in waiting:
            chosen = next(choices, None)
            if chosen is not None:
                yield root, chosen
                still_waiting.append((root, choices))
        waiting = still_waiting


def _fails_by_sharing_alone(plan: Plan, own: Options, shared: Options) -> bool:
    """Whether every other tree that the same sharing providers serve fails as well.

    So it is when granular groups can only be served by sharing providers and the unsuffixed one only by the tree: then
    what each can take was checked before, and only the granular groups together ask for too much.
    """
    if plan.any_of:
        return False
    return all(
        not mine if slot.suffix else not theirs for slot, mine, theirs in zip(plan.slots, own, shared, strict=True)
    )


def _only_combination(plan: Plan, options: Options) -> tuple[int, ...] | None:
    """What fills the slots where there is no choice and nothing to check; None where `_combinations` has to look."""
    if plan.any_of:
        return None
    for rows in options:
        if len(rows) != 1:
            return None
    only = tuple([rows[0] for rows in options])
    # One provider for several slots is fine if they are of the unsuffixed group: its classes are all different.
    granular = only[plan.spread :]
    if granular and len({*granular, *only[: plan.spread]}) < len(granular) + len({*only[: plan.spread]}):
        return None
    return only


def _combinations(index: Index, plan: Plan, options: Options) -> Iterator[tuple[int, ...]]:
    """Every way to fill the slots of one tree: capacity and max_unit hold for what groups take together.

    Exchangeable groups are filled in one order only. With `isolate`, granular groups are on different providers.
    """
    slots = plan.slots
    chosen: list[int] = [0] * len(slots)
    places: list[int] = [0] * len(slots)
    taken: dict[tuple[int, str], int] = {}

    def fill(number: int) -> Iterator[tuple[int, ...]]:
        if number == len(slots):
            if not plan.any_of or _has_traits(index, plan, chosen):
                yield tuple(chosen)
            return
        slot = slots[number]
        rows = options[number]
        for place in range(places[slot.twin] if slot.twin >= 0 else 0, len(rows)):
            row = rows[place]
            if plan.isolate and slot.suffix and _is_occupied(slots, chosen, number, row):
                continue
            if any(
                taken.get((row, want.resource_class), 0) + want.amount > want.column.most[row] for want in slot.wants
            ):
                continue
            for want in slot.wants:
                key = (row, want.resource_class)
                taken[key] = taken.get(key, 0) + want.amount
            chosen[number], places[number] = row, place
            yield from fill(number + 1)
            for want in slot.wants:
                taken[row, want.resource_class] -= want.amount

    return fill(0)


def _is_occupied(slots: Sequence[Slot], chosen: Sequence[int], number: int, row: int) -> bool:
    return any(slots[other].suffix and chosen[other] == row for other in range(number))


def _has_traits(index: Index, plan: Plan, chosen: Sequence[int]) -> bool:
    held: set[str] = set()
    for slot, row in zip(plan.slots, chosen, strict=True):
        if not slot.suffix:
            held |= index.traits[row]
    return all(not traits.isdisjoint(held) for traits in plan.any_of)


# Explaining: how many host trees each requirement left.


def explain(index: Index, query: CandidateQuery) -> Funnel:
    """Count the host trees that the requirements leave, one requirement after the other.

    First what providers are (inventory, traits, trees, placement aggregates), of every group; then what they have free.
    Cost: a search's narrowing for each requirement.
    """
    hosts = index.trees().hosts
    steps = [FunnelStep(requirement=Requirement.HOSTS, hosts_left=int(np.count_nonzero(hosts)))]
    for step, groups in _growing(query):
        plan = make_plan(index, CandidateQuery(groups=groups, group_policy=query.group_policy))
        steps.append(replace(step, hosts_left=int(np.count_nonzero(plan.viable & hosts))))
    if steps[-1].hosts_left > 0:
        steps.append(FunnelStep(requirement=Requirement.TOGETHER))
    return Funnel(tuple(steps))


def _growing(query: CandidateQuery) -> Iterator[tuple[FunnelStep, tuple[RequestGroup, ...]]]:
    """The groups of the query, built up requirement by requirement."""
    groups: list[RequestGroup] = []
    for group in query.groups:
        bare = RequestGroup(suffix=group.suffix, resources=dict.fromkeys(group.resources, 0))
        groups.append(bare)
        for requirement, names, changes in _shape_of(group):
            groups[-1] = replace(groups[-1], **changes)
            yield FunnelStep(requirement=requirement, suffix=group.suffix, names=tuple(names)), tuple(groups)
    for number, group in enumerate(query.groups):
        for name, amount in group.resources.items():
            groups[number] = replace(groups[number], resources={**groups[number].resources, name: amount})
            step = FunnelStep(requirement=Requirement.FREE, suffix=group.suffix, names=(name,), amount=amount)
            yield step, tuple(groups)


def _shape_of(group: RequestGroup) -> Iterator[tuple[Requirement, Sequence[str], Mapping[str, object]]]:
    """What a group asks for beside amounts: (requirement, its names, the fields of the group that say so)."""
    yield Requirement.INVENTORY, list(group.resources), {}
    forbidden = sorted(group.forbidden)
    for number, trait in enumerate(forbidden, 1):
        yield Requirement.NO_TRAIT, [trait], {"forbidden": frozenset(forbidden[:number])}
    for number, traits in enumerate(group.required, 1):
        yield Requirement.TRAIT, sorted(traits), {"required": group.required[:number]}
    if group.in_tree is not None:
        yield Requirement.IN_TREE, [group.in_tree], {"in_tree": group.in_tree}
    if group.forbidden_aggregates:
        names = sorted(group.forbidden_aggregates)
        yield Requirement.NOT_MEMBER_OF, names, {"forbidden_aggregates": group.forbidden_aggregates}
    for number, aggregates in enumerate(group.member_of, 1):
        yield Requirement.MEMBER_OF, sorted(aggregates), {"member_of": group.member_of[:number]}
