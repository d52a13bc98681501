"""SQL of ports' inactive bindings. Callers that change one lock its port, and give the port a new revision."""

from collections.abc import Sequence

from roost.network.model.ports import Binding
from roost.platform.database import Connection

LIST_BINDINGS = """
-- network.list_bindings
SELECT host, vnic_type, binding_profile AS profile, vif_type FROM network.binding WHERE port_id = $1 ORDER BY host
"""


async def list_inactive(tx: Connection, port_id: str) -> list[Binding]:
    """Return the port's bindings but the active one, by host."""
    return [Binding(**row, active=False) for row in await tx.fetch(LIST_BINDINGS, port_id)]


PUT_BINDING = """
-- network.put_binding
INSERT INTO network.binding (port_id, host, vnic_type, binding_profile, vif_type) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (port_id, host) DO UPDATE
SET vnic_type = excluded.vnic_type, binding_profile = excluded.binding_profile, vif_type = excluded.vif_type
"""


async def put(tx: Connection, port_id: str, binding: Binding) -> None:
    """Write an inactive binding of the port, in place of one on the same host."""
    await tx.execute(PUT_BINDING, port_id, binding.host, binding.vnic_type, binding.profile, binding.vif_type)


DELETE_ALL_BINDINGS = """
-- network.delete_all_bindings
DELETE FROM network.binding WHERE port_id = $1
"""


async def delete_all(tx: Connection, port_id: str) -> None:
    """Delete all inactive bindings of the port."""
    await tx.execute(DELETE_ALL_BINDINGS, port_id)


DELETE_OF_PORTS = """
-- network.delete_bindings_of_ports
DELETE FROM network.binding b USING unnest($1::uuid[], $2::text[]) AS dropped (port_id, host)
WHERE b.port_id = dropped.port_id AND b.host = dropped.host RETURNING b.port_id
"""


async def delete_of_ports(tx: Connection, ids: Sequence[str], hosts: Sequence[str]) -> list[str]:
    """Delete the inactive binding of each port on its host; return the ports that had one."""
    return sorted({row[0] for row in await tx.fetch(DELETE_OF_PORTS, ids, hosts)})


DELETE_BINDINGS = """
-- network.delete_bindings
DELETE FROM network.binding WHERE port_id = $1 AND host = ANY($2::text[])
"""


async def delete(tx: Connection, port_id: str, hosts: Sequence[str]) -> None:
    """Delete the inactive bindings of the port on these hosts."""
    await tx.execute(DELETE_BINDINGS, port_id, hosts)
