"""SQL of marks, and of the time in which records that went back in time follow the hosts."""
# ruff: noqa: S608 - what is put into a statement are constants of this file.

from collections.abc import Collection

from roost.compute.model.recovery import NAMES_MAX, MarkRow, Recovery
from roost.platform.database import Connection
from roost.platform.rows import read_row

FIRST_EPOCH_S = 1_767_225_600
"""In seconds since 1970: the beginning of 2026. Attempts are 31 bits wide, enough for 68 years of seconds."""
EPOCH_STEP = 1_000
"""More than a server has attempts, or changes of its NICs, between two epochs, whatever the clock says."""
LAST_EPOCH = "coalesce((SELECT max(epoch) FROM compute.recovery), 0)"
"""Attempts that are drawn are above it: no host can have had them before the records went back."""
FINGERPRINT = """(substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || ' '
    || (SELECT oid FROM pg_database WHERE datname = current_database()))"""
"""A promotion and a recovery to a point in time begin another timeline; a dump is restored into another database."""
FOLLOWS = f"""(NOT EXISTS (SELECT FROM compute.recovery WHERE ended_at IS NULL)
    AND NOT EXISTS (SELECT FROM compute.database_seen WHERE fingerprint NOT IN ('', {FINGERPRINT})))"""
"""The records are believed: they are not recovering, and no other database was seen last."""
VERSION_LISTS = 5
"""Agents of this service version and later list their guests when they are asked to."""
HAS_LISTED = "(h.listed_at IS NOT NULL AND h.listed_at >= r.noticed_at)"

MOVE_MARK = f"""-- compute.move_mark
WITH moved AS (
    INSERT INTO compute.agent AS a (id, mark) VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET mark = a.mark + 1
    RETURNING mark)
SELECT $1::uuid AS agent_id, moved.mark AS value, k.key, NOT {FOLLOWS} AS recovering
FROM moved LEFT JOIN compute.mark_key k ON true"""


async def move_mark(tx: Connection, agent_id: str) -> MarkRow:
    """Move the agent's mark; return it."""
    row = await tx.fetchrow(MOVE_MARK, agent_id)
    assert row is not None
    return read_row(MarkRow, row)


NEXT_EPOCH = f"greatest(extract(epoch FROM clock_timestamp())::bigint - {FIRST_EPOCH_S}, {LAST_EPOCH} + {EPOCH_STEP})"
BEGIN = f"""-- compute.begin_recovery
INSERT INTO compute.recovery AS r (agent_id, agent_label, mark_told, mark_known, epoch)
VALUES ($1, $2, $3, $4, {NEXT_EPOCH})
ON CONFLICT ((true)) WHERE ended_at IS NULL DO UPDATE SET agent_id = excluded.agent_id,
    agent_label = excluded.agent_label, mark_told = excluded.mark_told, mark_known = excluded.mark_known
WHERE r.agent_id IS NULL RETURNING id"""
RAISE_MARK = """-- compute.raise_mark
INSERT INTO compute.agent AS a (id, label, mark) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET mark = greatest(a.mark, excluded.mark)"""
# Who carries on with a server has read it before: it loses its lease, so that it writes nothing more.
TAKE_LEASES = """-- compute.take_leases_of_conductors
UPDATE compute.work SET lease_owner = NULL, lease_until = NULL WHERE server_id IN (
    SELECT server_id FROM compute.work WHERE lease_owner IS NOT NULL ORDER BY server_id FOR UPDATE)"""


async def begin(tx: Connection, agent_id: str, label: str, *, mark_told: int, mark_known: int) -> bool:
    """Begin a recovery, or prove the one that is under way; return whether it did. The agent's mark proves it once."""
    began = await tx.fetchval(BEGIN, agent_id, label, mark_told, mark_known) is not None
    if began:
        await tx.execute(TAKE_LEASES)
    await tx.execute(RAISE_MARK, agent_id, label, mark_told)
    return began


# In one statement, so that nobody believes the records in between. Nothing was seen before in one that was just made.
NOTE_DATABASE = f"""-- compute.note_database
WITH seen AS (SELECT fingerprint FROM compute.database_seen WHERE fingerprint <> {FINGERPRINT} FOR UPDATE
), other AS (UPDATE compute.database_seen SET fingerprint = {FINGERPRINT} FROM seen RETURNING seen.fingerprint)
INSERT INTO compute.recovery (epoch) SELECT {NEXT_EPOCH} FROM other WHERE fingerprint <> ''
ON CONFLICT DO NOTHING RETURNING id"""


async def note_database(tx: Connection) -> bool:
    """Begin a recovery if the database is another one than was seen last; return whether it began."""
    began = await tx.fetchval(NOTE_DATABASE) is not None
    if began:
        await tx.execute(TAKE_LEASES)
    return began


NOTE_LISTED = """-- compute.note_listed_hosts
UPDATE compute.host SET listed_at = now() WHERE name IN (
    SELECT name FROM compute.host WHERE name = ANY($1::text[]) ORDER BY name FOR NO KEY UPDATE)"""


async def note_listed(tx: Connection, hosts: Collection[str]) -> None:
    """Record that all guests of these hosts were listed."""
    await tx.execute(NOTE_LISTED, list(hosts))


FIND = f"""-- compute.find_recovery
SELECT r.id, r.noticed_at, r.agent_label, r.mark_told, r.mark_known,
    extract(epoch FROM clock_timestamp() - r.noticed_at)::double precision AS age_s, h.missing, h.hosts_missing,
    h.hosts_silent
FROM compute.recovery r CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE NOT h.silent) AS missing, count(*) FILTER (WHERE h.silent) AS hosts_silent,
        coalesce((array_agg(h.name ORDER BY h.name) FILTER (WHERE NOT h.silent))[:{NAMES_MAX}], '{{}}') AS hosts_missing
    FROM compute.host h WHERE NOT {HAS_LISTED} AND (r.agent_id IS NOT NULL OR h.service_version >= {VERSION_LISTS})) h
WHERE r.ended_at IS NULL"""


async def find(tx: Connection) -> Recovery | None:
    """Return the recovery that is under way, if any."""
    row = await tx.fetchrow(FIND)
    return None if row is None else read_row(Recovery, row)


IS_UNDER_WAY = f"""-- compute.is_recovery_under_way
SELECT NOT {FOLLOWS}"""


async def is_under_way(tx: Connection) -> bool:
    """Return whether the records recover, or are in another database that nobody has looked at yet."""
    return bool(await tx.fetchval(IS_UNDER_WAY))


END = """-- compute.end_recovery
UPDATE compute.recovery SET ended_at = now(), ended_by = $2 WHERE id = $1 AND ended_at IS NULL RETURNING epoch"""
# A guest that was asked for and that no host has begun is asked for as an attempt that no host can have had before.
BEGIN_EPOCH = """-- compute.begin_epoch
WITH asked AS (
    SELECT w.server_id, g.host FROM compute.work w JOIN compute.guest g USING (server_id, attempt)
    WHERE g.agent_id IS NULL AND g.desired <> 'absent' ORDER BY w.server_id FOR UPDATE OF w
), guests AS (
    UPDATE compute.guest g SET attempt = $1 FROM asked WHERE g.server_id = asked.server_id AND g.host = asked.host
)
UPDATE compute.work SET attempt = $1 FROM asked WHERE work.server_id = asked.server_id"""


async def end(tx: Connection, recovery_id: int, *, ended_by: str) -> bool:
    """End the recovery and begin an epoch of attempts; return whether this call did it."""
    epoch = await tx.fetchval(END, recovery_id, ended_by)
    if epoch is None:
        return False
    await tx.execute(BEGIN_EPOCH, epoch)
    return True
