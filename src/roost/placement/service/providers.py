"""The ledger's operations on one provider, as the API offers them: one function, one transaction.

Every change of what a provider has raises its generation, and is refused if the caller looked at another one.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from roost.placement.errors import (
    ConcurrentUpdate,
    InventoryInUse,
    InventoryMalformed,
    InventoryMissing,
    ProviderHasChildren,
    ProviderInUse,
    ProviderMalformed,
    ProviderNameTaken,
    ProviderNotFound,
    ResourceClassNotFound,
)
from roost.placement.model import NameKind, ProviderHead, ProviderRow, ShapeChange
from roost.placement.rules.neutron import is_segment, limit_by_truth
from roost.placement.rules.shapes import decide_parent, decide_shape, no_change
from roost.placement.service.claims import write_shapes
from roost.placement.service.ledger import Ledger
from roost.placement.service.names import keep_names
from roost.placement.store import claims as claims_store
from roost.placement.store import providers as providers_store
from roost.platform.database import Connection
from roost.seams.placement import IPV4_ADDRESS, Inventory, ProviderState

IN_USE = "Inventory for '{}' on resource provider '{}' in use."

Inventories = Mapping[str, Inventory]


async def create_provider(ledger: Ledger, *, uuid: str, name: str, parent_uuid: str | None) -> ProviderHead:
    """Make a provider, below a parent if one is named. Raises ProviderMalformed, ProviderNameTaken."""
    if not name:
        raise ProviderMalformed(f'Unable to create resource provider "", {uuid}: name is required.')
    opening = f'Unable to create resource provider "{name}", {uuid}: '
    if parent_uuid == uuid:
        raise ProviderMalformed(
            f"{opening}parent provider UUID cannot be same as UUID. Please set parent provider UUID to None if "
            "there is no parent."
        )
    async with ledger.database.transaction() as tx:
        await providers_store.lock_names(tx, shared=True)
        if parent_uuid is not None and not await providers_store.lock_parent(tx, parent_uuid):
            raise ProviderMalformed(f"{opening}parent provider UUID does not exist.")
        await providers_store.insert_providers(tx, [(uuid, name, parent_uuid)])
        return await providers_store.get_head(tx, uuid)


async def update_provider(
    ledger: Ledger, uuid: str, *, name: str, parent: tuple[str | None] | None, may_reparent: bool
) -> ProviderHead:
    """Rename a provider and, unless parent is None, put it below another one or, with (None,), below none.

    Its generation stays. Raises ProviderNotFound, ProviderMalformed, ProviderNameTaken.
    """
    async with ledger.database.transaction() as tx:
        await providers_store.lock_names(tx)
        await _move(tx, uuid, parent, may_reparent=may_reparent)
        row = await _lock(tx, uuid)
        try:
            await write_shapes(ledger, tx, [replace(no_change(row, generation_steps=0), name=name)])
        except ProviderNameTaken as error:
            raise ProviderNameTaken(f"Conflicting resource provider {name} already exists.") from error
        return await providers_store.get_head(tx, uuid)


async def _move(tx: Connection, uuid: str, parent: tuple[str | None] | None, *, may_reparent: bool) -> None:
    if parent is None:
        return
    (parent_uuid,) = parent
    uuids = [uuid] if parent_uuid is None else [uuid, parent_uuid]
    places = await providers_store.lock_trees(tx, uuids)
    if uuid not in places:
        raise ProviderNotFound(f"No resource provider with uuid {uuid} found")
    opening = f"Unable to save resource provider {uuid}: "
    if parent_uuid is not None and parent_uuid not in places:
        raise ProviderMalformed(f"{opening}parent provider UUID does not exist.")
    try:
        moved = decide_parent(
            list(places.values()),
            provider_id=places[uuid].id,
            parent_id=None if parent_uuid is None else places[parent_uuid].id,
            may_reparent=may_reparent,
        )
    except ProviderMalformed as error:
        raise ProviderMalformed(f"{opening}{error}") from error
    if moved:
        await providers_store.update_places(tx, moved.values())


async def delete_provider(ledger: Ledger, uuid: str) -> None:
    """Delete a provider. Raises ProviderNotFound, ProviderHasChildren, ProviderInUse."""
    async with ledger.database.transaction() as tx:
        ids = await claims_store.lock_providers(tx, [uuid])
        if not ids:
            raise ProviderNotFound(f"No resource provider with uuid {uuid} found for delete")
        busy = await providers_store.delete_providers(tx, list(ids.values()))
    if busy and busy[ids[uuid]]:
        raise ProviderHasChildren(f"Unable to delete parent resource provider {uuid}: It has child resource providers.")
    if busy:
        ledger.wake_poller(IPV4_ADDRESS)  # Neutron deletes a segment's provider once: the round returns its claims
        raise ProviderInUse(f"Unable to delete resource provider {uuid}: Resource provider has allocations.")


async def set_inventories(ledger: Ledger, uuid: str, inventories: Inventories, *, generation: int) -> int:
    """Set the inventories, and no others; return the provider's new generation.

    While Neutron is polled, it tells of a new segment's addresses with this, and is asked for them.
    Raises ProviderNotFound, ConcurrentUpdate, ResourceClassNotFound, InventoryInUse.
    """

    def decide(row: ProviderRow) -> Inventories:
        _check_generation(row, generation, "resource provider generation conflict")
        return inventories

    try:
        generation = await _change_inventories(ledger, uuid, decide, new=inventories)
    except InventoryInUse as error:
        raise InventoryInUse(f"update conflict: {error}") from error
    except ResourceClassNotFound as error:
        opening = f"Unknown resource class in inventory for resource provider {uuid}"
        raise ResourceClassNotFound(f"{opening}: {error}") from error
    for resource_class in inventories:
        ledger.wake_poller(resource_class)
    return generation


async def add_inventory(ledger: Ledger, uuid: str, resource_class: str, inventory: Inventory) -> int:
    """Add an inventory; return the provider's new generation.

    Raises ProviderNotFound, ConcurrentUpdate if there is one of the class already, ResourceClassNotFound.
    """

    def decide(row: ProviderRow) -> Inventories:
        if resource_class in row.inventories:
            raise ConcurrentUpdate(f"Update conflict: there is inventory of class {resource_class} already.")
        return {**row.inventories, resource_class: inventory}

    try:
        return await _change_inventories(ledger, uuid, decide, new={resource_class: inventory})
    except ResourceClassNotFound as error:
        opening = f"Unable to create inventory for resource provider {uuid}"
        raise ResourceClassNotFound(f"{opening}: {error}") from error


async def update_inventory(
    ledger: Ledger, uuid: str, resource_class: str, inventory: Inventory, *, generation: int
) -> int:
    """Change one inventory that there is; returns the provider's new generation.

    While Neutron is polled, it tells of its segments' addresses with this, and is asked for them.
    Raises ProviderNotFound, ConcurrentUpdate, InventoryMalformed if there is none of the class.
    """

    def decide(row: ProviderRow) -> Inventories:
        _check_generation(row, generation, "resource provider generation conflict")
        if resource_class not in row.inventories:
            raise InventoryMalformed(
                f"No inventory record with resource class for resource provider {uuid}: "
                f"No inventory of class {resource_class} found."
            )
        before = row.inventories[resource_class]
        is_computed = ledger.neutron is not None and resource_class == IPV4_ADDRESS and is_segment(row)
        return {**row.inventories, resource_class: limit_by_truth(before, inventory) if is_computed else inventory}

    try:
        return await _change_inventories(ledger, uuid, decide)
    finally:
        ledger.wake_poller(resource_class)  # also when it is refused: Neutron gives up then, and what it meant is so


async def delete_inventory(ledger: Ledger, uuid: str, resource_class: str) -> None:
    """Drop one inventory. Raises ProviderNotFound, InventoryMissing, ConcurrentUpdate if it is in use."""

    def decide(row: ProviderRow) -> Inventories:
        if resource_class not in row.inventories:
            text = f"No inventory of class {resource_class} found for delete"
            raise InventoryMissing(f"{text}: {text}")
        return {name: inventory for name, inventory in row.inventories.items() if name != resource_class}

    try:
        await _change_inventories(ledger, uuid, decide)
    except InventoryInUse as error:
        raise ConcurrentUpdate(f"Unable to delete inventory of class {resource_class}: {error}") from error


async def delete_inventories(ledger: Ledger, uuid: str) -> None:
    """Drop every inventory. Raises ProviderNotFound, InventoryInUse."""
    await _change_inventories(ledger, uuid, lambda _row: {})


async def set_traits(ledger: Ledger, uuid: str, traits: frozenset[str], *, generation: int | None) -> int:
    """Set the traits, and no others; return the provider's generation, which grows if they are other ones.

    generation: the one that was looked at, None for whatever it is. Raises ProviderNotFound, ConcurrentUpdate,
    TraitNotFound.
    """
    async with ledger.database.transaction() as tx:
        await keep_names(ledger, tx, NameKind.TRAIT, traits)
        row = await _lock(tx, uuid)
        _check_generation(row, generation, CHANGED_ALREADY)
        shape, _ = decide_shape(ProviderState(uuid=uuid, name=row.name, traits=traits), row)
        if shape is not None:
            await write_shapes(ledger, tx, [shape])
    return row.generation + (shape is not None)


CHANGED_ALREADY = "Resource provider's generation already changed. Please update the generation and try again."


async def set_aggregates(ledger: Ledger, uuid: str, aggregates: frozenset[str], *, generation: int | None) -> int:
    """Set a provider's placement aggregates; returns its generation.

    generation: the one that was looked at, then it grows; None for whatever it is, then it stays (before 1.19).
    Raises ProviderNotFound, ConcurrentUpdate.
    """
    steps = 0 if generation is None else 1
    async with ledger.database.transaction() as tx:
        row = await _lock(tx, uuid)
        _check_generation(row, generation, CHANGED_ALREADY)
        state = ProviderState(uuid=uuid, name=row.name, placement_aggregates=aggregates)
        shape, _ = decide_shape(state, row)
        await write_shapes(ledger, tx, [_stepping(shape, row, steps)])
    return row.generation + steps


async def _change_inventories(
    ledger: Ledger,
    uuid: str,
    decide: Callable[[ProviderRow], Inventories],
    *,
    new: Inventories | None = None,
) -> int:
    """Write the inventories that are decided on; `new` are those whose class may have none yet."""
    async with ledger.database.transaction() as tx:
        await keep_names(ledger, tx, NameKind.RESOURCE_CLASS, set(new or ()))
        row = await _lock(tx, uuid)
        state = ProviderState(uuid=uuid, name=row.name, inventories=decide(row))
        shape, in_use = decide_shape(state, row)
        if in_use:
            names = sorted(in_use, key=row.resource_class_ids.__getitem__)
            raise InventoryInUse(IN_USE.format(", ".join(names), uuid))
        await write_shapes(ledger, tx, [_stepping(shape, row, 1)])
    return row.generation + 1


def _stepping(shape: ShapeChange | None, row: ProviderRow, steps: int) -> ShapeChange:
    """Return the change with so many steps of generation, even when nothing else changes."""
    if shape is None:
        return no_change(row, generation_steps=steps)
    return replace(shape, generation_steps=steps)


async def _lock(tx: Connection, uuid: str) -> ProviderRow:
    row = (await providers_store.lock_provider_rows(tx, [uuid])).get(uuid)
    if row is None:
        raise ProviderNotFound(f"No resource provider with uuid {uuid} found")
    return row


def _check_generation(row: ProviderRow, generation: int | None, text: str) -> None:
    if generation is not None and row.generation != generation:
        raise ConcurrentUpdate(text)
