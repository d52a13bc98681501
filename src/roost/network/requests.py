"""Decides what a client's port needs: which addresses on which segment, now, later or not at all.

Source: Neutron's IPAM with routed networks: no host and nothing named is deferred; a name or a host is immediate.
"""

from collections.abc import Mapping, Sequence, Set

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
from roost.network.model import Address, FixedIpRequest, Host, Network, Subnet

FIXED_IPS_MAX = 16
TOLD_MAX = 8
"""How many segments a refusal names."""

IMMEDIATE, DEFERRED, NONE = "immediate", "deferred", "none"


class NetworkState(Struct, frozen=True, kw_only=True):
    """A network as read at one instant. By provider UUID: its physical network, and what people call it."""

    network: Network
    subnets: tuple[Subnet, ...]
    physical_networks: Mapping[str, str | None]
    names: Mapping[str, str] = {}


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
        if state.subnets:
            _refuse_unconnected(state, host=host, host_name=host_name)
        return AddressPlan(NONE)
    if fixed_ips is not None:
        return AddressPlan(IMMEDIATE, (_named(port_id, state, host=host, host_name=host_name, fixed_ips=fixed_ips),))
    by_provider: dict[str, tuple[str, ...]] = {}
    for subnet in sorted(state.subnets, key=lambda subnet: subnet.deleting):
        by_provider[subnet.provider_uuid] = (*by_provider.get(subnet.provider_uuid, ()), subnet.id)
    if not by_provider:
        # Source: Neutron, which has nothing to defer there; a subnet made later gives this port no address of itself.
        return AddressPlan(IMMEDIATE)
    if state.network.segmented and not host_name:
        return AddressPlan(DEFERRED)
    _refuse_unconnected(state, host=host, host_name=host_name)
    reached = {
        provider: subnet_ids
        for provider, subnet_ids in by_provider.items()
        if not host_name or segments.reaches(host, state.physical_networks[provider])
    }
    return AddressPlan(
        IMMEDIATE, tuple(Placing(provider, (Demand(port_id, ids),)) for provider, ids in reached.items())
    )


def refuse_binding(
    port_id: str, addresses: Sequence[Address], state: NetworkState, *, host: Host | None, host_name: str
) -> None:
    """Raise HostNotConnectedToAnySegment, HostNotCompatibleWithFixedIps unless the host reaches all the addresses."""
    providers = {item.provider_uuid for item in addresses}
    _refuse_unreached(
        providers, state, host=host, host_name=host_name, which=f"the existing fixed_ips on port {port_id}"
    )


def _refuse_unreached(
    providers: Set[str], state: NetworkState, *, host: Host | None, host_name: str, which: str
) -> None:
    lost = sorted(uuid for uuid in providers if not segments.reaches(host, state.physical_networks.get(uuid)))
    if not lost:
        return
    _refuse_unconnected(state, host=host, host_name=host_name)
    raise HostNotCompatibleWithFixedIps(
        f"Host {host_name} is not connected to a segment where {which} will function: they are on "
        f"{_told(lost, state)}, the host reaches {_told(_reached(state, host), state)}."
    )


def _refuse_unconnected(state: NetworkState, *, host: Host | None, host_name: str) -> None:
    """Raise HostNotConnectedToAnySegment for a host that reaches nothing of the network that has a subnet."""
    if host_name and not _reached(state, host):
        raise HostNotConnectedToAnySegment(
            f"Host {host_name} is not connected to any segment of network {state.network.id} that has a subnet: have "
            f"it report the physical network of {_told(sorted(state.physical_networks), state)}, or choose another "
            "host."
        )


def _reached(state: NetworkState, host: Host | None) -> list[str]:
    return sorted(uuid for uuid, carried_by in state.physical_networks.items() if segments.reaches(host, carried_by))


def _told(providers: Sequence[str], state: NetworkState) -> str:
    """The providers as people know them: the first of them, if there are many."""
    kind = "segment" if state.network.segmented else "network"
    told = [
        f"{kind} {state.names[uuid]} ({uuid})" if state.names.get(uuid, uuid) != uuid else f"{kind} {uuid}"
        for uuid in providers[:TOLD_MAX]
    ]
    if len(providers) > TOLD_MAX:
        told.append(f"{len(providers) - TOLD_MAX} more")
    return ", ".join(told)


def _named(
    port_id: str, state: NetworkState, *, host: Host | None, host_name: str, fixed_ips: Sequence[FixedIpRequest]
) -> Placing:
    if len(fixed_ips) > FIXED_IPS_MAX:
        raise InvalidInput(f"A port has at most {FIXED_IPS_MAX} fixed_ips, {len(fixed_ips)} were given.")
    if not state.subnets:
        raise InvalidInput(f"fixed_ips: network {state.network.id} has no subnets.")
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
    if host_name:
        _refuse_unreached({provider}, state, host=host, host_name=host_name, which="the requested fixed_ips")
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
            return subnet, Demand(
                port_id, (subnet.id,), address, addressing.contains((*subnet.pools, *subnet.leaving), address)
            )
    if item.subnet_id is not None:
        raise InvalidIpForSubnet(f"{item.ip_address} is no host address of subnet {item.subnet_id}.")
    raise InvalidIpForNetwork(f"{item.ip_address} is not a host address of any subnet of network {state.network.id}.")
