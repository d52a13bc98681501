"""SQL of NICs that servers have lost and guests may still have: hidden ports that list, and so keep, addresses."""
# ruff: noqa: S608 - what is put into a statement are constants of the store.

from collections.abc import Collection, Sequence

from roost.network.model.ports import HELD_OWNER, VIF_TYPE_BOUND, Address, Port
from roost.network.model.unknown_guests import LeftNic
from roost.network.store.addresses import HOLDING
from roost.platform.database import Connection
from roost.platform.rows import columns_of

INSERT_LEFT = """
-- network.insert_left_port
WITH hidden AS (
    INSERT INTO network.port (id, network_id, project_id, mac_address, device_owner, ip_allocation, host, vif_type,
        made_for, nic_tag, left_at)
    VALUES ($1, $2, '', $3, $4, 'none', $5, $6, $7, '', now()) ON CONFLICT DO NOTHING RETURNING id)
INSERT INTO network.listed_address (subnet_id, address, port_id)
SELECT l.subnet_id, l.address, hidden.id FROM hidden, unnest($8::uuid[], $9::inet[]) AS l (subnet_id, address)
RETURNING address
"""


async def insert_left(tx: Connection, hidden_id: str, port: Port, gone: Sequence[Address], *, mac_address: str) -> bool:
    """Have a hidden port list what the guest of a bound port may still have; return whether the MAC address was free.

    gone: at least one address, in locked subnets.
    """
    hidden = (hidden_id, port.network_id, mac_address, HELD_OWNER, port.host, VIF_TYPE_BOUND, port.device_id)
    listed = columns_of([(item.subnet_id, item.address) for item in gone])
    return bool(await tx.fetch(INSERT_LEFT, *hidden, *listed))


# While a notice stands, compute has not asked the guest's host for its NICs.
LIST_LEFT = f"""
-- network.list_left_ports
SELECT p.id AS port_id, p.made_for AS server_id, p.host FROM network.port p
WHERE {HOLDING} AND p.left_at IS NOT NULL AND ($1::uuid[] IS NULL OR p.made_for = ANY($1))
    AND NOT EXISTS (SELECT FROM network.notice n WHERE n.server_id = p.made_for)
ORDER BY p.left_at, p.id
"""


async def list_left(tx: Connection, server_ids: Sequence[str] | None) -> list[LeftNic]:
    """Return the NICs that guests of these servers, None for all, may still have, once compute was told of them."""
    return [LeftNic(**row) for row in await tx.fetch(LIST_LEFT, server_ids)]


LIST_SUBNETS = """
-- network.list_left_subnets
SELECT DISTINCT subnet_id FROM network.listed_address WHERE port_id = ANY($1::uuid[])
"""


async def list_subnets(tx: Connection, port_ids: Collection[str]) -> list[str]:
    """Return the subnets in which these hidden ports list addresses: they have none elsewhere, and are given none."""
    return [row["subnet_id"] for row in await tx.fetch(LIST_SUBNETS, list(port_ids))]


LIST_PLUGGED = """
-- network.list_plugged_ports
SELECT a.port_id, p.made_for AS server_id, p.host
FROM network.address a JOIN network.listed_address l USING (subnet_id, address) JOIN network.port p ON p.id = l.port_id
WHERE a.port_id = ANY($1::uuid[]) AND p.left_at IS NOT NULL
"""


async def list_plugged(tx: Connection, port_ids: Sequence[str]) -> list[LeftNic]:
    """Return those of the ports of which a guest may still have an address, with the guest's server and host."""
    return [LeftNic(**row) for row in await tx.fetch(LIST_PLUGGED, port_ids)]
