"""Ports that clients changed or deleted: what is kept of them with ACTIVE servers, and builds that end without them.

The network service says which servers are concerned; what their ports are now is read from it, as often as it is said.
"""

from collections.abc import Sequence

from roost.compute.errors import PortsChanging
from roost.compute.model.work import WORK_CHANNEL
from roost.compute.rules.drift import network_information, own_ports
from roost.compute.rules.nics import end_builds
from roost.compute.service.context import Compute
from roost.compute.store import guests as guest_rows
from roost.compute.store import nics as store
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
    await _refresh(compute, sorted({change.server_id for change in changes}))


async def _refresh(compute: Compute, server_ids: Sequence[str]) -> None:
    """Keep with ACTIVE servers what their ports are now.

    Each writer reads the ports again after it wrote (R19): another one may have written newer ones before it.
    """
    for _ in range(ROUNDS_MAX):
        async with compute.database.connection() as connection:
            servers_kept = await store.list_active_ports(connection, server_ids)
        if not servers_kept:
            return
        attached = await compute.network.list_attached_ports(list(servers_kept))
        ports_wanted = {
            server_id: network_information(ports, own_ports(project_id, attached.get(server_id, ())))
            for server_id, (project_id, ports) in servers_kept.items()
        }
        differing = [server_id for server_id, (_, ports) in servers_kept.items() if ports_wanted[server_id] != ports]
        if not differing:
            return
        # Each by itself: conductors lock several servers at once, in another order.
        for server_id in differing:
            async with compute.database.transaction() as tx:
                old = servers_kept[server_id][1]
                await store.set_network_info(tx, server_id, old=old, new=ports_wanted[server_id])
    raise PortsChanging("Ports of servers change all the time: repeat the request.")
