"""Decides what a client's port needs: which addresses on which segment, now, later or not at all.

Source: Neutron's IPAM with routed networks: no host and nothing named is deferred; a name or a host is immediate.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from roost.network import addressing, segments
from roost.network.addressing import Demand
from roost.network.errors import (
    FixedIpsSubnetsNotOnSameSegment,
    HostNotCompatibleWithFixedIps,
    HostNotConnectedToAnySegment,
    InvalidInput,
    InvalidIpForNetwork,
    InvalidIpForSubnet,
)
from roost.network.model import FixedIpRequest, Host, Network, Port, PortChanges, Subnet

FIXED_IPS_MAX = 16
IMMEDIATE, DEFERRED, NONE = "immediate", "deferred", "none"


class NetworkState(Struct, frozen=True, kw_only=True):
    """A network as read at one instant. physical_networks: provider UUID -> its physical network."""

    network: Network
    subnets: tuple[Subnet, ...]
    physical_networks: Mapping[str, str | None]


class Placing(Struct, frozen=True):
    """One way to give a port what it wants: these addresses, all on one provider; claimed: how many are capacity."""

    provider_uuid: str
    demands: tuple[Demand, ...]

    @property
    def claimed(self) -> int:
        """Addresses outside the pools are not counted in inventory."""
        return sum(demand.in_pool for demand in self.demands)


class AddressPlan(Struct, frozen=True):
    """What becomes of a port's addresses; placings: alternatives, for `immediate` only."""

    ip_allocation: str
    placings: tuple[Placing, ...] = ()


def plan_addresses(
    port_id: str, state: NetworkState, *, host: Host | None, host_name: str, fixed_ips: Sequence[FixedIpRequest] | None
) -> AddressPlan:
    """Say which addresses a new port needs, or one that is bound for the first time.

    host_name: "" without a host; host None: one that nobody reported. fixed_ips: None when nothing is named.
    Raises InvalidInput, InvalidIpForNetwork, InvalidIpForSubnet, FixedIpsSubnetsNotOnSameSegment,
    HostNotCompatibleWithFixedIps, HostNotConnectedToAnySegment.
    """
    if fixed_ips is not None and len(fixed_ips) == 0:
        return AddressPlan(NONE)
    if fixed_ips is not None:
        return AddressPlan(IMMEDIATE, (_named(port_id, state, host=host, host_name=host_name, fixed_ips=fixed_ips),))
    by_provider: dict[str, tuple[str, ...]] = {}
    for subnet in sorted(state.subnets, key=lambda subnet: subnet.deleting):
        by_provider[subnet.provider_uuid] = (*by_provider.get(subnet.provider_uuid, ()), subnet.id)
    if not by_provider:
        return AddressPlan(DEFERRED if state.network.segment_ids else NONE)
    if state.network.segmented and not host_name:
        return AddressPlan(DEFERRED)
    reached = {
        provider: subnet_ids
        for provider, subnet_ids in by_provider.items()
        if not host_name or segments.reaches(host, state.physical_networks[provider])
    }
    if not reached:
        raise HostNotConnectedToAnySegment(
            f"Host {host_name} is not connected to any segment of network {state.network.id} that has a subnet: have "
            "it report the segment's physical network, or choose another host."
        )
    return AddressPlan(
        IMMEDIATE, tuple(Placing(provider, (Demand(port_id, ids),)) for provider, ids in reached.items())
    )


def refuse_binding(port: Port, state: NetworkState, *, host: Host | None, host_name: str) -> None:
    """Raise HostNotCompatibleWithFixedIps unless the host reaches what the port's addresses are on."""
    for address in port.addresses:
        physical_network = state.physical_networks.get(address.provider_uuid)
        if not segments.reaches(host, physical_network):
            raise HostNotCompatibleWithFixedIps(
                f"Host {host_name} is not connected to a segment where the existing fixed_ips on port {port.id} will "
                f"function: {address.address} is on physical network {physical_network}."
            )


def refuse_changes(port: Port, changes: PortChanges) -> None:
    """Raise InvalidInput where a client asks for other addresses than the port has."""
    if changes.fixed_ips is None:
        return
    asked = {(item.subnet_id, item.ip_address) for item in changes.fixed_ips}
    has = {(item.subnet_id, item.address) for item in port.addresses}
    if asked != has:
        raise InvalidInput("The fixed_ips of a port cannot be changed yet: create another port with the addresses.")


def _named(
    port_id: str, state: NetworkState, *, host: Host | None, host_name: str, fixed_ips: Sequence[FixedIpRequest]
) -> Placing:
    if len(fixed_ips) > FIXED_IPS_MAX:
        raise InvalidInput(f"A port has at most {FIXED_IPS_MAX} fixed_ips, {len(fixed_ips)} were given.")
    pairs = [_resolve(port_id, state, item) for item in fixed_ips]
    providers = {subnet.provider_uuid for subnet, _ in pairs}
    if len(providers) > 1:
        raise FixedIpsSubnetsNotOnSameSegment(
            f"The fixed_ips name subnets of {len(providers)} segments: all addresses of a port are on one."
        )
    asked = [(demand.subnet_ids, demand.address) for _, demand in pairs if demand.address is not None]
    if len(asked) != len(set(asked)):
        raise InvalidInput("An address is named twice in fixed_ips.")
    (provider,) = providers
    physical_network = state.physical_networks[provider]
    if host_name and not segments.reaches(host, physical_network):
        raise HostNotCompatibleWithFixedIps(
            f"Host {host_name} is not connected to a segment where the requested fixed_ips will function: they are "
            f"on physical network {physical_network}."
        )
    return Placing(provider, tuple(demand for _, demand in pairs))


def _resolve(port_id: str, state: NetworkState, item: FixedIpRequest) -> tuple[Subnet, Demand]:
    subnets = [subnet for subnet in state.subnets if not subnet.deleting]
    if item.subnet_id is not None:
        subnets = [subnet for subnet in subnets if subnet.id == item.subnet_id]
        if not subnets:
            raise InvalidInput(f"fixed_ips: network {state.network.id} has no subnet {item.subnet_id}.")
    if item.ip_address is None:
        if item.subnet_id is None:
            raise InvalidInput("fixed_ips: each needs a subnet_id, an ip_address, or both.")
        return subnets[0], Demand(port_id, (subnets[0].id,))
    address = addressing.parse(item.ip_address)
    for subnet in subnets:
        if addressing.contains([addressing.host_range(subnet.cidr)], address):
            return subnet, Demand(port_id, (subnet.id,), address, addressing.contains(subnet.pools, address))
    if item.subnet_id is not None:
        raise InvalidIpForSubnet(f"{item.ip_address} is no host address of subnet {item.subnet_id}.")
    raise InvalidIpForNetwork(f"{item.ip_address} is not a host address of any subnet of network {state.network.id}.")
