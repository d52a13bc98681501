"""Decides which addresses are handed out, and what becomes of the free ranges. Reads addresses as people write them.

Inside, all IP addresses are whole numbers. A caller that wants n addresses reads n free ranges: each has at least one
address.
`uses` decides which subnets a port may use; `segments` and the ledger decide on which segment.
"""

import ipaddress
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from random import Random

from msgspec import Struct

from roost.network.errors import InvalidInput
from roost.network.model.networks import AddressRange
from roost.network.model.ports import FreeChange, Given

MAC_PREFIX = "fa:16:3e"
IPV4_MAX = 2**32 - 1
UNUSED = ipaddress.IPv6Network("::/80")
"""IPv6 writes IPv4 addresses and its own loopback here. No subnet is here, so that a number says its family."""


Ranges = tuple[AddressRange, ...]
FreeRanges = Mapping[str, Sequence[AddressRange]]
"""Subnet id -> free ranges in order."""


class Demand(Struct, frozen=True):
    """One address that a port is to get, from the first of the subnets that has one free.

    address: the exact address; None for any. in_pool False: the address is outside every pool, so no free range knows
    it. claimed: the port's own claim counts the address; all of the subnets are capacity then. A port may have an
    address of capacity unclaimed: nobody claims for an unknown guest, and on flat networks servers claim.
    """

    port_id: str
    subnet_ids: tuple[str, ...]
    address: int | None = None
    in_pool: bool = True
    claimed: bool = True
    ip_version: int = 4


def hand_out(
    demands: Sequence[Demand], free: FreeRanges, starts: Mapping[str, int] = {}
) -> tuple[list[Given | None], FreeChange]:
    """Return for each demand an address, or None when there is none for its port; named addresses go first.

    A port gets all that it demands or nothing. Each demand gets the next free address from its subnet's start upwards,
    then from the lowest. free: the free ranges of each subnet in this order, one more than it has demands, and those
    that have the named addresses. starts: subnet id -> the address to start at; left out, it is the lowest.
    """
    answers, free_after = _hand_out(demands, free, starts)
    short = {demand.port_id for demand, answer in zip(demands, answers, strict=True) if answer is None}
    if short:
        # What these ports give up goes to nobody: every port after them has its addresses already.
        whole, free_after = _hand_out([demand for demand in demands if demand.port_id not in short], free, starts)
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

    addresses: subnet id -> addresses in its pools. neighbours: the free ranges that end or begin beside one.
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


def join(ranges: Iterable[AddressRange]) -> Ranges:
    """Return the same addresses in as few ranges as there can be, in order."""
    joined: list[AddressRange] = []
    for item in sorted(ranges):
        if joined and item.first <= joined[-1].last + 1:
            joined[-1] = AddressRange(joined[-1].first, max(joined[-1].last, item.last))
        else:
            joined.append(item)
    return tuple(joined)


def subtract(ranges: Iterable[AddressRange], others: Iterable[AddressRange]) -> Ranges:
    """Return the addresses of `ranges` that are not in `others`, in order."""
    rest: list[AddressRange] = []
    cuts = deque(join(others))
    for item in join(ranges):
        first = item.first
        while cuts and cuts[0].first <= item.last and first <= item.last:
            if first < cuts[0].first:
                rest.append(AddressRange(first, cuts[0].first - 1))
            first = max(first, cuts[0].last + 1)
            if cuts[0].last <= item.last:
                cuts.popleft()
        if first <= item.last:
            rest.append(AddressRange(first, item.last))
    return tuple(rest)


def holds(ranges: Sequence[AddressRange], address: int) -> bool:
    """Return whether one of the ranges has the address. ranges: in order and apart, for a binary search."""
    position = bisect_right(ranges, address, key=lambda item: item.first)
    return position > 0 and address <= ranges[position - 1].last


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


def canonical_mac(text: str) -> str:
    """Return the address in lower case with colons. Raises InvalidInput."""
    mac = text.lower().replace("-", ":")
    if not re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", mac) or int(mac[:2], 16) & 1:
        raise InvalidInput(f"mac_address '{text}': expected a unicast address like fa:16:3e:00:00:01.")
    return mac


def new_mac(random: Random) -> str:
    """Return one of 2^24 addresses below OpenStack's usual prefix. The insert shows whether its network has it."""
    digits = random.getrandbits(24).to_bytes(3, "big").hex()
    return f"{MAC_PREFIX}:{digits[:2]}:{digits[2:4]}:{digits[4:]}"


def parse_range(first: str, last: str) -> AddressRange:
    """Return the range of addresses from the first to the last. Raises InvalidInput."""
    return AddressRange(parse(first), parse(last))


def show(address: int) -> str:
    """Return an address as people write it."""
    return str(ipaddress.IPv4Address(address) if address <= IPV4_MAX else ipaddress.IPv6Address(address))


def version_of(address: int) -> int:
    """Return the IP version of an address: 4 or 6."""
    return 4 if address <= IPV4_MAX else 6


@lru_cache(maxsize=1 << 14)
def host_range(cidr: str) -> AddressRange:
    """Return the addresses of a CIDR that hosts may have.

    The first is not among them: it is the network's own, of IPv6 the routers'. Nor is the last of IPv4, which is for
    broadcasts. In a CIDR of one or two addresses hosts may have all. The answers are
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
