"""SQL of the orders in which servers are built: the facts that decide, and what was chosen."""

from collections.abc import Sequence

from roost.compute.model.work import BuildOrder
from roost.compute.store.rows import columns_of, encode
from roost.platform.database import Connection

COUNT_VERSIONS = """-- compute.count_agent_versions
SELECT service_version, count(*) AS hosts FROM compute.host
WHERE NOT silent AND NOT forced_down AND NOT disabled AND (service_version = 0 OR service_version >= $1)
GROUP BY service_version"""


async def count_agent_versions(tx: Connection, *, version_min: int) -> dict[int, int]:
    """Return service version -> how many hosts that take servers have an agent of it, from version_min on."""
    return {row["service_version"]: row["hosts"] for row in await tx.fetch(COUNT_VERSIONS, version_min)}


LIST_BELOW = """-- compute.list_hosts_below
SELECT name FROM compute.host WHERE NOT silent AND NOT forced_down AND NOT disabled
    AND service_version >= $3 AND service_version < $1
ORDER BY name LIMIT $2"""


async def list_hosts_below(tx: Connection, version: int, *, version_min: int = 1, limit: int) -> list[str]:
    """Return hosts that live and are enabled whose agents are of an older service version, from version_min on."""
    return [row["name"] for row in await tx.fetch(LIST_BELOW, version, limit, version_min)]


# The work row first, then the server. One that is being deleted has its order too: who has the row ends it.
WRITE_ORDERS = """-- compute.write_orders
WITH new AS (SELECT * FROM unnest($1::uuid[], $2::text[], $3::jsonb[]) AS n (server_id, stage, build_order)),
begun AS (
    UPDATE compute.work AS w SET stage = new.stage FROM new
    WHERE w.server_id = new.server_id AND w.lease_owner = $4 RETURNING w.server_id
)
UPDATE compute.server AS s SET build_order = new.build_order || jsonb_build_object('chosen_at', now())
FROM new JOIN begun USING (server_id) WHERE s.id = new.server_id AND s.build_order IS NULL RETURNING s.id"""


async def write_orders(tx: Connection, orders: Sequence[tuple[str, BuildOrder]], *, owner: str) -> set[str]:
    """Write the orders of servers that `owner` still has, and their first stages; return the servers' ids."""
    rows = [(server_id, order.stages[0].value, encode(order)) for server_id, order in orders]
    return {row["id"] for row in await tx.fetch(WRITE_ORDERS, *columns_of(rows), owner)}
