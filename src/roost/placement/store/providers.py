"""SQL of providers and all that they have: read, lock, make, place in trees, change and delete them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import asyncpg

from roost.placement.errors import ProviderNameTaken
from roost.placement.model import ProviderHead, ProviderPlace, ProviderRow, ShapeChange
from roost.platform.database import Connection
from roost.seams.placement import Inventory

LIST_PROVIDERS = """-- placement.list_providers
SELECT id, uuid, name, generation, parent_id, root_id, network_id FROM placement.provider {}
"""

LIST_INVENTORIES = """-- placement.list_whole_inventories
SELECT i.provider_id, r.name, r.id, i.used,
    i.total, i.reserved, i.min_unit, i.max_unit, i.step_size, i.allocation_ratio
FROM placement.inventory i JOIN placement.resource_class r ON r.id = i.resource_class_id {}
"""

LIST_TRAITS = """-- placement.list_provider_traits
SELECT p.provider_id, array_agg(t.name) FROM placement.provider_trait p JOIN placement.trait t ON t.id = p.trait_id {}
GROUP BY p.provider_id
"""

LIST_AGGREGATES = """-- placement.list_provider_aggregates
SELECT provider_id, array_agg(aggregate_uuid) FROM placement.provider_aggregate {} GROUP BY provider_id
"""

OF_IDS = "WHERE provider_id = ANY($1::bigint[])"
LIST_ALL = [statement.format("") for statement in (LIST_PROVIDERS, LIST_INVENTORIES, LIST_TRAITS, LIST_AGGREGATES)]
LIST_SOME = [statement.format(OF_IDS) for statement in (LIST_INVENTORIES, LIST_TRAITS, LIST_AGGREGATES)]
LIST_BY_ID = LIST_PROVIDERS.format("WHERE id = ANY($1::bigint[])")
LIST_BY_UUID = LIST_PROVIDERS.format("WHERE uuid = ANY($1::uuid[])")
LOCK_ROWS = LIST_PROVIDERS.format(
    "WHERE uuid = ANY($1::uuid[]) OR id = ANY($2::bigint[]) ORDER BY id FOR NO KEY UPDATE"
)


RowsRead = tuple[Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]]
"""What the database says of providers: heads, inventories, traits, aggregates."""


async def read_all(tx: Connection) -> RowsRead:
    """Read every provider, for `build_rows` after the transaction: of 100,000 that takes longer than one may stand."""
    heads, lines, trait_sets, aggregate_sets = [await tx.fetch(statement) for statement in LIST_ALL]
    return heads, lines, trait_sets, aggregate_sets


async def read_some(tx: Connection, provider_ids: Sequence[int]) -> RowsRead:
    """Read those of the providers that there are."""
    return await _read_rest(tx, await tx.fetch(LIST_BY_ID, provider_ids))


async def list_all(tx: Connection) -> list[ProviderRow]:
    """Return every provider, whole, by id."""
    return build_rows(await read_all(tx))


async def list_by_uuid(tx: Connection, uuids: Sequence[str]) -> list[ProviderRow]:
    """Return those of the providers that there are, whole, by id."""
    return await _complete(tx, await tx.fetch(LIST_BY_UUID, uuids))


async def lock_provider_rows(tx: Connection, uuids: Sequence[str], ids: Sequence[int] = ()) -> dict[str, ProviderRow]:
    """Lock the providers that exist, named either way; by UUID, whole."""
    return {row.uuid: row for row in await _complete(tx, await tx.fetch(LOCK_ROWS, uuids, ids))}


async def _complete(tx: Connection, heads: Sequence[Any]) -> list[ProviderRow]:
    return build_rows(await _read_rest(tx, heads))


async def _read_rest(tx: Connection, heads: Sequence[Any]) -> RowsRead:
    ids = [head["id"] for head in heads]
    lines, trait_sets, aggregate_sets = [await tx.fetch(statement, ids) for statement in LIST_SOME]
    return heads, lines, trait_sets, aggregate_sets


def build_rows(rows_read: RowsRead) -> list[ProviderRow]:
    """Return the providers that were read, whole, by id."""
    heads, lines, trait_sets, aggregate_sets = rows_read
    inventories: defaultdict[int, dict[str, Inventory]] = defaultdict(dict)
    used: defaultdict[int, dict[str, int]] = defaultdict(dict)
    class_ids: dict[str, int] = {}
    # Most hosts are like others: one object for equal inventories keeps ten thousand of them small.
    alike: dict[tuple[object, ...], Inventory] = {}
    for provider_id, name, class_id, amount, *shape in lines:
        key = tuple(shape)
        inventory = alike.get(key)
        if inventory is None:
            inventory = alike[key] = Inventory(*key)
        inventories[provider_id][name] = inventory
        used[provider_id][name] = amount
        class_ids[name] = class_id
    traits = {provider_id: frozenset(names) for provider_id, names in trait_sets}
    aggregates = {provider_id: frozenset(uuids) for provider_id, uuids in aggregate_sets}
    nothing: frozenset[str] = frozenset()
    return [
        ProviderRow(
            id=provider_id, uuid=uuid, name=name, generation=generation, parent_id=parent_id, root_id=root_id,
            inventories=inventories.get(provider_id, {}), used=used.get(provider_id, {}),
            traits=traits.get(provider_id, nothing), placement_aggregates=aggregates.get(provider_id, nothing),
            resource_class_ids=class_ids, network_id=network_id,
        )
        # Sorted here: told to, PostgreSQL would walk the primary key of the whole table, ten times as slow as a scan.
        for provider_id, uuid, name, generation, parent_id, root_id, network_id in sorted(heads, key=itemgetter("id"))
    ]  # fmt: skip


FIND_HEAD = """-- placement.find_head
SELECT p.uuid, p.name, p.generation, parent.uuid, root.uuid
FROM placement.provider p
JOIN placement.provider root ON root.id = p.root_id
LEFT JOIN placement.provider parent ON parent.id = p.parent_id
WHERE p.uuid = $1
"""


async def get_head(tx: Connection, uuid: str) -> ProviderHead:
    """Return a provider that there is, without what it has."""
    return ProviderHead._make(await tx.fetchrow(FIND_HEAD, uuid))


LOCK_NAMES = """-- placement.lock_names
SELECT pg_advisory_xact_lock(5931046453580398594)
"""

LOCK_NAMES_SHARED = """-- placement.lock_names_shared
SELECT pg_advisory_xact_lock_shared(5931046453580398594)
"""


async def lock_names(tx: Connection, *, shared: bool = False) -> None:
    """Lock the names and places of all providers: before any provider, or a consumer, is locked.

    Who takes several names waits for one with another in hand, and the places of a tree change together: such writers
    are alone. shared: who makes one provider, and waits for nothing once it has its name.
    """
    await tx.execute(LOCK_NAMES_SHARED if shared else LOCK_NAMES)


LOCK_PARENT = """-- placement.lock_parent
SELECT true FROM placement.provider WHERE uuid = $1 FOR SHARE
"""


async def lock_parent(tx: Connection, uuid: str) -> bool:
    """Keep a provider where it is until the transaction ends; returns whether there is one."""
    return bool(await tx.fetchval(LOCK_PARENT, uuid))


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
        raise _name_taken(error) from error
    await tx.execute(ROOT_PROVIDERS, [row[0] for row in rows])


def _name_taken(error: asyncpg.UniqueViolationError) -> ProviderNameTaken:
    """Return the error that names what another provider has, from a detail like `Key (name)=(h1) already exists.`"""
    taken = re.search(r"\((name|uuid)\)=\((.*)\)", error.detail or "", re.DOTALL)
    what = f"{taken[1]}: {taken[2]}" if taken else error.detail
    return ProviderNameTaken(f"Conflicting resource provider {what} already exists.")


LOCK_TREES = """-- placement.lock_trees
SELECT id, uuid, parent_id, root_id FROM placement.provider
WHERE root_id IN (SELECT root_id FROM placement.provider WHERE uuid = ANY($1::uuid[]))
ORDER BY id FOR NO KEY UPDATE
"""


async def lock_trees(tx: Connection, uuids: Sequence[str]) -> dict[str, ProviderPlace]:
    """Lock every provider of the trees of these providers: uuid -> place. With lock_names: no tree grows meanwhile."""
    rows = await tx.fetch(LOCK_TREES, uuids)
    return {row[1]: ProviderPlace(row[0], row[2], row[3]) for row in rows}


UPDATE_PLACES = """-- placement.update_places
WITH change AS (INSERT INTO placement.change (reshaped, provider_ids) VALUES (true, $1::bigint[]))
UPDATE placement.provider AS held SET parent_id = new.parent_id, root_id = new.root_id, updated_at = now()
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS new (id, parent_id, root_id) WHERE held.id = new.id
"""


async def update_places(tx: Connection, places: Iterable[ProviderPlace]) -> None:
    """Move locked providers, of which there is at least one."""
    await tx.execute(UPDATE_PLACES, *(list(column) for column in zip(*places, strict=True)))


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
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS new (id, name, steps) WHERE held.id = new.id
"""

RECORD_RESHAPED = """-- placement.record_reshaped
INSERT INTO placement.change (reshaped, provider_ids) VALUES (true, $1::bigint[])
"""


async def record_reshaped(tx: Connection, provider_ids: Sequence[int]) -> None:
    """Make every index read these providers again, though nothing of their own rows has changed."""
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

    resource_class_ids: of names that are new to a provider. Those that it has are in the shape: they may have another
    name by now.
    """

    async def execute(statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        if rows:
            await tx.execute(statement, *(list(column) for column in zip(*rows, strict=True)))

    await execute(
        DELETE_INVENTORIES,
        [(shape.provider_id, shape.present_class_ids[name]) for shape in shapes for name in shape.inventories_gone],
    )
    await execute(
        UPSERT_INVENTORIES,
        [
            (
                shape.provider_id, shape.present_class_ids.get(name) or resource_class_ids[name], inventory.total,
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
        raise _name_taken(error) from error


DELETE_PROVIDERS = """-- placement.delete_providers
WITH busy AS (
    SELECT provider_id AS id, false AS has_children FROM placement.allocation WHERE provider_id = ANY($1::bigint[])
    UNION SELECT parent_id, true FROM placement.provider WHERE parent_id = ANY($1::bigint[])
), gone AS (
    DELETE FROM placement.provider WHERE id = ANY($1::bigint[]) AND id NOT IN (SELECT id FROM busy) RETURNING id
), inventories AS (DELETE FROM placement.inventory WHERE provider_id IN (SELECT id FROM gone)
), traits AS (DELETE FROM placement.provider_trait WHERE provider_id IN (SELECT id FROM gone)
), aggregates AS (DELETE FROM placement.provider_aggregate WHERE provider_id IN (SELECT id FROM gone)
), change AS (
    INSERT INTO placement.change (reshaped, provider_ids) SELECT true, array_agg(id) FROM gone HAVING count(*) > 0
)
SELECT id, bool_or(has_children) FROM busy GROUP BY id
"""


async def delete_providers(tx: Connection, provider_ids: Sequence[int]) -> dict[int, bool]:
    """Delete locked providers with all that they have; those with allocations or children stay.

    Returns the ids of those that stay, and whether each has children.
    """
    return {row[0]: row[1] for row in await tx.fetch(DELETE_PROVIDERS, provider_ids)}


LIST_AGGREGATE_PROVIDERS = """-- placement.list_aggregate_providers
SELECT a.aggregate_uuid, p.uuid FROM placement.provider_aggregate a JOIN placement.provider p ON p.id = a.provider_id
WHERE a.aggregate_uuid = ANY($1::uuid[])
"""


async def list_aggregate_providers(tx: Connection, aggregates: Sequence[str]) -> dict[str, list[str]]:
    """Return placement aggregate -> UUIDs of the providers in it, empty aggregates included."""
    providers: dict[str, list[str]] = {aggregate: [] for aggregate in aggregates}
    for aggregate, uuid in await tx.fetch(LIST_AGGREGATE_PROVIDERS, aggregates):
        providers[aggregate].append(uuid)
    return providers
