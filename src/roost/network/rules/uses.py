"""Decides which subnets a port may have addresses of, and which addresses are derived from its MAC address.

Source: Neutron's subnet service types and its IPv6 modes. In SLAAC and DHCPv6-stateless subnets a port's address is its
EUI-64.
"""

from collections.abc import Iterable

from roost.network.model.networks import SubnetKind
from roost.network.model.ports import Given, Port
from roost.network.rules.addressing import block_range
from roost.seams.placement import IPV4_ADDRESS, IPV6_ADDRESS
from roost.seams.service_types import SERVER_OWNERS, serves

AUTOMATIC_MODES = ("slaac", "dhcpv6-stateless")
DHCP_OWNER = "network:dhcp"
ROUTED_OWNER = "network:routed"
INTERFACE_OWNERS = (
    "network:router_interface",
    "network:ha_router_replicated_interface",
    "network:router_interface_distributed",
)
"""Ports by which routers are on subnets."""

ROUTER_OWNERS = (*INTERFACE_OWNERS, "network:router_centralized_snat")


def is_automatic(subnet: SubnetKind) -> bool:
    """Return whether each port's address in the subnet is its EUI-64, and no other."""
    return subnet.ipv6_address_mode in AUTOMATIC_MODES or subnet.ipv6_ra_mode in AUTOMATIC_MODES


def needs_no_segment(subnet: SubnetKind) -> bool:
    """Return whether the subnet may be without a segment in a routed network: routers route to its addresses."""
    return ROUTED_OWNER in subnet.service_types


def may_use(subnet: SubnetKind, device_owner: str) -> bool:
    """Return whether a port of this owner may have addresses of the subnet at all."""
    return serves(subnet.service_types, {device_owner}) or (device_owner == DHCP_OWNER and subnet.enable_dhcp)


def is_for_servers(subnet: SubnetKind) -> bool:
    """Return whether every server's port may have addresses of the subnet."""
    return serves(subnet.service_types, SERVER_OWNERS)


def gets_automatic(device_owner: str) -> bool:
    """Return whether a port of this owner gets EUI-64 addresses by itself; routers' ports name theirs."""
    return device_owner not in ROUTER_OWNERS


def class_of(ip_version: int) -> str:
    """Return the resource class of addresses of an IP version."""
    return IPV6_ADDRESS if ip_version == 6 else IPV4_ADDRESS


def automatic(port: Port, subnets: Iterable[SubnetKind]) -> list[Given]:
    """Return the port's EUI-64 address in each automatic subnet that it may use."""
    if not gets_automatic(port.device_owner):
        return []
    return [
        Given(port.id, subnet.id, eui64(subnet.cidr, port.mac_address), in_pool=False, claimed=False)
        for subnet in subnets
        if is_automatic(subnet) and may_use(subnet, port.device_owner)
    ]


def eui64(cidr: str, mac_address: str) -> int:
    """Return the address of a /64 that is derived from a MAC address. Source: RFC 4291, appendix A."""
    octets = bytes.fromhex(mac_address.replace(":", ""))
    identifier = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]])
    return block_range(cidr).first + int.from_bytes(identifier)
