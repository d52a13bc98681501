"""The network service next door."""

from roost.clients.local import Local, method
from roost.network.service import Networks, builds, publications, views


class LocalNetwork(Local[Networks]):
    """Implements roost.seams.audit.AuditedNetwork and roost.seams.network.BuildClient."""

    get_networks = method(views.get_networks)
    list_network_ids = method(views.list_network_ids)
    set_hosts = method(publications.set_hosts)
    get_port_projects = method(views.get_port_projects)
    list_attached_ports = method(views.list_attached_ports)
    ensure_ports = method(builds.ensure_ports)
    bind_ports = method(builds.bind_ports)
    unassign_ports = method(builds.unassign_ports)
    settle_ports = method(builds.settle_ports)
    release_ports = method(builds.release_ports)
    get_hosts = method(views.get_hosts)
    list_noticed_servers = method(views.list_noticed_servers)
    list_unsettled_aggregates = method(views.list_unsettled_aggregates)
