"""The import: makes the ledger as another placement service's, in one transaction that nobody sees half done."""

import asyncio

import msgspec
from msgspec import Struct

from roost.placement.model import (
    NO_TYPE,
    Changes,
    ConsumerWrite,
    ImportedProvider,
    Kind,
    LedgerState,
    NameKind,
    ProviderPlace,
)
from roost.placement.rules.imports import NO_IMPORT, LeftOut, Plan, leave_out_impossible, make_plan
from roost.placement.rules.shapes import decide_shape, no_change
from roost.placement.service.claims import write_shapes
from roost.placement.service.ledger import STANDARD_NAMES, Ledger, sync_standard_names
from roost.placement.store import audit as audit_store
from roost.placement.store import claims as claims_store
from roost.placement.store import imports as imports_store
from roost.placement.store import names as names_store
from roost.placement.store import providers as providers_store
from roost.platform.database import Connection
from roost.platform.errors import Conflict, Retry
from roost.platform.structs import copy_as
from roost.seams.placement import ConsumerState, ProviderState

LOCK_ROUNDS_MAX = 200
LOCK_PAUSE_S = 0.05
BATCH_MAX = 1000
"""Providers or consumers that are written together: no statement comes near the time that one may take."""


class LedgerBusy(Conflict):
    """Others write to Roost's ledger all the time: stop them, or try again."""

    retry = Retry.NOW


class Imported(Struct, frozen=True):
    """What differed, what was not taken, and whether anything was written: never when there are obstacles."""

    plan: Plan
    left_out: tuple[LeftOut, ...]
    written: bool


async def read_state(ledger: Ledger) -> LedgerState:
    """Return the whole ledger as of one instant."""
    async with ledger.database.transaction(snapshot=True) as tx:
        return await imports_store.read_ledger(tx)


async def compare_ledger(ledger: Ledger | None, source: LedgerState, *, delete: bool, overwrite: bool) -> Imported:
    """Return what `import_ledger` would do. ledger: None, or a database without one, counts as empty."""
    whole, left_out = leave_out_impossible(source)
    here, last = LedgerState(providers={}, consumers={}), NO_IMPORT
    if ledger is not None:
        async with ledger.database.transaction(snapshot=True) as tx:
            if await imports_store.has_ledger(tx):
                here, last = await imports_store.read_ledger(tx), await imports_store.read_last_import(tx)
    # Standard names are in the ledger as soon as anything runs on it.
    here = msgspec.structs.replace(
        here,
        resource_classes=here.resource_classes | STANDARD_NAMES[NameKind.RESOURCE_CLASS],
        traits=here.traits | STANDARD_NAMES[NameKind.TRAIT],
    )
    return Imported(make_plan(whole, here, last, delete=delete, overwrite=overwrite), left_out, written=False)


async def import_ledger(ledger: Ledger, source: LedgerState, *, delete: bool, overwrite: bool) -> Imported:
    """Make the ledger as the source, but for what only Roost has without `delete`. Raises LedgerBusy.

    Claims are taken over as they are, whatever the capacity. Writers wait meanwhile, readers do not, and neither does
    when there is nothing to write.
    """
    seen = await compare_ledger(ledger, source, delete=delete, overwrite=overwrite)
    if seen.plan.obstacles or not seen.plan.writes:
        return seen
    await sync_standard_names(ledger)
    whole, left_out = leave_out_impossible(source)
    for _ in range(LOCK_ROUNDS_MAX):
        async with ledger.database.transaction() as tx:
            if await imports_store.lock_ledger(tx):
                here = await imports_store.read_ledger(tx)
                last = await imports_store.read_last_import(tx)
                plan = make_plan(whole, here, last, delete=delete, overwrite=overwrite)
                if not plan.obstacles:
                    await _write(ledger, tx, plan)
                return Imported(plan, left_out, written=not plan.obstacles)
        await asyncio.sleep(LOCK_PAUSE_S)
    raise LedgerBusy()


async def _write(ledger: Ledger, tx: Connection, plan: Plan) -> None:
    """Make the locked ledger as planned.

    Every other writer waits, so the order only has to suit the tables' constraints: names are unique, parents exist.
    """
    await names_store.insert_names(tx, NameKind.RESOURCE_CLASS, plan.new(Kind.RESOURCE_CLASS))
    await names_store.insert_names(tx, NameKind.TRAIT, plan.new(Kind.TRAIT))
    await imports_store.free_names(tx, [*(provider.uuid for provider in plan.providers), *plan.gone(Kind.PROVIDER)])
    known = await claims_store.lock_providers(tx, [provider.uuid for provider in plan.providers])
    if new := [(item.uuid, item.name, None) for item in plan.providers if item.uuid not in known]:
        await providers_store.insert_providers(tx, new)
    providers = {provider.uuid: provider for provider in plan.providers}
    touched = sorted(plan.providers_touched)
    for start in range(0, len(touched), BATCH_MAX):
        await _write_providers(ledger, tx, plan, providers, touched[start : start + BATCH_MAX])
    consumers = {**dict.fromkeys(plan.gone(Kind.CONSUMER)), **{state.consumer_uuid: state for state in plan.consumers}}
    uuids = sorted(consumers)
    for start in range(0, len(uuids), BATCH_MAX):
        await _write_consumers(tx, {uuid: consumers[uuid] for uuid in uuids[start : start + BATCH_MAX]})
    await _delete_providers(tx, plan.gone(Kind.PROVIDER))
    if wrong := [row.place for row in await audit_store.list_wrong_roots(tx)]:
        await providers_store.update_places(tx, wrong)
    ids = sorted((await claims_store.lock_providers(tx, touched)).values())
    for start in range(0, len(ids), BATCH_MAX):
        await audit_store.sum_uses(tx, ids[start : start + BATCH_MAX])
    await names_store.delete_unused(tx, NameKind.RESOURCE_CLASS, plan.gone(Kind.RESOURCE_CLASS))
    await names_store.delete_unused(tx, NameKind.TRAIT, plan.gone(Kind.TRAIT))
    await imports_store.note_import(tx, providers_own=plan.providers_own, consumers_own=plan.consumers_own)


async def _write_providers(
    ledger: Ledger, tx: Connection, plan: Plan, providers: dict[str, ImportedProvider], uuids: list[str]
) -> None:
    """Write what the touched providers have, where they are, and their generations."""
    parents = {provider.parent_uuid for uuid in uuids if (provider := providers.get(uuid)) and provider.parent_uuid}
    rows = await providers_store.lock_provider_rows(tx, sorted({*uuids, *parents}))
    shapes, places = [], []
    for uuid in uuids:
        provider, row = providers.get(uuid), rows[uuid]
        if provider is None:
            shapes.append(no_change(row, generation_steps=int(uuid in plan.providers_raised)))
            continue
        state = copy_as(ProviderState, provider, parent_uuid=None)
        shape = decide_shape(state, row)[0] or no_change(row, generation_steps=0)
        shapes.append(msgspec.structs.replace(shape, generation_steps=provider.generation - row.generation))
        parent_id = None if provider.parent_uuid is None else rows[provider.parent_uuid].id
        places.append(ProviderPlace(row.id, parent_id, row.root_id))
    await write_shapes(ledger, tx, shapes)
    if places:
        await providers_store.update_places(tx, places)


async def _write_consumers(tx: Connection, states: dict[str, ConsumerState | None]) -> None:
    """Write what the consumers hold; None: nothing. What is in use of the providers is summed afterwards."""
    rows = await claims_store.lock_consumers(tx, list(states))
    provider_ids = await claims_store.lock_providers(
        tx, {at for state in states.values() if state for at in state.allocations}
    )
    names = {
        name for state in states.values() if state for resources in state.allocations.values() for name in resources
    }
    class_ids = await names_store.list_ids(tx, NameKind.RESOURCE_CLASS, sorted(names))
    writes = []
    for uuid, state in states.items():
        created = uuid not in rows
        if state is None:
            writes.append(ConsumerWrite(uuid, 0, None, "", "", created, {}))
            continue
        consumer_type = state.consumer_type or (None if created else NO_TYPE)
        lines = {
            (provider_ids[at], class_ids[name]): amount
            for at, resources in state.allocations.items()
            for name, amount in resources.items()
        }
        writes.append(
            ConsumerWrite(uuid, state.generation, consumer_type, state.project_id, state.user_id, created, lines)
        )
    ids = frozenset(provider_ids.values())
    await claims_store.write_changes(
        tx, Changes(consumers=tuple(writes), used={}, provider_ids=ids, generation_steps=0)
    )


async def _delete_providers(tx: Connection, uuids: list[str]) -> None:
    """Delete providers that hold nothing any more, children before their parents."""
    remaining = sorted((await claims_store.lock_providers(tx, uuids)).values())
    while remaining:
        busy = await providers_store.delete_providers(tx, remaining)
        assert len(busy) < len(remaining), "each round deletes those without children"
        remaining = sorted(busy)
