"""Flat networks of the legacy kind: what a server has there, and addresses assigned, unassigned and given back.

The claims are the server's own, made with its CPU and memory by the conductor and released with it: an address is
assigned after that, and unassigned before. Two that are at a server at once are told apart by their tickets.
"""

from collections.abc import Iterable, Mapping, Sequence

from roost.network.errors import PortChanged
from roost.network.model import Network, Subnet
from roost.network.rules import addressing, flat
from roost.network.rules.addressing import Demand
from roost.network.rules.flat import Allocation, FlatAddress, FlatDemand
from roost.network.service import Networks, assignments
from roost.network.service.macs import new_mac
from roost.network.store import addresses
from roost.network.store import flat as store
from roost.network.store import networks as network_rows
from roost.network.store import subnets as subnet_rows
from roost.platform.database import Connection
from roost.seams import network as seam

SERVERS_MAX = 500
ROUNDS_MAX = 8


class _Overtaken(Exception):
    """A row of the same server was made meanwhile, or a MAC address was taken: look again."""


async def check_nics(
    networks: Networks, servers: Sequence[seam.ServerNics]
) -> list[seam.ServerNics | seam.PortsRefused]:
    """Each server with those of its NICs that have ports, or why it cannot have one on a flat network; in order."""
    async with networks.database.transaction() as tx:
        known = await _flat_networks(tx, servers)
        if not known:
            return list(servers)
        pools = await _pools(tx, known)
        named = [(n.network_id, n.fixed_ip) for server in servers for n in server.nics if n.network_id and n.fixed_ip]
        taken = await store.list_holders(tx, [pair for pair in named if pair[0] in known])
    checked: list[seam.ServerNics | seam.PortsRefused] = []
    for server in servers:
        reason = flat.refuse_nics(server, known, pools, taken)
        refused = None if reason is None else seam.PortsRefused(server.server_id, reason)
        checked.append(refused or flat.without_flat(server, known))
    return checked


async def get_flat_nics(networks: Networks, servers: Sequence[seam.ServerNics]) -> list[seam.FlatNics]:
    """See NetworkClient.get_flat_nics."""
    held: dict[str, dict[str, FlatAddress]] = {}
    async with networks.database.transaction() as tx:
        known = await _flat_networks(tx, servers)
        pools = await _pools(tx, known)
        ticket = await store.next_ticket(tx)
        for item in await store.list_of_servers(tx, [server.server_id for server in servers]):
            held.setdefault(item.server_id, {})[item.tag] = item
    return [
        seam.FlatNics(
            server_id=server.server_id,
            ticket=ticket,
            nics=flat.view_nics(server, known, pools, held.get(server.server_id, {})),
        )
        for server in servers
    ]


async def allocate(
    networks: Networks, cell: str, wanted: Sequence[seam.FlatWanted]
) -> list[seam.Allocated | seam.AllocateRefused]:
    """See NetworkClient.allocate_flat. Raises PortChanged when others are always quicker."""
    answers: list[seam.Allocated | seam.AllocateRefused] = []
    for start in range(0, len(wanted), SERVERS_MAX):
        for _ in range(ROUNDS_MAX):
            try:
                async with networks.database.transaction() as tx:
                    answers += await _allocate_batch(networks, tx, cell, wanted[start : start + SERVERS_MAX])
                break
            except _Overtaken:
                continue
        else:
            raise PortChanged("Addresses of the servers are being changed by somebody else: repeat the request.")
    return answers


async def unassign(networks: Networks, tickets: Mapping[tuple[str, str], int]) -> None:
    """See NetworkClient.unassign_flat."""
    async with networks.database.transaction() as tx:
        held = await store.lock_of_servers(tx, sorted({server_id for server_id, _ in tickets}))
        await _delete(tx, [item for item in held if item.ticket <= tickets.get((item.server_id, item.tag), 0)])


async def release(networks: Networks, server_ids: Sequence[str]) -> None:
    """The servers go, and their addresses with them; their claims are given back after this."""
    async with networks.database.transaction() as tx:
        await _delete(tx, await store.lock_of_servers(tx, sorted(server_ids)))


async def unassign_strays(networks: Networks, strays: Sequence[FlatAddress]) -> None:
    """Nobody has these any more; one that changed since it was read stays."""
    async with networks.database.transaction() as tx:
        await store.lock_of_servers(tx, sorted({item.server_id for item in strays}))
        await _delete(tx, strays)


async def _flat_networks(tx: Connection, servers: Sequence[seam.ServerNics]) -> dict[str, Network]:
    ids = sorted({nic.network_id for server in servers for nic in server.nics if nic.network_id})
    return {network.id: network for network in await network_rows.list_networks(tx, ids) if network.flat}


async def _pools(tx: Connection, network_ids: Iterable[str]) -> dict[str, list[Subnet]]:
    """Network id -> its pools, those on their way out last."""
    found: dict[str, list[Subnet]] = {}
    for pool in sorted(await subnet_rows.list_subnets(tx, network_ids=sorted(network_ids)), key=lambda p: p.deleting):
        found.setdefault(pool.network_id, []).append(pool)
    return found


async def _allocate_batch(
    networks: Networks, tx: Connection, cell: str, batch: Sequence[seam.FlatWanted]
) -> list[seam.Allocated | seam.AllocateRefused]:
    held: dict[str, list[FlatAddress]] = {}
    for item in await store.lock_of_servers(tx, sorted(one.server_id for one in batch)):
        held.setdefault(item.server_id, []).append(item)
    involved = {pool for one in batch for pool in one.pools_by_tag.values()}
    involved |= {item.subnet_id for items in held.values() for item in items}
    await addresses.lock_subnets(tx, sorted(involved))
    pools = {pool.id: pool for pool in await subnet_rows.list_subnets(tx, sorted(involved))}
    decided = [flat.decide_allocation(one, cell=cell, held=held.get(one.server_id, ()), pools=pools) for one in batch]
    allocations = [one for one in decided if isinstance(one, Allocation)]
    await _delete(tx, [item for one in allocations for item in one.dropped])
    given, short = await _hand_out(networks, tx, allocations)
    tickets = {one.server_id: one.ticket for one in batch}
    made = {
        (want.server_id, want.tag): FlatAddress(
            server_id=want.server_id,
            tag=want.tag,
            network_id=want.pool.network_id,
            subnet_id=want.pool.id,
            address=addressing.show(address),
            mac_address=new_mac(networks.env.random),
            ticket=tickets[want.server_id],
        )
        for want, address in given
    }
    if not await store.insert(tx, list(made.values())):
        raise _Overtaken
    await store.set_tickets(tx, {one.server_id: tickets[one.server_id] for one in allocations})
    return [_answer(one, made, short) for one in decided]


async def _hand_out(
    networks: Networks, tx: Connection, allocations: Sequence[Allocation]
) -> tuple[list[tuple[FlatDemand, int]], dict[str, FlatDemand]]:
    """Addresses for whole servers, taken off the free ranges; and the servers for whom there was none, with which."""
    short: dict[str, FlatDemand] = {}
    while True:
        wants = [want for one in allocations if one.server_id not in short for want in one.demands]
        demands = [Demand(f"{want.server_id}/{want.tag}", (want.pool.id,), want.address) for want in wants]
        given, change = await assignments.hand_out(networks, tx, demands)
        missing = {want.server_id: want for want, item in zip(wants, given, strict=True) if item is None}
        if not missing:
            await addresses.change_free(tx, change)
            return [(want, item.address) for want, item in zip(wants, given, strict=True) if item is not None], short
        short |= missing


def _answer(
    decided: Allocation | seam.AllocateRefused,
    made: Mapping[tuple[str, str], FlatAddress],
    short: Mapping[str, FlatDemand],
) -> seam.Allocated | seam.AllocateRefused:
    if isinstance(decided, seam.AllocateRefused):
        return decided
    missing = short.get(decided.server_id)
    if missing is not None:
        if missing.address is not None:
            reason = f"IP address {addressing.show(missing.address)} was given to another server meanwhile."
            return seam.AllocateRefused(decided.server_id, reason, final=True)
        reason = f"No address is free in pool {missing.pool.cidr} of cell {missing.pool.cell}."
        return seam.AllocateRefused(decided.server_id, reason)
    new = [made[want.server_id, want.tag] for want in decided.demands]
    return seam.Allocated(decided.server_id, tuple(_view(item) for item in (*decided.kept, *new)))


def _view(item: FlatAddress) -> seam.FlatNic:
    return seam.FlatNic(
        tag=item.tag,
        network_id=item.network_id,
        pools=(item.subnet_id,),
        mac_address=item.mac_address,
        address=item.address,
        provider_uuid=item.subnet_id,
    )


async def _delete(tx: Connection, items: Sequence[FlatAddress]) -> None:
    """Nobody has these any more, and they are free; their servers' rows are locked."""
    if not items:
        return
    there = await addresses.lock_subnets(tx, sorted({item.subnet_id for item in items}))
    freed = {subnet_id: found for subnet_id, found in (await store.delete(tx, items)).items() if subnet_id in there}
    neighbours = await addresses.list_neighbours(tx, freed)
    await addresses.change_free(tx, addressing.take_back(freed, neighbours))
