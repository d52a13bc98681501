"""How servers are built while agents may have to make or bind ports themselves; release 2.0 deletes it.

Old agents do, and the newest where the conductor has no network credentials. In which order each server is built is
chosen when its work is leased for the first time, and kept to its end. The facts are looked at anew for each batch, so
that an order changes without a restart; `compute/old_agents/rules/orders.py` decides. A server with a NIC on a flat
network is always built in the early order.
"""

from collections.abc import Mapping, Sequence

import structlog
from msgspec.structs import replace

from roost.compute.model.work import BuildOrder, Credentials
from roost.compute.old_agents.service.orders import FLAT, ORDERS, choose_order, list_hosts_in_the_way
from roost.compute.old_agents.service.ports import with_ports_going
from roost.conductor.bind import ask_host, get_networks_of, port_information, read_ports
from roost.conductor.context import Build, Conductor, Lease
from roost.conductor.orders import ORDER_NOW
from roost.platform.crash import crash_point
from roost.seams.compute import ServerPort
from roost.seams.network import Bound, EnsuredPorts, NetworkView, Port, PortsRefused

log = structlog.get_logger()


def let_in(conductor: Conductor) -> None:
    """Have agents make, bind and delete ports that need it."""
    conductor.compute.with_ports_going = with_ports_going
    conductor.old_agents = OldAgents()


class OldAgents:
    """Implements roost.conductor.context.OldAgents."""

    def __init__(self) -> None:
        self._order: str | None = None

    async def choose_orders(self, lease: Lease, builds: Sequence[Build]) -> dict[str, BuildOrder]:
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

    async def tell_order(self, conductor: Conductor, credentials: Credentials) -> None:
        """Show in which order a build would begin now; log when that is another than before."""
        order = await choose_order(conductor.compute, credentials)
        if self._order is not None and order.name != self._order:
            hosts = await list_hosts_in_the_way(conductor.compute, order)
            log.warning("servers are built in another order", order=order.name, reason=order.reason, hosts=hosts)
        self._order = order.name
        for known in ORDERS:
            ORDER_NOW.labels(known.name).set(known.name == order.name)

    async def plan_ports(self, lease: Lease, builds: Sequence[Build]) -> list[EnsuredPorts | PortsRefused]:
        """Return the ports of servers whose agents make them; those that are not there yet nobody holds."""
        return await lease.conductor.network.ensure_ports([build.nics for build in builds], make=False)

    async def ask(self, lease: Lease, builds: Sequence[Build]) -> list[Build]:
        """Send the servers to their hosts with the ports as they are: their agents make and bind what is missing."""
        ports, changes = await read_ports(lease, builds)
        networks = await get_networks_of(lease, ports)
        crash_point("launch.before-desire")
        for build in builds:
            if (ports_known := ports.get(build.work.server_id)) is not None:
                changes.append(ask_host(build, [_information(build, port, networks) for port in ports_known], lease))
        advanced = await lease.advance(builds, changes, ports=ports)
        crash_point("launch.after-desire")
        return advanced.going_on


def _information(build: Build, port: Port, networks: Mapping[str, NetworkView]) -> ServerPort:
    """Return what the host is told of a port that its agent is to make or bind."""
    information = port_information(build, port, networks, Bound(port.id, port.addresses, port.revision))
    binding = "none" if port.revision == 0 else "unbound"
    return replace(information, segment=port.provider_uuid, binding=binding, fixed_ip=port.fixed_ip)
