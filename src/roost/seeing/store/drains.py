"""SQL of drains: begun, leased by whoever works on one, written after each round."""
# ruff: noqa: S608 - what is put into a statement are constants of this file.

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from roost.platform.database import Connection, count_changed
from roost.seeing.model import Drain, DrainKind, DrainProgress, DrainRequest

LOCK_KEY = 0x524F5354
"""Of who begins a drain: hosts are compared with those of all other drains."""

COLUMNS = """id, kind, hosts, segment, parallel, readdress, project_id, user_id, request_id, servers, progress,
    cancelled, created_at, deadline_at, ended_at, coalesce(deadline_at <= now(), false) AS overdue"""

LOCK = """-- seeing.lock_drains
SELECT pg_advisory_xact_lock($1)"""
LIST_OVERLAPPING = f"""-- seeing.list_overlapping_drains
SELECT {COLUMNS} FROM seeing.drain
WHERE ended_at IS NULL AND NOT cancelled AND kind = $1 AND hosts && $2::text[] ORDER BY id"""


async def lock_overlapping(tx: Connection, kind: DrainKind, hosts: Sequence[str]) -> list[Drain]:
    """Return the drains of that kind that are open and have one of the hosts; no other begins until the commit."""
    await tx.execute(LOCK, LOCK_KEY)
    return [_drain(row) for row in await tx.fetch(LIST_OVERLAPPING, kind.value, hosts)]


INSERT = f"""-- seeing.insert_drain
INSERT INTO seeing.drain (kind, hosts, segment, parallel, readdress, project_id, user_id, request_id, servers,
    progress, deadline_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::jsonb, now() + $11 * interval '1 second') RETURNING {COLUMNS}"""


async def insert_drain(
    tx: Connection, request: DrainRequest, *, project_id: str, user_id: str, request_id: str, servers: int
) -> Drain:
    """Insert a drain; return it."""
    row = await tx.fetchrow(
        INSERT,
        request.kind.value,
        request.hosts,
        request.segment,
        request.parallel,
        request.readdress,
        project_id,
        user_id,
        request_id,
        servers,
        encode(DrainProgress(ready=servers)),
        request.deadline_s,
    )
    return _drain(row)


CHANGE = f"""-- seeing.change_drain
UPDATE seeing.drain SET parallel = $2, deadline_at = now() + $3 * interval '1 second', readdress = $4, due_at = now(),
    lease_owner = NULL, lease_until = NULL
WHERE id = $1 AND ended_at IS NULL RETURNING {COLUMNS}"""


async def change_drain(tx: Connection, drain_id: int, request: DrainRequest) -> Drain | None:
    """Write what another request for the same hosts says; return the drain, None for one that is over by now.

    Who works on it loses the lease: what he saw of it holds no more.
    """
    row = await tx.fetchrow(CHANGE, drain_id, request.parallel, request.deadline_s, request.readdress)
    return None if row is None else _drain(row)


# One that is over is opened again: it has nothing to do but to open its hosts. Who works on it loses the lease.
CANCEL = f"""-- seeing.cancel_drain
UPDATE seeing.drain SET cancelled = true, ended_at = NULL, due_at = now(), lease_owner = NULL, lease_until = NULL
WHERE id = $1 RETURNING {COLUMNS}"""


async def cancel_drain(tx: Connection, drain_id: int) -> Drain | None:
    """Mark the drain as cancelled; return it, None where there is none."""
    row = await tx.fetchrow(CANCEL, drain_id)
    return None if row is None else _drain(row)


FIND = f"""-- seeing.find_drain
SELECT {COLUMNS} FROM seeing.drain WHERE id = $1"""


async def find_drain(tx: Connection, drain_id: int) -> Drain | None:
    """Return the drain with that number, if there is one."""
    row = await tx.fetchrow(FIND, drain_id)
    return None if row is None else _drain(row)


LIST = f"""-- seeing.list_drains
SELECT {COLUMNS} FROM seeing.drain WHERE $1::text[] IS NULL OR hosts && $1 ORDER BY id DESC LIMIT $2"""


async def list_drains(tx: Connection, hosts: Sequence[str] | None, *, limit: int) -> list[Drain]:
    """Return the drains that have one of the hosts, the youngest first; None: of any hosts."""
    return [_drain(row) for row in await tx.fetch(LIST, hosts, limit)]


LEASE = f"""-- seeing.lease_drain
UPDATE seeing.drain SET lease_owner = $1, lease_until = now() + $2 * interval '1 second'
WHERE id = (SELECT id FROM seeing.drain WHERE ended_at IS NULL AND due_at <= now()
    AND (lease_until IS NULL OR lease_until <= now()) ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING {COLUMNS}"""


async def lease_drain(tx: Connection, owner: str, *, lease_s: float) -> Drain | None:
    """Lease the open drain that waits longest for a round; None where nobody waits."""
    row = await tx.fetchrow(LEASE, owner, lease_s)
    return None if row is None else _drain(row)


KEEP = """-- seeing.keep_drain
UPDATE seeing.drain SET lease_until = now() + $3 * interval '1 second' WHERE id = $1 AND lease_owner = $2
RETURNING true"""


async def keep_lease(tx: Connection, drain_id: int, owner: str, *, lease_s: float) -> bool:
    """Renew the lease; return False where it was lost."""
    return bool(await tx.fetchval(KEEP, drain_id, owner, lease_s))


END_ROUND = """-- seeing.end_round
UPDATE seeing.drain SET progress = $3::jsonb, servers = greatest(servers, $4), lease_owner = NULL, lease_until = NULL,
    ended_at = CASE WHEN $5 THEN now() END, due_at = now() + $6 * interval '1 second'
WHERE id = $1 AND lease_owner = $2 RETURNING true"""


async def end_round(
    tx: Connection, drain_id: int, owner: str, progress: DrainProgress, *, over: bool, pause_s: float
) -> bool:
    """Write how the servers stood in this round, and let others have the next; return False for a lost lease."""
    values = (drain_id, owner, encode(progress), progress.servers_left, over, pause_s)
    return bool(await tx.fetchval(END_ROUND, *values))


PURGE = """-- seeing.purge_drains
DELETE FROM seeing.drain WHERE ended_at <= now() - $1::interval"""


async def purge_drains(tx: Connection, *, older_than: timedelta) -> int:
    """Delete drains that have been over for that long; return how many."""
    return count_changed(await tx.execute(PURGE, older_than))


_progress = msgspec.json.Decoder(DrainProgress)


def encode(progress: DrainProgress) -> str:
    """Return the progress as its column keeps it."""
    return msgspec.json.encode(progress).decode()


def _drain(row: Any) -> Drain:
    return Drain(
        **{
            **row,
            "kind": DrainKind(row["kind"]),
            "hosts": tuple(row["hosts"]),
            "progress": _progress.decode(row["progress"]),
        }
    )
