"""The orders in which servers are built: chosen by the facts as they are now, and written down."""

from collections.abc import Sequence

from roost.compute.model.work import BuildOrder, Credentials
from roost.compute.rules import orders as rules
from roost.compute.service.context import Compute, reading
from roost.compute.store import orders as store

ORDERS = rules.ORDERS
FLAT = rules.FLAT

count_agent_versions = reading(store.count_agent_versions)
list_hosts_below = reading(store.list_hosts_below)


async def choose_order(compute: Compute, credentials: Credentials) -> BuildOrder:
    """Return the order of builds that begin now."""
    return rules.order_of(await count_agent_versions(compute), credentials)


async def write_orders(compute: Compute, orders: Sequence[tuple[str, BuildOrder]], *, owner: str) -> set[str]:
    """Write the orders of servers that `owner` still has; return the servers' ids."""
    async with compute.database.transaction() as tx:
        return await store.write_orders(tx, orders, owner=owner)
