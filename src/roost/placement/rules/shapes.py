"""Decides what must change of a provider to make it as it should be: what it has, where it is, how a reshape goes."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from roost.placement.errors import ProviderMalformed
from roost.placement.model import AllocationKey, InventoryRow, ProviderPlace, ProviderRow, ShapeChange
from roost.seams.placement import Inventory, ProviderState


def decide_shape(state: ProviderState, row: ProviderRow) -> tuple[ShapeChange | None, frozenset[str]]:
    """Return what to write, None for nothing; and the resource classes whose inventory should go but is in use."""
    inventories: Mapping[str, Inventory] = row.inventories if state.inventories is None else state.inventories
    if state.inventories is not None and state.managed_classes is not None:
        unmanaged = {name: item for name, item in row.inventories.items() if name not in state.managed_classes}
        inventories = unmanaged | dict(state.inventories)
    kept = row.traits - state.managed_traits if state.managed_traits is not None else frozenset[str]()
    traits = row.traits if state.traits is None else state.traits | kept
    aggregates = row.placement_aggregates if state.placement_aggregates is None else state.placement_aggregates
    gone = frozenset(row.inventories) - frozenset(inventories)
    change = replace(
        no_change(row, generation_steps=1),
        name=state.name,
        inventories_set=_changed(row, inventories),
        inventories_gone=gone,
        traits_new=traits - row.traits,
        traits_gone=row.traits - traits,
        aggregates_new=aggregates - row.placement_aggregates,
        aggregates_gone=row.placement_aggregates - aggregates,
    )
    in_use = frozenset(name for name in gone if row.used[name] > 0)
    return (None if change == no_change(row, generation_steps=1) else change), in_use


def fits(
    used: Mapping[str, int], inventories: Mapping[str, Inventory], inventories_before: Mapping[str, Inventory]
) -> bool:
    """Return whether what is in use of each resource class is within its capacity, or loses none.

    More than there is may be in use before: what an unknown guest has may be promised to a build by then.
    """
    return all(
        amount == 0
        or (name in inventories and min(amount, inventories_before[name].capacity) <= inventories[name].capacity)
        for name, amount in used.items()
    )


def no_change(row: ProviderRow, *, generation_steps: int) -> ShapeChange:
    """Return a change of nothing but the generation."""
    return ShapeChange(
        provider_id=row.id,
        name=row.name,
        present_class_ids=row.resource_class_ids,
        generation_steps=generation_steps,
    )


def _changed(row: ProviderRow, inventories: Mapping[str, Inventory]) -> dict[str, Inventory]:
    return {name: inventory for name, inventory in inventories.items() if row.inventories.get(name) != inventory}


def decide_parent(
    places: Sequence[ProviderPlace], *, provider_id: int, parent_id: int | None, may_reparent: bool
) -> Mapping[int, ProviderPlace]:
    """Return the places that change when a provider gets another parent, or none: its own and those below it, by id.

    places: the trees of the provider and of the new parent, whole. Raises ProviderMalformed for a loop, and unless
    may_reparent for a provider that has a parent already. Source: Placement API 1.14, 1.37.
    """
    by_id = {place.id: place for place in places}
    own = by_id[provider_id]
    if own.parent_id is not None and own.parent_id != parent_id and not may_reparent:
        action = "un-parenting" if parent_id is None else "re-parenting"
        raise ProviderMalformed(f"{action} a provider is not currently allowed.")
    if own.parent_id == parent_id:
        return {}
    subtree = {provider_id}
    grown = True
    while grown:
        more = {place.id for place in places if place.parent_id in subtree} - subtree
        grown = bool(more)
        subtree |= more
    if parent_id in subtree:
        raise ProviderMalformed("creating loop in the provider tree is not allowed.")
    root_id = provider_id if parent_id is None else by_id[parent_id].root_id
    return {
        place_id: ProviderPlace(place_id, parent_id if place_id == provider_id else by_id[place_id].parent_id, root_id)
        for place_id in subtree
    }


def interim_inventories(row: ProviderRow, new: Mapping[str, Inventory]) -> Iterator[tuple[str, InventoryRow]]:
    """Yield what claims within a reshape may use of a provider: what it had, with what it will have in place of it."""
    for name, inventory in {**row.inventories, **new}.items():
        used = row.used.get(name, 0)
        yield (
            name,
            InventoryRow(inventory.capacity, inventory.min_unit, inventory.max_unit, inventory.step_size, used),
        )


def decide_interim_shape(row: ProviderRow, new: Mapping[str, Inventory]) -> ShapeChange:
    """Return the first half of a reshape: what a provider will have is there, and what it had is there still.

    A step of generation, as upstream counts, unless it is to have nothing.
    """
    return replace(no_change(row, generation_steps=1 if new else 0), inventories_set=_changed(row, new))


def decide_final_shape(
    row: ProviderRow, new: Mapping[str, Inventory], used_change: Mapping[AllocationKey, int]
) -> tuple[ShapeChange, tuple[str, ...]]:
    """Return the second half, in which the old inventories go, and those of them that are in use after the claims."""
    gone = frozenset(row.inventories) - frozenset(new)
    changes = {name: used_change.get((row.id, row.resource_class_ids[name]), 0) for name in gone}
    used = [name for name in gone if row.used[name] + changes[name] > 0]
    in_use = tuple(sorted(used, key=row.resource_class_ids.__getitem__))
    return replace(no_change(row, generation_steps=1), inventories_gone=gone), in_use
