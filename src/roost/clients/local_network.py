"""The network service next door."""

from roost.clients.local import Local, method
from roost.network.service import Networks, adoptions, attachments, builds, capacity, moves, nics, unknown_guests, views


class LocalNetwork(Local[Networks]):
    """Implements roost.seams.audit.AuditedNetwork, roost.seams.network.BuildClient and MoveClient."""

    get_networks = method(views.get_networks)
    list_network_ids = method(views.list_network_ids)
    set_hosts = method(capacity.set_hosts)
    get_nic_networks = method(nics.get_nic_networks)
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
    ensure_ports = method(builds.ensure_ports)
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
