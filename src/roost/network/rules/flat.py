"""Decides what holds for flat networks of the legacy kind: their pools, and which address a server gets there.

A flat network's subnets are pools, each of one cell: a group of hosts. It has no ports. A server's address is its own:
claimed by the server's consumer together with CPU and memory, then assigned from the pool that was claimed.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec
from msgspec import Struct

from roost.network.errors import InvalidInput
from roost.network.model import Network, Subnet
from roost.network.rules import addressing
from roost.seams import network as seam
from roost.seams.placement import IPV4_ADDRESS, Allocations


class FlatAddress(Struct, frozen=True, kw_only=True):
    """An address that a server has on a flat network, by its NIC's tag. ticket: who assigned it; see FlatWanted."""

    server_id: str
    tag: str
    network_id: str
    subnet_id: str
    address: str
    mac_address: str
    ticket: int


class FlatDemand(Struct, frozen=True, kw_only=True):
    """One address to be had from a pool for a server's NIC; address: exactly that one."""

    server_id: str
    tag: str
    pool: Subnet
    address: int | None


class Allocation(Struct, frozen=True, kw_only=True):
    """What it takes that a server has what it wants: addresses that stay, that go, and that it gets."""

    server_id: str
    kept: tuple[FlatAddress, ...]
    dropped: tuple[FlatAddress, ...]
    demands: tuple[FlatDemand, ...]


def refuse_network(network: Network) -> None:
    """Raise InvalidInput where a new flat network says what only others have."""
    said = network.network_type or network.physical_network or network.links or network.segmentation_id is not None
    if network.flat and said:
        raise InvalidInput("A network of roost:kind flat has no provider:* attributes: its pools belong to cells.")


def refuse_subnet(network: Network, subnet: Subnet) -> None:
    """Raise InvalidInput unless exactly the subnets of flat networks are pools of cells, and these as they must be."""
    if not network.flat:
        if subnet.cell is not None:
            raise InvalidInput(
                f"roost:cell {subnet.cell}: network {network.id} is not of roost:kind flat: leave it out."
            )
        return
    if not subnet.cell:
        raise InvalidInput(f"Network {network.id} is of roost:kind flat: name the cell of the pool as roost:cell.")
    if subnet.ip_version != 4:
        raise InvalidInput(f"ip_version {subnet.ip_version}: the pools of a flat network are IPv4.")
    if subnet.segment_id is not None or subnet.service_types:
        raise InvalidInput("A pool of a flat network has no segment_id and no service_types: leave them out.")
    if not subnet.pools:
        raise InvalidInput(f"The pool of cell {subnet.cell} has no address: name allocation_pools.")


def refuse_segment(network: Network) -> None:
    """Raise InvalidInput for a segment of a flat network."""
    if network.flat:
        raise InvalidInput(f"Network {network.id} is of roost:kind flat: it has pools of cells and no segments.")


def refuse_port(network: Network) -> None:
    """Raise InvalidInput for a port of a flat network."""
    if network.flat:
        raise InvalidInput(
            f"Network {network.id} is of roost:kind flat and has no ports: boot a server with the network itself."
        )


def refuse_nics(
    server: seam.ServerNics,
    networks: Mapping[str, Network],
    pools: Mapping[str, Sequence[Subnet]],
    taken: Mapping[tuple[str, str], str],
) -> str | None:
    """Why the server cannot have its NICs on flat networks, in one sentence; None if it can, as far as is known yet.

    pools: network id -> its pools. taken: (network id, address) -> the server that has it.
    """
    for nic in server.nics:
        network = networks.get(nic.network_id or "")
        if network is None or not _is_flat(nic, networks):
            continue
        mine = pools.get(network.id, ())
        if not mine:
            return f"Network {network.id} has no pool in any cell: create a subnet with a roost:cell."
        if nic.fixed_ip is None:
            continue
        if not _having(mine, nic.fixed_ip):
            return f"{nic.fixed_ip} is in no pool of network {network.id}."
        holder = taken.get((network.id, nic.fixed_ip), server.server_id)
        if holder != server.server_id:
            return f"IP address {nic.fixed_ip} of network {network.id} is server {holder}'s."
    return None


def without_flat(server: seam.ServerNics, networks: Mapping[str, Network]) -> seam.ServerNics:
    """The server with those of its NICs that have ports."""
    nics = tuple(nic for nic in server.nics if not _is_flat(nic, networks))
    return server if len(nics) == len(server.nics) else msgspec.structs.replace(server, nics=nics)


def view_nics(
    server: seam.ServerNics,
    networks: Mapping[str, Network],
    pools: Mapping[str, Sequence[Subnet]],
    held: Mapping[str, FlatAddress],
) -> tuple[seam.FlatNic, ...]:
    """The server's NICs on flat networks as the conductor needs to know them. held: by the tag of the NIC."""
    nics = []
    for nic in server.nics:
        network = networks.get(nic.network_id or "")
        if network is None or not _is_flat(nic, networks):
            continue
        mine = pools.get(network.id, ())
        chosen = mine if nic.fixed_ip is None else _having(mine, nic.fixed_ip)
        has = held.get(nic.tag)
        nics.append(
            seam.FlatNic(
                tag=nic.tag,
                network_id=network.id,
                pools=tuple(pool.id for pool in chosen),
                fixed_ip=nic.fixed_ip,
                mac_address=has.mac_address if has else "",
                address=has.address if has else None,
                provider_uuid=has.subnet_id if has else None,
            )
        )
    return tuple(nics)


def decide_allocation(
    wanted: seam.FlatWanted, *, cell: str, held: Sequence[FlatAddress], pools: Mapping[str, Subnet]
) -> Allocation | seam.AllocateRefused:
    """What becomes of the server's addresses, or why it cannot have what it wants.

    held: all that it has. pools: those named, as they are, locked. An address in the pool that is wanted stays.
    """

    def refused(reason: str) -> seam.AllocateRefused:
        return seam.AllocateRefused(wanted.server_id, reason)

    if any(item.ticket > wanted.ticket for item in held):
        return refused("Another conductor has taken over the server.")
    held_by_tag = {item.tag: item for item in held}
    kept: list[FlatAddress] = []
    demands: list[FlatDemand] = []
    for tag, pool_id in wanted.pools_by_tag.items():
        pool = pools.get(pool_id)
        if pool is None or pool.cell is None:
            return refused(f"There is no pool {pool_id} any more.")
        if pool.cell != cell:
            return refused(f"Pool {pool.cidr} belongs to cell {pool.cell}, and the server's host to cell {cell}.")
        text = wanted.fixed_ips_by_tag.get(tag)
        fixed = None if text is None else addressing.parse(text)
        if fixed is not None and not addressing.contains(pool.pools, fixed):
            return seam.AllocateRefused(wanted.server_id, f"{text} is not in pool {pool.cidr} any more.", final=True)
        has = held_by_tag.get(tag)
        if has is not None and has.subnet_id == pool_id and fixed in (None, addressing.parse(has.address)):
            kept.append(has)
        else:
            demands.append(FlatDemand(server_id=wanted.server_id, tag=tag, pool=pool, address=fixed))
    staying = {item.tag for item in kept}
    return Allocation(
        server_id=wanted.server_id,
        kept=tuple(kept),
        dropped=tuple(item for item in held if item.tag not in staying),
        demands=tuple(demands),
    )


def server_claim(held: Allocations, addresses: Iterable[FlatAddress], providers: Set[str]) -> dict[str, dict[str, int]]:
    """What a server that holds this is to hold: as many addresses of each pool as it has; of all else what it holds.

    providers: all whose inventories are addresses, but for pools that are new: those of the addresses are such too.
    """
    has = list(addresses)
    counted = {*providers, *(item.subnet_id for item in has)}
    claim = {uuid: dict(resources) for uuid, resources in held.items() if uuid not in counted}
    for item in has:
        there = claim.setdefault(item.subnet_id, {IPV4_ADDRESS: 0})
        there[IPV4_ADDRESS] += 1
    return claim


def show_claim(held: Allocations, providers: Set[str]) -> str:
    """What of a claim is addresses, in words."""
    parts = [
        f"{amount} {name} of {uuid}" for uuid in sorted(held.keys() & providers) for name, amount in held[uuid].items()
    ]
    return ", ".join(parts) or "none"


def pool_names(pools: Iterable[Subnet]) -> dict[str, str]:
    """Subnet id -> what people call the pool: its cell, with the CIDR where a cell has several."""
    listed = list(pools)
    cells = [pool.cell for pool in listed]
    return {
        pool.id: pool.cell or pool.id if cells.count(pool.cell) == 1 else f"{pool.cell} ({pool.cidr})"
        for pool in listed
    }


def _is_flat(nic: seam.Nic, networks: Mapping[str, Network]) -> bool:
    network = networks.get(nic.network_id or "")
    return nic.port_id is None and network is not None and network.flat


def _having(pools: Sequence[Subnet], address: str) -> list[Subnet]:
    """The pool with the address, if there is one; an IPv6 address is in none."""
    try:
        number = addressing.parse(address)
    except InvalidInput:
        return []
    return [pool for pool in pools if addressing.contains(pool.pools, number)]
