"""Decides what holds for flat networks of the legacy kind: their pools, and where a server may get an address there.

A flat network's subnets are pools, each of one cell: a group of hosts. A server's NIC there has a port that is made
when the server's host is known and that clients never see. Its address is claimed by the server's own consumer,
together with CPU and memory, then assigned from the pool that was claimed.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec

from roost.network.errors import InvalidInput
from roost.network.model.networks import Network, Subnet
from roost.network.rules import addressing
from roost.seams import network as seam
from roost.seams.placement import IPV4_ADDRESS, Allocations

Pools = Mapping[str, Sequence[Subnet]]
"""The pools of flat networks, by the network's id."""


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


def refuse_nics(server: seam.ServerNics, pools: Pools, taken: Mapping[tuple[str, str], str]) -> str | None:
    """Why the server cannot have its NICs on flat networks, in one sentence; None if it can, as far as is known yet.

    taken: (network id, address) -> the server that has it.
    """
    for nic in server.nics:
        mine = pools_of(nic, pools)
        if mine is None:
            continue
        network_id, address = nic.network_id or "", nic.fixed_ip or ""
        if not pools[network_id]:
            return f"Network {network_id} has no pool in any cell: create a subnet with a roost:cell."
        if not mine:
            return f"{address} is in no pool of network {network_id}."
        holder = taken.get((network_id, address), server.server_id)
        if holder != server.server_id:
            return f"IP address {address} of network {network_id} is server {holder}'s."
    return None


def pools_of(nic: seam.Nic, pools: Pools) -> Sequence[Subnet] | None:
    """The pools from one of which the NIC gets its address; None where it is on no flat network."""
    mine = pools.get(nic.network_id or "") if nic.port_id is None else None
    if mine is None or nic.fixed_ip is None:
        return mine
    try:
        address = addressing.parse(nic.fixed_ip)
    except InvalidInput:
        return []
    return [pool for pool in mine if addressing.contains(pool.pools, address)]


def planned_port(server: seam.ServerNics, nic: seam.Nic, port_id: str) -> seam.Port:
    """The port that a NIC gets once the server's host is known: on a flat network, or where its agent makes it."""
    return seam.Port(
        id=port_id,
        tag=nic.tag,
        network_id=nic.network_id or "",
        project_id=server.project_id,
        mac_address="",
        revision=0,
        preserve_on_delete=False,
        needs_address=True,
        is_held=False,
    )


def with_pools(port: seam.Port, nic: seam.Nic, pools: Sequence[Subnet]) -> seam.Port:
    """The port of a NIC on a flat network; an address that was asked for stays, whatever becomes of the build."""
    pinned = port.pinned or nic.fixed_ip is not None
    return msgspec.structs.replace(port, pools=tuple(pool.id for pool in pools), fixed_ip=nic.fixed_ip, pinned=pinned)


def server_claim(held: Allocations, has: Sequence[tuple[str, str]], providers: Set[str]) -> dict[str, dict[str, int]]:
    """What a server that holds this is to hold: as many addresses of each pool as it has; of all else what it holds.

    has: its addresses, as (pool, address). providers: all whose inventories are addresses, but for pools that are new:
    those of the addresses are such too.
    """
    counted = {*providers, *(pool_id for pool_id, _ in has)}
    claim = {uuid: dict(resources) for uuid, resources in held.items() if uuid not in counted}
    for pool_id, _ in has:
        there = claim.setdefault(pool_id, {IPV4_ADDRESS: 0})
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
