"""SQL that counts the addresses of subnets that ports hold, and ports without an address."""

from collections.abc import Sequence

from roost.network.model.networks import HeldCounts
from roost.platform.database import Connection

# Nearly all addresses are marked as in a pool. Only others need their pools read.
COUNT_HELD = """
-- network.count_held
SELECT a.subnet_id, count(*) AS held, count(*) FILTER (WHERE a.in_pool OR EXISTS (
    SELECT FROM network.pool p
    WHERE p.subnet_id = a.subnet_id AND a.address BETWEEN p.first_address AND p.last_address
    )) AS in_pools
FROM network.address a
WHERE a.subnet_id = ANY($1::uuid[]) GROUP BY a.subnet_id
"""


async def count_held(tx: Connection, subnet_ids: Sequence[str]) -> dict[str, HeldCounts]:
    """Return subnet id -> how many of its addresses ports hold; subnets without any are left out."""
    rows = await tx.fetch(COUNT_HELD, subnet_ids)
    return {row["subnet_id"]: HeldCounts(row["held"], row["in_pools"]) for row in rows}


COUNT_PORTS_WITHOUT_ADDRESS = """
-- network.count_ports_without_address
SELECT count(*) FROM network.port p
WHERE p.vif_type <> 'unbound' AND NOT EXISTS (SELECT FROM network.address a WHERE a.port_id = p.id)
"""


async def count_ports_without_address(tx: Connection) -> int:
    """Return how many bound ports have no address."""
    count: int = await tx.fetchval(COUNT_PORTS_WITHOUT_ADDRESS)
    return count
