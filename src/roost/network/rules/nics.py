"""Says what is around the NIC of a port, in the words in which agents are told of it."""

import ipaddress
from collections.abc import Iterable

from roost.network.model.networks import Subnet
from roost.network.model.ports import Nic
from roost.network.rules.subnets import shown_routes
from roost.platform.structs import copy_as
from roost.seams import guests as seam


def describe_nic(nic: Nic, subnets: Iterable[Subnet]) -> seam.NicNetwork:
    """Return what a guest's host is told of a NIC. subnets: of the NIC's network, all of them.

    A network without segments counts as its own segment. If it has a physical network and no type, it is flat.
    """
    peers = [subnet for subnet in subnets if subnet.network_id == nic.network_id]
    network_type = nic.network_type or ("flat" if nic.physical_network else None)
    segment = None
    if network_type is not None:
        segment = copy_as(seam.NicSegment, nic, id=nic.segment_id or nic.network_id, network_type=network_type)
    return copy_as(
        seam.NicNetwork,
        nic,
        segment=segment,
        subnets=tuple(_subnet(subnet, peers) for subnet in peers if subnet.id in nic.subnet_ids),
        port_security=nic.port_security_enabled,
        pairs_allowed=tuple(
            copy_as(seam.AddressPair, pair, ip_address=whole_block(pair.ip_address))
            for pair in nic.allowed_address_pairs
        ),
    )


def whole_block(text: str) -> str:
    """Return an address as it is, and a CIDR without its host's part."""
    return str(ipaddress.ip_network(text, strict=False)) if "/" in text else text


def _subnet(subnet: Subnet, peers: Iterable[Subnet]) -> seam.NicSubnet:
    return seam.NicSubnet(
        cidr=subnet.cidr,
        gateway=subnet.gateway_ip,
        dns=subnet.dns_nameservers,
        routes=tuple(copy_as(seam.Route, route) for route in shown_routes(subnet, peers)),
        dhcp=subnet.enable_dhcp,
        ra_mode=subnet.ipv6_ra_mode,
        address_mode=subnet.ipv6_address_mode,
    )
