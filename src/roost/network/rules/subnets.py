"""Decides which subnets may be made, what becomes of one that a client changes, and what its hosts are told.

The routes between the subnets of a routed network are computed whenever they are shown.
Source of what may change: Neutron, update_subnet and the rules of its segments plugin.
"""

import ipaddress
import itertools
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from roost.network.errors import (
    DNSNameServersExhausted,
    GatewayConflictWithAllocationPools,
    GatewayIpInUse,
    HostRoutesExhausted,
    InvalidInput,
    InvalidSubnetServiceType,
    NetworkIdsDontMatch,
    NoUpdateSubnetWhenMultipleSegmentsOnNetwork,
    OutOfBoundsAllocationPool,
    OverlappingAllocationPools,
    SegmentNotFound,
    SubnetSegmentAssociationChangeNotAllowed,
    SubnetsNotAllAssociatedWithSegments,
)
from roost.network.model.networks import AddressRange, HostRoute, Network, Segment, Subnet, SubnetChanges, SubnetKind
from roost.network.rules import addressing, capacity, flat, links, uses
from roost.network.rules.addressing import block_range

SUBNETS_MAX = 1000
"""Subnets of a network."""
POOLS_MAX = 1000
NAMESERVERS_MAX = 5
HOST_ROUTES_MAX = 20
SERVICE_TYPES_MAX = 64
SERVICE_TYPE_PREFIXES = ("compute:", "network:", "neutron:", "baremetal:")
MODES = ("slaac", "dhcpv6-stateful", "dhcpv6-stateless")


class SubnetPlan(Struct, frozen=True):
    """A checked subnet."""

    cidr: str
    gateway_ip: str | None
    pools: tuple[AddressRange, ...]


def plan_subnet(
    cidr: str,
    *,
    gateway_ip: str | UnsetType | None = UNSET,
    pools: Sequence[tuple[str, str]] | None = None,
    ip_version: int | None = None,
) -> SubnetPlan:
    """Return a subnet, checked, with its defaults: the first host address is the gateway, all others are the pool.

    gateway_ip: UNSET for the default, None for none at all. pools: (first, last) of each; None for the default.
    ip_version: the version that all addresses must have; None for that of the CIDR.
    Raises InvalidInput, OutOfBoundsAllocationPool, OverlappingAllocationPools, GatewayConflictWithAllocationPools.
    """
    cidr, hosts = _checked_hosts(cidr, ip_version)
    gateway: int | None = None
    if gateway_ip is not None:
        gateway = hosts.first if gateway_ip is UNSET else addressing.parse(gateway_ip)
        refuse_gateway(cidr, gateway)
    if pools is None:
        planned = addressing.free_of([hosts], () if gateway is None else (gateway,))
        if not planned:
            raise InvalidInput(f"{cidr} has no address left beside its gateway: set gateway_ip to null, or enlarge it.")
    else:
        planned = plan_pools(cidr, gateway, _ranges(pools))
    return SubnetPlan(cidr, None if gateway is None else addressing.show(gateway), planned)


def refuse_new(network: Network, subnet: Subnet, peers: Sequence[Subnet], segments: Mapping[str, Segment]) -> None:
    """Raise why a new subnet cannot be beside its peers, the other subnets of its network.

    segments: by id, the subnet's if it exists. Raises InvalidInput, NetworkMTUSubnetConflict,
    SubnetsNotAllAssociatedWithSegments, SegmentNotFound, NetworkIdsDontMatch.
    """
    flat.refuse_subnet(network, subnet)
    links.refuse_small_mtu(network.mtu, [subnet])
    _refuse_wrong_segment(network, subnet, peers, segments)
    if len(peers) >= SUBNETS_MAX:
        raise InvalidInput(f"A network has at most {SUBNETS_MAX} subnets.")
    for peer in peers:
        if addressing.overlap(subnet.cidr, peer.cidr):
            raise InvalidInput(
                f"Requested subnet with cidr: {subnet.cidr} for network: {subnet.network_id} overlaps with another "
                f"subnet: {peer.id} ({peer.cidr})."
            )


def decide_update(
    subnet: Subnet,
    changes: SubnetChanges,
    network: Network,
    peers: Sequence[Subnet],
    segments: Mapping[str, Segment],
    gateway_port: str | None,
) -> Subnet:
    """Return the subnet as it is to be.

    peers: the subnets of its network. segments: by id, the one that the change names, if it exists. gateway_port: the
    router's port that has the gateway's address, if any.
    Raises InvalidInput, InvalidSubnetServiceType, DNSNameServersExhausted, HostRoutesExhausted, GatewayIpInUse,
    OutOfBoundsAllocationPool, OverlappingAllocationPools, GatewayConflictWithAllocationPools,
    SubnetsNotAllAssociatedWithSegments, SubnetSegmentAssociationChangeNotAllowed,
    NoUpdateSubnetWhenMultipleSegmentsOnNetwork, SegmentNotFound, NetworkIdsDontMatch.
    """
    gateway_ip = _gateway(subnet, changes, gateway_port)
    as_given = ("name", "description", "enable_dhcp")
    fields = {name: value for name in as_given if (value := getattr(changes, name)) is not None}
    pools = _pools(subnet, changes, gateway_ip)
    segment_id = _segment(subnet, changes, network, peers, segments)
    if changes.dns_nameservers is not None:
        fields["dns_nameservers"] = check_nameservers(changes.dns_nameservers, subnet.ip_version)
    if changes.service_types is not None:
        fields["service_types"] = check_service_types(changes.service_types)
    after = msgspec.structs.replace(subnet, gateway_ip=gateway_ip, pools=pools, segment_id=segment_id, **fields)
    if changes.service_types is not None:
        routed = network.segmented or len(network.segment_ids) > 1
        if routed and after.segment_id is None and not uses.needs_no_segment(after):
            raise SubnetsNotAllAssociatedWithSegments(
                f"Subnet {subnet.id} is on no segment, and those of network {network.id} have to be: only one "
                f"with the service type {uses.ROUTED_OWNER} may be."
            )
    if changes.host_routes is not None:
        # What is shown comes back: the routes to the peers are not the owner's, whoever sends them.
        computed = {*peer_routes(subnet, peers), *peer_routes(after, peers)}
        own = [route for route in changes.host_routes if route not in computed]
        after = msgspec.structs.replace(after, host_routes=check_host_routes(own, subnet.ip_version))
    if subnet.enable_dhcp and not after.enable_dhcp:
        check_modes(after)
    if after.enable_dhcp and not subnet.enable_dhcp:
        check_dhcp(subnet.cidr)
    if after.is_pool and capacity.changes_capacity(subnet, after):
        raise InvalidInput(f"Subnet {subnet.id} is a pool of a flat network: make another one, or delete it.")
    return after


def _gateway(subnet: Subnet, changes: SubnetChanges, gateway_port: str | None) -> str | None:
    if not isinstance(changes.gateway_ip, str):
        return subnet.gateway_ip if changes.gateway_ip is UNSET else None
    gateway = addressing.parse(changes.gateway_ip)
    refuse_gateway(subnet.cidr, gateway)
    shown = addressing.show(gateway)
    if shown != subnet.gateway_ip and gateway_port is not None:
        raise GatewayIpInUse(
            f"Current gateway ip {subnet.gateway_ip} already in use by port {gateway_port}. Unable to update."
        )
    return shown


def _pools(subnet: Subnet, changes: SubnetChanges, gateway_ip: str | None) -> tuple[AddressRange, ...]:
    if changes.pools is not None and uses.is_automatic(subnet):
        raise InvalidInput(f"Addresses of subnet {subnet.id} follow from MAC addresses: its pools cannot be changed.")
    if changes.pools is None and gateway_ip == subnet.gateway_ip:
        return subnet.pools
    gateway = None if gateway_ip is None else addressing.parse(gateway_ip)
    return plan_pools(subnet.cidr, gateway, subnet.pools if changes.pools is None else _ranges(changes.pools))


def _segment(
    subnet: Subnet, changes: SubnetChanges, network: Network, peers: Sequence[Subnet], segments: Mapping[str, Segment]
) -> str | None:
    """Return the segment of the changed subnet. To name its own again is no change. Raises why it cannot join one.

    Source: Neutron's _validate_segment on update (LP 1793391).
    """
    if changes.segment_id is UNSET or changes.segment_id == subnet.segment_id:
        return subnet.segment_id
    if len(peers) > 1:
        raise SubnetsNotAllAssociatedWithSegments(
            f"Network {network.id} has {len(peers)} subnets: an existing one joins a segment only if it is the "
            "only one."
        )
    if subnet.segment_id is not None:
        raise SubnetSegmentAssociationChangeNotAllowed(
            f"Subnet {subnet.id} belongs to segment {subnet.segment_id}, which cannot be changed."
        )
    if len(network.segment_ids) > 1:
        raise NoUpdateSubnetWhenMultipleSegmentsOnNetwork(
            f"Network {network.id} has {len(network.segment_ids)} segments: an existing subnet joins one only if it is "
            "the only one."
        )
    _refuse_other_segment(changes.segment_id, network, segments)
    return changes.segment_id


def check_modes(subnet: SubnetKind) -> None:
    """Raise InvalidInput unless the subnet may have its IPv6 modes. plan_subnet has checked its CIDR."""
    ra_mode, address_mode = subnet.ipv6_ra_mode, subnet.ipv6_address_mode
    for name, mode in (("ipv6_ra_mode", ra_mode), ("ipv6_address_mode", address_mode)):
        if mode is None:
            continue
        if subnet.ip_version == 4:
            raise InvalidInput(f"{name} is not valid when ip_version is 4: leave it out.")
        if mode not in MODES:
            raise InvalidInput(f"{name} '{mode}': expected one of {', '.join(MODES)}.")
        if not subnet.enable_dhcp:
            raise InvalidInput(f"{name} cannot be set when enable_dhcp is set to false.")
    if ra_mode is not None and address_mode is not None and ra_mode != address_mode:
        raise InvalidInput(
            f"ipv6_ra_mode set to '{ra_mode}' with ipv6_address_mode set to '{address_mode}' is not valid: if both are "
            "set, they must be the same."
        )
    if {ra_mode, address_mode} & {*uses.AUTOMATIC_MODES} and not subnet.cidr.endswith("/64"):
        raise InvalidInput(
            f"cidr {subnet.cidr}: addresses that follow from MAC addresses (slaac, dhcpv6-stateless) need a prefix of "
            "/64."
        )


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


def refuse_gateway(cidr: str, gateway: int) -> None:
    """Raise InvalidInput when a gateway has another IP version, or is the network's or the broadcast address.

    A gateway outside the subnet may be right: hosts reach it in ways that a subnet does not know.
    Source: Neutron, check_gateway_invalid_in_subnet.
    """
    hosts, version = addressing.host_range(cidr), ipaddress.ip_network(cidr).version
    if addressing.version_of(gateway) != version:
        raise InvalidInput(f"gateway_ip '{addressing.show(gateway)}' does not match the ip_version '{version}'.")
    if addressing.holds((addressing.block_range(cidr),), gateway) and not addressing.holds((hosts,), gateway):
        raise InvalidInput(f"gateway_ip {addressing.show(gateway)} is no host address of {cidr}.")


def plan_pools(cidr: str, gateway: int | None, pools: Sequence[AddressRange]) -> tuple[AddressRange, ...]:
    """Return the pools of a subnet, checked and in order: none gives the gateway to a host. Raises as plan_subnet."""
    if len(pools) > POOLS_MAX:
        raise InvalidInput(f"A subnet has at most {POOLS_MAX} allocation pools, {len(pools)} were given.")
    hosts = addressing.host_range(cidr)
    checked = sorted(pools)
    for item in checked:
        text = f"{addressing.show(item.first)}-{addressing.show(item.last)}"
        if item.first > item.last:
            raise InvalidInput(f"The allocation pool {text} ends before it starts.")
        if item.first < hosts.first or item.last > hosts.last:
            raise OutOfBoundsAllocationPool(f"The allocation pool {text} is not within the host addresses of {cidr}.")
        if gateway is not None and item.first <= gateway <= item.last:
            raise GatewayConflictWithAllocationPools(
                f"Gateway {addressing.show(gateway)} is within the allocation pool {text}: take it out of the pool."
            )
    for lower, upper in itertools.pairwise(checked):
        if upper.first <= lower.last:
            raise OverlappingAllocationPools(f"Allocation pools overlap at {addressing.show(upper.first)} in {cidr}.")
    return tuple(checked)


def _refuse_wrong_segment(
    network: Network, subnet: Subnet, peers: Sequence[Subnet], segments: Mapping[str, Segment]
) -> None:
    """Raise why the subnet cannot be on the segment that it names, or on none."""
    segmented = any(peer.segment_id is not None for peer in peers)
    peers_routed = [peer for peer in peers if not uses.needs_no_segment(peer)]
    exempt = subnet.segment_id is None and uses.needs_no_segment(subnet)
    if peers_routed and not exempt and segmented != (subnet.segment_id is not None):
        advice = "belong to segments: name one as segment_id" if segmented else "do not: leave segment_id out"
        raise SubnetsNotAllAssociatedWithSegments(
            f"Either all subnets of a network belong to segments, or none does; those of network {network.id} {advice}."
        )
    if subnet.segment_id is None and not exempt and len(network.segment_ids) > 1:
        raise SubnetsNotAllAssociatedWithSegments(
            f"Network {network.id} has {len(network.segment_ids)} segments: name the subnet's as segment_id."
        )
    _refuse_other_segment(subnet.segment_id, network, segments)


def _refuse_other_segment(segment_id: str | None, network: Network, segments: Mapping[str, Segment]) -> None:
    if segment_id is None:
        return
    if segment_id not in segments:
        raise SegmentNotFound(f"Segment {segment_id} could not be found.")
    if segments[segment_id].network_id != network.id:
        raise NetworkIdsDontMatch(f"Segment {segment_id} is not of network {network.id}.")


def _checked_hosts(cidr: str, ip_version: int | None) -> tuple[str, AddressRange]:
    """Return the CIDR as it is written, and its host addresses. Raises InvalidInput."""
    example = "2001:db8::/64" if ip_version == 6 else "10.0.0.0/24"
    try:
        block = ipaddress.ip_network(cidr)
    except ValueError as error:
        raise InvalidInput(f"cidr '{cidr}': {error}; expected one like {example}.") from error
    if "/" not in cidr or "%" in cidr or block.prefixlen == 0:
        raise InvalidInput(f"cidr '{cidr}': expected an address and a prefix length above 0, like {example}.")
    if ip_version not in (None, block.version):
        raise InvalidInput(f"cidr '{cidr}' does not match the ip_version '{ip_version}'.")
    if isinstance(block, ipaddress.IPv6Network) and block.overlaps(addressing.UNUSED):
        raise InvalidInput(f"cidr '{cidr}': the addresses of {addressing.UNUSED} are not for hosts.")
    return str(block), addressing.host_range(cidr)


def _ranges(pools: Sequence[tuple[str, str]]) -> list[AddressRange]:
    return [addressing.parse_range(first, last) for first, last in pools]


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
