"""SQL of the import: read the whole ledger at once, and keep everybody else from writing to it."""

from collections.abc import Sequence

import asyncpg

from roost.placement.model import ImportedProvider, LastImport, LedgerState
from roost.placement.store import claims as claims_store
from roost.placement.store import providers as providers_store
from roost.platform.database import Connection
from roost.platform.structs import copy_as

HAS_LEDGER = """-- placement.has_ledger
SELECT to_regclass('placement.provider') IS NOT NULL
"""


async def has_ledger(tx: Connection) -> bool:
    """Return whether the database has a ledger at all."""
    return bool(await tx.fetchval(HAS_LEDGER))


LOCK_PROVIDER_TABLE = """-- placement.lock_provider_table
LOCK TABLE placement.provider IN EXCLUSIVE MODE
"""

LOCK_OTHER_TABLES = """-- placement.lock_other_tables
LOCK TABLE placement.consumer, placement.resource_class, placement.trait IN EXCLUSIVE MODE NOWAIT
"""


async def lock_ledger(tx: Connection) -> bool:
    """Keep every other writer out until the end of the transaction; False, and it must end, if one has to pass first.

    Writers take names and consumers before providers, or new consumers after them: who holds the table of providers
    must not wait for another one, or a claim would wait for it and it for the claim.
    """
    await tx.execute(LOCK_PROVIDER_TABLE)
    try:
        await tx.execute(LOCK_OTHER_TABLES)
    except asyncpg.LockNotAvailableError:
        return False
    return True


READ_NAMES = """-- placement.read_names
SELECT ARRAY(SELECT name FROM placement.resource_class), ARRAY(SELECT name FROM placement.trait)
"""


async def read_ledger(tx: Connection) -> LedgerState:
    """Return all of it. Cost: by the ledger; the transaction must see one instant, or hold `lock_ledger`."""
    rows = await providers_store.list_all(tx)
    uuids = {row.id: row.uuid for row in rows}
    classes, traits = await tx.fetchrow(READ_NAMES)
    return LedgerState(
        resource_classes=frozenset(classes),
        traits=frozenset(traits),
        providers={
            row.uuid: copy_as(
                ImportedProvider, row, parent_uuid=None if row.parent_id is None else uuids[row.parent_id]
            )
            for row in rows
        },
        consumers=await claims_store.get_consumers(tx),
    )  # fmt: skip


HAS_IMPORTED = """-- placement.has_imported
SELECT to_regclass('placement.imported') IS NOT NULL
"""

READ_IMPORTED = """-- placement.read_imported
SELECT is_provider, uuid, generation FROM placement.imported
"""


async def read_last_import(tx: Connection) -> LastImport:
    """Return what the last import left, also of a database that is not up to date: nothing. Cost: by the ledger."""
    generations: dict[bool, dict[str, int]] = {True: {}, False: {}}
    if await tx.fetchval(HAS_IMPORTED):
        for is_provider, uuid, generation in await tx.fetch(READ_IMPORTED):
            generations[is_provider][uuid] = generation
    return LastImport(providers=generations[True], consumers=generations[False])


FORGET_IMPORTED = """-- placement.forget_imported
DELETE FROM placement.imported
"""

NOTE_IMPORTED = """-- placement.note_imported
INSERT INTO placement.imported (is_provider, uuid, generation)
SELECT true, uuid, generation FROM placement.provider WHERE uuid <> ALL($1::uuid[])
UNION ALL SELECT false, uuid, generation FROM placement.consumer WHERE uuid <> ALL($2::uuid[])
"""


async def note_import(tx: Connection, *, providers_own: Sequence[str], consumers_own: Sequence[str]) -> None:
    """Record the ledger as it is for `read_last_import`, but for what was written in Roost. Cost: by the ledger."""
    await tx.execute(FORGET_IMPORTED)
    await tx.execute(NOTE_IMPORTED, providers_own, consumers_own)


FREE_NAMES = """-- placement.free_names
UPDATE placement.provider SET name = 'roost import ' || uuid WHERE uuid = ANY($1::uuid[])
"""


async def free_names(tx: Connection, uuids: Sequence[str]) -> None:
    """Rename these providers as no other is called: two of them may be about to exchange theirs."""
    await tx.execute(FREE_NAMES, uuids)
