"""What a refresh of the index reads from PostgreSQL of what changed since the last; `providers.py` reads providers.

Every transaction that changes what an index holds leaves rows in the journal `placement.change`, under its own id. A
snapshot says exactly which transactions it sees, so the news of a younger one are the rows of those that the older did
not see: of the ids at or above its xmax, and of those that were running.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from roost.placement.model import Usage
from roost.platform.database import Connection, count_changed
from roost.platform.errors import DatabaseAway


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

# R3: one statement, so one snapshot without a transaction. The server is asked for each time (R4): behind one address,
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
    """Return what has changed since `seen`. Raises DatabaseAway on a standby. Cost: by what changed."""
    row = await tx.fetchrow(GET_NEWS, seen.xmax, seen.running)
    system, timeline, started, snapshot, horizon, reshaped_ids = row[:6]
    if timeline is None:
        # It may lag behind what was committed, and does not say which transactions were running.
        raise DatabaseAway("the database is a standby, which may not know what was committed")
    server = (system, timeline, started)  # R4
    used: defaultdict[int, dict[str, int]] = defaultdict(dict)
    generations = {}
    for provider_id, generation, name, amount in zip(*(column or () for column in row[6:]), strict=True):
        generations[provider_id] = generation
        if name is not None:
            used[provider_id][name] = amount
    return News(
        snapshot=Snapshot(server, *snapshot),
        complete=server == seen.server and horizon is not None and horizon <= seen.xmin,  # R4, R5
        reshaped_ids=reshaped_ids,
        usages=[Usage(provider_id, generation, used[provider_id]) for provider_id, generation in generations.items()],
    )


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
    """Delete the changes of transactions that were over `kept` ago; returns the new horizon, None if it stays.

    Locked by a statement of its own: one that waited for another process would compare what that one noted with its own
    older snapshot, and take it for what a failover lost.
    """
    if not await tx.fetchval(LOCK_HORIZON):
        return None
    horizon: int | None = await tx.fetchval(MOVE_HORIZON, kept)
    return horizon


async def delete_changes(tx: Connection, limit: int, *, horizon: int) -> int:
    """Delete up to `limit` changes of transactions below the horizon, once that is committed; returns how many."""
    return count_changed(await tx.execute(DELETE_CHANGES, horizon, limit))
