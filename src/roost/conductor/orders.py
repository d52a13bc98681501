"""In which order each server is built, written when its work is leased for the first time: the early one.

Where agents may have to make or bind ports themselves, `old_agents.py` chooses it.
"""

from collections.abc import Sequence

from msgspec.structs import replace
from prometheus_client import Counter, Gauge

from roost.compute.model.work import EARLY, Stage
from roost.compute.service.orders import write_orders
from roost.conductor.context import Build, Lease

BUILDS_BEGUN = Counter("roost_builds_begun", "Builds of servers that began, by the order of their stages.", ("order",))
ORDER_NOW = Gauge("roost_build_order", "1 for the order in which a build would begin now.", ("order",))


async def give_orders(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Return the builds, each with its order; those are left out that have none and whose lease was lost."""
    new = [build for build in builds if _is_new(build)]
    if not new:
        return list(builds)
    old_agents = lease.conductor.old_agents
    orders = {build.work.server_id: EARLY for build in new}
    if old_agents is not None:
        orders = await old_agents.choose_orders(lease, new)
    written = await write_orders(lease.conductor.compute, list(orders.items()), owner=lease.owner)
    for server_id in written:
        BUILDS_BEGUN.labels(orders[server_id].name).inc()
    begun = {
        build.work.server_id: Build(replace(build.work, order=order, stage=order.stages[0]))
        for build in new
        if (order := orders[build.work.server_id]) and build.work.server_id in written
    }
    lost = orders.keys() - written
    return [begun.get(b.work.server_id, b) for b in builds if b.work.server_id not in lost]


def _is_new(build: Build) -> bool:
    work = build.work
    return work.order is None and work.stage is Stage.CREATE_PORTS and work.move is None and not work.deleting
