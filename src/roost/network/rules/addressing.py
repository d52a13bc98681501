"""Decides which addresses are handed out and what becomes of the free ranges; defaults and limits of pools.

All by whole numbers, over the free ranges that it is given: as many as addresses are wanted are always enough, since
each has at least one. Which subnets a port may use is decided in `uses`, which segment in `segments` and by the ledger.
"""

import ipaddress
import itertools
from collections.abc import Iterable, Mapping, Sequence
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
"""Where IPv6 writes IPv4 addresses and its own loopback: no subnet is there, so that a number says its family."""


FreeRanges = Mapping[str, Sequence[AddressRange]]
"""Subnet id -> free ranges in order."""


class Demand(Struct, frozen=True):
    """One address wanted for a port, from the first of the subnets that has one; address: exactly that one.

    in_pool False: the address is outside every pool, so no free range knows it. claimed: it is capacity (of all of the
    subnets), so the port's claim counts it.
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

    A port gets all that it demands or nothing. Each gets the next free address from where its subnet starts, then from
    the lowest. free: of each subnet the first ranges from there, one more than demands, and those that hold a named
    address. starts: subnet id -> the address to start at; without one, the lowest.
    """
    answers, left = _hand_out(demands, free, starts or {})
    short = {demand.port_id for demand, given in zip(demands, answers, strict=True) if given is None}
    if any(given is not None and given.port_id in short for given in answers):
        # What they had gone without goes to nobody: whoever came after them has found something already.
        kept = [index for index, demand in enumerate(demands) if demand.port_id not in short]
        again, left = _hand_out([demands[index] for index in kept], free, starts or {})
        answers = [None] * len(demands)
        for index, given in zip(kept, again, strict=True):
            answers[index] = given
    return answers, difference(free, left)


def choose_start(pools: Sequence[AddressRange], random: Random) -> int | None:
    """Any address of the pools, each as likely; None where they have none."""
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
    """Join addresses that are free again with the free ranges beside them.

    addresses: subnet id -> addresses in its pools. neighbours: the ranges next below and above each, where there are.
    """
    after: dict[str, Ranges] = {}
    for subnet_id, freed in addresses.items():
        singles = [AddressRange(address, address) for address in freed]
        after[subnet_id] = join([*neighbours.get(subnet_id, ()), *singles])
    return difference({subnet_id: neighbours.get(subnet_id, ()) for subnet_id in after}, after)


def difference(before: FreeRanges, after: FreeRanges) -> FreeChange:
    """What makes the one the other; of the same subnets."""
    removed: list[tuple[str, AddressRange]] = []
    added: list[tuple[str, AddressRange]] = []
    for subnet_id, ranges in before.items():
        old, new = set(ranges), set(after[subnet_id])
        removed += [(subnet_id, item) for item in sorted(old - new)]
        added += [(subnet_id, item) for item in sorted(new - old)]
    return FreeChange(tuple(removed), tuple(added))


def count(ranges: Iterable[AddressRange]) -> int:
    """How many addresses the ranges have."""
    return sum(item.last - item.first + 1 for item in ranges)


def contains(ranges: Iterable[AddressRange], address: int) -> bool:
    """Whether the address is in one of the ranges."""
    return any(item.first <= address <= item.last for item in ranges)


@lru_cache(maxsize=1 << 14)
def parse(text: str) -> int:
    """An address as a whole number; an IPv6 one is above IPV4_MAX. Raises InvalidInput."""
    try:
        return int(ipaddress.IPv4Address(text))
    except ValueError:
        pass
    try:
        found = ipaddress.IPv6Address(text)
    except ValueError as error:
        raise InvalidInput(f"'{text}' is not an IP address.") from error
    if found in UNUSED or found.scope_id is not None:
        raise InvalidInput(f"'{text}' is not an address that a port can have.")
    return int(found)


def show(address: int) -> str:
    """An address as people write it."""
    return str(ipaddress.IPv4Address(address) if address <= IPV4_MAX else ipaddress.IPv6Address(address))


def version_of(address: int) -> int:
    """The IP version of an address: 4 or 6."""
    return 4 if address <= IPV4_MAX else 6


@lru_cache(maxsize=1 << 14)
def host_range(cidr: str) -> AddressRange:
    """The addresses that hosts may have: not the network's (IPv6: the routers'), and no IPv4 broadcast address.

    Remembered: for each address that ports of one request name, all subnets of their network may be asked.
    """
    block = ipaddress.ip_network(cidr)
    first, last = int(block.network_address), int(block.broadcast_address)
    if block.prefixlen >= block.max_prefixlen - 1:
        return AddressRange(first, last)
    return AddressRange(first + 1, last - 1 if block.version == 4 else last)


@lru_cache(maxsize=1 << 14)
def block_range(cidr: str) -> AddressRange:
    """All addresses of a CIDR. Remembered: each new subnet of one request is held against all of its network."""
    block = ipaddress.ip_network(cidr)
    return AddressRange(int(block.network_address), int(block.broadcast_address))


def overlap(one: str, other: str) -> bool:
    """Whether the CIDRs of two subnets share addresses; of different families they never do: see UNUSED."""
    first, second = block_range(one), block_range(other)
    return first.first <= second.last and second.first <= first.last


def plan_subnet(
    cidr: str,
    *,
    gateway_ip: str | None,
    no_gateway: bool,
    pools: Sequence[tuple[str, str]] | None,
    ip_version: int | None = None,
) -> SubnetPlan:
    """Check a subnet and fill in what was not said: the first host address is the gateway, all others are the pool.

    gateway_ip None: by default. no_gateway: none at all. pools: (first, last), None for the default. ip_version: what
    all addresses have to be, None for whatever the cidr is.
    Raises InvalidInput, OutOfBoundsAllocationPool, OverlappingAllocationPools, GatewayConflictWithAllocationPools.
    """
    cidr, hosts = _checked_hosts(cidr, ip_version)
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
    hosts, block = host_range(cidr), ipaddress.ip_network(cidr)
    if version_of(gateway) != block.version:
        raise InvalidInput(f"gateway_ip '{show(gateway)}' does not match the ip_version '{block.version}'.")
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
    return _checked_pools(cidr, host_range(cidr), gateway, pools)


def _checked_hosts(cidr: str, ip_version: int | None) -> tuple[str, AddressRange]:
    """The CIDR as it is written, and its host addresses."""
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


def _hand_out(
    demands: Sequence[Demand], free: FreeRanges, starts: Mapping[str, int]
) -> tuple[list[Given | None], FreeRanges]:
    """What each gets, whatever the port's others get, and what is left."""
    answers: list[Given | None] = [None] * len(demands)
    there = {subnet_id: join(ranges) for subnet_id, ranges in free.items()}
    taken: dict[str, set[int]] = {subnet_id: set() for subnet_id in there}
    for index, demand in enumerate(demands):
        if demand.address is not None:
            answers[index] = _give_named(demand, demand.address, there, taken)
    left = {
        subnet_id: _from_start(
            subtract(ranges, [AddressRange(address, address) for address in taken[subnet_id]]), starts.get(subnet_id)
        )[::-1]
        for subnet_id, ranges in there.items()
    }
    for index, demand in enumerate(demands):
        for subnet_id in demand.subnet_ids if demand.address is None else ():
            address = _take_next(left.get(subnet_id, []))
            if address is not None:
                answers[index] = Given(demand.port_id, subnet_id, address, True, demand.claimed)
                break
    return answers, {subnet_id: join(ranges) for subnet_id, ranges in left.items()}


def _give_named(
    demand: Demand, address: int, there: Mapping[str, Ranges], taken: Mapping[str, set[int]]
) -> Given | None:
    """Exactly this address, unless somebody has it. taken: of what was there, by those before; changed in place."""
    if not demand.in_pool:
        return Given(demand.port_id, demand.subnet_ids[0], address, False, False)
    for subnet_id in demand.subnet_ids:
        if subnet_id in there and holds(there[subnet_id], address) and address not in taken[subnet_id]:
            taken[subnet_id].add(address)
            return Given(demand.port_id, subnet_id, address, True, demand.claimed)
    return None


def _from_start(ranges: Sequence[AddressRange], start: int | None) -> list[AddressRange]:
    """The ranges in the order in which they are used up; the one that holds the start comes in two parts."""
    if start is None:
        return sorted(ranges)
    above = [AddressRange(max(item.first, start), item.last) for item in sorted(ranges) if item.last >= start]
    below = [AddressRange(item.first, min(item.last, start - 1)) for item in sorted(ranges) if item.first < start]
    return above + below


def _take_next(ranges: list[AddressRange]) -> int | None:
    """From ranges of which the last is used up first, changed in place."""
    if not ranges:
        return None
    following = ranges.pop()
    if following.first < following.last:
        ranges.append(AddressRange(following.first + 1, following.last))
    return following.first
