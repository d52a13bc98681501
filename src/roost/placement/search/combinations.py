"""Every way in which the providers of one tree, with those that share with it, satisfy a query together.

Each slot of the plan has options, which suffice for it alone. This file fills slot after slot and turns back as soon as
what is filled breaks a rule: amounts that add up on one provider, groups that may not share one, traits that the
unsuffixed group must have together, groups of one subtree. It gives combinations one by one, as they are asked for.
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence

from roost.placement.search.index import NO_ROW, Index
from roost.placement.search.narrowing import Plan
from roost.seams.placement import Distinct

FRUITLESS_STEPS_MAX = 300_000
"""Providers tried in a row, in one search, without a combination; then the search ends with what it has.

Whether many unlike amounts fit together on many devices is bin packing: nobody can promise to find out in time.
"""

Chosen = tuple[int, ...]
"""The row that fills each slot of a plan."""

Options = Sequence[Sequence[int]]
"""For each slot of a plan, the rows that may fill it."""


class SearchBudget:
    """How many steps a search may still take before it finds something."""

    def __init__(self) -> None:
        self.steps_left = FRUITLESS_STEPS_MAX


def only_combination(plan: Plan, options: Options) -> Chosen | None:
    """Return what fills the slots where there is no choice and nothing to check; None: see `combinations`."""
    if plan.any_of or plan.subtrees or plan.flat:
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


def combinations(index: Index, plan: Plan, options: Options, budget: SearchBudget) -> Iterator[Chosen]:
    """Yield every way to fill the slots, once; exchangeable groups in one order first, then in all if that counts."""
    if _is_hopeless(plan, options):
        return iter(())
    fillings = _fill(_Filling(index, plan, options), budget)
    if plan.distinct is Distinct.MAPPINGS and any(slot.twin >= 0 for slot in plan.slots):
        return _permuted(plan, fillings)
    return fillings


def _fill(filling: "_Filling", budget: SearchBudget) -> Iterator[Chosen]:
    """Fill slot after slot, without recursion: a request may have any number of groups."""
    last = len(filling.options) - 1
    fruitful = [False] * (last + 1)
    number = 0
    while number >= 0:
        if not filling.advance(number):
            # Nothing more fits here. If nothing ever did, the same state need not be tried again.
            if not fruitful[number]:
                filling.remember(number)
            elif number > 0:
                fruitful[number - 1] = True
            fruitful[number] = False
            number -= 1
            continue
        if number == last:
            budget.steps_left = FRUITLESS_STEPS_MAX
            fruitful[number] = True
            yield tuple(filling.chosen)
            continue
        budget.steps_left -= 1
        if budget.steps_left < 0:
            return
        if not filling.failed_before(number + 1):
            number += 1


class _Filling:
    """The slots that are filled so far, and what that leaves for the others.

    places: by slot, which of its options fills it, -1 for none; chosen: the rows. taken: (row, class) -> amount.
    occupied: the rows of granular groups. roots: the row that is used of each tree, with how often. tops: for each
    subtree, the rows that can still be the ancestor of all the others.
    """

    def __init__(self, index: Index, plan: Plan, options: Options) -> None:
        self.index, self.plan, self.options = index, plan, options
        count = len(options)
        self.places = [-1] * count
        self.chosen = [NO_ROW] * count
        self.taken: dict[tuple[int, str], int] = {}
        self.occupied: dict[int, int] = {}
        self.roots: dict[int, tuple[int, int]] = {}
        self.tops: list[list[frozenset[int]]] = [
            [frozenset(row for number in subtree for row in options[number])] for subtree in plan.subtrees
        ]
        self.subtrees_of: list[list[int]] = [
            [which for which, subtree in enumerate(plan.subtrees) if number in subtree] for number in range(count)
        ]
        self.dead: set[object] = set()
        self.may_remember = not plan.subtrees and not plan.flat
        self._ancestors: dict[int, frozenset[int]] = {}

    def advance(self, number: int) -> bool:
        """Fill a slot with its next option that fits; False leaves it empty, when there is none."""
        place = self.places[number]
        twin = self.plan.slots[number].twin
        if place >= 0:
            self._give_back(number)
        elif twin >= 0:
            place = self.places[twin] - 1  # exchangeable groups are filled in ascending order
        rows = self.options[number]
        while (place := place + 1) < len(rows):
            if self._fits(number, rows[place]):
                self._take(number, place)
                return True
        return False

    def _fits(self, number: int, row: int) -> bool:
        plan = self.plan
        slot = plan.slots[number]
        if plan.isolate and slot.suffix and row in self.occupied:
            return False
        for want in slot.wants:
            if self.taken.get((row, want.resource_class), 0) + want.amount > want.column.most[row]:
                return False
        if plan.flat:
            used = self.roots.get(int(self.index.root_row[row]))
            if used is not None and used[0] != row:
                return False
        if number == plan.spread - 1 and plan.any_of and not self._has_traits(row):
            return False
        return all(self._in_subtree(which, number, row) for which in self.subtrees_of[number])

    def _has_traits(self, row: int) -> bool:
        rows = {row, *self.chosen[: self.plan.spread - 1]}
        traits_held = frozenset[str]().union(*(self.index.traits[member] for member in rows))
        return all(not traits.isdisjoint(traits_held) for traits in self.plan.any_of)

    def _in_subtree(self, which: int, number: int, row: int) -> bool:
        tops = self.tops[which][-1] & self._ancestors_of(row)
        subtree = self.plan.subtrees[which]
        if number == subtree[-1]:
            tops &= {row, *(self.chosen[other] for other in subtree[:-1])}
        return bool(tops)

    def _ancestors_of(self, row: int) -> frozenset[int]:
        """Return the row, its parent, and so on up to the root."""
        known = self._ancestors.get(row)
        if known is None:
            path, parent = [row], int(self.index.parent_row[row])
            while parent != NO_ROW:
                path.append(parent)
                parent = int(self.index.parent_row[parent])
            known = self._ancestors[row] = frozenset(path)
        return known

    def _take(self, number: int, place: int) -> None:
        slot, row = self.plan.slots[number], self.options[number][place]
        self.places[number], self.chosen[number] = place, row
        for want in slot.wants:
            key = (row, want.resource_class)
            self.taken[key] = self.taken.get(key, 0) + want.amount
        if slot.suffix:
            self.occupied[row] = self.occupied.get(row, 0) + 1
        if self.plan.flat:
            root = int(self.index.root_row[row])
            self.roots[root] = (row, self.roots.get(root, (row, 0))[1] + 1)
        for which in self.subtrees_of[number]:
            self.tops[which].append(self.tops[which][-1] & self._ancestors_of(row))

    def _give_back(self, number: int) -> None:
        slot, row = self.plan.slots[number], self.chosen[number]
        self.places[number], self.chosen[number] = -1, NO_ROW
        for want in slot.wants:
            key = (row, want.resource_class)
            self.taken[key] -= want.amount
            if not self.taken[key]:
                del self.taken[key]
        if slot.suffix:
            self.occupied[row] -= 1
            if not self.occupied[row]:
                del self.occupied[row]
        if self.plan.flat:
            root = int(self.index.root_row[row])
            self.roots[root] = (row, self.roots[root][1] - 1)
            if not self.roots[root][1]:
                del self.roots[root]
        for which in self.subtrees_of[number]:
            self.tops[which].pop()

    def remember(self, number: int) -> None:
        """Remember that the slots from `number` on cannot be filled beside what is taken now."""
        if self.may_remember and self.plan.spread <= number < len(self.options) - 1:
            self.dead.add(self._state(number))

    def failed_before(self, number: int) -> bool:
        """Whether the slots from `number` on were tried in vain beside the same."""
        return bool(self.dead) and self.may_remember and self._state(number) in self.dead

    def _state(self, number: int) -> object:
        """Return all that decides whether the slots from `number` on can be filled, once the unsuffixed group is."""
        slots = self.plan.slots
        twins = tuple(self.places[slot.twin] for slot in slots[number:] if 0 <= slot.twin < number)
        occupied = frozenset(self.occupied) if self.plan.isolate else None
        return number, twins, frozenset(self.taken.items()), occupied


# Before and after filling.


def _is_hopeless(plan: Plan, options: Options) -> bool:
    """Whether counting alone shows that the slots cannot be filled: what would take long to find out by trying."""
    if len(plan.slots) - plan.spread + (plan.spread > 0) < 2:
        return False
    parts_by_class: dict[str, list[tuple[int, int]]] = {}
    for number, slot in enumerate(plan.slots):
        for want in slot.wants:
            parts_by_class.setdefault(want.resource_class, []).append((want.amount, number))
    for resource_class, parts in parts_by_class.items():
        if len(parts) < 2:
            continue
        column = next(want.column for want in plan.slots[parts[0][1]].wants if want.resource_class == resource_class)
        most = [int(column.most[row]) for row in {row for _, number in parts for row in options[number]}]
        smallest = min(amount for amount, _ in parts)
        if sum(most) < sum(amount for amount, _ in parts) or sum(free // smallest for free in most) < len(parts):
            return True
    return plan.isolate and not _can_be_isolated(options[plan.spread :])


def _can_be_isolated(options: Options) -> bool:
    """Whether each slot can have a row of its own: a matching, found by augmenting paths without recursion."""
    holder: dict[int, int] = {}
    for start in range(len(options)):
        came_from: dict[int, int] = {}
        free = _find_free(options, start, holder, came_from)
        if free is None:
            return False
        row_by_slot = {slot: row for row, slot in holder.items()}
        moved: int | None = free
        while moved is not None:
            slot = came_from[moved]
            holder[moved] = slot
            moved = row_by_slot.get(slot)
    return True


def _find_free(
    options: Options, start: int, holder: Mapping[int, int], came_from: MutableMapping[int, int]
) -> int | None:
    """Return a free row for `start`, or for a slot that can give its own up; came_from: row -> slot that asks."""
    queue = [start]
    for slot in queue:
        for row in options[slot]:
            if row not in came_from:
                came_from[row] = slot
                if row not in holder:
                    return row
                queue.append(holder[row])
    return None


def _permuted(plan: Plan, fillings: Iterator[Chosen]) -> Iterator[Chosen]:
    """Yield the fillings, and then each with its exchangeable groups exchanged."""
    classes: dict[int, list[int]] = {}
    first_of: dict[int, int] = {}
    for number, slot in enumerate(plan.slots):
        first_of[number] = first_of[slot.twin] if slot.twin >= 0 else number
        classes.setdefault(first_of[number], []).append(number)
    alike = [numbers for numbers in classes.values() if len(numbers) > 1]
    seen = []
    for chosen in fillings:
        seen.append(chosen)
        yield chosen
    for chosen in seen:
        yield from _exchanged(chosen, alike)


def _exchanged(chosen: Chosen, alike: Sequence[Sequence[int]]) -> Iterator[Chosen]:
    """Yield all other orders of the rows within each class of exchangeable slots: an odometer of permutations."""
    rows = list(chosen)
    orders = [sorted(chosen[number] for number in numbers) for numbers in alike]
    while True:
        for numbers, order in zip(alike, orders, strict=True):
            for number, row in zip(numbers, order, strict=True):
                rows[number] = row
        if (exchanged := tuple(rows)) != chosen:
            yield exchanged
        for order in orders:
            if _next_order(order):
                break  # those before it have started again
        else:
            return


def _next_order(order: list[int]) -> bool:
    """Put a list into its next order in the lexicographic sequence; after the last, into the first, and False."""
    at = len(order) - 2
    while at >= 0 and order[at] >= order[at + 1]:
        at -= 1
    if at >= 0:
        swap = len(order) - 1
        while order[swap] <= order[at]:
            swap -= 1
        order[at], order[swap] = order[swap], order[at]
    order[at + 1 :] = order[at + 1 :][::-1]
    return at >= 0
