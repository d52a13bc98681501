"""SQL of moves: begun with the work that carries them, written by its stages, listed."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple

from roost.compute.model.server import Migration, MigrationFilter
from roost.compute.model.work import Failure, GuestPlace, Marks, Move, MoveKind, Stage, StageChange
from roost.compute.store.hosts import IS_PROMISE_KEPT
from roost.platform.database import Connection
from roost.platform.rows import columns_of, encode
from roost.seams.agent import GuestKey

INSERT_MOVE = """-- compute.insert_move
INSERT INTO compute.move (uuid, server_id, kind, status, source_host, project_id, user_id, plan)
SELECT $1, s.id, $3, $4, s.host, $5, $6, $7::jsonb FROM compute.server s WHERE s.id = $2
"""

# The attempts of a server's guests go on: a guest of a lower one is always an older one.
INSERT_WORK = """-- compute.insert_move_work
INSERT INTO compute.work (server_id, stage, excluded_hosts, attempt, project_id)
SELECT id, $2, $3::text[], coalesce((SELECT max(attempt) FROM compute.guest WHERE server_id = $1), 0), project_id
FROM compute.server WHERE id = $1
"""


async def insert_move(
    tx: Connection, move: Move, server_id: str, *, project_id: str, user_id: str, excluded_hosts: Sequence[str]
) -> None:
    """Insert a move of a locked server that has no work, from where it is now, and the work that carries it."""
    await tx.execute(
        INSERT_MOVE, move.uuid, server_id, move.kind.value, move.status, project_id, user_id, encode(move.plan)
    )
    await insert_work(tx, server_id, Stage.HOLD, excluded_hosts=excluded_hosts)


async def insert_work(tx: Connection, server_id: str, stage: Stage, *, excluded_hosts: Sequence[str] = ()) -> None:
    """Insert the work that carries a server that has none from this stage on."""
    await tx.execute(INSERT_WORK, server_id, stage.value, excluded_hosts)


SET_ACTION = """-- compute.set_action_of_move
UPDATE compute.move SET plan = plan || jsonb_build_object('action_id', $2::bigint) WHERE server_id = $1 AND open
"""


async def set_action(tx: Connection, server_id: str, action_id: int) -> None:
    """Record the stages that follow with another action: of who confirms or reverts the move."""
    await tx.execute(SET_ACTION, server_id, action_id)


# The server is locked as whoever ends a move by hand locks it. Where its guest is gone, the source may have the last.
LIST_DUE = """-- compute.list_due_moves
SELECT s.id FROM compute.move m JOIN compute.server s ON s.id = m.server_id
WHERE m.open AND m.status = 'finished' AND s.status = 'VERIFY_RESIZE' AND s.task_state IS NULL
    AND m.updated_at < now() - $1 * interval '1 second'
    AND NOT EXISTS (SELECT FROM compute.work w WHERE w.server_id = s.id)
    AND NOT EXISTS (SELECT FROM compute.guest g WHERE g.server_id = s.id AND g.host = s.host AND g.lost_at IS NOT NULL)
FOR UPDATE OF s SKIP LOCKED
"""


async def list_due(tx: Connection, window_s: float) -> list[str]:
    """Lock and return servers whose moves have waited so long for their users, and whose guests are there."""
    return [row[0] for row in await tx.fetch(LIST_DUE, window_s)]


WRITE_MOVES = """-- compute.write_moves
UPDATE compute.move m SET status = coalesce(new.status, m.status), plan = coalesce(new.plan, m.plan),
    dest_host = coalesce(new.dest_host, m.dest_host), open = NOT new.ends, updated_at = now()
FROM unnest($1::uuid[], $2::text[], $3::jsonb[], $4::text[], $5::boolean[]) AS new (server_id, status, plan,
    dest_host, ends)
WHERE m.server_id = new.server_id AND m.open
"""


async def write_moves(tx: Connection, changes: Sequence[StageChange]) -> None:
    """Write what changes of stage say of moves; the moves of servers that are gone end."""
    rows: list[tuple[str, str, str | None, str | None, bool]] = [
        (
            change.server_id, change.move.status, encode(change.move.plan),
            change.placed.host if change.placed else None, change.move_ends,
        )
        for change in changes
        if change.move is not None
    ]  # fmt: skip
    rows += [(change.server_id, "error", None, None, True) for change in changes if change.gone]
    if rows:
        await tx.execute(WRITE_MOVES, *columns_of(rows))


# An event begins where the one before it ended.
ADD_EVENTS = """-- compute.add_events
UPDATE compute.action a SET updated_at = now(), message = CASE e.result WHEN 'Error' THEN 'Error' ELSE a.message END,
    events = a.events || jsonb_build_array(jsonb_build_object('name', e.name, 'host', e.host,
        'started_at', coalesce(a.events -> -1 -> 'finished_at', to_jsonb(a.started_at)), 'finished_at', now(),
        'result', e.result, 'details', e.details))
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[]) AS e (action_id, name, host, result, details)
WHERE a.id = e.action_id
"""
FAILED = frozenset({Stage.RETRY, Stage.RESTORE, Stage.FAIL})


async def add_events(tx: Connection, steps: Sequence[tuple[Marks, StageChange]]) -> None:
    """Record in the actions of moves which stages are over, on which host, and how they went."""
    rows = []
    for marks, change in steps:
        if marks.action_id is not None and change.stage is not marks.stage:
            # What an agent's report ends is told by the stage that follows.
            failure = change.failure if FAILED.intersection((change.stage, marks.stage)) else None
            host = change.placed.host if change.placed else None
            result, details = ("Error", failure.message) if failure else ("Success", change.note)
            rows.append((marks.action_id, f"conductor_{marks.stage.value}", host, result, details))
    if rows:
        await tx.execute(ADD_EVENTS, *columns_of(rows))


LIST_GUESTS = """-- compute.list_guests_of_moves
SELECT g.server_id, g.host, g.attempt, g.desired, g.reported, g.lost_at IS NOT NULL AS lost,
    g.fenced_by IS NOT NULL AS fenced,
    coalesce(h.forced_down OR h.silent, true) AS host_down
FROM compute.guest g LEFT JOIN compute.host h ON h.name = g.host WHERE g.server_id = ANY($1::uuid[])
"""


async def list_guests(tx: Connection, server_ids: Sequence[str]) -> dict[str, dict[str, GuestPlace]]:
    """Return server id -> host -> its guest there."""
    guests: dict[str, dict[str, GuestPlace]] = {}
    for row in await tx.fetch(LIST_GUESTS, server_ids):
        values = dict(row)
        server_id = values.pop("server_id")
        guests.setdefault(server_id, {})[row["host"]] = GuestPlace(**values)
    return guests


# R25: an agent promises for the guests that it has. What is nobody's, the host's whole list lacked.
IS_PROMISED = "(g.agent_id IS NULL OR g.agent_id = host.promised_by)"

HAS_FORMER = f"""-- compute.has_guest_of_former_agent
SELECT EXISTS (SELECT FROM compute.guest g JOIN compute.host ON host.name = g.host
    WHERE g.server_id = $1 AND g.host = $2 AND NOT coalesce({IS_PROMISED}, false))
"""  # noqa: S608 - a constant of this file


async def has_guest_of_former_agent(tx: Connection, server_id: str, host: str) -> bool:
    """Return whether another agent has the server's guest on the host than the one that promised last."""
    return bool(await tx.fetchval(HAS_FORMER, server_id, host))


# R30, R40: its host destroys a fenced guest before it does anything else. The host's lock waits for a poll that renews
# its lease, and the next poll for this: either the host is back and is not fenced, or its agent sees the fence.
FENCE_GUESTS = f"""-- compute.fence_guests
WITH down AS MATERIALIZED (
    SELECT host.name, CASE WHEN host.forced_down THEN 'order' ELSE 'promise' END AS fenced_by, promised_by
    FROM compute.host
    WHERE host.name = ANY($2::text[]) AND (host.forced_down OR {IS_PROMISE_KEPT}) ORDER BY host.name FOR SHARE OF host
)
UPDATE compute.guest g SET desired = 'absent', fenced_by = coalesce(g.fenced_by, host.fenced_by)
FROM unnest($1::uuid[], $2::text[]) AS f (server_id, host) JOIN down AS host ON host.name = f.host
JOIN compute.guest before ON before.server_id = f.server_id AND before.host = f.host
WHERE g.server_id = f.server_id AND g.host = f.host
    AND (host.fenced_by = 'order' OR {IS_PROMISED})
RETURNING g.server_id, g.host, before.fenced_by IS NULL AS fenced_now
"""  # noqa: S608 - constants


async def fence_guests(tx: Connection, hosts_by_server: Sequence[tuple[str, str]]) -> tuple[set[str], set[GuestKey]]:
    """Fence the guests whose hosts are down, under the locks of the work rows.

    Return the servers of those, and which guests were not fenced before.
    """
    rows = await tx.fetch(FENCE_GUESTS, *columns_of(hosts_by_server))
    return {row["server_id"] for row in rows}, _fenced_now(rows)


def _fenced_now(rows: Sequence[Any]) -> set[GuestKey]:
    return {(row["server_id"], row["host"]) for row in rows if row["fenced_now"]}


# Of those that nobody began nothing is left; the rest are to go.
DELETE_UNBEGUN = """-- compute.delete_unbegun_elsewhere
DELETE FROM compute.guest g USING unnest($1::uuid[], $2::text[]) AS keep (server_id, host)
WHERE g.server_id = keep.server_id AND g.host IS DISTINCT FROM keep.host
    AND ((g.agent_id IS NULL AND g.begun_at IS NULL AND g.reported IS NULL) OR g.reported = 'absent')
"""
# A guest that had its NICs down when its host fell silent brings none up without asking (R31).
WITHDRAW_ELSEWHERE = """-- compute.withdraw_elsewhere
UPDATE compute.guest g SET desired = 'absent', fenced_by = coalesce(g.fenced_by, CASE WHEN h.forced_down THEN 'order'
    WHEN h.silent AND g.desired = g.reported AND g.desired IN ('stopped', 'suspended', 'incoming') THEN 'stopped' END)
FROM unnest($1::uuid[], $2::text[]) AS keep (server_id, host), compute.guest before, compute.host h
WHERE g.server_id = keep.server_id AND g.host IS DISTINCT FROM keep.host AND h.name = g.host
    AND before.server_id = g.server_id AND before.host = g.host
RETURNING g.server_id, g.host, g.fenced_by, g.fenced_by IS NOT NULL AND before.fenced_by IS NULL AS fenced_now
"""


async def withdraw_elsewhere(
    tx: Connection, kept_hosts: Sequence[tuple[str, str | None]]
) -> tuple[set[str], set[GuestKey]]:
    """Withdraw the guests of servers but for those on a host each.

    Return the servers that may still have others, and which guests were not fenced before and are now.
    """
    if not kept_hosts:
        return set(), set()
    columns = columns_of(kept_hosts)
    await tx.execute(DELETE_UNBEGUN, *columns)
    rows = await tx.fetch(WITHDRAW_ELSEWHERE, *columns)
    return {row["server_id"] for row in rows if row["fenced_by"] is None}, _fenced_now(rows)


FIND_OPEN = """-- compute.find_open_move
SELECT jsonb_build_object('uuid', uuid, 'kind', kind, 'status', status, 'source_host', source_host, 'plan', plan)
FROM compute.move WHERE server_id = $1 AND open
"""


async def find_open(tx: Connection, server_id: str) -> Move | None:
    """Return the move that the server is in, if any."""
    row = await tx.fetchrow(FIND_OPEN, server_id)
    return None if row is None else msgspec.json.decode(row[0], type=Move)


LISTED = tuple(kind.value for kind in (MoveKind.MIGRATE, MoveKind.RESIZE, MoveKind.LIVE, MoveKind.EVACUATE))
"""Kinds of moves that are migrations to clients."""

# The parameters are a MigrationFilter's fields, in their order.
LIST_MIGRATIONS = """-- compute.list_migrations
SELECT id, uuid, server_id, kind, status, source_host, dest_host, project_id, user_id, created_at, updated_at
FROM compute.move
WHERE kind = ANY($11::text[]) AND ($1::uuid IS NULL OR server_id = $1) AND ($2::text IS NULL OR status = $2)
    AND ($3::text IS NULL OR kind = $3) AND ($4::text IS NULL OR source_host = $4 OR dest_host = $4)
    AND ($5::text IS NULL OR source_host = $5) AND ($6::text IS NULL OR project_id = $6)
    AND ($7::text IS NULL OR user_id = $7) AND ($8::timestamptz IS NULL OR updated_at >= $8)
    AND ($9::timestamptz IS NULL OR updated_at <= $9) AND ($10::boolean IS NULL OR open = $10)
    AND ($12::bigint IS NULL OR id < $12)
ORDER BY id DESC LIMIT $13
"""


async def list_migrations(
    tx: Connection, only: MigrationFilter, *, before_id: int | None, limit: int
) -> list[Migration]:
    """Return a page of the migrations, the youngest first."""
    rows = await tx.fetch(LIST_MIGRATIONS, *astuple(only), LISTED, before_id, limit)
    return [Migration(**{**row, "kind": MoveKind(row["kind"])}) for row in rows]


FIND_MIGRATION_ID = """-- compute.find_migration_id
SELECT id FROM compute.move WHERE uuid = $1
"""


async def find_migration_id(tx: Connection, uuid: str) -> int | None:
    """Return where in the list the migration is."""
    migration_id: int | None = await tx.fetchval(FIND_MIGRATION_ID, uuid)
    return migration_id


HURRY = """-- compute.hurry_copy
UPDATE compute.guest g SET hurry = true FROM compute.work w
WHERE w.server_id = $1 AND w.stage = 'copy' AND g.server_id = w.server_id AND g.host = w.placed ->> 'host'
    AND g.attempt = w.attempt AND g.desired = 'incoming'
"""


async def hurry(tx: Connection, server_id: str) -> bool:
    """Order that the memory of a locked server is taken over now; return False where it is not being copied."""
    return bool(await tx.execute(HURRY, server_id) == "UPDATE 1")


# A move that is being copied is waited for by nobody's lease; whoever has it looks at the mark when it goes on.
ABORT = """-- compute.abort_move
UPDATE compute.work w SET must_fail = $2::jsonb, run_at = now()
FROM compute.move m WHERE w.server_id = $1 AND m.server_id = $1 AND m.open AND m.kind = 'live-migration'
    AND w.stage IN ('hold', 'place', 'copy') AND NOT w.deleting
"""


async def abort(tx: Connection, server_id: str, failure: Failure) -> bool:
    """Order that the live migration of a locked server is taken back; return False once it cannot be any more."""
    return bool(await tx.execute(ABORT, server_id, encode(failure)) == "UPDATE 1")
