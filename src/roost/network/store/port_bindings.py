"""SQL of ports' inactive bindings. Callers that change one lock its port, and give the port a new revision."""

from collections.abc import Sequence

from roost.network.model.ports import Binding
from roost.platform.database import Connection
from roost.platform.rows import columns_of

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


DELETE_BINDINGS = """
-- network.delete_bindings
DELETE FROM network.binding b USING unnest($1::uuid[], $2::text[]) AS dropped (port_id, host)
WHERE b.port_id = dropped.port_id AND (dropped.host IS NULL OR b.host = dropped.host) RETURNING b.port_id
"""


async def delete(tx: Connection, dropped: Sequence[tuple[str, str | None]]) -> list[str]:
    """Delete inactive bindings, by (port id, host), None for all hosts; return the ports that had one."""
    return sorted({row["port_id"] for row in await tx.fetch(DELETE_BINDINGS, *columns_of(dropped, 2))})
