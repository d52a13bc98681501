"""Decides which addresses are handed out and what becomes of the free ranges; defaults and limits of pools.

All by whole numbers, over the free ranges that it is given: as many as addresses are wanted are always enough, since
each has at least one. Which segment an address must come from is decided in `segments` and by the ledger.
"""

import ipaddress
import itertools
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from roost.network.errors import (
    GatewayConflictWithAllocationPools,
    InvalidInput,
    OutOfBoundsAllocationPool,
    OverlappingAllocationPools,
)
from roost.network.model import AddressRange

POOLS_MAX = 1000

FreeRanges = Mapping[str, Sequence[AddressRange]]
"""Subnet id -> free ranges in order."""


class Demand(Struct, frozen=True):
    """One address wanted for a port, from the first of the subnets that has one; address: exactly that one.

    in_pool False: the address is outside every pool, so no free range knows it.
    """

    port_id: str
    subnet_ids: tuple[str, ...]
    address: int | None = None
    in_pool: bool = True


class Given(Struct, frozen=True):
    """An address handed out."""

    port_id: str
    subnet_id: str
    address: int
    in_pool: bool


class FreeChange(Struct, frozen=True):
    """What becomes of the free ranges: (subnet id, range) that vanish, and that appear."""

    removed: tuple[tuple[str, AddressRange], ...]
    added: tuple[tuple[str, AddressRange], ...]


class SubnetPlan(Struct, frozen=True):
    """A checked subnet."""

    cidr: str
    gateway_ip: str | None
    pools: tuple[AddressRange, ...]


def hand_out(demands: Sequence[Demand], free: FreeRanges) -> tuple[list[Given | None], FreeChange]:
    """Give each demand an address, the lowest free one, or None when there is none; named addresses go first.

    free: of each subnet the lowest ranges, one for each demand at least, and those that hold a named address.
    """
    left = {subnet_id: sorted(ranges, reverse=True) for subnet_id, ranges in free.items()}
    answers: list[Given | None] = [None] * len(demands)
    order = sorted(range(len(demands)), key=lambda index: demands[index].address is None)
    for index in order:
        demand = demands[index]
        if not demand.in_pool:
            assert demand.address is not None
            answers[index] = Given(demand.port_id, demand.subnet_ids[0], demand.address, False)
            continue
        for subnet_id in demand.subnet_ids:
            ranges = left.get(subnet_id, [])
            address = _take_lowest(ranges) if demand.address is None else _take_named(ranges, demand.address)
            if address is not None:
                answers[index] = Given(demand.port_id, subnet_id, address, True)
                break
    return answers, _difference(free, left)


def take_back(addresses: Mapping[str, Iterable[int]], neighbours: FreeRanges) -> FreeChange:
    """Join addresses that are free again with the free ranges beside them.

    addresses: subnet id -> addresses in its pools. neighbours: the ranges next below and above each, where there are.
    """
    after: dict[str, list[AddressRange]] = {}
    for subnet_id, freed in addresses.items():
        singles = [AddressRange(address, address) for address in freed]
        joined: list[AddressRange] = []
        for item in sorted([*neighbours.get(subnet_id, ()), *singles]):
            if joined and item.first <= joined[-1].last + 1:
                joined[-1] = AddressRange(joined[-1].first, max(joined[-1].last, item.last))
            else:
                joined.append(item)
        after[subnet_id] = joined
    return _difference({subnet_id: neighbours.get(subnet_id, ()) for subnet_id in after}, after)


def count(ranges: Iterable[AddressRange]) -> int:
    """How many addresses the ranges have."""
    return sum(item.last - item.first + 1 for item in ranges)


def contains(ranges: Iterable[AddressRange], address: int) -> bool:
    """Whether the address is in one of the ranges."""
    return any(item.first <= address <= item.last for item in ranges)


def parse(text: str) -> int:
    """An IPv4 address as a whole number. Raises InvalidInput."""
    try:
        return int(ipaddress.IPv4Address(text))
    except ValueError as error:
        raise InvalidInput(f"'{text}' is not an IPv4 address.") from error


def show(address: int) -> str:
    """An IPv4 address as people write it."""
    return str(ipaddress.IPv4Address(address))


def host_range(cidr: str) -> AddressRange:
    """The addresses that hosts may have: not the network's and not the broadcast address."""
    block = ipaddress.IPv4Network(cidr)
    first, last = int(block.network_address), int(block.broadcast_address)
    return AddressRange(first, last) if block.prefixlen >= 31 else AddressRange(first + 1, last - 1)


def overlap(one: str, other: str) -> bool:
    """Whether two CIDRs share addresses."""
    return ipaddress.IPv4Network(one).overlaps(ipaddress.IPv4Network(other))


def plan_subnet(
    cidr: str, *, gateway_ip: str | None, no_gateway: bool, pools: Sequence[tuple[str, str]] | None
) -> SubnetPlan:
    """Check a subnet and fill in what was not said: the first host address is the gateway, all others are the pool.

    gateway_ip None: by default. no_gateway: none at all. pools: (first, last), None for the default.
    Raises InvalidInput, OutOfBoundsAllocationPool, OverlappingAllocationPools, GatewayConflictWithAllocationPools.
    """
    hosts = _checked_hosts(cidr)
    gateway: int | None = None
    if not no_gateway:
        gateway = hosts.first if gateway_ip is None else parse(gateway_ip)
        refuse_gateway(cidr, gateway)
    if pools is None:
        inside = gateway is not None and hosts.first <= gateway <= hosts.last
        planned = _without(hosts, gateway if inside else None)
        if not planned:
            raise InvalidInput(f"{cidr} has no address left beside its gateway: set gateway_ip to null, or enlarge it.")
    else:
        planned = _checked_pools(cidr, hosts, gateway, pools)
    return SubnetPlan(cidr, None if gateway is None else show(gateway), planned)


def refuse_gateway(cidr: str, gateway: int) -> None:
    """Raise InvalidInput for the network's or the broadcast address; one outside the subnet may be right.

    Source: Neutron, check_gateway_invalid_in_subnet: one elsewhere is reached in ways that a subnet does not know.
    """
    hosts, block = host_range(cidr), ipaddress.IPv4Network(cidr)
    inside = int(block.network_address) <= gateway <= int(block.broadcast_address)
    if inside and not hosts.first <= gateway <= hosts.last:
        raise InvalidInput(f"gateway_ip {show(gateway)} is no host address of {cidr}.")


def refuse_gateway_in_pools(gateway: int, pools: Iterable[AddressRange]) -> None:
    """Raise GatewayConflictWithAllocationPools: hosts would be given the gateway's own address."""
    for item in pools:
        if item.first <= gateway <= item.last:
            raise GatewayConflictWithAllocationPools(
                f"Gateway {show(gateway)} is within the allocation pool {show(item.first)}-{show(item.last)}: take it "
                "out of the pool."
            )


def plan_pools(cidr: str, gateway: int | None, pools: Sequence[tuple[str, str]]) -> tuple[AddressRange, ...]:
    """Check the pools, (first, last), of a subnet that is; raises what plan_subnet does for pools."""
    return _checked_pools(cidr, _checked_hosts(cidr), gateway, pools)


def _checked_hosts(cidr: str) -> AddressRange:
    try:
        block = ipaddress.ip_network(cidr, strict=False)
        if block.version == 4:
            ipaddress.IPv4Network(cidr)
    except ValueError as error:
        raise InvalidInput(f"cidr '{cidr}': {error}; expected one like 10.0.0.0/24.") from error
    if block.version != 4:
        raise InvalidInput(f"cidr {cidr}: only IPv4 subnets are served as yet.")
    if "/" not in cidr or block.prefixlen == 0:
        raise InvalidInput(f"cidr '{cidr}': expected an address and a prefix length of 1 to 32, like 10.0.0.0/24.")
    return host_range(cidr)


def _checked_pools(
    cidr: str, hosts: AddressRange, gateway: int | None, pools: Sequence[tuple[str, str]]
) -> tuple[AddressRange, ...]:
    if len(pools) > POOLS_MAX:
        raise InvalidInput(f"A subnet has at most {POOLS_MAX} allocation pools, {len(pools)} were given.")
    checked = sorted(AddressRange(parse(first), parse(last)) for first, last in pools)
    for item in checked:
        text = f"{show(item.first)}-{show(item.last)}"
        if item.first > item.last:
            raise InvalidInput(f"The allocation pool {text} ends before it starts.")
        if item.first < hosts.first or item.last > hosts.last:
            raise OutOfBoundsAllocationPool(f"The allocation pool {text} is not within the host addresses of {cidr}.")
    if gateway is not None:
        refuse_gateway_in_pools(gateway, checked)
    for one, other in itertools.pairwise(checked):
        if other.first <= one.last:
            raise OverlappingAllocationPools(f"Allocation pools overlap at {show(other.first)} in {cidr}.")
    return tuple(checked)


def _without(hosts: AddressRange, gateway: int | None) -> tuple[AddressRange, ...]:
    if gateway is None:
        return (hosts,)
    parts = (AddressRange(hosts.first, gateway - 1), AddressRange(gateway + 1, hosts.last))
    return tuple(part for part in parts if part.first <= part.last)


def _take_lowest(ranges: list[AddressRange]) -> int | None:
    """From ranges in descending order, changed in place."""
    if not ranges:
        return None
    lowest = ranges.pop()
    if lowest.first < lowest.last:
        ranges.append(AddressRange(lowest.first + 1, lowest.last))
    return lowest.first


def _take_named(ranges: list[AddressRange], address: int) -> int | None:
    for index, item in enumerate(ranges):
        if item.first <= address <= item.last:
            ranges[index : index + 1] = sorted(_without(item, address), reverse=True)
            return address
    return None


def _difference(before: FreeRanges, after: FreeRanges) -> FreeChange:
    removed: list[tuple[str, AddressRange]] = []
    added: list[tuple[str, AddressRange]] = []
    for subnet_id, ranges in before.items():
        old, new = set(ranges), set(after[subnet_id])
        removed += [(subnet_id, item) for item in sorted(old - new)]
        added += [(subnet_id, item) for item in sorted(new - old)]
    return FreeChange(tuple(removed), tuple(added))
