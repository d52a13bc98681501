"""Ports that clients changed or deleted: what is kept of them with ACTIVE servers, and builds that end without them.

The network service says which servers are concerned; what their ports are now is read from it, as often as it is said.
Then every host that has a guest of them is asked for its NICs.
"""

from collections.abc import Collection, Sequence

from roost.compute.errors import PortsChanging
from roost.compute.model.work import GUEST_CHANNEL, WORK_CHANNEL
from roost.compute.rules.drift import network_information, own_ports
from roost.compute.rules.nics import end_builds
from roost.compute.service.context import Compute
from roost.compute.store import guests as guest_rows
from roost.compute.store import nics as store
from roost.platform.repeat import at_once
from roost.platform.retries import retried
from roost.seams.compute import PortsChange

ROUNDS_MAX = 8


async def ports_changed(compute: Compute, changes: Sequence[PortsChange]) -> None:
    """See ComputeClient.ports_changed. Raises PortsChanging; it can be repeated."""
    lost: dict[str, tuple[str, ...]] = {}
    for change in changes:
        if change.lost:
            lost[change.server_id] = (*lost.get(change.server_id, ()), *change.lost)
    if lost:
        async with compute.database.transaction() as tx:
            endings = end_builds(await guest_rows.lock_works(tx, list(lost)), lost)
            await store.end_builds(tx, now=endings.now, marked=endings.marked)
        if endings.now:
            compute.wake(WORK_CHANNEL)
    server_ids = sorted({change.server_id for change in changes})
    await _refresh(compute, server_ids, set())
    await ask_for_nics(compute, server_ids)


async def refresh_ports(compute: Compute, server_ids: Collection[str]) -> None:
    """Keep with ACTIVE servers what their ports are now, whatever was said of them. Raises PortsChanging."""
    differing: set[str] = set()
    await _refresh(compute, sorted(server_ids), differing)
    await ask_for_nics(compute, differing)


async def ask_for_nics(compute: Compute, server_ids: Collection[str]) -> None:
    """Ask the hosts of these servers' guests for their NICs, once it is written what the ports are."""
    hosts = set[str]()
    for server_id in sorted(server_ids):  # each by itself, as below
        async with compute.database.transaction() as tx:
            hosts |= await guest_rows.ask_for_nics(tx, server_id)
    if hosts:
        compute.wake(GUEST_CHANNEL)


async def _give_up_ports(compute: Compute, server_ids: Collection[str]) -> None:
    """Have the network service give away what guests have no longer."""
    await compute.network.give_up_ports(sorted(server_ids))


give_up_ports_now = at_once(_give_up_ports, "giving back addresses of unplugged NICs")


@retried(PortsChanging, most=ROUNDS_MAX)
async def _refresh(compute: Compute, server_ids: Sequence[str], written: set[str]) -> None:
    """Keep with ACTIVE servers what their ports are now. Raises PortsChanging where something was written.

    written: those are added to it. Each writer reads the ports again after it wrote (R19): another one may have written
    newer ones before it.
    """
    async with compute.database.connection() as connection:
        servers = await store.list_server_networks(connection, server_ids)
    if not servers:
        return
    attached = await compute.network.list_attached_ports([server.id for server in servers])
    ports_now = {
        server.id: network_information(server, own_ports(server.project_id, attached.get(server.id, ())))
        for server in servers
    }
    differing = [server for server in servers if ports_now[server.id] != server.ports]
    if not differing:
        return
    # Each by itself: conductors lock several servers at once, in another order.
    for server in differing:
        async with compute.database.transaction() as tx:
            if await store.set_network_info(tx, server.id, old=server.ports, new=ports_now[server.id]):
                written.add(server.id)
    raise PortsChanging("Ports of servers change all the time: repeat the request.")
