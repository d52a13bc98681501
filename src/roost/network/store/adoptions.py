"""Hidden ports of unknown guests that become servers' ports: SQL only."""

from collections.abc import Sequence

from roost.network.model.ports import Address
from roost.network.model.unknown_guests import AdoptedPort
from roost.network.store.addresses import OF_UNKNOWN_GUEST
from roost.platform.database import Connection

LIST_PORTS = f"""
-- network.list_ports_to_adopt
SELECT id FROM network.port p
WHERE p.id = ANY($3::uuid[]) OR p.device_id = $1
    OR (p.host = $2 AND p.made_for::text = $1 AND {OF_UNKNOWN_GUEST})
ORDER BY id
"""  # noqa: S608 - a constant of addresses.py


async def list_port_ids(tx: Connection, server_id: str, host: str, port_ids: Sequence[str]) -> list[str]:
    """Return the ports with these ids, the server's ports, and the hidden ports of its guest on the host; by id."""
    return [row["id"] for row in await tx.fetch(LIST_PORTS, server_id, host, port_ids)]


ADOPT_PORTS = """
-- network.adopt_ports
WITH known AS (DELETE FROM network.listed_address WHERE port_id = ANY($1::uuid[]))
UPDATE network.port p
SET id = n.id, project_id = $5, device_id = $6, device_owner = $7, nic_tag = n.nic_tag, revision = revision + 1,
    made_for = CASE WHEN n.made THEN p.made_for END,
    ip_allocation = CASE WHEN n.made THEN 'deferred' ELSE 'immediate' END, updated_at = now()
FROM unnest($1::uuid[], $2::uuid[], $3::boolean[], $4::text[]) AS n (hidden_id, id, made, nic_tag)
WHERE p.id = n.hidden_id
"""
MOVE_ADDRESSES = """
-- network.move_adopted_addresses
UPDATE network.address a SET port_id = n.port_id, claimed = n.claimed
FROM unnest($1::uuid[], $2::inet[], $3::uuid[], $4::boolean[]) AS n (subnet_id, address, port_id, claimed)
WHERE a.subnet_id = n.subnet_id AND a.address = n.address
"""


async def adopt(
    tx: Connection, adopted: Sequence[AdoptedPort], *, project_id: str, server_id: str, device_owner: str
) -> None:
    """Make these hidden ports the server's. The ports and the subnets of their addresses are locked."""
    columns = [
        [port.hidden_id for port in adopted], [port.id for port in adopted], [port.made_by_roost for port in adopted],
        [port.nic_tag for port in adopted],
    ]  # fmt: skip
    await tx.execute(ADOPT_PORTS, *columns, project_id, server_id, device_owner)
    moved: list[Address] = [item for port in adopted for item in port.addresses]
    await tx.execute(
        MOVE_ADDRESSES, [item.subnet_id for item in moved], [item.address for item in moved],
        [item.port_id for item in moved], [item.claimed for item in moved],
    )  # fmt: skip
