"""Servers of guests that nobody knew: SQL only."""

from roost.compute.model.unknown_guests import AdoptedServer, NewAdoption
from roost.compute.model.work import Failure
from roost.platform.database import Connection
from roost.platform.rows import encode, read_row
from roost.seams.compute import ServerPort

FIND_SERVER = """
-- compute.find_server_to_adopt
SELECT s.id, s.name, s.project_id, s.user_id, s.spec, s.network_info AS ports, s.build_order AS "order", s.host,
    h.provider_uuid, s.deleted_at IS NOT NULL AS deleted, coalesce(s.fault ->> 'kind' = $3, false) AS begun,
    EXISTS (SELECT FROM compute.work w WHERE w.server_id = s.id)
        OR EXISTS (SELECT FROM compute.move m WHERE m.server_id = s.id AND m.open) AS working,
    ARRAY(SELECT g.host FROM compute.guest g WHERE g.server_id = s.id AND g.host <> $2 AND g.desired <> 'absent'
        AND g.lost_at IS NULL AND g.fenced_by IS NULL ORDER BY g.host) AS hosts_running
FROM compute.server s LEFT JOIN compute.host h ON h.name = s.host
WHERE s.id = $1
"""


async def find_server(tx: Connection, server_id: str, host: str, *, adopting: str) -> AdoptedServer | None:
    """Return what is known of the server whose guest on the host is to be adopted."""
    row = await tx.fetchrow(FIND_SERVER, server_id, host, adopting)
    if row is None:
        return None
    return read_row(AdoptedServer, row, "spec", "ports", "order")


INSERT_SERVER = """
-- compute.insert_adopted_server
INSERT INTO compute.server (id, name, project_id, user_id, flavor, spec, hostname, host, status, fault, build_order)
VALUES ($1, $2, $3, $4, $5::jsonb, $6::jsonb, $7, $8, 'ERROR', $9::jsonb, $10::jsonb) ON CONFLICT (id) DO NOTHING
"""


async def insert_server(tx: Connection, new: NewAdoption, fault: Failure) -> None:
    """Insert a server that is not adopted yet: it is in ERROR, on the host, so that it may hold claims and ports."""
    await tx.execute(
        INSERT_SERVER, new.id, new.name, new.project_id, new.user_id, encode(new.flavor), encode(new.spec),
        new.hostname, new.host, encode(fault), encode(new.order),
    )  # fmt: skip


DELETE_SERVER = """
-- compute.delete_adopted_server
DELETE FROM compute.server WHERE id = $1 AND status = 'ERROR' AND fault ->> 'kind' = $2
"""


async def delete_server(tx: Connection, server_id: str, *, adopting: str) -> None:
    """Delete a server whose adoption was refused."""
    await tx.execute(DELETE_SERVER, server_id, adopting)


TAKE_GUEST = """
-- compute.take_unknown_guest
DELETE FROM compute.unknown_guest WHERE server_id = $1 AND host = $2 AND attempt = $3 RETURNING attempt
"""
DROP_GUESTS = """
-- compute.drop_guests_elsewhere
DELETE FROM compute.guest WHERE server_id = $1 AND host <> $2 AND (lost_at IS NOT NULL OR desired = 'absent')
"""
INSERT_GUEST = """
-- compute.insert_adopted_guest
INSERT INTO compute.guest (server_id, host, attempt, desired, reported, begun_at, running_at, agent_id)
SELECT $1, name, $3, $4, $4, now(), now(), agent_id FROM compute.host WHERE name = $2
ON CONFLICT (server_id, host) DO UPDATE SET attempt = excluded.attempt, desired = excluded.desired,
    reported = excluded.reported, running_at = now(), agent_id = excluded.agent_id, lost_at = NULL
"""
ADOPT_SERVER = """
-- compute.adopt_server
UPDATE compute.server SET status = 'ACTIVE', task_state = NULL, fault = NULL, host = $2, power = $3, network_info = $4,
    launched_at = coalesce(launched_at, now()), updated_at = now(), shelved = shelved AND $3 = 'stopped'
WHERE id = $1
"""


async def take_guest(tx: Connection, server_id: str, host: str, *, attempt: int, state: str) -> bool:
    """Make the unknown guest the server's only one; return False where no such guest is listed any more."""
    if await tx.fetchval(TAKE_GUEST, server_id, host, attempt) is None:
        return False
    await tx.execute(DROP_GUESTS, server_id, host)
    await tx.execute(INSERT_GUEST, server_id, host, attempt, state)
    return True


async def activate_server(
    tx: Connection, server_id: str, host: str, *, state: str, ports: tuple[ServerPort, ...]
) -> None:
    """Make the locked server ACTIVE on the host, in the state of its guest."""
    await tx.execute(ADOPT_SERVER, server_id, host, state, encode(ports))
