"""SQL of the import: the whole ledger read at once, and a plan written at once, while nobody else writes.

Under the locks of `lock_ledger` every other writer of the ledger waits, so that the order of what is written only has
to suit the tables' own constraints: names are unique, parents exist. Readers see the ledger before it, or after.
"""

from collections import defaultdict
from collections.abc import Sequence

import asyncpg

from roost.placement.rules.imports import ImportedProvider, LedgerState, Plan
from roost.placement.store import claims as claims_store
from roost.placement.store import names as names_store
from roost.platform.database import Connection
from roost.seams.placement import ConsumerState, Inventory

ROWS_MAX = 10_000
"""Rows in one statement: each stays far below the time that a statement may take."""

HAS_LEDGER = """-- placement.has_ledger
SELECT to_regclass('placement.provider') IS NOT NULL
"""


async def has_ledger(tx: Connection) -> bool:
    """Whether the database has a ledger at all."""
    found: bool = await tx.fetchval(HAS_LEDGER)
    return found


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


READ_RESOURCE_CLASSES = """-- placement.read_resource_classes
SELECT name FROM placement.resource_class
"""

READ_TRAITS = """-- placement.read_traits
SELECT name FROM placement.trait
"""

READ_PROVIDERS = """-- placement.read_providers
SELECT p.uuid, p.name, p.generation, parent.uuid
FROM placement.provider p LEFT JOIN placement.provider parent ON parent.id = p.parent_id
"""

READ_INVENTORIES = """-- placement.read_inventories
SELECT p.uuid, r.name, i.total, i.reserved, i.min_unit, i.max_unit, i.step_size, i.allocation_ratio
FROM placement.inventory i JOIN placement.provider p ON p.id = i.provider_id
JOIN placement.resource_class r ON r.id = i.resource_class_id
"""

READ_PROVIDER_TRAITS = """-- placement.read_provider_traits
SELECT p.uuid, array_agg(t.name) FROM placement.provider_trait held
JOIN placement.provider p ON p.id = held.provider_id JOIN placement.trait t ON t.id = held.trait_id GROUP BY p.uuid
"""

READ_PROVIDER_AGGREGATES = """-- placement.read_provider_aggregates
SELECT p.uuid, array_agg(held.aggregate_uuid) FROM placement.provider_aggregate held
JOIN placement.provider p ON p.id = held.provider_id GROUP BY p.uuid
"""

READ_CONSUMERS = """-- placement.read_consumers
SELECT uuid, generation, consumer_type, project_id, user_id FROM placement.consumer
"""

READ_ALLOCATIONS = """-- placement.read_allocations
SELECT a.consumer_uuid, p.uuid, r.name, a.used
FROM placement.allocation a JOIN placement.provider p ON p.id = a.provider_id
JOIN placement.resource_class r ON r.id = a.resource_class_id
"""


async def read_ledger(tx: Connection) -> LedgerState:
    """All of it. Cost: by the ledger; the transaction must see one instant, or hold `lock_ledger`."""
    inventories: defaultdict[str, dict[str, Inventory]] = defaultdict(dict)
    alike: dict[tuple[object, ...], Inventory] = {}
    for uuid, name, *shape in await tx.fetch(READ_INVENTORIES):
        inventories[uuid][name] = alike.setdefault(tuple(shape), Inventory(*shape))
    traits = {uuid: frozenset(names) for uuid, names in await tx.fetch(READ_PROVIDER_TRAITS)}
    aggregates = {uuid: frozenset(uuids) for uuid, uuids in await tx.fetch(READ_PROVIDER_AGGREGATES)}
    held: defaultdict[str, defaultdict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    for consumer_uuid, provider_uuid, name, used in await tx.fetch(READ_ALLOCATIONS):
        held[consumer_uuid][provider_uuid][name] = used
    nothing: frozenset[str] = frozenset()
    return LedgerState(
        resource_classes=frozenset(row[0] for row in await tx.fetch(READ_RESOURCE_CLASSES)),
        traits=frozenset(row[0] for row in await tx.fetch(READ_TRAITS)),
        providers={
            uuid: ImportedProvider(
                uuid=uuid, name=name, generation=generation, parent_uuid=parent,
                inventories=inventories.get(uuid, {}), traits=traits.get(uuid, nothing),
                placement_aggregates=aggregates.get(uuid, nothing),
            )
            for uuid, name, generation, parent in await tx.fetch(READ_PROVIDERS)
        },
        consumers={
            uuid: ConsumerState(
                consumer_uuid=uuid, generation=generation, consumer_type=consumer_type, project_id=project_id,
                user_id=user_id, allocations=held.get(uuid, {}),
            )
            for uuid, generation, consumer_type, project_id, user_id in await tx.fetch(READ_CONSUMERS)
        },
    )  # fmt: skip


async def write_plan(tx: Connection, plan: Plan) -> None:
    """Make the locked ledger as planned, and tell every index."""
    await names_store.insert_resource_classes(tx, sorted(plan.resource_classes_new))
    await names_store.insert_traits(tx, sorted(plan.traits_new))
    await _delete_consumers(tx, plan)
    changed = await _write_providers(tx, plan)
    await _write_shapes(tx, plan.providers)
    await _write_consumers(tx, plan.consumers)
    changed |= await _sum_usage(tx, plan)
    await claims_store.record_reshaped(tx, sorted(changed))
    await tx.execute(DELETE_CLASSES, sorted(plan.resource_classes_gone))
    await tx.execute(DELETE_TRAITS, sorted(plan.traits_gone))


# How it is done.

DELETE_HOLDINGS = """-- placement.delete_holdings
DELETE FROM placement.allocation WHERE consumer_uuid = ANY($1::uuid[])
"""

DELETE_HOLDERS = """-- placement.delete_holders
DELETE FROM placement.consumer WHERE uuid = ANY($1::uuid[])
"""


async def _delete_consumers(tx: Connection, plan: Plan) -> None:
    """Those that are gone, and what those that are to be written hold."""
    await _execute(tx, DELETE_HOLDINGS, [(uuid,) for uuid in plan.consumers_gone])
    await _execute(tx, DELETE_HOLDINGS, [(one.consumer_uuid,) for one in plan.consumers])
    await _execute(tx, DELETE_HOLDERS, [(uuid,) for uuid in plan.consumers_gone])


FREE_NAMES = """-- placement.free_names
UPDATE placement.provider SET name = 'roost import ' || uuid WHERE uuid = ANY($1::uuid[])
"""

INSERT_IMPORTED_PROVIDERS = """-- placement.insert_imported_providers
INSERT INTO placement.provider (uuid, name, root_id) SELECT new.uuid, new.name, 0
FROM unnest($1::uuid[], $2::text[]) AS new (uuid, name) ON CONFLICT (uuid) DO NOTHING
"""

UPDATE_IMPORTED_PROVIDERS = """-- placement.update_imported_providers
UPDATE placement.provider AS held
SET name = new.name, generation = new.generation, parent_id = parent.id
FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::uuid[]) AS new (uuid, name, generation, parent_uuid)
LEFT JOIN placement.provider parent ON parent.uuid = new.parent_uuid
WHERE held.uuid = new.uuid
"""

DELETE_IMPORTED_PROVIDERS = """-- placement.delete_imported_providers
WITH gone AS (DELETE FROM placement.provider WHERE uuid = ANY($1::uuid[]) RETURNING id
), inventories AS (DELETE FROM placement.inventory WHERE provider_id IN (SELECT id FROM gone)
), traits AS (DELETE FROM placement.provider_trait WHERE provider_id IN (SELECT id FROM gone)
), aggregates AS (DELETE FROM placement.provider_aggregate WHERE provider_id IN (SELECT id FROM gone)
)
SELECT id FROM gone
"""

ROOT_TREES = """-- placement.root_trees
WITH RECURSIVE tree (id, root_id) AS (
    SELECT id, id FROM placement.provider WHERE parent_id IS NULL
    UNION ALL SELECT child.id, tree.root_id FROM placement.provider child JOIN tree ON child.parent_id = tree.id
)
UPDATE placement.provider AS held SET root_id = tree.root_id, updated_at = now()
FROM tree WHERE tree.id = held.id AND (held.root_id <> tree.root_id OR held.uuid = ANY($1::uuid[]))
RETURNING held.id
"""


async def _write_providers(tx: Connection, plan: Plan) -> set[int]:
    """Who there is, under which name and parent. Names are freed first: two may have changed places.

    Returns the ids of all that changed, those that are gone included.
    """
    changed: set[int] = set()
    written = [one.uuid for one in plan.providers]
    await _execute(tx, FREE_NAMES, [(uuid,) for uuid in (*written, *plan.providers_gone)])
    await _execute(tx, INSERT_IMPORTED_PROVIDERS, [(one.uuid, one.name) for one in plan.providers])
    await _execute(
        tx,
        UPDATE_IMPORTED_PROVIDERS,
        [(one.uuid, one.name, one.generation, one.parent_uuid) for one in plan.providers],
    )
    if plan.providers_gone:
        # In one statement, however many: children and parents go together.
        changed.update(row[0] for row in await tx.fetch(DELETE_IMPORTED_PROVIDERS, list(plan.providers_gone)))
    if written or changed:
        changed.update(row[0] for row in await tx.fetch(ROOT_TREES, written))
    return changed


CLEAR_INVENTORIES = """-- placement.clear_inventories
DELETE FROM placement.inventory
WHERE provider_id IN (SELECT id FROM placement.provider WHERE uuid = ANY($1::uuid[]))
"""

CLEAR_TRAITS = """-- placement.clear_traits
DELETE FROM placement.provider_trait
WHERE provider_id IN (SELECT id FROM placement.provider WHERE uuid = ANY($1::uuid[]))
"""

CLEAR_AGGREGATES = """-- placement.clear_aggregates
DELETE FROM placement.provider_aggregate
WHERE provider_id IN (SELECT id FROM placement.provider WHERE uuid = ANY($1::uuid[]))
"""

INSERT_IMPORTED_INVENTORIES = """-- placement.insert_imported_inventories
INSERT INTO placement.inventory
    (provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size, allocation_ratio)
SELECT p.id, r.id, new.total, new.reserved, new.min_unit, new.max_unit, new.step_size, new.allocation_ratio
FROM unnest(
    $1::uuid[], $2::text[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::integer[],
    $8::double precision[])
    AS new (uuid, class_name, total, reserved, min_unit, max_unit, step_size, allocation_ratio)
JOIN placement.provider p ON p.uuid = new.uuid JOIN placement.resource_class r ON r.name = new.class_name
"""

INSERT_IMPORTED_PROVIDER_TRAITS = """-- placement.insert_imported_provider_traits
INSERT INTO placement.provider_trait (provider_id, trait_id)
SELECT p.id, t.id FROM unnest($1::uuid[], $2::text[]) AS new (uuid, trait)
JOIN placement.provider p ON p.uuid = new.uuid JOIN placement.trait t ON t.name = new.trait
"""

INSERT_IMPORTED_PROVIDER_AGGREGATES = """-- placement.insert_imported_provider_aggregates
INSERT INTO placement.provider_aggregate (provider_id, aggregate_uuid)
SELECT p.id, new.aggregate_uuid FROM unnest($1::uuid[], $2::uuid[]) AS new (uuid, aggregate_uuid)
JOIN placement.provider p ON p.uuid = new.uuid
"""


async def _write_shapes(tx: Connection, providers: Sequence[ImportedProvider]) -> None:
    """What they have: all of it anew, as no one sees it in between."""
    uuids = [(one.uuid,) for one in providers]
    for statement in (CLEAR_INVENTORIES, CLEAR_TRAITS, CLEAR_AGGREGATES):
        await _execute(tx, statement, uuids)
    await _execute(
        tx,
        INSERT_IMPORTED_INVENTORIES,
        [
            (
                one.uuid, name, held.total, held.reserved, held.min_unit, held.max_unit, held.step_size,
                held.allocation_ratio,
            )
            for one in providers
            for name, held in one.inventories.items()
        ],
    )  # fmt: skip
    await _execute(
        tx, INSERT_IMPORTED_PROVIDER_TRAITS, [(one.uuid, trait) for one in providers for trait in one.traits]
    )
    await _execute(
        tx,
        INSERT_IMPORTED_PROVIDER_AGGREGATES,
        [(one.uuid, aggregate) for one in providers for aggregate in one.placement_aggregates],
    )


UPSERT_CONSUMERS = """-- placement.upsert_consumers
INSERT INTO placement.consumer (uuid, generation, consumer_type, project_id, user_id)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[])
ON CONFLICT (uuid) DO UPDATE SET generation = excluded.generation, consumer_type = excluded.consumer_type,
    project_id = excluded.project_id, user_id = excluded.user_id, updated_at = now()
"""

INSERT_IMPORTED_ALLOCATIONS = """-- placement.insert_imported_allocations
INSERT INTO placement.allocation (consumer_uuid, provider_id, resource_class_id, used)
SELECT new.consumer_uuid, p.id, r.id, new.used
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::integer[]) AS new (consumer_uuid, provider_uuid, class_name, used)
JOIN placement.provider p ON p.uuid = new.provider_uuid JOIN placement.resource_class r ON r.name = new.class_name
"""


async def _write_consumers(tx: Connection, consumers: Sequence[ConsumerState]) -> None:
    await _execute(
        tx,
        UPSERT_CONSUMERS,
        [(one.consumer_uuid, one.generation, one.consumer_type, one.project_id, one.user_id) for one in consumers],
    )
    await _execute(
        tx,
        INSERT_IMPORTED_ALLOCATIONS,
        [
            (one.consumer_uuid, at, name, used)
            for one in consumers
            for at, resources in one.allocations.items()
            for name, used in resources.items()
        ],
    )


SUM_USAGE = """-- placement.sum_usage
WITH touched AS (SELECT id FROM placement.provider WHERE uuid = ANY($1::uuid[])),
sums AS (
    SELECT provider_id, resource_class_id, sum(used) AS used FROM placement.allocation
    WHERE provider_id IN (SELECT id FROM touched) GROUP BY provider_id, resource_class_id
)
UPDATE placement.inventory AS held SET used = coalesce(sums.used, 0)
FROM placement.inventory AS line LEFT JOIN sums USING (provider_id, resource_class_id)
WHERE line.provider_id IN (SELECT id FROM touched)
    AND held.provider_id = line.provider_id AND held.resource_class_id = line.resource_class_id
"""

TOUCH_IMPORTED = """-- placement.touch_imported
UPDATE placement.provider SET generation = generation + (uuid = ANY($2::uuid[]))::integer, updated_at = now()
WHERE uuid = ANY($1::uuid[]) RETURNING id
"""


async def _sum_usage(tx: Connection, plan: Plan) -> set[int]:
    """Returns the ids of those whose use may be another."""
    await _execute(tx, SUM_USAGE, [(uuid,) for uuid in plan.providers_touched])
    rows = await tx.fetch(TOUCH_IMPORTED, list(plan.providers_touched), list(plan.providers_raised))
    return {row[0] for row in rows}


DELETE_CLASSES = """-- placement.delete_classes
DELETE FROM placement.resource_class r WHERE name = ANY($1::text[])
    AND NOT EXISTS (SELECT FROM placement.inventory i WHERE i.resource_class_id = r.id)
"""

DELETE_TRAITS = """-- placement.delete_traits
DELETE FROM placement.trait t WHERE name = ANY($1::text[])
    AND NOT EXISTS (SELECT FROM placement.provider_trait held WHERE held.trait_id = t.id)
"""


async def _execute(tx: Connection, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Run a statement that takes a column for each member of the rows; ROWS_MAX at a time."""
    for start in range(0, len(rows), ROWS_MAX):
        columns = zip(*rows[start : start + ROWS_MAX], strict=True)
        await tx.execute(statement, *(list(column) for column in columns))
