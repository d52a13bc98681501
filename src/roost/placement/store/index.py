"""What a refresh of the index reads from PostgreSQL: what changed since the last one, or everything.

Every transaction that changes what an index holds leaves rows in the journal `placement.change`, under its own id. A
snapshot says exactly which transactions it sees, so the news of a younger one are the rows of those that the older did
not see: of the ids at or above its xmax, and of those that were running.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from operator import itemgetter

from msgspec import Struct

from roost.placement.search.index import IndexedProvider, Usage
from roost.platform.database import Connection
from roost.platform.errors import DatabaseUnavailable
from roost.seams.placement import Inventory


class Snapshot(Struct, frozen=True):
    """Which state of which server is seen.

    server: system identifier, timeline, and since when it runs without a crash. xmin: every transaction below it is
    over. xmax: none at or above it is seen, and of those below only the running ones are not.
    """

    server: tuple[str, str, str]
    xmin: int
    xmax: int
    running: tuple[int, ...]


class News(Struct, frozen=True):
    """What a snapshot sees and an older one did not.

    complete: the older one was of the same server, and nothing that it did not see has left the journal. reshaped_ids:
    providers of which anything may have changed, deleted ones too. usages: of those of which no more than that did.
    """

    snapshot: Snapshot
    complete: bool
    reshaped_ids: Sequence[int]
    usages: Sequence[Usage]


NOTHING = Snapshot(("", "", ""), 0, 2**63 - 1, ())
"""What is seen before the first refresh: of no server, so that all is news."""

# One statement, so one snapshot without a transaction around it. The server is asked for each time: behind one address,
# and behind one connection to a pooler, there may be another the next time. The timeline is the one being written:
# pg_control_checkpoint() learns of a new one with the next checkpoint only. After a crash, ids of transactions that had
# left nothing on disk are given again; a crash of one backend leaves the postmaster and its start as they were, but
# statistics begin anew after every recovery (whoever resets them by hand has the index loaded anew, no more). The upper
# bound holds for every row, and tells the planner that few are meant; ANY(ARRAY(...)) has it look providers up by key,
# whatever number it expects.
GET_NEWS = """-- placement.get_news
WITH change AS MATERIALIZED (
    SELECT reshaped, provider_ids FROM placement.change
    WHERE xid >= $1::xid8 AND xid < pg_snapshot_xmax(pg_current_snapshot())
    UNION ALL
    SELECT reshaped, provider_ids FROM placement.change WHERE xid = ANY($2::xid8[])
)
SELECT s.system_identifier::text,
    CASE WHEN NOT pg_is_in_recovery() THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END,
    concat_ws(' ', pg_postmaster_start_time(), pg_stat_get_bgwriter_stat_reset_time()), pg_current_snapshot(),
    (SELECT xid FROM placement.change_horizon),
    ARRAY(SELECT unnest(provider_ids) FROM change WHERE reshaped),
    used.provider_ids, used.generations, used.names, used.amounts
FROM pg_control_system() s, (
    SELECT array_agg(p.id) AS provider_ids, array_agg(p.generation) AS generations, array_agg(r.name) AS names,
        array_agg(i.used) AS amounts
    FROM placement.provider p LEFT JOIN placement.inventory i ON i.provider_id = p.id
    LEFT JOIN placement.resource_class r ON r.id = i.resource_class_id
    WHERE p.id = ANY(ARRAY(SELECT unnest(provider_ids) FROM change WHERE NOT reshaped))
) AS used
"""


async def get_news(tx: Connection, seen: Snapshot) -> News:
    """What has changed since `seen`. Raises DatabaseUnavailable on a standby. Cost: by what changed."""
    row = await tx.fetchrow(GET_NEWS, seen.xmax, seen.running)
    system, timeline, started, snapshot, horizon, reshaped_ids = row[:6]
    if timeline is None:
        # It may lag behind what was committed, and does not say which transactions were running.
        raise DatabaseUnavailable("the database is a standby, which may not know what was committed")
    server = (system, timeline, started)
    used: defaultdict[int, dict[str, int]] = defaultdict(dict)
    generations = {}
    for provider_id, generation, name, amount in zip(*(column or () for column in row[6:]), strict=True):
        generations[provider_id] = generation
        if name is not None:
            used[provider_id][name] = amount
    return News(
        snapshot=Snapshot(server, *snapshot),
        complete=server == seen.server and horizon is not None and horizon <= seen.xmin,
        reshaped_ids=reshaped_ids,
        usages=[Usage(provider_id, generation, used[provider_id]) for provider_id, generation in generations.items()],
    )


LIST_PROVIDERS = """-- placement.list_providers
SELECT id, uuid, name, generation, parent_id, root_id FROM placement.provider
"""

LIST_SOME_PROVIDERS = """-- placement.list_some_providers
SELECT id, uuid, name, generation, parent_id, root_id FROM placement.provider WHERE id = ANY($1::bigint[])
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


async def list_all(tx: Connection) -> list[IndexedProvider]:
    """Every provider, whole, by id."""
    statements = (LIST_PROVIDERS, LIST_ALL_INVENTORIES, LIST_ALL_TRAITS, LIST_ALL_AGGREGATES)
    return _providers(*[await tx.fetch(statement) for statement in statements])


async def list_some(tx: Connection, provider_ids: Sequence[int]) -> list[IndexedProvider]:
    """Those of the providers that there are, whole, by id."""
    statements = (LIST_SOME_PROVIDERS, LIST_SOME_INVENTORIES, LIST_SOME_TRAITS, LIST_SOME_AGGREGATES)
    return _providers(*[await tx.fetch(statement, provider_ids) for statement in statements])


def _providers(
    rows: Sequence[Connection],
    lines: Sequence[Connection],
    trait_rows: Sequence[Connection],
    aggregate_rows: Sequence[Connection],
) -> list[IndexedProvider]:
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
        # Sorted here: told to, PostgreSQL would walk the primary key of the whole table, ten times as slow as a scan.
        for provider_id, uuid, name, generation, parent_id, root_id in sorted(rows, key=itemgetter("id"))
    ]  # fmt: skip


def _sets(rows: Sequence[tuple[int, Sequence[str]]]) -> Mapping[int, frozenset[str]]:
    return {provider_id: frozenset(names) for provider_id, names in rows}


# The journal's end: what no index needs any more.

LOCK_HORIZON = """-- placement.lock_horizon
SELECT true FROM placement.change_horizon FOR UPDATE SKIP LOCKED
"""

MOVE_HORIZON = """-- placement.move_horizon
UPDATE placement.change_horizon
SET xid = least(noted_xid, pg_snapshot_xmin(pg_current_snapshot())),
    noted_xid = pg_snapshot_xmin(pg_current_snapshot()), noted_at = now()
WHERE noted_at <= now() - $1::interval OR noted_xid > pg_snapshot_xmax(pg_current_snapshot())
RETURNING xid
"""

DELETE_CHANGES = """-- placement.delete_changes
DELETE FROM placement.change
WHERE ctid = ANY(ARRAY(SELECT ctid FROM placement.change WHERE xid < $1::xid8 ORDER BY xid LIMIT $2))
"""


async def move_horizon(tx: Connection, *, kept: timedelta) -> int | None:
    """Give up the changes of transactions that were over `kept` ago; returns the new horizon, None if it stays.

    Locked by a statement of its own: one that waited for another process would compare what that one noted with its own
    older snapshot, and take it for what a failover lost.
    """
    if not await tx.fetchval(LOCK_HORIZON):
        return None
    horizon: int | None = await tx.fetchval(MOVE_HORIZON, kept)
    return horizon


async def delete_changes(tx: Connection, *, horizon: int, limit: int) -> int:
    """Delete up to `limit` changes of transactions below the horizon, once that is committed; returns how many."""
    status: str = await tx.execute(DELETE_CHANGES, horizon, limit)
    return int(status.rpartition(" ")[2])
