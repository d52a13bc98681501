"""Hosts that are removed for good: out of their aggregates, the ledger, what the network service knows, and the table.

The host's own row goes last: a removal that was cut off can be asked for again, and until then the audit has the host
published as it was.
"""

from roost.compute.errors import HostInUse, HostNotFound
from roost.compute.model.cloud import Host, HostUse
from roost.compute.model.server import Requester
from roost.compute.service import operator_aggregates
from roost.compute.service.aggregates import list_host_aggregates
from roost.compute.service.context import Compute
from roost.compute.service.hosts import withdraw_hosts
from roost.compute.service.notifications import announce_hosts
from roost.compute.store import hosts as store
from roost.platform.database import Connection

HOSTING = "Unable to delete compute service that is hosting instances. Migrate or delete the instances first."
MOVING = (
    "Unable to delete compute service that has in-progress migrations. "
    "Complete the migrations or delete the instances first."
)
"""Source: Nova, nova/api/openstack/compute/services.py."""


async def delete_host(compute: Compute, host: Host, *, by: Requester | None = None) -> None:
    """Remove the host. Raises HostNotFound, and HostInUse while servers, moves or claims need it.

    An agent that still runs there registers it again.
    """
    async with compute.database.transaction() as tx:
        await _check_unused(tx, host)
    for aggregate in await list_host_aggregates(compute):
        if aggregate.of_operator and host.name in aggregate.hosts:
            await operator_aggregates.remove_host(compute, aggregate.id, host.name, by)
    # From here on no claim can be made there; a server that is being placed on the host has made its own before.
    if await compute.placement.delete_providers([host.provider_uuid]):
        raise HostInUse(HOSTING)
    await compute.network.set_hosts({host.name: ()}, cells_by_host={host.name: host.cell})
    async with compute.database.transaction() as tx:
        await _check_unused(tx, host)
        await store.delete_host(tx, host.name)
        await announce_hosts(compute, tx, "delete", [host], by)
    await withdraw_hosts(compute, [host])


async def _check_unused(tx: Connection, host: Host) -> None:
    match await store.lock_host_use(tx, host.name):
        case None:
            raise HostNotFound(f"Compute host {host.name} could not be found.")
        case HostUse.SERVERS:
            raise HostInUse(HOSTING)
        case HostUse.MOVES:
            raise HostInUse(MOVING)
