"""Decides what a subnet may tell its hosts: name servers, routes, DHCP; and which routes lead to its peers.

The routes between the subnets of a routed network are computed when they are shown, from the subnets that there are.
"""

import ipaddress
from collections.abc import Iterable, Sequence

from roost.network.errors import DNSNameServersExhausted, HostRoutesExhausted, InvalidInput, InvalidSubnetServiceType
from roost.network.model.networks import AddressRange, HostRoute, Subnet
from roost.network.rules.addressing import block_range

NAMESERVERS_MAX = 5
HOST_ROUTES_MAX = 20
SERVICE_TYPES_MAX = 64
SERVICE_TYPE_PREFIXES = ("compute:", "network:", "neutron:", "baremetal:")


def check_nameservers(given: Sequence[str], ip_version: int) -> tuple[str, ...]:
    """In their order. Raises InvalidInput, DNSNameServersExhausted. Source: Neutron, max_dns_nameservers."""
    found = tuple(_address("dns_nameservers", text, ip_version) for text in given)
    if len(set(found)) < len(found):
        raise InvalidInput("dns_nameservers: a name server is named twice.")
    if len(found) > NAMESERVERS_MAX:
        raise DNSNameServersExhausted(
            f"A subnet has at most {NAMESERVERS_MAX} dns_nameservers, {len(found)} were given."
        )
    return found


def check_host_routes(given: Sequence[HostRoute], ip_version: int) -> tuple[HostRoute, ...]:
    """Raises InvalidInput, HostRoutesExhausted. Source: Neutron, max_subnet_host_routes."""
    found = []
    for route in given:
        try:
            block = ipaddress.ip_network(route.destination)
        except ValueError as error:
            raise InvalidInput(f"host_routes: destination '{route.destination[:64]}': {error}.") from error
        if block.version != ip_version or "/" not in route.destination or "%" in route.destination:
            raise InvalidInput(
                f"host_routes: destination '{route.destination[:64]}': expected a CIDR of IPv{ip_version}."
            )
        found.append(HostRoute(str(block), _address("host_routes: nexthop", route.nexthop, ip_version)))
    if len(set(found)) < len(found):
        raise InvalidInput("host_routes: a route is named twice.")
    if len(found) > HOST_ROUTES_MAX:
        raise HostRoutesExhausted(f"A subnet has at most {HOST_ROUTES_MAX} host_routes, {len(found)} were given.")
    return tuple(found)


def check_dhcp(cidr: str) -> None:
    """Raise InvalidInput where a subnet cannot have DHCP. Source: Neutron, subnets with enable_dhcp."""
    block = ipaddress.ip_network(cidr)
    reason = None
    if block.prefixlen > (30 if block.version == 4 else 126):
        reason = "its prefix leaves no address for a server"
    elif block.is_multicast or block.is_loopback:
        reason = "its addresses are multicast or loopback ones"
    elif block.version == 4 and int(block.network_address) == 0:
        reason = "it begins with 0.0.0.0"
    if reason is not None:
        raise InvalidInput(f"Subnet {cidr} cannot have DHCP, {reason}: set enable_dhcp to false.")


def check_service_types(given: Sequence[str]) -> tuple[str, ...]:
    """The device owners that a subnet is for, each once. Raises InvalidSubnetServiceType, InvalidInput."""
    for text in given:
        if not text.startswith(SERVICE_TYPE_PREFIXES) or len(text) > 255 or "\0" in text:
            raise InvalidSubnetServiceType(
                f"service_types: '{text[:64]}' does not correspond to a valid device owner: expected one that begins "
                f"with {' or '.join(SERVICE_TYPE_PREFIXES)}."
            )
    if len(given) > SERVICE_TYPES_MAX:
        raise InvalidInput(f"A subnet has at most {SERVICE_TYPES_MAX} service_types, {len(given)} were given.")
    return tuple(dict.fromkeys(given))


def shown_routes(subnet: Subnet, others: Iterable[Subnet]) -> tuple[HostRoute, ...]:
    """The owner's routes, and those by way of its gateway to the subnets on other segments of its network.

    others: of its network, itself among them or not. No route to where one of the owner's leads already, none without
    a gateway. Source: Neutron, SegmentHostRoutes.
    """
    own = [block_range(route.destination) for route in subnet.host_routes]
    added = [
        route for route in peer_routes(subnet, others) if not own or not _is_within(block_range(route.destination), own)
    ]
    return (*subnet.host_routes, *added)


def peer_routes(subnet: Subnet, others: Iterable[Subnet]) -> tuple[HostRoute, ...]:
    """One to each subnet of the network on another segment, in the order of their addresses."""
    if subnet.segment_id is None or subnet.gateway_ip is None:
        return ()
    peers = {
        other.cidr
        for other in others
        if other.network_id == subnet.network_id
        and other.segment_id != subnet.segment_id
        and other.ip_version == subnet.ip_version
    }
    return tuple(HostRoute(cidr, subnet.gateway_ip) for cidr in sorted(peers, key=block_range))


def _is_within(block: AddressRange, others: Iterable[AddressRange]) -> bool:
    return any(other.first <= block.first and block.last <= other.last for other in others)


def _address(name: str, text: str, ip_version: int) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise InvalidInput(f"{name}: '{text[:64]}' is not an address.") from error
    # A zone, as in fe80::1%eth0, names an interface of one machine, and is any text whatever.
    if address.version != ip_version or "%" in text:
        raise InvalidInput(f"{name}: {text[:64]} is not an address of IPv{ip_version}, like the subnet's.")
    return str(address)
