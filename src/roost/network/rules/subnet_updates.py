"""Decides what becomes of a subnet that a client changes.

Source: Neutron, update_subnet and the rules of its segments plugin.
"""

import msgspec
from msgspec import UNSET, Struct

from roost.network.errors import (
    GatewayIpInUse,
    InvalidInput,
    NetworkIdsDontMatch,
    NoUpdateSubnetWhenMultipleSegmentsOnNetwork,
    SegmentNotFound,
    SubnetSegmentAssociationChangeNotAllowed,
    SubnetsNotAllAssociatedWithSegments,
)
from roost.network.model.networks import AddressRange, Network, Segment, Subnet, SubnetChanges
from roost.network.rules import addressing, capacity, subnet_attributes, uses

CHANGEABLE = ("name", "description", "enable_dhcp")
"""What is written as it is given."""


class SubnetContext(Struct, frozen=True, kw_only=True):
    """What decides whether a subnet may change.

    peers: the subnets of its network. segment: named by the change; None if there is no such. gateway_port:
    of a router that has the gateway's address.
    """

    network: Network
    peers: tuple[Subnet, ...]
    segment: Segment | None
    gateway_port: str | None


def decide_update(subnet: Subnet, changes: SubnetChanges, context: SubnetContext) -> Subnet:
    """Return the subnet as it is to be.

    Raises InvalidInput, InvalidSubnetServiceType, DNSNameServersExhausted, HostRoutesExhausted, GatewayIpInUse,
    OutOfBoundsAllocationPool, OverlappingAllocationPools, GatewayConflictWithAllocationPools,
    SubnetsNotAllAssociatedWithSegments, SubnetSegmentAssociationChangeNotAllowed,
    NoUpdateSubnetWhenMultipleSegmentsOnNetwork, SegmentNotFound, NetworkIdsDontMatch.
    """
    gateway_ip = _gateway(subnet, changes, context)
    fields = {name: value for name in CHANGEABLE if (value := getattr(changes, name)) is not None}
    pools, segment_id = _pools(subnet, changes, gateway_ip), _segment(subnet, changes, context)
    if changes.dns_nameservers is not None:
        fields["dns_nameservers"] = subnet_attributes.check_nameservers(changes.dns_nameservers, subnet.ip_version)
    if changes.service_types is not None:
        fields["service_types"] = subnet_attributes.check_service_types(changes.service_types)
    after = msgspec.structs.replace(subnet, gateway_ip=gateway_ip, pools=pools, segment_id=segment_id, **fields)
    if changes.service_types is not None:
        routed = context.network.segmented or len(context.network.segment_ids) > 1
        if routed and after.segment_id is None and not uses.needs_no_segment(after):
            raise SubnetsNotAllAssociatedWithSegments(
                f"Subnet {subnet.id} is on no segment, and those of network {context.network.id} have to be: only one "
                f"with the service type {uses.ROUTED_OWNER} may be."
            )
    if changes.host_routes is not None:
        # What is shown comes back: the routes to the peers are not the owner's, whoever sends them.
        computed = {
            *subnet_attributes.peer_routes(subnet, context.peers),
            *subnet_attributes.peer_routes(after, context.peers),
        }
        own = [route for route in changes.host_routes if route not in computed]
        after = msgspec.structs.replace(after, host_routes=subnet_attributes.check_host_routes(own, subnet.ip_version))
    if subnet.enable_dhcp and not after.enable_dhcp:
        uses.check_modes(after)
    if after.enable_dhcp and not subnet.enable_dhcp:
        subnet_attributes.check_dhcp(subnet.cidr)
    if after.cell is not None and capacity.changes_capacity(subnet, after):
        raise InvalidInput(f"Subnet {subnet.id} is a pool of a flat network: make another one, or delete it.")
    return after


def _gateway(subnet: Subnet, changes: SubnetChanges, context: SubnetContext) -> str | None:
    if not isinstance(changes.gateway_ip, str):
        return subnet.gateway_ip if changes.gateway_ip is UNSET else None
    gateway = addressing.parse(changes.gateway_ip)
    addressing.refuse_gateway(subnet.cidr, gateway)
    shown = addressing.show(gateway)
    if shown != subnet.gateway_ip and context.gateway_port is not None:
        raise GatewayIpInUse(
            f"Current gateway ip {subnet.gateway_ip} already in use by port {context.gateway_port}. Unable to update."
        )
    return shown


def _pools(subnet: Subnet, changes: SubnetChanges, gateway_ip: str | None) -> tuple[AddressRange, ...]:
    gateway = None if gateway_ip is None else addressing.parse(gateway_ip)
    if changes.pools is not None and uses.is_automatic(subnet):
        raise InvalidInput(f"Addresses of subnet {subnet.id} follow from MAC addresses: its pools cannot be changed.")
    if changes.pools is not None:
        return addressing.plan_pools(subnet.cidr, gateway, changes.pools)
    if gateway is not None and gateway_ip != subnet.gateway_ip:
        addressing.refuse_gateway_in_pools(gateway, subnet.pools)
    return subnet.pools


def _segment(subnet: Subnet, changes: SubnetChanges, context: SubnetContext) -> str | None:
    """Return the segment of the changed subnet. To name its own again is no change. Raises why it cannot join one.

    Source: Neutron's _validate_segment on update (LP 1793391).
    """
    if changes.segment_id is UNSET or changes.segment_id == subnet.segment_id:
        return subnet.segment_id
    network = context.network
    if len(context.peers) > 1:
        raise SubnetsNotAllAssociatedWithSegments(
            f"Network {network.id} has {len(context.peers)} subnets: an existing one joins a segment only if it is the "
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
    if context.segment is None:
        raise SegmentNotFound(f"Segment {changes.segment_id} could not be found.")
    if context.segment.network_id != network.id:
        raise NetworkIdsDontMatch(f"Segment {context.segment.id} is not of network {network.id}.")
    return context.segment.id
