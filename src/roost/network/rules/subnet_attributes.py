"""Checks what a subnet tells its hosts: name servers, routes, DHCP. Computes the routes to its peers.

The routes between the subnets of a routed network are computed whenever they are shown.
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
    """Return the name servers as canonical addresses, in order. Raises InvalidInput, DNSNameServersExhausted.

    Source: Neutron, max_dns_nameservers.
    """
    nameservers = tuple(_parse_address("dns_nameservers", text, ip_version) for text in given)
    if len(set(nameservers)) < len(nameservers):
        raise InvalidInput("dns_nameservers: a name server is named twice.")
    if len(nameservers) > NAMESERVERS_MAX:
        raise DNSNameServersExhausted(
            f"A subnet has at most {NAMESERVERS_MAX} dns_nameservers, {len(nameservers)} were given."
        )
    return nameservers


def check_host_routes(given: Sequence[HostRoute], ip_version: int) -> tuple[HostRoute, ...]:
    """Return the routes with canonical addresses, in order. Raises InvalidInput, HostRoutesExhausted.

    Source: Neutron, max_subnet_host_routes.
    """
    routes = []
    for route in given:
        try:
            block = ipaddress.ip_network(route.destination)
        except ValueError as error:
            raise InvalidInput(f"host_routes: destination '{route.destination[:64]}': {error}.") from error
        if block.version != ip_version or "/" not in route.destination or "%" in route.destination:
            raise InvalidInput(
                f"host_routes: destination '{route.destination[:64]}': expected a CIDR of IPv{ip_version}."
            )
        routes.append(HostRoute(str(block), _parse_address("host_routes: nexthop", route.nexthop, ip_version)))
    if len(set(routes)) < len(routes):
        raise InvalidInput("host_routes: a route is named twice.")
    if len(routes) > HOST_ROUTES_MAX:
        raise HostRoutesExhausted(f"A subnet has at most {HOST_ROUTES_MAX} host_routes, {len(routes)} were given.")
    return tuple(routes)


def check_dhcp(cidr: str) -> None:
    """Raise InvalidInput when a subnet with this CIDR cannot have DHCP. Source: Neutron, subnets with enable_dhcp."""
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
    """Return the device owners that a subnet is for, each once. Raises InvalidSubnetServiceType, InvalidInput."""
    for text in given:
        if not text.startswith(SERVICE_TYPE_PREFIXES) or len(text) > 255 or "\0" in text:
            raise InvalidSubnetServiceType(
                f"service_types: '{text[:64]}' does not correspond to a valid device owner: expected one that begins "
                f"with {' or '.join(SERVICE_TYPE_PREFIXES)}."
            )
    if len(given) > SERVICE_TYPES_MAX:
        raise InvalidInput(f"A subnet has at most {SERVICE_TYPES_MAX} service_types, {len(given)} were given.")
    return tuple(dict.fromkeys(given))


def list_told(subnet: Subnet) -> tuple[object, ...]:
    """Return the attributes of a subnet that its guests' hosts are told, or that other subnets' routes depend on."""
    return subnet.segment_id, subnet.gateway_ip, subnet.dns_nameservers, subnet.host_routes, subnet.enable_dhcp


def shown_routes(subnet: Subnet, others: Iterable[Subnet]) -> tuple[HostRoute, ...]:
    """Return the owner's routes, then the peer routes whose destinations none of them covers.

    others: subnets of its network; itself may be among them. Source: Neutron, SegmentHostRoutes.
    """
    own = [block_range(route.destination) for route in subnet.host_routes]
    added = [route for route in peer_routes(subnet, others) if not _is_within(block_range(route.destination), own)]
    return (*subnet.host_routes, *added)


def peer_routes(subnet: Subnet, others: Iterable[Subnet]) -> tuple[HostRoute, ...]:
    """Return a route by way of its gateway to each subnet on another segment of its network, by address.

    A subnet on no segment or without a gateway has none.
    """
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


def _parse_address(name: str, text: str, ip_version: int) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise InvalidInput(f"{name}: '{text[:64]}' is not an address.") from error
    # A zone, as in fe80::1%eth0, names an interface of one machine, and may be any text.
    if address.version != ip_version or "%" in text:
        raise InvalidInput(f"{name}: {text[:64]} is not an address of IPv{ip_version}, like the subnet's.")
    return str(address)
