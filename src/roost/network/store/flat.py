"""SQL of the addresses that servers have on flat networks, on ports that no client sees."""

from collections.abc import Sequence

from roost.platform.database import Connection

LIST_FLAT = """
-- network.list_flat_addresses
SELECT p.device_id, a.subnet_id, a.address FROM network.port p JOIN network.address a ON a.port_id = p.id
WHERE p.device_id = ANY($1::text[]) AND p.device_id <> '' AND p.nic_tag IS NOT NULL ORDER BY p.device_id, p.nic_tag
"""


async def list_of_servers(tx: Connection, server_ids: Sequence[str]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return server id -> its addresses, as (pool, address); servers without any are left out."""
    addresses: dict[str, tuple[tuple[str, str], ...]] = {}
    for server_id, pool_id, address in await tx.fetch(LIST_FLAT, server_ids):
        addresses[server_id] = (*addresses.get(server_id, ()), (pool_id, address))
    return addresses


LIST_HOLDERS = """
-- network.list_flat_holders
SELECT p.network_id, a.address, coalesce(nullif(p.device_id, ''), p.made_for::text, '') AS server_id
FROM unnest($1::uuid[], $2::inet[]) AS w (network_id, address)
JOIN network.address a ON a.address = w.address
JOIN network.port p ON p.id = a.port_id AND p.network_id = w.network_id
"""


async def list_holders(tx: Connection, named: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return (network id, address) -> the server that has it; addresses that no port has are left out."""
    rows = await tx.fetch(LIST_HOLDERS, [network for network, _ in named], [address for _, address in named])
    return {(row["network_id"], row["address"]): row["server_id"] for row in rows}
