"""The import: makes the ledger as another placement service's, in one transaction that nobody sees half done."""

import asyncio

import msgspec
from msgspec import Struct

from roost.placement.rules.imports import LedgerState, LeftOut, Plan, leave_out_impossible, make_plan
from roost.placement.service.ledger import STANDARD_CLASSES, STANDARD_TRAITS, Ledger, sync_standard_names
from roost.placement.store import imports as imports_store
from roost.platform.errors import Conflict, Retry

LOCK_ROUNDS_MAX = 200
LOCK_PAUSE_S = 0.05


class LedgerBusy(Conflict):
    """Others write to Roost's ledger all the time: stop them, or try again."""

    retry = Retry.NOW


class Imported(Struct, frozen=True):
    """What differed, what was not taken, and whether anything was written: never when there are obstacles."""

    plan: Plan
    left_out: tuple[LeftOut, ...]
    written: bool


async def compare_ledger(ledger: Ledger | None, source: LedgerState, *, delete: bool, overwrite: bool) -> Imported:
    """What `import_ledger` would do; nothing is written. ledger: None, or a database without one, counts as empty."""
    whole, left_out = leave_out_impossible(source)
    here = LedgerState(providers={}, consumers={})
    if ledger is not None:
        async with ledger.database.transaction(snapshot=True) as tx:
            if await imports_store.has_ledger(tx):
                here = await imports_store.read_ledger(tx)
    # Standard names are in the ledger as soon as anything runs on it.
    here = msgspec.structs.replace(
        here,
        resource_classes=here.resource_classes | STANDARD_CLASSES,
        traits=here.traits | STANDARD_TRAITS,
    )
    return Imported(make_plan(whole, here, delete=delete, overwrite=overwrite), left_out, written=False)


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
                plan = make_plan(whole, here, delete=delete, overwrite=overwrite)
                if not plan.obstacles:
                    await imports_store.write_plan(tx, plan)
                return Imported(plan, left_out, written=not plan.obstacles)
        await asyncio.sleep(LOCK_PAUSE_S)
    raise LedgerBusy()
