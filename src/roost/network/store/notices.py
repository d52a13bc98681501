"""SQL of notices: servers whose ports a client changed or deleted, until the compute service knows."""

from collections.abc import Collection, Sequence

from roost.network.model.ports import SERVER_ID
from roost.platform.database import Connection
from roost.platform.rows import columns_of
from roost.seams.compute import PortsChange
from roost.seams.service_types import COMPUTE_OWNER

INSERT_NOTICES = """
-- network.insert_notices
INSERT INTO network.notice (server_id, lost_port_id) SELECT * FROM unnest($1::uuid[], $2::uuid[])
"""


async def insert_notices(tx: Connection, notices: Collection[tuple[str, str | None]]) -> None:
    """Note servers whose ports have changed, each with a port that its build lost, if any."""
    await tx.execute(INSERT_NOTICES, *columns_of(notices))


NOTE_NETWORKS = f"""
-- network.note_networks
INSERT INTO network.notice (server_id)
SELECT DISTINCT device_id::uuid FROM network.port
WHERE network_id = ANY($1::uuid[]) AND host IS NOT NULL AND device_owner LIKE '{COMPUTE_OWNER}%'
    AND device_id ~ '^{SERVER_ID.pattern}$'
"""  # noqa: S608 - constants


async def note_networks(tx: Connection, network_ids: Sequence[str]) -> None:
    """Note every server that has a NIC on these networks: what is around it has changed."""
    if network_ids:
        await tx.execute(NOTE_NETWORKS, network_ids)


LIST_NOTICES = """
-- network.list_notices
SELECT n.id, n.server_id, n.lost_port_id FROM network.notice n
WHERE ($1::uuid[] IS NULL OR n.server_id = ANY($1))
    AND (n.lost_port_id IS NOT NULL OR NOT EXISTS (SELECT FROM network.port p
        WHERE p.device_id = n.server_id::text AND p.device_id <> '' AND p.reserved_from IS NOT NULL))
ORDER BY n.id LIMIT $2
"""


async def list_notices(tx: Connection, server_ids: Sequence[str] | None, limit: int) -> dict[int, PortsChange]:
    """Return notice id -> the change, of these servers or the oldest of all.

    While a build holds ports of its server, only its lost ports are listed. The others wait until it is over.
    """
    rows = await tx.fetch(LIST_NOTICES, server_ids, limit)
    return {
        row["id"]: PortsChange(row["server_id"], () if row["lost_port_id"] is None else (row["lost_port_id"],))
        for row in rows
    }


LIST_NOTICED = """
-- network.list_noticed
SELECT server_id, min(lost_port_id::text) AS lost_port_id FROM network.notice
WHERE server_id = ANY($1::uuid[]) GROUP BY server_id
"""


async def list_noticed(tx: Connection, server_ids: Sequence[str]) -> dict[str, str | None]:
    """Return server id -> a port that its build lost, None where it lost none, of the servers that have a notice."""
    return {row["server_id"]: row["lost_port_id"] for row in await tx.fetch(LIST_NOTICED, server_ids)}


DELETE_NOTICES = """
-- network.delete_notices
DELETE FROM network.notice WHERE id = ANY($1::bigint[])
"""


async def delete_notices(tx: Connection, ids: Sequence[int]) -> None:
    """Delete notices that the compute service has received."""
    await tx.execute(DELETE_NOTICES, ids)
