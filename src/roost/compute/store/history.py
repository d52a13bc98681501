"""SQL of what is kept of deleted servers: themselves, their actions and their moves."""
# ruff: noqa: S608 - what is put into a statement are constants of this package.

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from roost.compute.model.server import Server
from roost.compute.store.servers import COLUMNS
from roost.platform.database import Connection

KEEP_SERVERS = f"""-- compute.keep_deleted_servers
INSERT INTO compute.deleted_server (id, document)
SELECT id, to_jsonb(gone) FROM (SELECT {COLUMNS} WHERE server.id = ANY($1::uuid[])) AS gone
ON CONFLICT (id) DO UPDATE SET document = excluded.document, deleted_at = now()"""


async def keep_servers(tx: Connection, server_ids: Sequence[str]) -> None:
    """Keep what there is of servers that are about to be deleted."""
    await tx.execute(KEEP_SERVERS, server_ids)


FIND_SERVER = """-- compute.find_deleted_server
SELECT document FROM compute.deleted_server WHERE id = $1"""

_server = msgspec.json.Decoder(Server)


async def find_server(tx: Connection, server_id: str) -> Server | None:
    """Return the deleted server as it was last shown, while it is kept."""
    document = await tx.fetchval(FIND_SERVER, server_id)
    return None if document is None else _server.decode(document)


COUNT_ROWS = """-- compute.count_history
SELECT (SELECT count(*) FROM compute.action) + (SELECT count(*) FROM compute.move)
    + (SELECT count(*) FROM compute.deleted_server)"""


async def count_rows(tx: Connection) -> int:
    """Return how many actions, moves and deleted servers are kept. It reads them all."""
    return int(await tx.fetchval(COUNT_ROWS))


# What a release that kept no deleted servers left behind has no row; it is as old as it was changed last.
PURGE_ORPHANS = """-- compute.purge_orphaned_moves
DELETE FROM compute.move WHERE id IN (
    SELECT id FROM compute.move m WHERE NOT open AND updated_at < now() - $1::interval
        AND NOT EXISTS (SELECT FROM compute.server s WHERE s.id = m.server_id)
        AND NOT EXISTS (SELECT FROM compute.deleted_server d WHERE d.id = m.server_id)
    ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)"""
PURGE_SERVERS = """-- compute.purge_deleted_servers
WITH old AS (
    SELECT id FROM compute.deleted_server WHERE deleted_at <= now() - $1::interval
    ORDER BY deleted_at LIMIT $2 FOR UPDATE SKIP LOCKED
), actions AS (DELETE FROM compute.action WHERE server_id IN (SELECT id FROM old) RETURNING 1
), moves AS (DELETE FROM compute.move WHERE NOT open AND server_id IN (SELECT id FROM old) RETURNING 1
), servers AS (DELETE FROM compute.deleted_server WHERE id IN (SELECT id FROM old) RETURNING 1)
SELECT (SELECT count(*) FROM actions) + (SELECT count(*) FROM moves) + (SELECT count(*) FROM servers)"""
PURGE_ACTIONS = """-- compute.purge_oldest_actions
WITH gone AS (DELETE FROM compute.action WHERE id IN (
    SELECT id FROM compute.action WHERE NOT events @> '[{"finished_at": null}]'
    ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING 1) SELECT count(*) FROM gone"""


async def purge_servers(tx: Connection, limit: int, *, older_than_days: float) -> int:
    """Delete the oldest deleted servers with all that was kept of them; return how many rows went."""
    age = timedelta(days=older_than_days)
    await tx.execute(PURGE_ORPHANS, age, limit)
    return int(await tx.fetchval(PURGE_SERVERS, age, limit))


async def purge_actions(tx: Connection, limit: int) -> int:
    """Delete the oldest actions that are over, of whatever server; return how many went."""
    return int(await tx.fetchval(PURGE_ACTIONS, limit))
