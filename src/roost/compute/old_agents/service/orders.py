"""The orders in which servers are built: chosen by the facts as they are now."""

from roost.compute.model.work import BuildOrder, Credentials
from roost.compute.old_agents.rules import orders as rules
from roost.compute.old_agents.store import orders as store
from roost.compute.service.context import Compute
from roost.compute.service.hosts import NAMES_LOGGED_MAX, list_hosts_below

ORDERS = rules.ORDERS
FLAT = rules.FLAT


async def count_agent_versions(compute: Compute) -> dict[int, int]:
    """Return service version -> how many of the hosts that have a say have an agent of it."""
    async with compute.database.connection() as connection:
        return await store.count_agent_versions(connection, version_min=compute.settings.service_version_min)


async def list_hosts_in_the_way(compute: Compute, order: BuildOrder) -> list[str]:
    """Return hosts whose agents keep servers from the next order, at most NAMES_LOGGED_MAX."""
    version = rules.version_wanted(order)
    if version is None:
        return []
    version_min = compute.settings.service_version_min
    return await list_hosts_below(compute, version, version_min=version_min, limit=NAMES_LOGGED_MAX)


async def choose_order(compute: Compute, credentials: Credentials) -> BuildOrder:
    """Return the order of builds that begin now."""
    return rules.order_of(await count_agent_versions(compute), credentials)
