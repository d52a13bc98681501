"""What every provider has and what is taken of it, in arrays that a search can sweep: the ledger's read side.

The database stays the truth: `refresh.py` brings deltas, this file applies them, `candidates.py` searches.
A provider's row (`provider_index`) is used again after the provider is gone. Nothing here knows SQL.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import TypeVar

import numpy as np
import numpy.ma  # else np.unique does, in the first search of each process
from msgspec import Struct
from numpy.typing import NDArray

from roost.placement.model import ProviderRow, Usage
from roost.platform.grouping import grouped
from roost.seams.placement import IPV4_ADDRESS, SHARING, Inventory

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]
Array = TypeVar("Array", I64, Mask)

ROWS_FIRST = 64
NO_ROW = -1
NO_UNITS = -1
"""What a provider without inventory of a class can take at once."""


class Delta(Struct, frozen=True, kw_only=True):
    """What may have changed since the last one; what did not change in truth may be in it as well.

    Applied in this order: deleted, providers, usages. A usage of an unknown provider is passed over.
    """

    providers: Sequence[ProviderRow] = ()
    usages: Sequence[Usage] = ()
    deleted: Sequence[int] = ()


class Column:
    """One resource class over all rows.

    most: int64, the most that a row can take in one claim: min(capacity - used, max_unit), 0 when overcommitted;
        NO_UNITS without inventory.
    min_unit, step_size: int64; uneven: some row has a min_unit or a step_size above 1. holders: how many rows have
        inventory of the class.
    """

    def __init__(self, rows: int) -> None:
        self.most: I64 = np.full(rows, NO_UNITS, np.int64)
        self.min_unit: I64 = np.ones(rows, np.int64)
        self.step_size: I64 = np.ones(rows, np.int64)
        self.uneven = False
        self.holders = 0

    def copy(self) -> "Column":
        """Return one of its own with the same values."""
        other = copy(self)
        other.most, other.min_unit, other.step_size = self.most.copy(), self.min_unit.copy(), self.step_size.copy()
        return other


def takes(column: Column, amount: int) -> Mask:
    """Mark the rows whose inventory of one resource class can take `amount` more; bool, shape (rows,).

    amount: whole units; zero marks the rows that have inventory at all.
    Source: Placement API, PUT /allocations: capacity, min_unit, max_unit, step_size.
    """
    fits: Mask = column.most >= amount
    if column.uneven and amount > 0:
        fits &= (column.min_unit <= amount) & (amount % column.step_size == 0)
    return fits


class Index:
    """All providers. Rows that no provider uses are not `alive`.

    By row: uuids, names, generations, ids, traits, placement_aggregates, inventories, used (lists), root_row and
    parent_row (int64, NO_ROW for none), alive (bool). By name: columns (resource class), trait_masks (trait, those that
    some row has), aggregate_rows (placement aggregate). What `sharing()` and `trees()` give is derived when first asked
    for. texts: what `answers.py` has made of rows, by the kind of text; a row's are dropped when it changes.
    whole_classes: resource classes of which one claim may take all that is free, whatever max_unit says. networks: by
    row, of a segment whose network is known. segments: what `implied.py` has derived; None once that may have changed.
    """

    def __init__(self, *, whole_classes: frozenset[str] = frozenset()) -> None:
        self.whole_classes = whole_classes
        self.networks: dict[int, str] = {}
        self.segments: object | None = None
        self.uuids: list[str] = []
        self.names: list[str] = []
        self.generations: list[int] = []
        self.ids: list[int] = []
        self.traits: list[frozenset[str]] = []
        self.placement_aggregates: list[frozenset[str]] = []
        self.inventories: list[Mapping[str, Inventory]] = []
        self.used: list[dict[str, int]] = []
        self.row_by_uuid: dict[str, int] = {}
        self.row_by_id: dict[int, int] = {}
        self.alive: Mask = np.zeros(ROWS_FIRST, np.bool_)
        self.root_row: I64 = np.arange(ROWS_FIRST, dtype=np.int64)
        self.parent_row: I64 = np.full(ROWS_FIRST, NO_ROW, np.int64)
        self.columns: dict[str, Column] = {}
        self.trait_masks: dict[str, Mask] = {}
        self.aggregate_rows: dict[str, set[int]] = {}
        self.texts: dict[object, dict[int, str]] = {}
        self._trait_holders: dict[str, int] = {}
        self._free_rows: list[int] = []
        self._interned: dict[object, object] = {}
        self._trees: Trees | None = None
        self._sharing: Sharing | None = None
        self._aggregate_arrays: dict[str, I64] = {}

    def __len__(self) -> int:
        """How many providers there are."""
        return len(self.row_by_id)

    @property
    def rows(self) -> int:
        """How long every array is."""
        return len(self.alive)

    def apply(self, delta: Delta) -> None:
        """Take over what changed. Cost: by the size of the delta, and of all rows if trees or sharing changed."""
        for provider_id in delta.deleted:
            row = self.row_by_id.pop(provider_id, None)
            if row is not None:
                self._remove(row)
        for provider in delta.providers:  # all rows first: a parent may come after its child
            if provider.id not in self.row_by_id:
                self._add(provider)
        for provider in delta.providers:
            self._set_shape(self.row_by_id[provider.id], provider)
        for usage in delta.usages:
            row = self.row_by_id.get(usage.provider_id)
            if row is not None:
                self.generations[row] = usage.generation
                self._set_used(row, usage.used)
                self._drop_texts(row)

    def find_row(self, uuid: str) -> int | None:
        """Return the row of a provider, None when there is none of that UUID."""
        return self.row_by_uuid.get(uuid)

    def column(self, resource_class: str) -> Column:
        """Return the column of a class; an empty one, not kept, for a class that no provider has."""
        return self.columns.get(resource_class) or Column(self.rows)

    def has_class(self, resource_class: str) -> bool:
        """Whether some provider has inventory of a class."""
        column = self.columns.get(resource_class)
        return column is not None and column.holders > 0

    def trait_mask(self, trait: str) -> Mask:
        """Mark the rows with a trait."""
        mask = self.trait_masks.get(trait)
        return np.zeros(self.rows, np.bool_) if mask is None else mask

    def rows_in_aggregate(self, aggregate: str) -> I64:
        """Return the rows in a placement aggregate, ascending."""
        array = self._aggregate_arrays.get(aggregate)
        if array is None:
            rows = self.aggregate_rows.get(aggregate)
            array = np.array(sorted(rows or ()), np.int64)
            if rows:  # not of every UUID that somebody asks for
                self._aggregate_arrays[aggregate] = array
        return array

    def trees(self) -> "Trees":
        """Return the trees as they are now."""
        if self._trees is None:
            self._trees = derive_trees(self)
        return self._trees

    def sharing(self) -> "Sharing":
        """Return who shares with which trees now."""
        if self._sharing is None:
            self._sharing = derive_sharing(self)
        return self._sharing

    def copy(self) -> "Index":
        """Return an index of its own with the same providers, to be changed for a trial.

        Cost: of all rows, 5 ms for 10,000 providers.
        """
        other = copy(self)
        for name in ("uuids", "names", "generations", "ids", "traits", "placement_aggregates", "inventories"):
            setattr(other, name, list(getattr(self, name)))
        for name in ("networks", "row_by_uuid", "row_by_id", "_trait_holders", "_aggregate_arrays"):
            setattr(other, name, dict(getattr(self, name)))
        for name in ("alive", "root_row", "parent_row"):
            setattr(other, name, getattr(self, name).copy())
        other.used = list(self.used)  # the dicts in it are replaced, not changed
        other.columns = {name: column.copy() for name, column in self.columns.items()}
        other.trait_masks = {trait: mask.copy() for trait, mask in self.trait_masks.items()}
        other.aggregate_rows = {aggregate: set(rows) for aggregate, rows in self.aggregate_rows.items()}
        other.texts, other._free_rows, other._interned = {}, list(self._free_rows), {}
        return other

    # How it is done.

    def _add(self, provider: ProviderRow) -> None:
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row = len(self.uuids)
            if row == self.rows:
                self._grow()
            for column in (self.uuids, self.names):
                column.append("")
            for numbers in (self.generations, self.ids):
                numbers.append(0)
            self.traits.append(frozenset())
            self.placement_aggregates.append(frozenset())
            self.inventories.append({})
            self.used.append({})
        self.row_by_id[provider.id] = row
        self.row_by_uuid[provider.uuid] = row
        self.ids[row], self.uuids[row] = provider.id, provider.uuid
        self.alive[row] = True
        self._trees = self._sharing = self.segments = None

    def _remove(self, row: int) -> None:
        if self.row_by_uuid.get(self.uuids[row]) == row:
            del self.row_by_uuid[self.uuids[row]]
        self._set_traits(row, frozenset())
        self._set_aggregates(row, frozenset())
        self._set_network(row, None)
        self._set_inventories(row, {}, {})
        self._drop_texts(row)
        self.uuids[row] = self.names[row] = ""
        self.alive[row] = False
        self.root_row[row], self.parent_row[row] = row, NO_ROW
        self._free_rows.append(row)
        self._trees = self._sharing = self.segments = None

    def _set_shape(self, row: int, provider: ProviderRow) -> None:
        self.names[row], self.generations[row] = provider.name, provider.generation
        parent_id = provider.parent_id
        parent = NO_ROW if parent_id is None else self.row_by_id.get(parent_id, NO_ROW)
        root = self.row_by_id.get(provider.root_id, row)
        if parent != self.parent_row[row] or root != self.root_row[row]:
            self.parent_row[row], self.root_row[row] = parent, root
            self._trees = self._sharing = self.segments = None
        if provider.traits != self.traits[row]:
            self._set_traits(row, provider.traits)
        if provider.placement_aggregates != self.placement_aggregates[row]:
            self._set_aggregates(row, provider.placement_aggregates)
        self._set_network(row, provider.network_id)
        self._set_inventories(row, provider.inventories, provider.used)
        self._drop_texts(row)

    def _drop_texts(self, row: int) -> None:
        for by_row in self.texts.values():
            by_row.pop(row, None)

    def _set_traits(self, row: int, traits: frozenset[str]) -> None:
        traits_before = self.traits[row]
        for trait in traits_before - traits:
            self._trait_holders[trait] -= 1
            if self._trait_holders[trait]:
                self.trait_masks[trait][row] = False
            else:
                del self._trait_holders[trait], self.trait_masks[trait]
        for trait in traits - traits_before:
            if trait not in self.trait_masks:
                self.trait_masks[trait] = np.zeros(self.rows, np.bool_)
                self._trait_holders[trait] = 0
            self.trait_masks[trait][row] = True
            self._trait_holders[trait] += 1
        self.traits[row] = self._intern(traits)
        if (SHARING in traits_before) != (SHARING in traits):
            self._trees = self._sharing = self.segments = None

    def _set_aggregates(self, row: int, aggregates: frozenset[str]) -> None:
        aggregates_before = self.placement_aggregates[row]
        for aggregate in aggregates_before - aggregates:
            rows = self.aggregate_rows[aggregate]
            rows.discard(row)
            if not rows:
                del self.aggregate_rows[aggregate]
        for aggregate in aggregates - aggregates_before:
            self.aggregate_rows.setdefault(aggregate, set()).add(row)
        for aggregate in aggregates_before ^ aggregates:
            self._aggregate_arrays.pop(aggregate, None)
        self.placement_aggregates[row] = self._intern(aggregates)
        if aggregates_before != aggregates:
            self._sharing = self.segments = None

    def _set_network(self, row: int, network_id: str | None) -> None:
        if self.networks.get(row) == network_id:
            return
        if network_id is None:
            del self.networks[row]
        else:
            self.networks[row] = network_id
        self.segments = None

    def _set_inventories(self, row: int, inventories: Mapping[str, Inventory], used: Mapping[str, int]) -> None:
        if (IPV4_ADDRESS in inventories) != (IPV4_ADDRESS in self.inventories[row]):
            self.segments = None
        for name in self.inventories[row].keys() - inventories.keys():
            self.columns[name].most[row] = NO_UNITS
            self.columns[name].holders -= 1
        for name, inventory in inventories.items():
            column = self.columns.get(name)
            if column is None:
                column = self.columns[name] = Column(self.rows)
            column.holders += name not in self.inventories[row]
            column.min_unit[row], column.step_size[row] = inventory.min_unit, inventory.step_size
            column.uneven |= inventory.min_unit > 1 or inventory.step_size > 1
        self.inventories[row] = inventories
        self._set_used(row, used)

    def _set_used(self, row: int, used: Mapping[str, int]) -> None:
        kept = self.used[row] = dict(used)
        for name, inventory in self.inventories[row].items():
            free = inventory.capacity - kept.setdefault(name, 0)
            most = free if name in self.whole_classes else min(free, inventory.max_unit)
            self.columns[name].most[row] = max(most, 0)

    def _intern(self, value: frozenset[str]) -> frozenset[str]:
        return self._interned.setdefault(value, value)  # type: ignore[return-value]

    def _grow(self) -> None:
        old = self.rows
        self.alive = _longer(self.alive, False)
        self.root_row = _longer(self.root_row, 0)
        self.root_row[old:] = np.arange(old, 2 * old)
        self.parent_row = _longer(self.parent_row, NO_ROW)
        for column in self.columns.values():
            column.most = _longer(column.most, NO_UNITS)
            column.min_unit, column.step_size = _longer(column.min_unit, 1), _longer(column.step_size, 1)
        for trait, mask in self.trait_masks.items():
            self.trait_masks[trait] = _longer(mask, False)


def _longer(array: Array, fill: int) -> Array:
    return np.concatenate([array, np.full_like(array, fill)])


class Trees(Struct, frozen=True):
    """Which rows belong together.

    nested: some tree has more than its root. rows_by_root: the rows of such trees, root first. roots, hosts: bool,
    shape (rows,): the root of some tree; the root of a host tree, which is one that does not share.
    """

    nested: bool
    rows_by_root: Mapping[int, tuple[int, ...]]
    roots: Mask
    hosts: Mask

    def rows_of(self, root: int) -> tuple[int, ...]:
        """Return all rows of a root's tree."""
        return self.rows_by_root.get(root, (root,))


def derive_trees(index: Index) -> Trees:
    """Find the trees. Cost: a sweep over all rows, and a step for each child."""
    roots = index.alive & (index.parent_row == NO_ROW)
    rows_by_root: dict[int, list[int]] = {}
    for row in np.flatnonzero(index.alive & ~roots).tolist():
        root = int(index.root_row[row])
        rows_by_root.setdefault(root, [root]).append(row)
    return Trees(
        bool(rows_by_root),
        {root: tuple(rows) for root, rows in rows_by_root.items()},
        roots,
        roots & ~index.trait_mask(SHARING),
    )


class Sharing(Struct, frozen=True):
    """Which sharing provider serves which trees other than its own.

    rows: int64, the sharing providers. edge_row, edge_root: int64, shape (edges,): the row of a sharing
    provider and the root that it serves. roots_by_row: sharing row -> roots; rows_by_root: root -> sharing rows.
    """

    rows: I64
    edge_row: I64
    edge_root: I64
    roots_by_row: Mapping[int, I64]
    rows_by_root: Mapping[int, tuple[int, ...]]


def derive_sharing(index: Index) -> Sharing:
    """Find who shares with whom: every tree with a provider in one of the sharing provider's aggregates.

    Cost: a step for each pair of a sharing provider and a tree. Source: Placement, Modeling with Provider Trees.
    """
    sharing_rows = np.flatnonzero(index.alive & index.trait_mask(SHARING))
    roots_by_row: dict[int, I64] = {}
    for row in sharing_rows.tolist():
        reached = [index.rows_in_aggregate(aggregate) for aggregate in index.placement_aggregates[row]]
        roots = np.unique(index.root_row[np.concatenate(reached)]) if reached else np.empty(0, np.int64)
        roots_by_row[row] = roots[roots != index.root_row[row]]
    rows_by_root = grouped((root, row) for row, roots in roots_by_row.items() for root in roots.tolist())
    interned: dict[tuple[int, ...], tuple[int, ...]] = {}
    shared = {root: tuple(rows) for root, rows in rows_by_root.items()}
    lengths = [len(roots) for roots in roots_by_row.values()]
    return Sharing(
        sharing_rows,
        np.repeat(np.array(list(roots_by_row), np.int64), np.array(lengths, np.int64)),
        np.concatenate(list(roots_by_row.values())) if roots_by_row else np.empty(0, np.int64),
        roots_by_row,
        {root: interned.setdefault(rows, rows) for root, rows in shared.items()},
    )


def rows_of_aggregates(index: Index, aggregates: Iterable[str]) -> Mask:
    """Mark the rows in at least one of the placement aggregates."""
    mask = np.zeros(index.rows, np.bool_)
    for aggregate in aggregates:
        mask[index.rows_in_aggregate(aggregate)] = True
    return mask
