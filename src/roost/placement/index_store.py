"""What a refresh of the index reads from PostgreSQL: what was stamped since the last one, or everything.

The statements of one refresh run in one snapshot transaction. A row is stamped with the id of the transaction that
changed it; whatever is stamped at or above the last snapshot's xmin may be news, and everything below it is not.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter

from msgspec import Struct

from roost.placement.index import Delta, IndexedProvider, Usage
from roost.platform.database import Connection
from roost.seams.placement import Inventory

EVERYTHING = 0
"""The xmin before the first refresh: every row is stamped above it."""


class Snapshot(Struct, frozen=True):
    """Which state of which server a refresh reads.

    server: system identifier, timeline and the postmaster's start. xmin: every transaction below it is in the snapshot
    or was undone. text: two equal ones see the same rows.
    """

    server: tuple[str, int, float]
    xmin: int
    text: str


GET_SNAPSHOT = """-- placement.get_snapshot
SELECT s.system_identifier::text, c.timeline_id, extract(epoch FROM pg_postmaster_start_time())::float8,
    pg_snapshot_xmin(pg_current_snapshot()), pg_current_snapshot()::text
FROM pg_control_system() s, pg_control_checkpoint() c
"""


async def get_snapshot(tx: Connection) -> Snapshot:
    """What the transaction sees."""
    system, timeline, started, xmin, text = await tx.fetchrow(GET_SNAPSHOT)
    return Snapshot((system, timeline, started), xmin, text)


LIST_STAMPED = """-- placement.list_stamped
SELECT id, uuid, name, generation, parent_id, root_id, shape_xid >= $1::xid8 AS reshaped
FROM placement.provider WHERE shape_xid >= $1::xid8 OR usage_xid >= $1::xid8
"""

LIST_DELETED = """-- placement.list_deleted
SELECT provider_id FROM placement.deleted_provider WHERE deleted_xid >= $1::xid8
"""

LIST_ALL_INVENTORIES = """-- placement.list_all_inventories
SELECT i.provider_id, r.name, i.total, i.reserved, i.min_unit, i.max_unit, i.step_size, i.allocation_ratio, i.used
FROM placement.inventory i JOIN placement.resource_class r ON r.id = i.resource_class_id
"""

LIST_SOME_INVENTORIES = """-- placement.list_some_inventories
SELECT i.provider_id, r.name, i.total, i.reserved, i.min_unit, i.max_unit, i.step_size, i.allocation_ratio, i.used
FROM placement.inventory i JOIN placement.resource_class r ON r.id = i.resource_class_id
WHERE i.provider_id = ANY($1::bigint[])
"""

LIST_SOME_USED = """-- placement.list_some_used
SELECT i.provider_id, r.name, i.used
FROM placement.inventory i JOIN placement.resource_class r ON r.id = i.resource_class_id
WHERE i.provider_id = ANY($1::bigint[])
"""

LIST_ALL_TRAITS = """-- placement.list_all_traits
SELECT p.provider_id, array_agg(t.name) FROM placement.provider_trait p JOIN placement.trait t ON t.id = p.trait_id
GROUP BY p.provider_id
"""

LIST_SOME_TRAITS = """-- placement.list_some_traits
SELECT p.provider_id, array_agg(t.name) FROM placement.provider_trait p JOIN placement.trait t ON t.id = p.trait_id
WHERE p.provider_id = ANY($1::bigint[]) GROUP BY p.provider_id
"""

LIST_ALL_AGGREGATES = """-- placement.list_all_aggregates
SELECT provider_id, array_agg(aggregate_uuid) FROM placement.provider_aggregate
GROUP BY provider_id
"""

LIST_SOME_AGGREGATES = """-- placement.list_some_aggregates
SELECT provider_id, array_agg(aggregate_uuid) FROM placement.provider_aggregate
WHERE provider_id = ANY($1::bigint[]) GROUP BY provider_id
"""


async def get_delta(tx: Connection, since_xmin: int) -> Delta:
    """What was stamped at or after since_xmin; EVERYTHING for all there is. Two statements when nothing was."""
    # Sorted here: told to, PostgreSQL would walk the primary key of the whole table, ten times as slow as a plain scan.
    rows = sorted(await tx.fetch(LIST_STAMPED, since_xmin), key=itemgetter("id"))
    deleted = [] if since_xmin == EVERYTHING else [row[0] for row in await tx.fetch(LIST_DELETED, since_xmin)]
    reshaped = [row for row in rows if row["reshaped"]]
    used_only = [row for row in rows if not row["reshaped"]]
    providers = await _list_providers(tx, reshaped, everything=since_xmin == EVERYTHING) if reshaped else ()
    usages = await _list_usages(tx, used_only) if used_only else ()
    return Delta(providers=providers, usages=usages, deleted=deleted)


async def _list_providers(tx: Connection, rows: Sequence[Connection], *, everything: bool) -> list[IndexedProvider]:
    if everything:
        lines, trait_rows, aggregate_rows = [
            await tx.fetch(statement) for statement in (LIST_ALL_INVENTORIES, LIST_ALL_TRAITS, LIST_ALL_AGGREGATES)
        ]
    else:
        ids = [row["id"] for row in rows]
        lines, trait_rows, aggregate_rows = [
            await tx.fetch(statement, ids)
            for statement in (LIST_SOME_INVENTORIES, LIST_SOME_TRAITS, LIST_SOME_AGGREGATES)
        ]
    inventories: defaultdict[int, dict[str, Inventory]] = defaultdict(dict)
    used: defaultdict[int, dict[str, int]] = defaultdict(dict)
    # Most hosts are like others: one object for equal inventories keeps ten thousand of them small.
    alike: dict[tuple[object, ...], Inventory] = {}
    for provider_id, name, *shape, taken in lines:
        key = tuple(shape)
        inventory = alike.get(key)
        if inventory is None:
            inventory = alike[key] = Inventory(*key)
        inventories[provider_id][name] = inventory
        used[provider_id][name] = taken
    traits = _sets(trait_rows)
    aggregates = _sets(aggregate_rows)
    nothing: frozenset[str] = frozenset()
    return [
        IndexedProvider(
            id=provider_id, uuid=uuid, name=name, generation=generation, parent_id=parent_id, root_id=root_id,
            inventories=inventories.get(provider_id, {}), used=used.get(provider_id, {}),
            traits=traits.get(provider_id, nothing), placement_aggregates=aggregates.get(provider_id, nothing),
        )
        for provider_id, uuid, name, generation, parent_id, root_id, _reshaped in rows
    ]  # fmt: skip


def _sets(rows: Sequence[tuple[int, Sequence[str]]]) -> Mapping[int, frozenset[str]]:
    return {provider_id: frozenset(names) for provider_id, names in rows}


async def _list_usages(tx: Connection, rows: Sequence[Connection]) -> list[Usage]:
    used: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for provider_id, name, taken in await tx.fetch(LIST_SOME_USED, [row["id"] for row in rows]):
        used[provider_id][name] = taken
    return [Usage(row["id"], row["generation"], used[row["id"]]) for row in rows]
