"""SQL of actions: their log, and the guests that they change. Who needs the locks takes those of guests first."""

from collections.abc import Mapping
from typing import Any

from roost.compute.model.server import ActionEnded, ActionFilter, Requester, ServerAction
from roost.compute.model.work import ServerContext, Stage
from roost.compute.store.recovery import LAST_EPOCH
from roost.platform.database import Connection
from roost.platform.rows import read_row

LOCK_GUESTS = """-- compute.lock_guests_of_server
SELECT FROM compute.guest WHERE server_id = $1 ORDER BY host FOR UPDATE"""


async def lock_guests(tx: Connection, server_id: str) -> None:
    """Lock the server's guests, in the order in which reports do, before the server."""
    await tx.execute(LOCK_GUESTS, server_id)


IS_SETTLING = """-- compute.is_settling
SELECT EXISTS (SELECT FROM compute.work WHERE server_id = $1 AND stage = 'settle')"""


async def is_settling(tx: Connection, server_id: str) -> bool:
    """Return whether the last of a build or a move is still to be done."""
    return bool(await tx.fetchval(IS_SETTLING, server_id))


GET_SURROUNDINGS = """-- compute.get_server_context
SELECT (SELECT stage FROM compute.work WHERE server_id = $1) AS stage,
    EXISTS (SELECT FROM compute.move WHERE server_id = $1 AND open) AS moving,
    guest.desired AS power_desired, guest.lost_at IS NOT NULL AS guest_lost,
    coalesce(host.keeps_disks, false) AS keeps_disks
FROM (VALUES (1)) AS one LEFT JOIN compute.guest ON guest.server_id = $1 AND guest.host = $2
LEFT JOIN compute.host ON host.name = $2"""


async def get_server_context(tx: Connection, server_id: str, host: str | None) -> ServerContext:
    """Return what there is beside a locked server; host: the server's."""
    row = await tx.fetchrow(GET_SURROUNDINGS, server_id, host)
    assert row is not None
    return read_row(ServerContext, row, stage=None if row["stage"] is None else Stage(row["stage"]))


IS_PLUGGED = """-- compute.is_plugged
SELECT EXISTS (SELECT FROM compute.guest WHERE server_id = $1 AND nics_reported <> nics_version)"""


async def is_plugged(tx: Connection, server_id: str) -> bool:
    """Return whether a guest of the server may have NICs that it has no more."""
    return bool(await tx.fetchval(IS_PLUGGED, server_id))


# What the host has reported already, it is asked to report again: the action ends with its report.
DESIRE_STATE = """-- compute.desire_state
UPDATE compute.guest SET desired = $3, reported = CASE WHEN reported <> $3 THEN reported END
WHERE server_id = $1 AND host = $2"""

# A guest that is gone is whoever's who serves the host now; another agent's is not to be had twice. Once its
# host is up again, there is none of a server whose evacuation failed: what the host had was fenced.
DESIRE_ANEW = f"""-- compute.desire_anew
INSERT INTO compute.guest AS g (server_id, host, desired, attempt) VALUES ($1, $2, $3, 1 + {LAST_EPOCH})
ON CONFLICT (server_id, host) DO UPDATE
SET desired = excluded.desired, attempt = greatest(g.attempt + 1, excluded.attempt), reported = NULL, begun_at = NULL,
    running_at = NULL, lost_at = NULL, created_at = now(),
    agent_id = CASE WHEN g.lost_at IS NULL THEN g.agent_id END"""  # noqa: S608 - a constant


async def desire(tx: Connection, server_id: str, host: str, state: str, *, anew: bool) -> None:
    """Ask the host for the guest in that state. anew: as a new attempt, which replaces the one that is there."""
    await tx.execute(DESIRE_ANEW if anew else DESIRE_STATE, server_id, host, state)


SET_TASK_STATE = """-- compute.set_task_state
UPDATE compute.server SET task_state = $2, updated_at = now() WHERE id = $1"""


async def set_task_state(tx: Connection, server_id: str, task_state: str | None) -> None:
    """Write what is done to the server."""
    await tx.execute(SET_TASK_STATE, server_id, task_state)


SET_STATUS = """-- compute.set_status
UPDATE compute.server SET status = $2, task_state = NULL, updated_at = now(),
    fault = CASE $2 WHEN 'ACTIVE' THEN NULL ELSE fault || '{"kind": ""}' END
WHERE id = $1"""


async def set_status(tx: Connection, server_id: str, status: str) -> None:
    """Make the server ACTIVE or ERROR, by hand."""
    await tx.execute(SET_STATUS, server_id, status)


SET_LOCKED = """-- compute.set_locked
UPDATE compute.server SET locked = $2, updated_at = now(),
    locked_reason = CASE WHEN $2 THEN coalesce($3, locked_reason) END
WHERE id = $1"""


async def set_locked(tx: Connection, server_id: str, *, locked: bool, reason: str | None = None) -> None:
    """Lock or unlock the server; a lock without a reason leaves the one that there is."""
    await tx.execute(SET_LOCKED, server_id, locked, reason)


INSERT_ACTION = """-- compute.insert_action
INSERT INTO compute.action (server_id, request_id, global_request_id, name, project_id, user_id, events)
VALUES ($1, $2, $9, $3, $4, $5, CASE WHEN $6 = '' THEN '[]' ELSE jsonb_build_array(jsonb_build_object(
    'name', $6::text, 'host', $7::text, 'started_at', now(), 'finished_at', CASE WHEN $8 THEN now() END,
    'result', CASE WHEN $8 THEN 'Success' END)) END)
RETURNING id"""


async def insert_action(
    tx: Connection,
    server_id: str,
    name: str,
    by: Requester,
    *,
    event: str = "",
    host: str | None = None,
    finished: bool = False,
) -> int:
    """Insert an action of the server with its first event, if it has one; return its id. finished: the event is."""
    action_id: int = await tx.fetchval(
        INSERT_ACTION,
        server_id,
        by.request_id,
        name,
        by.project_id,
        by.user_id,
        event,
        host,
        finished,
        by.global_request_id,
    )
    return action_id


FINISH_EVENTS = """-- compute.finish_events
UPDATE compute.action AS action SET updated_at = now(),
    message = CASE WHEN f.details IS NULL THEN message ELSE 'Error' END,
    events = (SELECT jsonb_agg(CASE WHEN event ->> 'finished_at' IS NULL
        THEN event || jsonb_build_object('finished_at', now(), 'details', f.details,
            'result', CASE WHEN f.details IS NULL THEN 'Success' ELSE 'Error' END)
        ELSE event END ORDER BY number) FROM jsonb_array_elements(events) WITH ORDINALITY AS one (event, number))
FROM unnest($1::uuid[], $2::text[]) AS f (server_id, details)
WHERE action.server_id = f.server_id AND events @> '[{"finished_at": null}]'
RETURNING action.server_id, name, request_id, project_id, user_id, f.details AS failure"""


async def finish_events(tx: Connection, failures_by_server: Mapping[str, str | None]) -> list[ActionEnded]:
    """End what the hosts of these servers are at; return it. failures_by_server: None where it did not fail."""
    if not failures_by_server:
        return []
    rows = await tx.fetch(FINISH_EVENTS, list(failures_by_server), list(failures_by_server.values()))
    return [ActionEnded(**row) for row in rows]


COLUMNS = "request_id, name, project_id, user_id, started_at, updated_at, message, events"

LIST_ACTIONS = f"""-- compute.list_actions
SELECT {COLUMNS} FROM compute.action
WHERE server_id = $1 AND ($2::timestamptz IS NULL OR updated_at >= $2) AND ($3::timestamptz IS NULL OR updated_at <= $3)
    AND ($4::bigint IS NULL OR id < $4)
ORDER BY id DESC LIMIT $5"""  # noqa: S608 - a constant of this file


async def list_actions(
    tx: Connection, server_id: str, only: ActionFilter, *, before_id: int | None, limit: int
) -> list[ServerAction]:
    """Return a page of what was asked of the server, the last first."""
    rows = await tx.fetch(LIST_ACTIONS, server_id, only.changed_since, only.changed_before, before_id, limit)
    return [_action(row) for row in rows]


FIND_ACTION = f"""-- compute.find_action
SELECT {COLUMNS} FROM compute.action WHERE server_id = $1 AND request_id = $2 ORDER BY id LIMIT 1"""  # noqa: S608


async def find_action(tx: Connection, server_id: str, request_id: str) -> ServerAction | None:
    """Return what that request asked of the server."""
    row = await tx.fetchrow(FIND_ACTION, server_id, request_id)
    return None if row is None else _action(row)


FIND_ACTION_ID = """-- compute.find_action_id
SELECT min(id) FROM compute.action WHERE server_id = $1 AND request_id = $2"""


async def find_action_id(tx: Connection, server_id: str, request_id: str) -> int | None:
    """Return where in the log that request is."""
    action_id: int | None = await tx.fetchval(FIND_ACTION_ID, server_id, request_id)
    return action_id


FIND_LOCKER = """-- compute.find_locker
SELECT project_id FROM compute.action WHERE server_id = $1 AND name = 'lock' ORDER BY id DESC LIMIT 1"""


async def find_locker(tx: Connection, server_id: str) -> str | None:
    """Return the project of who locked the server last."""
    project_id: str | None = await tx.fetchval(FIND_LOCKER, server_id)
    return project_id


def _action(row: Any) -> ServerAction:
    return read_row(ServerAction, row, "events")
