"""Counts the addresses of networks and subnets: in all, in pools, used, free. Says where none is free.

Counts are whole numbers of any size: an IPv6 subnet has more addresses than 64 bits can count. Ports and servers get
the same sentence where none is free, in the words of a server's fault: roost.seams.addresses.
Source: Neutron's extensions network-ip-availability and network-ip-availability-details.
"""

import ipaddress
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from roost.network.model.networks import AddressCounts, Network, Segment, Subnet, SubnetKind
from roost.network.rules import addressing
from roost.platform.grouping import grouped
from roost.seams import addresses as seam
from roost.seams.unknown_guests import held_sentence

ROOMS_MAX = 32
"""Segments or subnets that a sentence lists one by one."""


class SubnetAvailability(Struct, frozen=True):
    """A subnet and its counts."""

    subnet: Subnet
    counts: AddressCounts


class NetworkAvailability(Struct, frozen=True):
    """A network and its subnets, with their counts."""

    network: Network
    subnets: tuple[SubnetAvailability, ...]

    @property
    def counts(self) -> AddressCounts:
        """Return the sums of the subnets' counts."""
        names = AddressCounts.__struct_fields__
        return AddressCounts(**{name: sum(getattr(part.counts, name) for part in self.subnets) for name in names})


def availabilities(
    networks: Sequence[Network],
    subnets: Sequence[Subnet],
    held: Mapping[str, AddressCounts],
    *,
    ip_versions: Collection[int] = (),
) -> list[NetworkAvailability]:
    """Return the networks, with their subnets, both in order.

    held: by subnet id; a subnet that is left out holds nothing. ip_versions: of the subnets; empty for all. With some,
    networks that have no such subnet are left out.
    """
    by_network = grouped(
        (subnet.network_id, SubnetAvailability(subnet, _counts(subnet, held.get(subnet.id, AddressCounts()))))
        for subnet in subnets
        if not ip_versions or subnet.ip_version in ip_versions
    )
    return [
        NetworkAvailability(network, tuple(by_network.get(network.id, ())))
        for network in networks
        if network.id in by_network or not ip_versions
    ]


def _counts(subnet: Subnet, held: AddressCounts) -> AddressCounts:
    block = ipaddress.ip_network(subnet.cidr)
    in_pools = addressing.count(subnet.pools)
    unusable = 2 if block.version == 4 and block.prefixlen < 31 else 0
    return replace(
        held,
        total=in_pools if subnet.pools else block.num_addresses,
        in_subnet=block.num_addresses - unusable,
        in_pools=in_pools,
    )


class Room(Struct, frozen=True):
    """A segment, a subnet or a whole network, by name, and its counts of addresses."""

    name: str
    counts: seam.Counts


def named(item: Network | Segment | SubnetKind) -> str:
    """Return the kind, the name if it has one, and the id, so that an error says which one it is."""
    kind = "subnet" if isinstance(item, SubnetKind) else "segment" if isinstance(item, Segment) else "network"
    return f"{kind} {item.name} ({item.id})" if item.name else f"{kind} {item.id}"


def sentence(full: Sequence[str], network: Network, rooms: Sequence[Room], *, held: int = 0) -> str:
    """Return the sentence which says that no address is free.

    full: the names of what has none. rooms: all that the network has, the full ones too. held: how many of its
    addresses unknown guests hold.
    """
    called, counts = network.name or network.id, [room.counts for room in rooms]
    head = seam.show_exhausted(called, counts) or f"Addresses of network {called}"
    several = len(rooms) > 1 or network.segmented
    shown = [(f"{room.name} " if several else "") + seam.show_free([room.counts], counts) for room in rooms[:ROOMS_MAX]]
    if len(rooms) > ROOMS_MAX:
        shown.append(f"{len(rooms) - ROOMS_MAX} more")
    where = " or ".join(full if len(full) <= ROOMS_MAX else [*full[:ROOMS_MAX], f"{len(full) - ROOMS_MAX} more"])
    also = f" {held_sentence(held)}" if held else ""
    return f"No more IP addresses available on {where}. {head}: {', '.join(shown)}.{also}"
