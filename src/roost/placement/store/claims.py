"""The ledger's statements that write, or read under a lock. The index's reads are in `index_store.py`.

Lock order, for every writer: names of resource classes and traits (names_store.py), the providers' names and places
(provider_store.py), consumers by UUID, providers by id; what is new is inserted last. A provider's lock guards its
inventories, traits, aggregates and allocations.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import asyncpg

from roost.placement.errors import ProviderNameTaken
from roost.placement.model import AllocationKey, Changes, ConsumerRow, InventoryRow, ProviderRow, ShapeChange
from roost.platform.database import Connection
from roost.seams.placement import ConsumerState, Inventory

LOCK_CONSUMERS = """-- placement.lock_consumers
SELECT uuid, generation FROM placement.consumer WHERE uuid = ANY($1::text::uuid[]) ORDER BY uuid FOR UPDATE
"""

LIST_ALLOCATIONS = """-- placement.list_allocations
SELECT consumer_uuid, provider_id, resource_class_id, used FROM placement.allocation
WHERE consumer_uuid = ANY($1::uuid[])
"""


async def lock_consumers(tx: Connection, uuids: Sequence[str]) -> dict[str, ConsumerRow]:
    """Lock the consumers that exist, with what they hold."""
    rows = await tx.fetch(LOCK_CONSUMERS, _literal(uuids))
    if not rows:
        return {}
    held: defaultdict[str, dict[AllocationKey, int]] = defaultdict(dict)
    for uuid, provider_id, resource_class_id, used in await tx.fetch(LIST_ALLOCATIONS, [row[0] for row in rows]):
        held[uuid][provider_id, resource_class_id] = used
    return {uuid: ConsumerRow(generation, held[uuid]) for uuid, generation in rows}


LOCK_PROVIDERS = """-- placement.lock_providers
SELECT id, uuid FROM placement.provider WHERE uuid = ANY($1::uuid[]) OR id = ANY($2::bigint[])
ORDER BY id FOR NO KEY UPDATE
"""


async def lock_providers(tx: Connection, uuids: Iterable[str], ids: Iterable[int] = ()) -> dict[str, int]:
    """Lock the providers that exist, named either way: uuid -> id."""
    return {row[1]: row[0] for row in await tx.fetch(LOCK_PROVIDERS, list(uuids), list(ids))}


LIST_INVENTORIES = """-- placement.list_inventories
SELECT provider_id, resource_class_id, least(trunc((total - reserved) * allocation_ratio), 2.0 ^ 62)::bigint,
    min_unit, max_unit, step_size, used
FROM placement.inventory WHERE provider_id = ANY($1::bigint[])
"""


async def list_inventories(tx: Connection, provider_ids: Sequence[int]) -> dict[AllocationKey, InventoryRow]:
    """The inventories of locked providers, for deciding claims."""
    rows = await tx.fetch(LIST_INVENTORIES, provider_ids)
    return {(row[0], row[1]): InventoryRow._make(row[2:]) for row in rows}


DELETE_CONSUMERS = """-- placement.delete_consumers
DELETE FROM placement.consumer WHERE uuid = ANY($1::uuid[])
"""

UPDATE_CONSUMERS = """-- placement.update_consumers
UPDATE placement.consumer AS held
SET generation = new.generation, consumer_type = nullif(coalesce(new.consumer_type, held.consumer_type), ''),
    project_id = new.project_id, user_id = new.user_id, updated_at = now()
FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[])
    AS new (uuid, generation, consumer_type, project_id, user_id)
WHERE held.uuid = new.uuid
"""

INSERT_CONSUMERS = """-- placement.insert_consumers
INSERT INTO placement.consumer (uuid, generation, consumer_type, project_id, user_id)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[])
    AS new (uuid, generation, consumer_type, project_id, user_id)
ORDER BY new.uuid ON CONFLICT DO NOTHING
"""

DELETE_ALLOCATIONS = """-- placement.delete_allocations
DELETE FROM placement.allocation WHERE consumer_uuid = ANY($1::uuid[])
"""

# One statement for all that every claim writes: each costs a way to the server and back. Its parts see nothing of each
# other but `made`: without all of the new consumers no allocation is inserted, which might be there already.
WRITE_CLAIMS = """-- placement.write_claims
WITH made AS (
    INSERT INTO placement.consumer (uuid, generation, consumer_type, project_id, user_id)
    SELECT new.uuid, new.generation, head.consumer_type, head.project_id, head.user_id
    FROM unnest($1::text::uuid[], $2::text::bigint[], $3::text::integer[]) AS new (uuid, generation, head)
    JOIN unnest($4::text[], $5::text[], $6::text[]) WITH ORDINALITY
        AS head (consumer_type, project_id, user_id, number) ON head.number = new.head
    ORDER BY new.uuid ON CONFLICT DO NOTHING RETURNING 1
), taken AS (
    INSERT INTO placement.allocation (consumer_uuid, provider_id, resource_class_id, used)
    SELECT * FROM unnest($7::text::uuid[], $8::text::bigint[], $9::text::integer[], $10::text::integer[])
    WHERE (SELECT count(*) FROM made) = $16
), used AS (
    UPDATE placement.inventory AS held SET used = held.used + new.change
    FROM unnest($11::text::bigint[], $12::text::integer[], $13::text::bigint[])
        AS new (provider_id, resource_class_id, change)
    WHERE held.provider_id = new.provider_id AND held.resource_class_id = new.resource_class_id
), change AS (
    INSERT INTO placement.change (reshaped, provider_ids) VALUES (false, $14::text::bigint[])
), touched AS (
    UPDATE placement.provider SET generation = generation + $15, updated_at = now()
    WHERE id = ANY($14::text::bigint[])
)
SELECT count(*) FROM made
"""


async def write_changes(tx: Connection, changes: Changes) -> bool:
    """Write decided claims; returns whether somebody else made one of the new consumers in the meantime.

    The transaction must then be undone: only a part is written.
    """
    gone = [write.uuid for write in changes.consumers if not write.allocations and not write.created]
    kept = [write for write in changes.consumers if write.allocations and not write.created]
    new = [write for write in changes.consumers if write.created and write.allocations]
    if new and (gone or kept):
        # Before the others are touched: who inserts one of those waits for its updater, who must not wait in turn.
        status: str = await tx.execute(INSERT_CONSUMERS, *_columns([write[:5] for write in new], 5))
        if status != f"INSERT 0 {len(new)}":
            return True
        new = []
    if gone or kept:
        await tx.execute(DELETE_ALLOCATIONS, gone + [write.uuid for write in kept])
    if gone:
        await tx.execute(DELETE_CONSUMERS, gone)
    if kept:
        await tx.execute(UPDATE_CONSUMERS, *(list(column) for column in zip(*(w[:5] for w in kept), strict=True)))
    if not changes.provider_ids:
        return False
    # Type, project and user are the same for nearly all of a batch: each kind is sent once.
    numbers = {head: number for number, head in enumerate(dict.fromkeys(write[2:5] for write in new), 1)}
    lines = [(write.uuid, *key, used) for write in changes.consumers for key, used in write.allocations.items()]
    made: int = await tx.fetchval(
        WRITE_CLAIMS,
        _literal(write.uuid for write in new),
        _literal(write.generation for write in new),
        _literal(numbers[write[2:5]] for write in new),
        *_columns(numbers, 3),
        *map(_literal, _columns(lines, 4)),
        *map(_literal, _columns([(*key, change) for key, change in changes.used.items()], 3)),
        _literal(changes.provider_ids),
        changes.generation_steps,
        len(new),
    )
    return made != len(new)


def _columns(rows: Iterable[tuple[Any, ...]], count: int) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) or [()] * count


def _literal(values: Iterable[str | int]) -> str:
    """UUIDs or integers as the text of a PostgreSQL array.

    The server reads it several times as fast as asyncpg encodes an array element by element; a claim's arrays are long.
    """
    return "{" + ",".join(map(str, values)) + "}"


GET_CONSUMERS = """-- placement.get_consumers
SELECT c.uuid, c.generation, c.consumer_type, c.project_id, c.user_id, p.uuid, r.name, a.used
FROM placement.consumer c
JOIN placement.allocation a ON a.consumer_uuid = c.uuid
JOIN placement.provider p ON p.id = a.provider_id
JOIN placement.resource_class r ON r.id = a.resource_class_id
WHERE c.uuid = ANY($1::uuid[])
"""


async def get_consumers(tx: Connection, uuids: Sequence[str]) -> dict[str, ConsumerState]:
    """The consumers that hold something, with all that they hold."""
    allocations: defaultdict[str, defaultdict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    heads = {}
    for uuid, generation, consumer_type, project_id, user_id, provider_uuid, name, used in await tx.fetch(
        GET_CONSUMERS, uuids
    ):
        heads[uuid] = (generation, consumer_type, project_id, user_id)
        allocations[uuid][provider_uuid][name] = used
    return {
        uuid: ConsumerState(
            consumer_uuid=uuid, generation=head[0], consumer_type=head[1], project_id=head[2], user_id=head[3],
            allocations=allocations[uuid],
        )
        for uuid, head in heads.items()
    }  # fmt: skip


LIST_CONSUMERS = """-- placement.list_consumers
SELECT uuid FROM placement.consumer
WHERE consumer_type = $1 AND ($2::uuid IS NULL OR uuid > $2) ORDER BY uuid LIMIT $3
"""


async def list_consumers(tx: Connection, consumer_type: str, *, after: str, limit: int) -> list[str]:
    """A page of the consumers of one type, by UUID."""
    return [row[0] for row in await tx.fetch(LIST_CONSUMERS, consumer_type, after or None, limit)]


# Providers and what they have.

LOCK_PROVIDER_ROWS = """-- placement.lock_provider_rows
SELECT id, uuid, name, generation, parent_id, root_id FROM placement.provider
WHERE uuid = ANY($1::uuid[]) OR id = ANY($2::bigint[]) ORDER BY id FOR NO KEY UPDATE
"""


async def lock_provider_rows(tx: Connection, uuids: Sequence[str], ids: Sequence[int] = ()) -> dict[str, ProviderRow]:
    """Lock the providers that exist, named either way, with all that they have."""
    rows = await tx.fetch(LOCK_PROVIDER_ROWS, uuids, ids)
    ids = [row["id"] for row in rows]
    inventories: defaultdict[int, dict[str, tuple[Inventory, int]]] = defaultdict(dict)
    class_ids: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for line in await tx.fetch(LIST_FULL_INVENTORIES, ids):
        inventories[line[0]][line[1]] = (Inventory(*line[2:8]), line[8])
        class_ids[line[0]][line[1]] = line[9]
    traits: defaultdict[int, set[str]] = defaultdict(set)
    for provider_id, name in await tx.fetch(LIST_PROVIDER_TRAITS, ids):
        traits[provider_id].add(name)
    aggregates: defaultdict[int, set[str]] = defaultdict(set)
    for provider_id, aggregate in await tx.fetch(LIST_PROVIDER_AGGREGATES, ids):
        aggregates[provider_id].add(aggregate)
    return {
        row["uuid"]: ProviderRow(
            id=row["id"], uuid=row["uuid"], name=row["name"], generation=row["generation"],
            parent_id=row["parent_id"], root_id=row["root_id"],
            inventories=inventories[row["id"]], resource_class_ids=class_ids[row["id"]],
            traits=frozenset(traits[row["id"]]), placement_aggregates=frozenset(aggregates[row["id"]]),
        )
        for row in rows
    }  # fmt: skip


LIST_FULL_INVENTORIES = """-- placement.list_full_inventories
SELECT i.provider_id, r.name, i.total, i.reserved, i.min_unit, i.max_unit, i.step_size, i.allocation_ratio, i.used,
    i.resource_class_id
FROM placement.inventory i JOIN placement.resource_class r ON r.id = i.resource_class_id
WHERE i.provider_id = ANY($1::bigint[]) ORDER BY i.resource_class_id
"""

LIST_PROVIDER_TRAITS = """-- placement.list_provider_traits
SELECT p.provider_id, t.name FROM placement.provider_trait p JOIN placement.trait t ON t.id = p.trait_id
WHERE p.provider_id = ANY($1::bigint[])
"""

LIST_PROVIDER_AGGREGATES = """-- placement.list_provider_aggregates
SELECT provider_id, aggregate_uuid FROM placement.provider_aggregate WHERE provider_id = ANY($1::bigint[])
"""

INSERT_PROVIDERS = """-- placement.insert_providers
INSERT INTO placement.provider (uuid, name, parent_id, root_id)
SELECT new.uuid, new.name, parent.id, coalesce(parent.root_id, 0)
FROM unnest($1::uuid[], $2::text[], $3::uuid[]) AS new (uuid, name, parent_uuid)
LEFT JOIN placement.provider parent ON parent.uuid = new.parent_uuid
ORDER BY new.uuid RETURNING id
"""

ROOT_PROVIDERS = """-- placement.root_providers
WITH change AS (INSERT INTO placement.change (reshaped, provider_ids) VALUES (true, $1::bigint[]))
UPDATE placement.provider SET root_id = id WHERE id = ANY($1::bigint[]) AND root_id = 0
"""


async def insert_providers(tx: Connection, new: Sequence[tuple[str, str, str | None]]) -> None:
    """Insert (uuid, name, parent uuid) that are missing, below locked parents. Raises ProviderNameTaken."""
    try:
        rows = await tx.fetch(INSERT_PROVIDERS, *(list(column) for column in zip(*new, strict=True)))
    except asyncpg.UniqueViolationError as error:
        raise ProviderNameTaken(f"Conflicting resource provider name: {error.detail} already exists.") from error
    await tx.execute(ROOT_PROVIDERS, [row[0] for row in rows])


DELETE_INVENTORIES = """-- placement.delete_inventories
DELETE FROM placement.inventory AS held USING unnest($1::bigint[], $2::integer[]) AS old (provider_id, class_id)
WHERE held.provider_id = old.provider_id AND held.resource_class_id = old.class_id
"""

UPSERT_INVENTORIES = """-- placement.upsert_inventories
INSERT INTO placement.inventory
    (provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size, allocation_ratio)
SELECT * FROM unnest(
    $1::bigint[], $2::integer[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::integer[],
    $8::double precision[])
ON CONFLICT (provider_id, resource_class_id) DO UPDATE SET
    total = excluded.total, reserved = excluded.reserved, min_unit = excluded.min_unit,
    max_unit = excluded.max_unit, step_size = excluded.step_size, allocation_ratio = excluded.allocation_ratio
"""

DELETE_PROVIDER_TRAITS = """-- placement.delete_provider_traits
DELETE FROM placement.provider_trait AS held USING unnest($1::bigint[], $2::integer[]) AS old (provider_id, trait_id)
WHERE held.provider_id = old.provider_id AND held.trait_id = old.trait_id
"""

INSERT_PROVIDER_TRAITS = """-- placement.insert_provider_traits
INSERT INTO placement.provider_trait (provider_id, trait_id) SELECT * FROM unnest($1::bigint[], $2::integer[])
"""

DELETE_PROVIDER_AGGREGATES = """-- placement.delete_provider_aggregates
DELETE FROM placement.provider_aggregate AS held
USING unnest($1::bigint[], $2::uuid[]) AS old (provider_id, aggregate_uuid)
WHERE held.provider_id = old.provider_id AND held.aggregate_uuid = old.aggregate_uuid
"""

INSERT_PROVIDER_AGGREGATES = """-- placement.insert_provider_aggregates
INSERT INTO placement.provider_aggregate (provider_id, aggregate_uuid) SELECT * FROM unnest($1::bigint[], $2::uuid[])
"""

RESHAPE_PROVIDERS = """-- placement.reshape_providers
WITH change AS (INSERT INTO placement.change (reshaped, provider_ids) VALUES (true, $1::bigint[]))
UPDATE placement.provider AS held SET name = new.name, generation = generation + new.steps, updated_at = now()
FROM unnest($1::bigint[], $2::text[], $3::integer[]) AS new (id, name, steps) WHERE held.id = new.id
"""

RECORD_RESHAPED = """-- placement.record_reshaped
INSERT INTO placement.change (reshaped, provider_ids) VALUES (true, $1::bigint[])
"""


async def record_reshaped(tx: Connection, provider_ids: Sequence[int]) -> None:
    """Have the index read these providers anew, though nothing of their own rows has changed."""
    if provider_ids:
        await tx.execute(RECORD_RESHAPED, provider_ids)


async def write_shapes(
    tx: Connection,
    shapes: Sequence[ShapeChange],
    *,
    resource_class_ids: Mapping[str, int],
    trait_ids: Mapping[str, int],
) -> None:
    """Write what changed of locked providers. Raises ProviderNameTaken.

    resource_class_ids: of the names that are new to a provider; those that it has may have another name by now.
    """

    async def execute(statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        if rows:
            await tx.execute(statement, *(list(column) for column in zip(*rows, strict=True)))

    await execute(
        DELETE_INVENTORIES,
        [(shape.provider_id, shape.held_class_ids[name]) for shape in shapes for name in shape.inventories_gone],
    )
    await execute(
        UPSERT_INVENTORIES,
        [
            (
                shape.provider_id, shape.held_class_ids.get(name) or resource_class_ids[name], inventory.total,
                inventory.reserved, inventory.min_unit, inventory.max_unit, inventory.step_size,
                inventory.allocation_ratio,
            )
            for shape in shapes
            for name, inventory in shape.inventories_set.items()
        ],
    )  # fmt: skip
    await execute(
        DELETE_PROVIDER_TRAITS, [(shape.provider_id, trait_ids[name]) for shape in shapes for name in shape.traits_gone]
    )
    await execute(
        INSERT_PROVIDER_TRAITS, [(shape.provider_id, trait_ids[name]) for shape in shapes for name in shape.traits_new]
    )
    await execute(
        DELETE_PROVIDER_AGGREGATES, [(shape.provider_id, uuid) for shape in shapes for uuid in shape.aggregates_gone]
    )
    await execute(
        INSERT_PROVIDER_AGGREGATES, [(shape.provider_id, uuid) for shape in shapes for uuid in shape.aggregates_new]
    )
    try:
        await execute(RESHAPE_PROVIDERS, [(shape.provider_id, shape.name, shape.generation_steps) for shape in shapes])
    except asyncpg.UniqueViolationError as error:
        raise ProviderNameTaken(f"Conflicting resource provider name: {error.detail} already exists.") from error


DELETE_PROVIDERS = """-- placement.delete_providers
WITH busy AS (
    SELECT provider_id AS id FROM placement.allocation WHERE provider_id = ANY($1::bigint[])
    UNION SELECT parent_id FROM placement.provider WHERE parent_id = ANY($1::bigint[])
), gone AS (
    DELETE FROM placement.provider WHERE id = ANY($1::bigint[]) AND id NOT IN (SELECT id FROM busy) RETURNING id
), inventories AS (DELETE FROM placement.inventory WHERE provider_id IN (SELECT id FROM gone)
), traits AS (DELETE FROM placement.provider_trait WHERE provider_id IN (SELECT id FROM gone)
), aggregates AS (DELETE FROM placement.provider_aggregate WHERE provider_id IN (SELECT id FROM gone)
), change AS (
    INSERT INTO placement.change (reshaped, provider_ids) SELECT true, array_agg(id) FROM gone HAVING count(*) > 0
)
SELECT id FROM gone
"""


async def delete_providers(tx: Connection, provider_ids: Sequence[int]) -> set[int]:
    """Delete locked providers with all that they have; those with allocations or children stay. Returns the deleted."""
    return {row[0] for row in await tx.fetch(DELETE_PROVIDERS, provider_ids)}


LIST_AGGREGATE_PROVIDERS = """-- placement.list_aggregate_providers
SELECT a.aggregate_uuid, p.uuid FROM placement.provider_aggregate a JOIN placement.provider p ON p.id = a.provider_id
WHERE a.aggregate_uuid = ANY($1::uuid[])
"""


async def list_aggregate_providers(tx: Connection, aggregates: Sequence[str]) -> dict[str, list[str]]:
    """Placement aggregate -> UUIDs of the providers in it; empty ones included."""
    providers: dict[str, list[str]] = {aggregate: [] for aggregate in aggregates}
    for aggregate, uuid in await tx.fetch(LIST_AGGREGATE_PROVIDERS, aggregates):
        providers[aggregate].append(uuid)
    return providers


LIST_USAGES = """-- placement.list_usages
SELECT p.uuid, r.name, i.total, i.reserved, i.allocation_ratio, i.used
FROM placement.provider p JOIN placement.inventory i ON i.provider_id = p.id
JOIN placement.resource_class r ON r.id = i.resource_class_id
WHERE p.uuid = ANY($1::uuid[])
"""


async def list_usages(tx: Connection, provider_uuids: Sequence[str]) -> dict[str, dict[str, tuple[int, int]]]:
    """Provider UUID -> resource class -> (capacity, used)."""
    usages: defaultdict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for uuid, name, total, reserved, ratio, used in await tx.fetch(LIST_USAGES, provider_uuids):
        usages[uuid][name] = (int((total - reserved) * ratio), used)
    return dict(usages)
