"""SQL of what notifications tell of servers, read in the transaction that changed them."""

# ruff: noqa: S608 - what is put into a statement are constants of this wing.
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from roost.compute.model.server import Server, ServerSnapshot
from roost.compute.model.work import MoveKind
from roost.compute.store.servers import COLUMNS, VM_STATE
from roost.platform.database import Connection
from roost.platform.rows import read_row

Request = Mapping[str, str | None]


# The lock puts the ids of one server's notifications in the order of the transactions that write them.
LOCK_SNAPSHOTS = f"""-- compute.lock_snapshots
SELECT {COLUMNS} WHERE server.id = ANY($1::uuid[]) ORDER BY server.id FOR NO KEY UPDATE OF server
"""
LIST_CAUSES = """-- compute.list_causes
SELECT s.id, m.kind, m.source_host, m.plan -> 'flavor' AS new_flavor, a.request_id, a.project_id, a.user_id
FROM unnest($1::uuid[]) AS s (id) LEFT JOIN compute.move m ON m.server_id = s.id AND m.open
LEFT JOIN LATERAL (SELECT request_id, project_id, user_id FROM compute.action
    WHERE action.server_id = s.id AND (action.name = 'delete' OR action.id = (m.plan ->> 'action_id')::bigint)
    ORDER BY action.name = 'delete' DESC, action.id DESC LIMIT 1) a ON true
WHERE m.kind IS NOT NULL OR a.request_id IS NOT NULL
"""


class ServerState(Struct, frozen=True, kw_only=True):
    """What a server is and does. request: the last that was asked of it, None where that is its creation."""

    vm_state: str
    task_state: str | None
    request: Request | None


LOCK_STATES = f"""-- compute.lock_server_states
SELECT server.id, {VM_STATE} AS vm_state, server.task_state, a.request_id, a.project_id, a.user_id
FROM compute.server LEFT JOIN LATERAL (SELECT request_id, project_id, user_id FROM compute.action
    WHERE action.server_id = server.id ORDER BY action.id DESC LIMIT 1) a ON true
WHERE server.id = ANY($1::uuid[]) ORDER BY server.id FOR NO KEY UPDATE OF server
"""


async def lock_states(tx: Connection, server_ids: Sequence[str]) -> dict[str, ServerState]:
    """Lock the servers; return their states, by id."""
    states = {}
    for row in await tx.fetch(LOCK_STATES, server_ids):
        request = {name: row[name] for name in ("request_id", "project_id", "user_id")}
        states[row["id"]] = ServerState(
            vm_state=row["vm_state"],
            task_state=row["task_state"],
            request=None if request["request_id"] is None else request,
        )
    return states


async def lock_snapshots(
    tx: Connection, server_ids: Sequence[str], *, moving: Collection[str]
) -> dict[str, ServerSnapshot]:
    """Lock the servers, also those that no client sees any more; return what is told of each.

    moving: those that may be in a move, or are deleted; what is done to others follows from their creation.
    """
    rows = await tx.fetch(LOCK_SNAPSHOTS, server_ids)
    causes = {row["id"]: row for row in await tx.fetch(LIST_CAUSES, sorted(moving))} if moving else {}
    snapshots = {}
    for row in rows:
        server = read_row(Server, row, "flavor", "metadata", "spec", "ports", "fault")
        snapshots[server.id] = _snapshot(server, causes.get(server.id))
    return snapshots


def _snapshot(server: Server, cause: Any) -> ServerSnapshot:
    created = {"request_id": server.request_id, "project_id": server.project_id, "user_id": server.user_id}
    if cause is None:
        return ServerSnapshot(server=server, request=created)
    request_fields = {name: cause[name] for name in created}
    kind = None if cause["kind"] is None else MoveKind(cause["kind"])
    return read_row(
        ServerSnapshot,
        {"new_flavor": cause["new_flavor"], "source_host": cause["source_host"]},
        *(["new_flavor"] if cause["new_flavor"] else []),
        server=server,
        request=request_fields if request_fields["request_id"] is not None else created,
        kind=kind,
    )
