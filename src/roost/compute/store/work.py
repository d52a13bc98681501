"""Work rows: leases, and moving servers from stage to stage in one transaction with what that changes of them."""
# ruff: noqa: S608 - what is put into a statement are constants of this package.

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from roost.compute.model.work import Launch, Marks, MoveKind, Stage, StageChange, Work
from roost.compute.store.history import keep_servers
from roost.compute.store.nics import RAN
from roost.compute.store.recovery import FOLLOWS, LAST_EPOCH
from roost.compute.store.unknown_guests import HAS_ADDRESS, UNKNOWN_ELSEWHERE, list_servers_with_unknown_guests
from roost.platform.database import Connection
from roost.platform.rows import columns_of, encode_or_null, read_row
from roost.seams.agent import GuestKey
from roost.seams.compute import ServerState

# The time of the statement, since an index cannot be searched for one that goes on.
DUE = """(w.run_at <= statement_timestamp() AND (w.lease_until IS NULL OR w.lease_until < statement_timestamp())
    AND ($4::text[] IS NULL OR w.stage IN ('create_ports', 'place') OR NOT EXISTS (
        SELECT FROM compute.host h WHERE h.name = w.placed ->> 'host' AND h.cell <> ALL ($4))))"""
FIRST_PROJECT = "(SELECT w.project_id FROM compute.work w WHERE {0} ORDER BY w.project_id LIMIT 1)"


def _next_project(after: str) -> str:
    """Return the SQL of the project whose turn it is after that one; the first follows the last."""
    return f"coalesce({FIRST_PROJECT.format(f'w.project_id > {after} AND {DUE}')}, {FIRST_PROJECT.format(DUE)})"


# Only as many steps from project to project are made as the batch has room for: who reads `turns` stops there.
# None while the records recover: they do not know yet what the hosts have.
LEASE_WORK = f"""-- compute.lease_work
WITH RECURSIVE turns AS (
    SELECT {_next_project("$5")} AS project_id
    UNION SELECT {_next_project("turns.project_id")} FROM turns WHERE turns.project_id IS NOT NULL
), turn AS (
    SELECT CASE WHEN count(*) > 1 THEN $6::integer ELSE $2::integer END AS rows
    FROM (SELECT FROM turns WHERE project_id IS NOT NULL LIMIT 2) AS projects
), due AS (
    SELECT rows_due.server_id FROM turns CROSS JOIN LATERAL (
        SELECT w.server_id FROM compute.work w WHERE w.project_id = turns.project_id AND {DUE}
        ORDER BY w.run_at LIMIT (SELECT rows FROM turn) FOR UPDATE SKIP LOCKED
    ) AS rows_due
    WHERE {FOLLOWS} AND (NOT $7::boolean OR $6 > (SELECT count(*) FROM (
        SELECT FROM compute.work w WHERE w.project_id = turns.project_id AND w.run_at <= statement_timestamp()
            AND w.lease_until >= statement_timestamp() LIMIT $6) AS leased))
    LIMIT $2::integer
), leased AS (
    UPDATE compute.work AS w SET lease_owner = $1, lease_until = clock_timestamp() + $3 * interval '1 second'
    FROM due WHERE w.server_id = due.server_id
    RETURNING w.*
)
SELECT w.server_id, w.stage, w.attempt, w.failures, w.excluded_hosts, w.placed, w.failure, w.deleting,
    s.name, s.project_id, s.user_id, s.spec, s.host, s.launched_at IS NOT NULL AS active, s.build_order AS order,
    {LAST_EPOCH} AS epoch,
    CASE WHEN m.uuid IS NOT NULL THEN jsonb_build_object('uuid', m.uuid, 'kind', m.kind, 'status', m.status,
        'source_host', m.source_host, 'plan', m.plan) END AS move
FROM leased w JOIN compute.server s ON s.id = w.server_id
LEFT JOIN compute.move m ON m.server_id = w.server_id AND m.open ORDER BY s.sequence
"""


async def lease_work(
    tx: Connection,
    *,
    owner: str,
    limit: int,
    turn_rows: int,
    lease_s: float,
    cells: Sequence[str] | None,
    after: str,
    light: bool,
) -> list[Work]:
    """Lease due rows that nobody holds to `owner`, project after project, the oldest of each first.

    turn_rows: of each project, where there are several. after: the project that had its turn last. light: only of
    projects that have fewer rows leased than that.
    cells: only servers that are on their hosts, or not placed yet; None for all.
    """
    rows = await tx.fetch(LEASE_WORK, owner, limit, lease_s, cells, after, turn_rows, light)
    return [_work(row) for row in rows]


def _work(row: Any) -> Work:
    work = read_row(Work, row, "placed", "failure", "spec", "move", "order", stage=Stage(row["stage"]))
    return work if work.move is None else replace(work, spec=work.move.plan.spec)


LOCK_WORK = """-- compute.lock_work
SELECT work.server_id, stage, deleting, must_fail, (m.plan ->> 'action_id')::bigint AS action_id, m.kind,
    m.source_host
FROM compute.work LEFT JOIN compute.move m ON m.server_id = work.server_id AND m.open
WHERE work.server_id = ANY($1::uuid[]) AND lease_owner = $2
ORDER BY work.server_id FOR UPDATE OF work
"""


async def lock_work(tx: Connection, server_ids: Sequence[str], *, owner: str) -> dict[str, Marks]:
    """Lock those rows that `owner` still has: server id -> what others want of it."""
    rows = await tx.fetch(LOCK_WORK, server_ids, owner)
    return {row["server_id"]: _marks(row) for row in rows}


def _marks(row: Any) -> Marks:
    kind = None if row["kind"] is None else MoveKind(row["kind"])
    return read_row(Marks, row, "must_fail", stage=Stage(row["stage"]), kind=kind)


# R22: who marked the row meanwhile is not overruled. A row that is kept is no sooner due: no index is written.
WRITE_STAGE_CHANGES = """-- compute.write_stage_changes
UPDATE compute.work AS w
SET stage = new.stage, attempt = new.attempt, failures = new.failures,
    excluded_hosts = ARRAY(SELECT jsonb_array_elements_text(new.excluded_hosts)),
    placed = new.placed, failure = new.failure, deleting = w.deleting OR new.stage = 'delete',
    lease_owner = CASE WHEN new.keep THEN w.lease_owner END,
    lease_until = CASE WHEN new.keep THEN clock_timestamp() + $10 * interval '1 second' END,
    run_at = CASE WHEN new.keep THEN w.run_at ELSE clock_timestamp() + new.delay_s * interval '1 second' END
FROM unnest($1::uuid[], $2::text[], $3::integer[], $4::integer[], $5::jsonb[], $6::jsonb[], $7::jsonb[],
    $8::boolean[], $9::double precision[])
    AS new (server_id, stage, attempt, failures, excluded_hosts, placed, failure, keep, delay_s)
WHERE w.server_id = new.server_id
"""


async def write_stage_changes(tx: Connection, changes: Sequence[StageChange], *, lease_s: float) -> None:
    """Write where locked rows stand now."""
    rows = [
        (
            change.server_id, change.stage.value, change.attempt, change.failures,
            encode_or_null(change.excluded_hosts), encode_or_null(change.placed), encode_or_null(change.failure),
            change.keep, change.delay_s,
        )
        for change in changes
        if change.stage is not None
    ]  # fmt: skip
    if rows:
        await tx.execute(WRITE_STAGE_CHANGES, *columns_of(rows), lease_s)


DELETE_WORK = """-- compute.delete_work
DELETE FROM compute.work WHERE server_id = ANY($1::uuid[])
"""

DELETE_SERVERS = """-- compute.delete_servers
DELETE FROM compute.server WHERE id = ANY($1::uuid[])
"""


async def finish_work(tx: Connection, changes: Sequence[StageChange]) -> None:
    """Delete the rows of work that is done, and the servers that are gone with it, of which the history keeps some."""
    if done := [change.server_id for change in changes if change.stage is None]:
        await tx.execute(DELETE_WORK, done)
    if gone := [change.server_id for change in changes if change.gone]:
        await keep_servers(tx, gone)
        await tx.execute(DELETE_SERVERS, gone)


UPDATE_SERVERS = """-- compute.update_servers
UPDATE compute.server AS s
SET status = new.status, task_state = new.task_state, host = new.host, fault = coalesce(new.fault, s.fault),
    network_info = coalesce(new.network_info, s.network_info), power = coalesce(new.power, s.power),
    power_state = CASE WHEN new.power IS NULL THEN s.power_state END,
    shelved = s.shelved AND s.power = 'stopped' AND coalesce(new.power, s.power) = 'stopped',
    flavor = coalesce(new.flavor, s.flavor), spec = coalesce(new.spec, s.spec), updated_at = now()
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::jsonb[], $6::jsonb[], $7::text[], $8::jsonb[],
    $9::jsonb[]) AS new (id, status, task_state, host, fault, network_info, power, flavor, spec)
WHERE s.id = new.id
"""


async def update_servers(tx: Connection, changes: Sequence[StageChange]) -> None:
    """Write on the servers what their changes of stage say."""
    rows = [
        (
            change.server_id, on_server.status, on_server.task_state, on_server.host, encode_or_null(on_server.fault),
            encode_or_null(on_server.network_info), on_server.power, encode_or_null(on_server.flavor),
            encode_or_null(on_server.spec),
        )
        for change in changes
        if (on_server := change.server) is not None
    ]  # fmt: skip
    if rows:
        await tx.execute(UPDATE_SERVERS, *columns_of(rows))


LIST_LOST = """-- compute.list_lost_guests
SELECT server_id, host FROM compute.guest
WHERE lost_at IS NOT NULL AND (server_id, host) IN (SELECT * FROM unnest($1::uuid[], $2::text[]))
"""


async def list_lost_guests(tx: Connection, keys: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return those of (server id, host) whose guests are gone."""
    return {(row["server_id"], row["host"]) for row in await tx.fetch(LIST_LOST, *columns_of(keys))} if keys else set()


# The agent of an earlier attempt may still have that one's guest: the row stays its own until it says otherwise.
DESIRE_GUESTS = """-- compute.desire_guests
INSERT INTO compute.guest (server_id, host, attempt, desired)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::integer[], $4::text[])
ON CONFLICT (server_id, host) DO UPDATE
SET attempt = excluded.attempt, desired = excluded.desired, begun_at = NULL, reported = NULL, created_at = now(),
    agent_id = CASE WHEN guest.lost_at IS NULL AND guest.reported IS DISTINCT FROM 'absent' THEN guest.agent_id END,
    running_at = NULL, lost_at = NULL, fenced_by = NULL, hurry = false, meeting = NULL
WHERE guest.attempt < excluded.attempt
"""


# What the host has reported already, it is asked to report again.
CHANGE_GUESTS = """-- compute.change_guests
UPDATE compute.guest AS g SET desired = new.desired, meeting = NULL,
    reported = CASE WHEN reported <> new.desired THEN reported END
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS new (server_id, host, desired)
WHERE g.server_id = new.server_id AND g.host = new.host
"""


async def desire_guests(tx: Connection, changes: Sequence[StageChange]) -> None:
    """Ask hosts for new guests, and for other states of those that they have."""
    rows = [
        (change.server_id, change.guest_host, change.attempt, change.desired)
        for change in changes
        if change.guest_host is not None
    ]
    if rows:
        await tx.execute(DESIRE_GUESTS, *columns_of(rows))
    if guests_wanted := [(change.server_id, *wish) for change in changes for wish in change.guests_wanted.items()]:
        await tx.execute(CHANGE_GUESTS, *columns_of(guests_wanted))


WITHDRAW_UNBEGUN = """-- compute.withdraw_unbegun
DELETE FROM compute.guest AS g USING (
    SELECT server_id, g.host FROM compute.guest g LEFT JOIN compute.host h ON h.name = g.host
    WHERE server_id = ANY($1::uuid[])
        AND ((g.agent_id IS NULL AND begun_at IS NULL AND reported IS NULL) OR reported = 'absent' OR h.name IS NULL)
    ORDER BY server_id, g.host FOR UPDATE OF g
) AS old WHERE g.server_id = old.server_id AND g.host = old.host
"""

# Nothing waits for a guest on a host that is forced down; its row stays, so that the guest is destroyed when the host
# is back.
WITHDRAW_BEGUN = """-- compute.withdraw_begun
UPDATE compute.guest AS g SET desired = 'absent',
    fenced_by = coalesce(g.fenced_by, CASE WHEN h.forced_down THEN 'order' END)
FROM compute.host h, compute.guest before
WHERE h.name = g.host AND g.server_id = ANY($1::uuid[]) AND before.server_id = g.server_id AND before.host = g.host
RETURNING g.server_id, g.host, g.fenced_by, g.fenced_by IS NOT NULL AND before.fenced_by IS NULL AS fenced_now
"""


async def withdraw_guests(tx: Connection, server_ids: Sequence[str]) -> tuple[set[str], set[GuestKey]]:
    """Withdraw orders, under the locks of the work rows; return the servers of which a host may still have a guest.

    A guest that the records do not know is one. Also return which guests were not fenced before and are now.
    """
    await tx.execute(WITHDRAW_UNBEGUN, server_ids)
    rows = await tx.fetch(WITHDRAW_BEGUN, server_ids)
    remaining = {row["server_id"] for row in rows if row["fenced_by"] is None}
    keys_fenced = {(row["server_id"], row["host"]) for row in rows if row["fenced_now"]}
    return remaining | await list_servers_with_unknown_guests(tx, server_ids), keys_fenced


# Of the present attempt alone: a server that moves has a guest on its source.
LIST_BEGUN = """-- compute.list_begun_guests
SELECT g.server_id FROM compute.guest g JOIN compute.work w USING (server_id, attempt)
WHERE g.server_id = ANY($1::uuid[]) AND g.begun_at IS NOT NULL AND g.fenced_by IS NULL
"""
# The host may have the guest of an earlier attempt, so that its row stays.
WITHDRAW_REPLACING = """-- compute.withdraw_replacing
UPDATE compute.guest g SET desired = 'absent' FROM compute.work w
WHERE g.server_id = ANY($1::uuid[]) AND w.server_id = g.server_id AND w.attempt = g.attempt AND g.begun_at IS NULL
"""


async def withdraw_unbegun_guests(tx: Connection, server_ids: Sequence[str]) -> set[str]:
    """Withdraw orders that no host has begun, under the locks of the work rows; return servers of which one has."""
    await tx.execute(WITHDRAW_UNBEGUN, server_ids)
    await tx.execute(WITHDRAW_REPLACING, server_ids)
    return {row[0] for row in await tx.fetch(LIST_BEGUN, server_ids)}


LIST_LAUNCHES = f"""-- compute.list_launches
SELECT g.server_id, g.host, g.reported, coalesce(h.forced_down OR h.silent, true) AS host_down,
    extract(epoch FROM clock_timestamp() - g.created_at)::double precision AS asked_s,
    extract(epoch FROM clock_timestamp() - g.begun_at)::double precision AS begun_s,
    extract(epoch FROM clock_timestamp() - greatest(h.seen_at, a.seen_at))::double precision AS heard_s,
    (SELECT min(unknown.host) {UNKNOWN_ELSEWHERE} AND (unknown.server_id = g.server_id OR {HAS_ADDRESS})) AS unknown_on
FROM compute.work w JOIN compute.guest g ON g.server_id = w.server_id AND g.attempt = w.attempt
LEFT JOIN compute.server s ON s.id = w.server_id
LEFT JOIN compute.host h ON h.name = g.host LEFT JOIN compute.agent a ON a.id = h.agent_id
WHERE w.server_id = ANY($1::uuid[])
"""


async def list_launches(tx: Connection, server_ids: Sequence[str]) -> dict[str, Launch]:
    """Return server id -> its launch, of those of whose present attempt a host was asked."""
    rows = [dict(row) for row in await tx.fetch(LIST_LAUNCHES, server_ids)]
    return {row.pop("server_id"): Launch(**row) for row in rows}


# R50. A guest whose server has never run is not told of its ports: it has what it was made with.
GET_SERVER_STATES = f"""-- compute.get_server_states
SELECT asked.id, coalesce(s.status <> 'BUILD' AND (s.status <> 'ERROR' OR s.host IS NOT NULL), false)
    OR (s.id IS NOT NULL AND w.server_id IS NOT NULL) OR guests.remain AS claiming,
    w.server_id IS NOT NULL AS unfinished,
    ARRAY(SELECT g.host FROM compute.guest g LEFT JOIN compute.host h ON h.name = g.host
        WHERE g.server_id = asked.id AND g.fenced_by IS NULL AND NOT coalesce(h.forced_down, false)
        AND (g.nics_reported <> g.nics_version
            OR NOT EXISTS (SELECT FROM compute.server WHERE id = g.server_id AND {RAN}))) AS hosts_plugged
FROM unnest($1::uuid[]) AS asked (id)
LEFT JOIN compute.server s ON s.id = asked.id
LEFT JOIN compute.work w ON w.server_id = asked.id
CROSS JOIN LATERAL (
    SELECT EXISTS (SELECT FROM compute.guest g WHERE g.server_id = asked.id AND g.fenced_by IS NULL) AS remain
) AS guests
WHERE s.id IS NOT NULL OR w.server_id IS NOT NULL OR guests.remain
"""


async def get_server_states(tx: Connection, server_ids: Sequence[str]) -> dict[str, ServerState]:
    """Return those with a row of their own, hidden ones too, or a work row, or of which a host may have a guest."""
    rows = await tx.fetch(GET_SERVER_STATES, server_ids)
    return {row["id"]: ServerState(row["claiming"], row["unfinished"], frozenset(row["hosts_plugged"])) for row in rows}


GET_HOST_NAMES = """-- compute.get_host_names
SELECT provider_uuid, name FROM compute.host WHERE provider_uuid = ANY($1::uuid[])
"""


async def get_host_names(tx: Connection, provider_uuids: Sequence[str]) -> dict[str, str]:
    """Return provider UUID -> host name."""
    return {row[0]: row[1] for row in await tx.fetch(GET_HOST_NAMES, provider_uuids)}


GET_HOST_CELLS = """-- compute.get_host_cells
SELECT name, cell FROM compute.host WHERE name = ANY($1::text[])
"""


async def get_host_cells(tx: Connection, names: Sequence[str]) -> dict[str, str]:
    """Return host name -> its cell."""
    return {row[0]: row[1] for row in await tx.fetch(GET_HOST_CELLS, names)}


LIST_HELD = """-- compute.list_held
SELECT server_id FROM compute.work
WHERE server_id = ANY($1::uuid[]) AND lease_owner = $2 AND lease_until > clock_timestamp()
"""


async def list_held(tx: Connection, server_ids: Sequence[str], *, owner: str) -> set[str]:
    """Return those of the rows on which `owner` has a lease that has not run out."""
    return {row[0] for row in await tx.fetch(LIST_HELD, server_ids, owner)}
