"""The orders in which servers are built: chosen by the facts as they are now, and written down."""

from collections.abc import Sequence

from roost.compute.model.work import BuildOrder, Credentials
from roost.compute.rules import orders as rules
from roost.compute.service.context import Compute, reading
from roost.compute.store import orders as store

HOSTS_NAMED_MAX = 20
ORDERS = rules.ORDERS
FLAT = rules.FLAT

list_hosts_below = reading(store.list_hosts_below)


async def count_agent_versions(compute: Compute) -> dict[int, int]:
    """Return service version -> how many of the hosts that have a say have an agent of it."""
    async with compute.database.connection() as connection:
        return await store.count_agent_versions(connection, version_min=compute.settings.service_version_min)


async def list_hosts_in_the_way(compute: Compute, order: BuildOrder) -> list[str]:
    """Return hosts whose agents keep servers from the next order, at most HOSTS_NAMED_MAX."""
    version = rules.version_wanted(order)
    if version is None:
        return []
    async with compute.database.connection() as connection:
        return await store.list_hosts_below(
            connection, version, version_min=compute.settings.service_version_min, limit=HOSTS_NAMED_MAX
        )


async def choose_order(compute: Compute, credentials: Credentials) -> BuildOrder:
    """Return the order of builds that begin now."""
    return rules.order_of(await count_agent_versions(compute), credentials)


async def write_orders(compute: Compute, orders: Sequence[tuple[str, BuildOrder]], *, owner: str) -> set[str]:
    """Write the orders of servers that `owner` still has; return the servers' ids."""
    async with compute.database.transaction() as tx:
        return await store.write_orders(tx, orders, owner=owner)
