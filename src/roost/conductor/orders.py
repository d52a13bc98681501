"""In which order each server is built: chosen when its work is leased for the first time, and kept to its end.

The facts are looked at anew for each batch, so that an order changes without a restart; `compute/rules/orders.py`
decides. A server with a NIC on a flat network is always built in the early order.
"""

from collections.abc import Sequence

from msgspec.structs import replace
from prometheus_client import Counter

from roost.compute.model.work import BuildOrder, Stage
from roost.compute.service.orders import FLAT, choose_order, write_orders
from roost.conductor.context import Build, Lease

BUILDS_BEGUN = Counter("roost_builds_begun", "Builds of servers that began, by the order of their stages.", ("order",))


async def give_orders(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Return the builds, each with its order; those are left out that have none and whose lease was lost."""
    new = [build for build in builds if _is_new(build)]
    if not new:
        return list(builds)
    orders = await _choose(lease, new)
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


async def _choose(lease: Lease, builds: Sequence[Build]) -> dict[str, BuildOrder]:
    """Return the order of each server, by its id."""
    conductor = lease.conductor
    order = await choose_order(conductor.compute, conductor.credentials())
    orders = {build.work.server_id: order for build in builds}
    if order.stages == FLAT.stages:
        return orders
    ids = sorted({nic.network_id for build in builds for nic in build.work.spec.nics if nic.network_id})
    networks = await conductor.network.get_networks(ids) if ids else {}
    flat = {network.id for network in networks.values() if network.flat}
    for build in builds:
        if not flat.isdisjoint(nic.network_id for nic in build.work.spec.nics):
            orders[build.work.server_id] = FLAT
    return orders
