"""Decides which addresses are handed out, what becomes of the free ranges, and the defaults and limits of pools.

All addresses are whole numbers. A caller that wants n addresses reads n free ranges: each has at least one address.
`uses` decides which subnets a port may use; `segments` and the ledger decide on which segment.
"""

import ipaddress
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from random import Random

from msgspec import Struct

from roost.network.errors import (
    GatewayConflictWithAllocationPools,
    InvalidInput,
    OutOfBoundsAllocationPool,
    OverlappingAllocationPools,
)
from roost.network.model.networks import AddressRange
from roost.network.model.ports import FreeChange, Given
from roost.network.rules.ranges import Ranges, holds, join, subtract

POOLS_MAX = 1000
IPV4_MAX = 2**32 - 1
UNUSED = ipaddress.IPv6Network("::/80")
"""IPv6 writes IPv4 addresses and its own loopback here. No subnet is here, so that a number says its family."""


FreeRanges = Mapping[str, Sequence[AddressRange]]
"""Subnet id -> free ranges in order."""


class Demand(Struct, frozen=True):
    """One address that a port is to get, from the first of the subnets that has one free.

    address: the exact address; None for any. in_pool False: the address is outside every pool, so no free range knows
    it. claimed: the port's own claim counts the address; all of the subnets are capacity then. Not the reverse: nobody
    claims for an unknown guest, and servers claim from the pools of flat networks.
    """

    port_id: str
    subnet_ids: tuple[str, ...]
    address: int | None = None
    in_pool: bool = True
    claimed: bool = True
    ip_version: int = 4


class SubnetPlan(Struct, frozen=True):
    """A checked subnet."""

    cidr: str
    gateway_ip: str | None
    pools: tuple[AddressRange, ...]


def hand_out(
    demands: Sequence[Demand], free: FreeRanges, starts: Mapping[str, int] | None = None
) -> tuple[list[Given | None], FreeChange]:
    """Return for each demand an address, or None when there is none for its port; named addresses go first.

    A port gets all that it demands or nothing. Each demand gets the next free address from its subnet's start upwards,
    then from the lowest. free: of each subnet as many ranges in this order as there are demands and one more, and the
    ranges of named addresses. starts: subnet id -> the address to start at; left out, it is the lowest.
    """
    answers, free_after = _hand_out(demands, free, starts or {})
    short = {demand.port_id for demand, answer in zip(demands, answers, strict=True) if answer is None}
    if short:
        # What these ports give up goes to nobody: every port after them has its addresses already.
        whole, free_after = _hand_out([demand for demand in demands if demand.port_id not in short], free, starts or {})
        remaining = iter(whole)
        answers = [None if demand.port_id in short else next(remaining) for demand in demands]
    return answers, difference(free, free_after)


def choose_start(pools: Sequence[AddressRange], random: Random) -> int | None:
    """Return an address of the pools at random, all equally likely; None where the pools have none."""
    total = count(pools)
    if total == 0:
        return None
    place = random.randrange(total)
    for pool in pools:
        if place <= pool.last - pool.first:
            return pool.first + place
        place -= pool.last - pool.first + 1
    raise AssertionError("the place is within the total")


def take_back(addresses: Mapping[str, Iterable[int]], neighbours: FreeRanges) -> FreeChange:
    """Return the change that joins addresses which are free again with the free ranges beside them.

    addresses: subnet id -> addresses in its pools. neighbours: the free ranges next below and above each address.
    """
    before = {subnet_id: neighbours.get(subnet_id, ()) for subnet_id in addresses}
    after = {
        subnet_id: join([*before[subnet_id], *(AddressRange(address, address) for address in freed)])
        for subnet_id, freed in addresses.items()
    }
    return difference(before, after)


def difference(before: FreeRanges, after: FreeRanges) -> FreeChange:
    """Return the change that turns some free ranges into others. Both mappings have the same subnets."""

    def only_in(ranges: FreeRanges, others: FreeRanges) -> tuple[tuple[str, AddressRange], ...]:
        return tuple((name, item) for name in before for item in sorted(set(ranges[name]) - set(others[name])))

    return FreeChange(only_in(before, after), only_in(after, before))


def free_of(pools: Iterable[AddressRange], held: Iterable[int]) -> Ranges:
    """Return the free ranges of the pools when these addresses are held: joined and in order."""
    return subtract(pools, (AddressRange(address, address) for address in held))


def count(ranges: Iterable[AddressRange]) -> int:
    """Return how many addresses the ranges have; none of them overlap."""
    return sum(item.last - item.first + 1 for item in ranges)


@lru_cache(maxsize=1 << 14)
def parse(text: str) -> int:
    """Return an address as a whole number, above IPV4_MAX for IPv6. Raises InvalidInput."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise InvalidInput(f"'{text}' is not an IP address.") from error
    if isinstance(address, ipaddress.IPv6Address) and (address in UNUSED or address.scope_id is not None):
        raise InvalidInput(f"'{text}' is not an address that a port can have.")
    return int(address)


def canonical(text: str) -> str:
    """Return an address as it is stored and shown. Raises InvalidInput."""
    return show(parse(text))


def parse_range(first: str, last: str) -> AddressRange:
    """Return the range of addresses from the first to the last. Raises InvalidInput."""
    return AddressRange(parse(first), parse(last))


def parse_ranges(firsts: Iterable[str], lasts: Iterable[str]) -> tuple[AddressRange, ...]:
    """Return the ranges between each first address and the last one beside it. Raises InvalidInput."""
    return tuple(map(parse_range, firsts, lasts))


def show(address: int) -> str:
    """Return an address as people write it."""
    return str(ipaddress.IPv4Address(address) if address <= IPV4_MAX else ipaddress.IPv6Address(address))


def version_of(address: int) -> int:
    """Return the IP version of an address: 4 or 6."""
    return 4 if address <= IPV4_MAX else 6


@lru_cache(maxsize=1 << 14)
def host_range(cidr: str) -> AddressRange:
    """Return the addresses of a CIDR that hosts may have.

    The first is the network's own (of IPv6 the routers'), and the last of IPv4 is for broadcasts. The answers are
    cached: a request that names many addresses looks at all subnets of its network for each.
    """
    block = ipaddress.ip_network(cidr)
    first, last = int(block.network_address), int(block.broadcast_address)
    if block.prefixlen >= block.max_prefixlen - 1:
        return AddressRange(first, last)
    return AddressRange(first + 1, last - 1 if block.version == 4 else last)


@lru_cache(maxsize=1 << 14)
def block_range(cidr: str) -> AddressRange:
    """Return all addresses of a CIDR. The answers are cached: a new subnet is compared with all of its network."""
    block = ipaddress.ip_network(cidr)
    return AddressRange(int(block.network_address), int(block.broadcast_address))


def overlap(cidr: str, other_cidr: str) -> bool:
    """Return whether the CIDRs of two subnets share addresses; those of two families never do: see UNUSED."""
    first, second = block_range(cidr), block_range(other_cidr)
    return first.first <= second.last and second.first <= first.last


def plan_subnet(
    cidr: str,
    *,
    gateway_ip: str | None,
    no_gateway: bool,
    pools: Sequence[tuple[str, str]] | None,
    ip_version: int | None = None,
) -> SubnetPlan:
    """Return a subnet, checked, with its defaults: the first host address is the gateway, all others are the pool.

    gateway_ip: None for the default. no_gateway: the subnet has none at all. pools: (first, last) of each; None for the
    default. ip_version: the version that all addresses must have; None for that of the CIDR.
    Raises InvalidInput, OutOfBoundsAllocationPool, OverlappingAllocationPools, GatewayConflictWithAllocationPools.
    """
    cidr, hosts = _checked_hosts(cidr, ip_version)
    gateway: int | None = None
    if not no_gateway:
        gateway = hosts.first if gateway_ip is None else parse(gateway_ip)
        refuse_gateway(cidr, gateway)
    if pools is None:
        planned = free_of([hosts], () if gateway is None else (gateway,))
        if not planned:
            raise InvalidInput(f"{cidr} has no address left beside its gateway: set gateway_ip to null, or enlarge it.")
    else:
        planned = plan_pools(cidr, gateway, pools)
    return SubnetPlan(cidr, None if gateway is None else show(gateway), planned)


def refuse_gateway(cidr: str, gateway: int) -> None:
    """Raise InvalidInput when a gateway has another IP version, or is the network's or the broadcast address.

    A gateway outside the subnet may be right: hosts reach it in ways that a subnet does not know.
    Source: Neutron, check_gateway_invalid_in_subnet.
    """
    hosts, version = host_range(cidr), ipaddress.ip_network(cidr).version
    if version_of(gateway) != version:
        raise InvalidInput(f"gateway_ip '{show(gateway)}' does not match the ip_version '{version}'.")
    if holds((block_range(cidr),), gateway) and not holds((hosts,), gateway):
        raise InvalidInput(f"gateway_ip {show(gateway)} is no host address of {cidr}.")


def refuse_gateway_in_pools(gateway: int, pools: Iterable[AddressRange]) -> None:
    """Raise GatewayConflictWithAllocationPools when a pool would give the gateway's own address to a host."""
    for item in pools:
        if holds((item,), gateway):
            raise GatewayConflictWithAllocationPools(
                f"Gateway {show(gateway)} is within the allocation pool {show(item.first)}-{show(item.last)}: take it "
                "out of the pool."
            )


def plan_pools(cidr: str, gateway: int | None, pools: Sequence[tuple[str, str]]) -> tuple[AddressRange, ...]:
    """Return the pools of a subnet, checked and in order. pools: (first, last) of each. Raises as plan_subnet does."""
    if len(pools) > POOLS_MAX:
        raise InvalidInput(f"A subnet has at most {POOLS_MAX} allocation pools, {len(pools)} were given.")
    hosts = host_range(cidr)
    checked = sorted(parse_range(first, last) for first, last in pools)
    for item in checked:
        text = f"{show(item.first)}-{show(item.last)}"
        if item.first > item.last:
            raise InvalidInput(f"The allocation pool {text} ends before it starts.")
        if item.first < hosts.first or item.last > hosts.last:
            raise OutOfBoundsAllocationPool(f"The allocation pool {text} is not within the host addresses of {cidr}.")
    if gateway is not None:
        refuse_gateway_in_pools(gateway, checked)
    for lower, upper in itertools.pairwise(checked):
        if upper.first <= lower.last:
            raise OverlappingAllocationPools(f"Allocation pools overlap at {show(upper.first)} in {cidr}.")
    return tuple(checked)


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
    if isinstance(block, ipaddress.IPv6Network) and block.overlaps(UNUSED):
        raise InvalidInput(f"cidr '{cidr}': the addresses of {UNUSED} are not for hosts.")
    return str(block), host_range(cidr)


def _hand_out(
    demands: Sequence[Demand], free: FreeRanges, starts: Mapping[str, int]
) -> tuple[list[Given | None], FreeRanges]:
    """Return what each demand gets, even if other demands of its port get nothing, and the free ranges after it."""
    answers: list[Given | None] = [None] * len(demands)
    free_joined = {subnet_id: join(ranges) for subnet_id, ranges in free.items()}
    taken: dict[str, set[int]] = {subnet_id: set() for subnet_id in free_joined}
    for index, demand in enumerate(demands):
        if demand.address is not None:
            answers[index] = _give_named(demand, demand.address, free_joined, taken)
    coming = {
        subnet_id: _from_start(free_of(ranges, taken[subnet_id]), starts.get(subnet_id, 0))
        for subnet_id, ranges in free_joined.items()
    }
    for index, demand in enumerate(demands):
        for subnet_id in demand.subnet_ids if demand.address is None else ():
            address = next(coming.get(subnet_id, iter(())), None)
            if address is not None:
                taken[subnet_id].add(address)
                answers[index] = Given(demand.port_id, subnet_id, address, True, demand.claimed)
                break
    return answers, {subnet_id: free_of(ranges, taken[subnet_id]) for subnet_id, ranges in free_joined.items()}


def _give_named(
    demand: Demand, address: int, free: Mapping[str, Ranges], taken: Mapping[str, set[int]]
) -> Given | None:
    """Return exactly this address, or None when another port has it.

    free: subnet id -> joined ranges. taken: subnet id -> those handed out to earlier demands, changed in place.
    """
    if not demand.in_pool:
        return Given(demand.port_id, demand.subnet_ids[0], address, False, False)
    for subnet_id in demand.subnet_ids:
        if subnet_id in free and holds(free[subnet_id], address) and address not in taken[subnet_id]:
            taken[subnet_id].add(address)
            return Given(demand.port_id, subnet_id, address, True, demand.claimed)
    return None


def _from_start(ranges: Ranges, start: int) -> Iterator[int]:
    """Yield the addresses from the start upwards, then those below it."""
    for item in ranges:
        yield from range(max(item.first, start), item.last + 1)
    for item in ranges:
        yield from range(item.first, min(item.last, start - 1) + 1)
