"""SQL of the orders in which servers are built."""

from collections.abc import Sequence

from roost.compute.model.work import BuildOrder
from roost.platform.database import Connection
from roost.platform.rows import columns_of, encode

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
