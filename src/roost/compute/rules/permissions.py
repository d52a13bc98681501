"""Which networks a project may put servers on. No I/O."""

from collections.abc import Mapping, Sequence

from roost.compute.model.server import NicAsked, Permissions
from roost.seams.network import NetworkView


def sees_network(network: NetworkView, project_id: str, permissions: Permissions) -> bool:
    """Return whether there is the network for the project. Source: Neutron, the rule get_network."""
    return permissions.others or network.project_id == project_id or network.shared or network.external


def find_refusal(
    nics: Sequence[NicAsked], networks: Mapping[str, NetworkView], project_id: str, permissions: Permissions
) -> str | None:
    """Return why servers of the project cannot have one of the NICs on networks that it sees, or None.

    Source: Nova, ExternalNetworkAttachForbidden; Neutron, the rule create_port:fixed_ips:ip_address.
    """
    for nic in nics:
        network = networks.get(nic.network_id or "")
        if network is None or nic.port_id or network.project_id == project_id:
            continue
        if network.external and not network.shared and not permissions.external:
            return f"It is not allowed to create an interface on external network {network.id}"
        if nic.fixed_ip and not permissions.others:
            return f"Only the project that owns network {network.id} may choose an address (fixed_ip {nic.fixed_ip})."
    return None
