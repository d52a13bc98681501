"""SQL of claims: lock consumers and providers, read what they hold and have, write what was decided.

Lock order, for every writer: names of resource classes and traits (`names.py`), the providers' names and places
(`providers.py`), consumers by UUID, providers by id; what is new is inserted last. A provider's lock guards its
inventories, traits, aggregates and allocations.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from roost.placement.model import Allocation, AllocationKey, Changes, ConsumerRow, InventoryRow
from roost.platform.database import Connection
from roost.seams.placement import ConsumerState

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
    allocations: defaultdict[str, dict[AllocationKey, int]] = defaultdict(dict)
    for uuid, provider_id, resource_class_id, used in await tx.fetch(LIST_ALLOCATIONS, [row[0] for row in rows]):
        allocations[uuid][provider_id, resource_class_id] = used
    return {uuid: ConsumerRow(generation, allocations[uuid]) for uuid, generation in rows}


# R1, R2: by id, before what is used is read.
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
    """Return the inventories of locked providers, for deciding claims."""
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
    UPDATE placement.provider
    SET generation = generation + CASE WHEN id = ANY($17::text::bigint[]) THEN 0 ELSE $15 END, updated_at = now()
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
    consumers_made: int = await tx.fetchval(
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
        _literal(changes.provider_ids_still),
    )
    return consumers_made != len(new)


def _columns(rows: Iterable[tuple[Any, ...]], count: int) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) or [()] * count


def _literal(values: Iterable[str | int]) -> str:
    """Return UUIDs or integers as the text of a PostgreSQL array.

    The server reads it several times as fast as asyncpg encodes an array element by element; a claim's arrays are long.
    """
    return "{" + ",".join(map(str, values)) + "}"


LIST_WHOLE_ALLOCATIONS = """-- placement.list_whole_allocations
SELECT c.uuid, c.generation, c.consumer_type, c.project_id, c.user_id, p.uuid, p.generation, r.name, a.used
FROM placement.consumer c
JOIN placement.allocation a ON a.consumer_uuid = c.uuid
JOIN placement.provider p ON p.id = a.provider_id
JOIN placement.resource_class r ON r.id = a.resource_class_id
"""

OF_CONSUMERS = f"{LIST_WHOLE_ALLOCATIONS}WHERE c.uuid = ANY($1::uuid[])"
OF_PROVIDER = f"{LIST_WHOLE_ALLOCATIONS}WHERE p.uuid = $1"


async def list_consumer_allocations(tx: Connection, consumer_uuid: str) -> list[Allocation]:
    """Return what a consumer holds."""
    return [Allocation._make(row) for row in await tx.fetch(OF_CONSUMERS, [consumer_uuid])]


async def list_provider_allocations(tx: Connection, provider_uuid: str) -> list[Allocation]:
    """Return what is held of a provider."""
    return [Allocation._make(row) for row in await tx.fetch(OF_PROVIDER, provider_uuid)]


async def get_consumers(tx: Connection, uuids: Sequence[str] | None = None) -> dict[str, ConsumerState]:
    """Return the consumers that hold something, with all that they hold; None: every one."""
    allocations: defaultdict[str, defaultdict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    heads = {}
    rows = await (tx.fetch(LIST_WHOLE_ALLOCATIONS) if uuids is None else tx.fetch(OF_CONSUMERS, uuids))
    for uuid, generation, consumer_type, project_id, user_id, provider_uuid, _, name, used in rows:
        heads[uuid] = (generation, consumer_type, project_id, user_id)
        allocations[uuid][provider_uuid][name] = used
    return {
        uuid: ConsumerState(
            consumer_uuid=uuid, generation=head[0], consumer_type=head[1], project_id=head[2], user_id=head[3],
            allocations=allocations[uuid],
        )
        for uuid, head in heads.items()
    }  # fmt: skip


LIST_PORTS = """-- placement.list_ports
SELECT uuid, user_id FROM placement.consumer WHERE consumer_type = 'PORT' AND user_id = ANY($1::text[])
"""


async def list_ports(tx: Connection, server_uuids: Sequence[str]) -> dict[str, str]:
    """Return the consumers that are ports of these servers: port's UUID -> server's."""
    return {row[0]: row[1] for row in await tx.fetch(LIST_PORTS, server_uuids)}


LIST_CONSUMERS = """-- placement.list_consumers
SELECT uuid FROM placement.consumer
WHERE consumer_type = $1 AND ($2::uuid IS NULL OR uuid > $2) ORDER BY uuid LIMIT $3
"""


async def list_consumers(tx: Connection, consumer_type: str, *, after: str, limit: int) -> list[str]:
    """Return a page of the consumers of one type, by UUID."""
    return [row[0] for row in await tx.fetch(LIST_CONSUMERS, consumer_type, after or None, limit)]


LIST_USAGES = """-- placement.list_usages
SELECT p.uuid, r.name, i.total, i.reserved, i.allocation_ratio, i.used
FROM placement.provider p JOIN placement.inventory i ON i.provider_id = p.id
JOIN placement.resource_class r ON r.id = i.resource_class_id
WHERE p.uuid = ANY($1::uuid[])
"""


async def list_usages(tx: Connection, provider_uuids: Sequence[str]) -> dict[str, dict[str, tuple[int, int]]]:
    """Return provider UUID -> resource class -> (capacity, used)."""
    usages: defaultdict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for uuid, name, total, reserved, ratio, used in await tx.fetch(LIST_USAGES, provider_uuids):
        usages[uuid][name] = (int((total - reserved) * ratio), used)
    return dict(usages)
