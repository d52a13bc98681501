"""The network service next door."""

from collections.abc import Sequence

from roost.clients.local import Local, method
from roost.network.service import (
    Networks,
    adoptions,
    attachments,
    builds,
    capacity,
    moves,
    old_agents,
    unknown_guests,
    views,
)
from roost.seams.network import EnsuredPorts, PortsRefused, ServerNics


class LocalNetwork(Local[Networks]):
    """Implements roost.seams.audit.AuditedNetwork, roost.seams.network.BuildClient and MoveClient."""

    get_networks = method(views.get_networks)
    list_network_ids = method(views.list_network_ids)
    set_hosts = method(capacity.set_hosts)
    get_nic_networks = method(views.get_nic_networks)
    give_up_ports = method(unknown_guests.give_up_left)
    get_port_projects = method(views.get_port_projects)
    list_attached_ports = method(views.list_attached_ports)
    list_unreached_ports = method(views.list_unreached_ports)
    attach_port = method(attachments.attach_port)
    detach_port = method(attachments.detach_port)
    hold_addresses = method(unknown_guests.hold_addresses)
    list_held_addresses = method(unknown_guests.list_held_addresses)
    count_held_addresses = method(unknown_guests.count_held_addresses)
    adopt_ports = method(adoptions.adopt_ports)
    list_holding_hosts = method(unknown_guests.list_holding_hosts)
    bind_ports = method(builds.bind_ports)
    unassign_ports = method(builds.unassign_ports)
    settle_ports = method(builds.settle_ports)
    release_ports = method(builds.release_ports)
    read_ports = method(moves.read_ports)
    add_bindings = method(moves.add_bindings)
    drop_bindings = method(moves.drop_bindings)
    return_ports = method(moves.return_ports)
    readdress_ports = method(moves.readdress_ports)
    trim_claims = method(moves.trim_claims)
    unbind_ports = method(moves.unbind_ports)
    get_hosts = method(views.get_hosts)
    list_noticed_servers = method(views.list_noticed_servers)
    list_unsettled_aggregates = method(views.list_unsettled_aggregates)

    async def ensure_ports(
        self, servers: Sequence[ServerNics], *, placed: bool = False, make: bool = True
    ) -> list[EnsuredPorts | PortsRefused]:
        """See BuildClient.ensure_ports."""
        if not make:
            return await old_agents.plan_ports(self.service, servers)
        return await builds.ensure_ports(self.service, servers, placed=placed)
