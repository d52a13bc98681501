"""The reshape: inventories of several providers and the allocations on them change in one step, or not at all."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from roost.placement.errors import ConcurrentUpdate, InventoryInUse, ReshapeProviderNotFound
from roost.placement.model import LockedLedger, NameKind, ProviderRow, ShapeChange
from roost.placement.rules.claims import decide_claims
from roost.placement.rules.implied import with_whole_units
from roost.placement.rules.shapes import decide_final_shape, decide_interim_shape, interim_inventories
from roost.placement.service.claims import CLAIM_ROUNDS_MAX, ensure_providers, write_shapes
from roost.placement.service.ledger import Ledger
from roost.placement.service.names import find_ids, keep_names
from roost.placement.store import claims as claims_store
from roost.placement.store import providers as providers_store
from roost.platform.database import Connection
from roost.platform.retries import retried
from roost.seams.placement import (
    Claimed,
    ClaimGroup,
    ConsumerClaim,
    Inventory,
    ProviderState,
    Refused,
    Rule,
    Shortfall,
)


class NewInventories(Struct, frozen=True):
    """What a provider is to have from now on. generation: the one that was looked at; None: whatever it is."""

    generation: int | None
    inventories: Mapping[str, Inventory]


class _MadeMeanwhile(ConcurrentUpdate):
    """Another claim made one of the consumers at the same time."""


@retried(_MadeMeanwhile, most=CLAIM_ROUNDS_MAX)
async def reshape(
    ledger: Ledger, inventories: Mapping[str, NewInventories], claims: Sequence[ConsumerClaim]
) -> Claimed | Refused:
    """Set inventories, by provider UUID, and claims, all or nothing.

    The claims are checked against what there was and what there will be, together; an inventory that goes must be
    unused after them. Raises ReshapeProviderNotFound, ConcurrentUpdate, ResourceClassNotFound, InventoryInUse.
    """
    async with ledger.database.transaction() as tx:
        return await _reshape(ledger, tx, inventories, claims)


async def reshape_states(
    ledger: Ledger, states: Sequence[ProviderState], claims: Sequence[ConsumerClaim]
) -> Claimed | Refused:
    """See ProviderClient.reshape; raises what service.ensure_providers does, but for inventories that are in use."""
    await ensure_providers(ledger, [msgspec.structs.replace(state, inventories=None) for state in states])
    inventories = {
        state.uuid: NewInventories(None, state.inventories) for state in states if state.inventories is not None
    }
    try:
        return await reshape(ledger, inventories, claims)
    except InventoryInUse:
        return Refused(tuple(Shortfall(rule=Rule.IN_USE, consumer_uuid="", provider_uuid=uuid) for uuid in inventories))


async def _reshape(
    ledger: Ledger, tx: Connection, inventories: Mapping[str, NewInventories], claims: Sequence[ConsumerClaim]
) -> Claimed | Refused:
    classes = {name for new in inventories.values() for name in new.inventories}
    classes |= {name for claim in claims for resources in claim.allocations.values() for name in resources}
    await keep_names(ledger, tx, NameKind.RESOURCE_CLASS, classes)
    consumers = await claims_store.lock_consumers(tx, [claim.consumer_uuid for claim in claims])
    rows = await providers_store.lock_provider_rows(
        tx,
        sorted({*inventories, *(uuid for claim in claims for uuid in claim.allocations)}),
        sorted({provider_id for row in consumers.values() for provider_id, _ in row.allocations}),
    )
    _check_providers(inventories, rows)
    class_ids = dict(await find_ids(ledger, tx, NameKind.RESOURCE_CLASS, classes | ledger.whole_classes))
    for row in rows.values():
        class_ids |= row.resource_class_ids
    locked = LockedLedger(
        provider_ids={uuid: row.id for uuid, row in rows.items()},
        resource_class_ids=class_ids,
        inventories={
            (row.id, class_ids[name]): line
            for uuid, row in rows.items()
            for name, line in interim_inventories(row, inventories[uuid].inventories if uuid in inventories else {})
        },
        consumers=consumers,
    )
    if ledger.whole_classes:
        locked, _ = with_whole_units(locked)
    (answer,), changes = decide_claims([ClaimGroup(tuple(claims))], locked, held_units_fit=False)
    if isinstance(answer, Refused):
        return answer
    interim: list[ShapeChange] = []
    final: list[ShapeChange] = []
    for uuid, new in inventories.items():
        interim.append(decide_interim_shape(rows[uuid], new.inventories))
        shape, in_use = decide_final_shape(rows[uuid], new.inventories, changes.used)
        if in_use:
            raise InventoryInUse(
                f"update conflict: Inventory for '{', '.join(in_use)}' on resource provider '{uuid}' in use."
            )
        final.append(shape)
    await write_shapes(ledger, tx, interim)
    if await claims_store.write_changes(tx, changes):
        raise _MadeMeanwhile("another claim made one of the consumers at the same time: read it and try again")
    await write_shapes(ledger, tx, final)
    return answer


def _check_providers(inventories: Mapping[str, NewInventories], rows: Mapping[str, ProviderRow]) -> None:
    for uuid, new in inventories.items():
        if uuid not in rows:
            raise ReshapeProviderNotFound(
                f"Resource provider {uuid} in inventories not found: No resource provider with uuid {uuid} found"
            )
        if new.generation is not None and rows[uuid].generation != new.generation:
            raise ConcurrentUpdate(
                f"resource provider generation conflict for provider {uuid}: actual: {rows[uuid].generation}, "
                f"given: {new.generation}"
            )
