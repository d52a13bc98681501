"""Decides what must change of a provider to make it as it should be: what it has, where it is, how a reshape goes."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from roost.placement.errors import ProviderMalformed
from roost.placement.model import AllocationKey, InventoryRow, ProviderPlace, ProviderRow, ShapeChange
from roost.seams.placement import Inventory, ProviderState


def decide_shape(state: ProviderState, row: ProviderRow) -> tuple[ShapeChange | None, frozenset[str]]:
    """What to write, None for nothing; and the resource classes whose inventory should go but is in use."""
    held = {name: inventory for name, (inventory, _used) in row.inventories.items()}
    wanted = held if state.inventories is None else dict(state.inventories)
    if state.inventories is not None and state.managed_classes is not None:
        wanted = {name: item for name, item in held.items() if name not in state.managed_classes} | wanted
    kept = row.traits - state.managed_traits if state.managed_traits is not None else frozenset[str]()
    traits = row.traits if state.traits is None else state.traits | kept
    aggregates = row.placement_aggregates if state.placement_aggregates is None else state.placement_aggregates
    gone = frozenset(held) - frozenset(wanted)
    in_use = frozenset(name for name in gone if row.inventories[name][1] > 0)
    change = ShapeChange(
        provider_id=row.id,
        name=state.name,
        inventories_set={name: inventory for name, inventory in wanted.items() if held.get(name) != inventory},
        inventories_gone=gone,
        traits_new=traits - row.traits,
        traits_gone=row.traits - traits,
        aggregates_new=aggregates - row.placement_aggregates,
        aggregates_gone=row.placement_aggregates - aggregates,
        held_class_ids=row.resource_class_ids,
    )
    parts = (
        change.inventories_set, gone, change.traits_new, change.traits_gone, change.aggregates_new,
        change.aggregates_gone, state.name != row.name,
    )  # fmt: skip
    return (change if any(parts) else None), in_use


def no_change(row: ProviderRow, *, generation_steps: int) -> ShapeChange:
    """Nothing but a higher generation."""
    nothing: frozenset[str] = frozenset()
    return ShapeChange(
        provider_id=row.id, name=row.name, inventories_set={}, inventories_gone=nothing, traits_new=nothing,
        traits_gone=nothing, aggregates_new=nothing, aggregates_gone=nothing, held_class_ids=row.resource_class_ids,
        generation_steps=generation_steps,
    )  # fmt: skip


def decide_parent(
    places: Sequence[ProviderPlace], *, provider_id: int, parent_id: int | None, may_reparent: bool
) -> Mapping[int, ProviderPlace]:
    """The places that change when a provider gets another parent, or none: its own and those below it, by id.

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
    """What claims within a reshape may use of a provider: what it had, with what it will have in place of it."""
    for name in {**row.inventories, **new}:
        held, used = row.inventories.get(name, (None, 0))
        inventory = new.get(name, held)
        assert inventory is not None, "it is in one of the two"
        yield (
            name,
            InventoryRow(inventory.capacity, inventory.min_unit, inventory.max_unit, inventory.step_size, used),
        )


def decide_interim_shape(row: ProviderRow, new: Mapping[str, Inventory]) -> ShapeChange:
    """The first half of a reshape: what a provider will have is there, what it had is still there too.

    A step of generation, as upstream counts, unless it is to have nothing.
    """
    sets = {name: inventory for name, inventory in new.items() if row.inventories.get(name, (None, 0))[0] != inventory}
    return replace(no_change(row, generation_steps=1 if new else 0), inventories_set=sets)


def decide_final_shape(
    row: ProviderRow,
    new: Mapping[str, Inventory],
    used_change: Mapping[AllocationKey, int],
) -> tuple[ShapeChange, tuple[str, ...]]:
    """The second half: what a provider is not to have any more goes; and what of it is in use after the claims."""
    gone = [name for name in row.inventories if name not in new]
    in_use = tuple(
        name
        for name in gone
        if row.inventories[name][1] + used_change.get((row.id, row.resource_class_ids[name]), 0) > 0
    )
    return replace(no_change(row, generation_steps=1), inventories_gone=frozenset(gone)), in_use
