"""Decides whose ports a subnet's addresses are for: the one rule of a Neutron, and of Roost's own networks.

Source: Neutron, extension subnet-service-types: a port may have addresses of a subnet that names no service type, or
its device owner, compared whole. Nova's owner of a server's ports is `compute:` and the zone of its host.
"""

from collections.abc import Collection, Set

COMPUTE_OWNER = "compute:"
DEFAULT_ZONE = "nova"
SERVER_OWNERS = frozenset({COMPUTE_OWNER + DEFAULT_ZONE})
"""Owners of servers' ports where all hosts are in Nova's default zone."""


def serves(service_types: Collection[str], device_owners: Set[str]) -> bool:
    """Return whether ports of each of these owners may have addresses of a subnet.

    Addresses that only some of the servers of a segment may have are no room for servers: whose host is chosen for its
    free addresses might be one of the others.
    """
    assert device_owners
    return not service_types or device_owners <= set(service_types)
