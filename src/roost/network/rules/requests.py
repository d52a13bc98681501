"""Decides what a client's port needs: which addresses on which segment, now, later or not at all.

Source: Neutron's IPAM with routed networks. A port without a host that names no address is deferred; one with a host or
a named address gets its addresses at once.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set, Sized

from msgspec import Struct
from msgspec.structs import replace

from roost.network.errors import (
    AllocationOnAutoAddressSubnet,
    FixedIpsSubnetsNotOnSameSegment,
    HostNotCompatibleWithFixedIps,
    HostNotConnectedToAnySegment,
    InvalidInput,
    InvalidIpForNetwork,
    InvalidIpForSubnet,
    IpAddressGenerationFailureNoMatchingSubnet,
    PortChanged,
)
from roost.network.model.networks import Host, Network, Provider, Subnet, SubnetKind
from roost.network.model.ports import FixedIpRequest, Port
from roost.network.rules import addressing, capacity, segments, uses
from roost.network.rules.addressing import Demand, holds
from roost.network.settings import FIXED_IPS_MAX
from roost.platform.grouping import grouped
from roost.seams.placement import IPV6_ADDRESS, Allocations

NAMES_SHOWN = 8
"""How many segments a refusal names."""

IMMEDIATE, DEFERRED, NONE = "immediate", "deferred", "none"


class NetworkState(Struct, frozen=True, kw_only=True):
    """A network as read at one instant, and the host on which a port of it is to be.

    providers: by UUID, those of the subnets. host_name: "" without a host. host: None for one that nobody reported.
    """

    network: Network
    subnets: tuple[Subnet, ...]
    providers: Mapping[str, Provider]
    host_name: str = ""
    host: Host | None = None

    def reaches(self, provider_uuid: str) -> bool:
        """Return whether the host reaches the provider."""
        provider = self.providers.get(provider_uuid)
        return provider is None or segments.reaches(self.host, provider)


class Placing(Struct, frozen=True):
    """One way to give a port what it wants: these addresses of one provider, and its EUI-64 addresses there.

    rank: lower ones are better, however much the others have free.
    """

    provider_uuid: str
    demands: tuple[Demand, ...]
    rank: int = 0

    @property
    def claimed(self) -> dict[str, int]:
        """Return resource class -> how many of the addresses are capacity."""
        return dict(Counter(uses.class_of(demand.ip_version) for demand in self.demands if demand.claimed))

    @property
    def claim(self) -> Allocations:
        """Return the claim of the placing; empty if none of its addresses is capacity."""
        return {self.provider_uuid: self.claimed} if self.claimed else {}


class AddressPlan(Struct, frozen=True):
    """What becomes of a port's addresses. placings: alternatives; none unless ip_allocation is `immediate`."""

    ip_allocation: str
    placings: tuple[Placing, ...] = ()


def plan_addresses(
    port_id: str,
    state: NetworkState,
    *,
    device_owner: str,
    fixed_ips: Sequence[FixedIpRequest] | None,
) -> AddressPlan:
    """Return which addresses a port is to get. It is new, or bound for the first time, or gets other fixed_ips.

    fixed_ips: without those that it has already; None when the client names nothing. The port then gets one IPv4 and
    one IPv6 address, if there are such subnets, and its EUI-64 addresses.
    Raises InvalidInput, InvalidIpForNetwork, InvalidIpForSubnet, AllocationOnAutoAddressSubnet,
    FixedIpsSubnetsNotOnSameSegment, HostNotCompatibleWithFixedIps, IpAddressGenerationFailureNoMatchingSubnet,
    HostNotConnectedToAnySegment.
    """
    state = _for_owner(state, device_owner)
    if fixed_ips is not None and len(fixed_ips) == 0:
        _refuse_unconnected(state)
        return AddressPlan(NONE)
    subnets = [subnet for subnet in state.subnets if uses.may_use(subnet, device_owner)]
    if fixed_ips is not None:
        state = replace(state, subnets=tuple(subnets))
        placing = _place_named(port_id, state, device_owner, fixed_ips)
        return AddressPlan(IMMEDIATE, (placing,))
    if not state.subnets:
        # Source: Neutron has nothing to defer there; a subnet made later gives this port no address by itself.
        return AddressPlan(IMMEDIATE)
    if not subnets:
        raise IpAddressGenerationFailureNoMatchingSubnet(
            f"No subnet of network {state.network.id} is for ports of device owner '{device_owner}': its service types "
            "say for whose they are."
        )
    if state.network.segmented and not state.host_name:
        # The port's host is not known yet. A subnet on no segment is everywhere.
        subnets = [subnet for subnet in subnets if subnet.segment_id is None]
        if not subnets:
            return AddressPlan(DEFERRED)
    _refuse_unconnected(state)
    by_provider = grouped(
        (subnet.provider_uuid, subnet)
        for subnet in subnets
        if not state.host_name or state.reaches(subnet.provider_uuid)
    )
    if not by_provider:
        raise IpAddressGenerationFailureNoMatchingSubnet(
            f"No subnet that host {state.host_name} reaches on network {state.network.id} is for ports of device owner "
            f"'{device_owner}': their service types say for whose they are."
        )
    return AddressPlan(
        IMMEDIATE,
        tuple(
            Placing(provider, demands, rank)
            for provider, subnets_there in by_provider.items()
            for rank, demands in enumerate(alternatives(port_id, subnets_there))
        ),
    )


def refuse_many(fixed_ips: Sized) -> None:
    """Raise InvalidInput for more fixed_ips than a port may have."""
    if len(fixed_ips) > FIXED_IPS_MAX:
        raise InvalidInput(f"A port has at most {FIXED_IPS_MAX} fixed_ips, {len(fixed_ips)} were given.")


def refuse_surplus(fixed_ips: Sized | None, device_owner: str, *, most: int) -> None:
    """Raise InvalidInput for more fixed_ips than a client may name; ports of the network itself may have more.

    most: `[network] max_fixed_ips_per_port`. Source: Neutron up to 8.0, db/ipam_backend_mixin.py, its text.
    """
    if fixed_ips is None or len(fixed_ips) <= most or device_owner.startswith("network:"):
        return
    raise InvalidInput(
        f"Exceeded maximum amount of fixed ips per port. {len(fixed_ips)} were named, expected at most {most}."
    )


def _for_owner(state: NetworkState, device_owner: str) -> NetworkState:
    """Drop from a routed network's state the subnets that are on no segment and not for ports of this owner."""
    if not state.network.segmented:
        return state
    subnets = tuple(s for s in state.subnets if s.segment_id is not None or uses.may_use(s, device_owner))
    on = {subnet.provider_uuid for subnet in subnets}
    providers = {uuid: provider for uuid, provider in state.providers.items() if uuid in on}
    return replace(state, subnets=subnets, providers=providers)


def alternatives(port_id: str, subnets: Sequence[SubnetKind]) -> list[tuple[Demand, ...]]:
    """Return the ways to give a port one address of each IP version from subnets of one provider, the best first.

    Subnets with service types come first. A demand's subnets are all capacity, or none is: whether to claim is decided
    before it is known which subnet has a free address.
    """
    choices: dict[int, list[Demand]] = {4: [], 6: []}
    for version, counted in itertools.product(choices, (False, True)):
        usable = _best_first(s for s in subnets if s.ip_version == version and not uses.is_automatic(s))
        ids = tuple(subnet.id for subnet in usable if capacity.counts(subnet) is counted)
        if ids:
            choices[version].append(Demand(port_id, ids, claimed=counted, ip_version=version))
    return list(itertools.product(*filter(None, choices.values())))


def _best_first(subnets: Iterable[SubnetKind]) -> list[SubnetKind]:
    return sorted(subnets, key=lambda subnet: not subnet.service_types)


def demands_today(placing: Placing, subnets: Sequence[SubnetKind]) -> tuple[Demand, ...]:
    """Return the placing's demands without the subnets that changed since it was planned.

    A subnet has changed when it left the provider, or when its pools became capacity or ceased to be.
    subnets: of the provider, locked. Raises PortChanged when a demand has no subnet left.
    """
    counted = {subnet.id: capacity.counts(subnet) for subnet in subnets}
    demands = []
    for demand in placing.demands:
        ids_there = [subnet_id for subnet_id in demand.subnet_ids if subnet_id in counted]
        ids = [subnet_id for subnet_id in ids_there if not demand.in_pool or counted[subnet_id] is demand.claimed]
        if not ids:
            raise PortChanged(f"The subnets of {placing.provider_uuid} changed just now: repeat the request.")
        demands.append(replace(demand, subnet_ids=tuple(ids)))
    return tuple(demands)


def claimed_demands(
    port_id: str, classes: Sequence[str], subnets: Sequence[SubnetKind], fixed_ip: str | None = None
) -> list[Demand]:
    """Return one demand for each class that a server's port has claimed on a provider with these subnets.

    fixed_ip: the exact address, of a flat network's pool; the pool is the provider's one subnet.
    """
    counted = _best_first(subnet for subnet in subnets if capacity.counts(subnet))
    return [
        Demand(
            port_id,
            tuple(subnet.id for subnet in counted if uses.class_of(subnet.ip_version) == name),
            None if fixed_ip is None else addressing.parse(fixed_ip),
            claimed=all(map(capacity.claimed_by_ports, counted)),
            ip_version=6 if name == IPV6_ADDRESS else 4,
        )
        for name in classes
    ]


def refuse_host(port: Port, state: NetworkState) -> None:
    """Raise HostNotConnectedToAnySegment or HostNotCompatibleWithFixedIps unless the port can be on the state's host.

    The host has to reach all addresses of the port; when there are none, it has to reach some segment.
    """
    providers = {item.provider_uuid for item in port.addresses}
    _refuse_unreached(providers, state, f"the existing fixed_ips on port {port.id}")
    if not providers:
        _refuse_unconnected(_for_owner(state, port.device_owner))


def _refuse_unreached(providers: Set[str], state: NetworkState, which: str) -> None:
    lost = sorted(uuid for uuid in providers if not state.reaches(uuid))
    if not lost:
        return
    _refuse_unconnected(state)
    raise HostNotCompatibleWithFixedIps(
        f"Host {state.host_name} is not connected to a segment where {which} will function: they are on "
        f"{_list_providers(lost, state)}, the host reaches {_list_providers(_reached(state), state)}."
    )


def _refuse_unconnected(state: NetworkState) -> None:
    """Raise HostNotConnectedToAnySegment when the host reaches no provider of a network that has some."""
    if state.host_name and state.subnets and not _reached(state):
        reported = sorted(state.host.physical_networks) if state.host else []
        why = f"it reports {', '.join(reported) or 'none'}" if state.host else "no agent has reported it"
        physical_networks = {provider.physical_network for provider in state.providers.values()}
        needs = sorted(name for name in physical_networks if name is not None)
        raise HostNotConnectedToAnySegment(
            f"Host {state.host_name} is not connected to any segment of network {state.network.id} that has a subnet: "
            f"{why}. Have it report the physical network of {_list_providers(sorted(state.providers), state)} "
            f"({_list_some(needs)}), or choose another host."
        )


def _reached(state: NetworkState) -> list[str]:
    return sorted(filter(state.reaches, state.providers))


def _list_providers(providers: Sequence[str], state: NetworkState) -> str:
    """Return the names and UUIDs of the first NAMES_SHOWN providers, and how many more there are."""
    kind = "segment" if state.network.segmented else "network"
    names = {uuid: provider.name for uuid, provider in state.providers.items() if provider.name != uuid}
    return _list_some([f"{kind} {names[uuid]} ({uuid})" if uuid in names else f"{kind} {uuid}" for uuid in providers])


def _list_some(words: Sequence[str]) -> str:
    """Return the first NAMES_SHOWN words, and how many more there are."""
    rest = [f"{len(words) - NAMES_SHOWN} more"] if len(words) > NAMES_SHOWN else []
    return ", ".join([*words[:NAMES_SHOWN], *rest])


def _place_named(port_id: str, state: NetworkState, device_owner: str, fixed_ips: Sequence[FixedIpRequest]) -> Placing:
    """Return the placing of the addresses and subnets that a client names.

    state: of its subnets only those that the port may use. Raises as plan_addresses does.
    """
    if not state.subnets:
        raise InvalidInput(f"fixed_ips: network {state.network.id} has no subnets that the port may use.")
    pairs = [_resolve(port_id, state, device_owner, item) for item in fixed_ips]
    providers = {subnet.provider_uuid for subnet, _ in pairs}
    if len(providers) > 1:
        raise FixedIpsSubnetsNotOnSameSegment(
            f"The fixed_ips name subnets of {len(providers)} segments: all addresses of a port are on one."
        )
    demands = tuple(demand for _, demand in pairs if demand is not None)
    addresses = [demand.address for demand in demands if demand.address is not None]
    if len(addresses) != len(set(addresses)):
        raise InvalidInput("An address is named twice in fixed_ips.")
    (provider,) = providers
    if state.host_name:
        _refuse_unreached({provider}, state, "the requested fixed_ips")
    return Placing(provider, demands)


def _resolve(
    port_id: str, state: NetworkState, device_owner: str, item: FixedIpRequest
) -> tuple[Subnet, Demand | None]:
    """Return the subnet of a named fixed_ip, and the demand; None where the port gets its EUI-64 address anyway."""
    if item.subnet_id is None and item.ip_address is None:
        raise InvalidInput("fixed_ips: each needs a subnet_id, an ip_address, or both.")
    subnets = [subnet for subnet in state.subnets if item.subnet_id in (None, subnet.id)]
    if not subnets:
        raise InvalidInput(
            f"fixed_ips: network {state.network.id} has no subnet {item.subnet_id} that the port may use."
        )
    address = None if item.ip_address is None else addressing.parse(item.ip_address)
    of_host = [s for s in subnets if address is None or holds((addressing.host_range(s.cidr),), address)]
    if not of_host and item.subnet_id is not None:
        raise InvalidIpForSubnet(
            f"{item.ip_address} is no host address of subnet {item.subnet_id}, which has {subnets[0].cidr}."
        )
    if not of_host:
        raise InvalidIpForNetwork(
            f"{item.ip_address} is not a host address of any subnet of network {state.network.id} that the port may "
            f"use: {_list_some(sorted(subnet.cidr for subnet in subnets))}."
        )
    subnet = of_host[0]
    if uses.is_automatic(subnet) and uses.gets_automatic(device_owner):
        if address is None:
            return subnet, None
        raise AllocationOnAutoAddressSubnet(
            f"IPv6 address {item.ip_address} cannot be directly assigned to a port on subnet {subnet.id}, where "
            "addresses follow from MAC addresses: name the subnet alone."
        )
    in_pool = address is None or holds(subnet.pools, address)
    claimed = in_pool and capacity.counts(subnet)
    return subnet, Demand(port_id, (subnet.id,), address, in_pool, claimed=claimed, ip_version=subnet.ip_version)
