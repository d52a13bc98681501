"""Decides what holds for flat networks of the legacy kind: their pools, and where a server may get an address there.

A flat network's subnets are pools, each of one cell: a group of hosts. A server's NIC there has a port that clients
never see. It is made when the server's host is known. The server's own consumer claims its address together with CPU
and memory; the address then comes from the pool that was claimed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set

import msgspec

from roost.network.errors import InvalidInput
from roost.network.model.networks import Network, Subnet
from roost.network.rules import addressing
from roost.network.rules.addressing import holds
from roost.seams import network as seam
from roost.seams.placement import IPV4_ADDRESS, Allocations, show_allocations

Pools = Mapping[str, Sequence[Subnet]]
"""Network id -> the pools of a flat network."""


def refuse_network(network: Network) -> None:
    """Raise InvalidInput when a new flat network has provider attributes."""
    attributes = (network.network_type, network.physical_network, network.links, network.segmentation_id is not None)
    if network.flat and any(attributes):
        raise InvalidInput("A network of roost:kind flat has no provider:* attributes: its pools belong to cells.")


def refuse_subnet(network: Network, subnet: Subnet) -> None:
    """Raise InvalidInput when a subnet of a flat network is no pool of a cell, or another subnet is one."""
    if not network.flat:
        if subnet.is_pool:
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


def refuse_nics(server: seam.ServerNics, pools: Pools, taken: Mapping[tuple[str, str], str]) -> str | None:
    """Return why the server cannot have its NICs on flat networks, in one sentence; None if nothing forbids it yet.

    taken: (network id, address) -> the server that has it.
    """
    for nic in server.nics:
        nic_pools = pools_of(nic, pools)
        if nic_pools is None:
            continue
        network_id, address = nic.network_id or "", nic.fixed_ip or ""
        if not pools[network_id]:
            return f"Network {network_id} has no pool in any cell: create a subnet with a roost:cell."
        if not nic_pools:
            return f"{address} is in no pool of network {network_id}."
        holder = taken.get((network_id, address), server.server_id)
        if holder != server.server_id:
            return f"IP address {address} of network {network_id} is server {holder}'s."
    return None


def pools_of(nic: seam.Nic, pools: Pools) -> Sequence[Subnet] | None:
    """Return the pools that may give the NIC its address; None when it is on no flat network."""
    network_pools = pools.get(nic.network_id or "") if nic.port_id is None else None
    if network_pools is None or nic.fixed_ip is None:
        return network_pools
    try:
        address = addressing.parse(nic.fixed_ip)
    except InvalidInput:
        return []
    return [pool for pool in network_pools if holds(pool.pools, address)]


def with_pools(port: seam.Port, nic: seam.Nic, pools: Pools) -> seam.Port:
    """Return the port of a NIC, with its pools on a flat network, where an address that the NIC names pins it."""
    own = pools_of(nic, pools)
    if own is None:
        return port
    pinned = port.pinned or nic.fixed_ip is not None
    return msgspec.structs.replace(port, pools=tuple(pool.id for pool in own), fixed_ip=nic.fixed_ip, pinned=pinned)


def server_claim(held: Allocations, has: Sequence[tuple[str, str]], providers: Set[str]) -> dict[str, dict[str, int]]:
    """Return what a server's claim should be: what it holds of other providers, and its addresses of each pool.

    held: what the server claims now. has: its addresses, as (pool, address). providers: all known to be of addresses;
    a new pool may be missing.
    """
    amounts = Counter(pool_id for pool_id, _ in has)
    others = {uuid: dict(resources) for uuid, resources in held.items() if uuid not in {*providers, *amounts}}
    return others | {pool_id: {IPV4_ADDRESS: amount} for pool_id, amount in amounts.items()}


def show_claim(held: Allocations, providers: Set[str]) -> str:
    """Return the addresses of a claim, in words. providers: all whose inventories are addresses."""
    claim = {uuid: held[uuid] for uuid in held.keys() & providers}
    return show_allocations(claim) if claim else "none"


def pool_names(pools: Sequence[Subnet]) -> dict[str, str]:
    """Return subnet id -> the name of the pool: its cell, with the CIDR when the cell has several pools."""
    cells = [pool.cell for pool in pools]
    return {
        pool.id: pool.cell or pool.id if cells.count(pool.cell) == 1 else f"{pool.cell} ({pool.cidr})" for pool in pools
    }
