"""Addresses of ports: given when they are claimed, taken back before their claims, and what of the pools is free.

Nothing else writes addresses and free ranges, with one exception: store/ports.py clears `assigned_for` when a build
ends. An address is planned (rules/requests.py), claimed (claims.py), and given here. Its claim is given back by
releases.py.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from roost.network.errors import IpAddressAlreadyAllocated, IpAddressGenerationFailure, NetworkNotFound, PortChanged
from roost.network.model.networks import AddressRange, Subnet, SubnetKind
from roost.network.model.ports import Address, FreeChange, Given, Port, StrayAddress
from roost.network.rules import addressing, capacity, port_security, requests, uses
from roost.network.rules.addressing import Demand, Ranges
from roost.network.rules.requests import NetworkState, Placing
from roost.network.rules.revisions import pick
from roost.network.service import Networks, availability
from roost.network.store import addresses as store
from roost.network.store import networks as network_rows
from roost.network.store import publications as publication_rows
from roost.network.store import resources
from roost.platform.database import Connection
from roost.platform.errors import RoostError

MAC_ROUNDS_MAX = 8


async def read_network(tx: Connection, network_id: str, host_name: str) -> NetworkState:
    """Return what planning addresses needs. The network cannot be deleted before the transaction ends.

    host_name: "" without a host. Raises NetworkNotFound.
    """
    kept = await network_rows.lock_networks(tx, [network_id], "existence")
    network = pick(list(kept.values()), NetworkNotFound, "Network", network_id)
    subnets = tuple(await network_rows.list_subnets(tx, network_ids=[network_id]))
    providers = await network_rows.list_providers(tx, sorted({subnet.provider_uuid for subnet in subnets}))
    hosts = await network_rows.list_hosts(tx, [host_name]) if host_name else []
    return NetworkState(
        network=network,
        subnets=subnets,
        providers=providers,
        host_name=host_name,
        host=hosts[0] if hosts else None,
    )


async def insert_ports(networks: Networks, tx: Connection, drafts: Iterable[Port]) -> dict[str, Port]:
    """Write new ports, each with the MAC address that it names, "" for a new one. Return those written, by id.

    A port is left out if its id exists, or if another port of the network has the MAC address that it names. Of many
    ports on a large network some always get a new MAC address that is taken: these are tried again, MAC_ROUNDS_MAX
    times in all. All calls write named MAC addresses in one order.
    """
    ports_written: dict[str, Port] = {}
    waiting = sorted(drafts, key=lambda draft: (draft.mac_address, draft.id))
    for _ in range(MAC_ROUNDS_MAX):
        macs = [draft.mac_address or addressing.new_mac(networks.env.random) for draft in waiting]
        new = [_with_mac(draft, mac) for draft, mac in zip(waiting, macs, strict=True)]
        ids_written = await resources.insert(tx, "port", new)
        ports_written |= {port.id: port for port in new if port.id in ids_written}
        waiting = [draft for draft in waiting if not draft.mac_address and draft.id not in ids_written]
    return ports_written


def _with_mac(port: Port, mac_address: str) -> Port:
    """Return the port with its MAC address, which its address pairs get that name none."""
    pairs = port_security.with_own_mac(port.allowed_address_pairs, mac_address)
    return replace(port, mac_address=mac_address, allowed_address_pairs=pairs)


async def refuse_taken(tx: Connection, placings: Sequence[Placing]) -> None:
    """Raise IpAddressAlreadyAllocated when a named address is taken already. Call it before the claim."""
    named = [
        (demand.subnet_ids[0], addressing.show(demand.address))
        for placing in placings
        for demand in placing.demands
        if demand.address is not None
    ]
    taken = await store.list_taken(tx, named) if named else []
    if taken:
        raise IpAddressAlreadyAllocated(f"IP address {', '.join(taken)} already allocated: choose another.")


async def give(
    networks: Networks, tx: Connection, placings: Mapping[str, Placing], locked: Mapping[str, Sequence[SubnetKind]]
) -> dict[str, RoostError]:
    """Give ports the addresses that they have claims for; return by port id the error of each that gets none.

    locked: by provider UUID, the subnets of the placings' providers. One statement locks them all: a second
    one could lock a new subnet out of order. Raises IpAddressAlreadyAllocated.
    """
    errors: dict[str, RoostError] = {}
    demands: list[Demand] = []
    for port_id, placing in placings.items():
        try:
            demands_now = requests.demands_today(placing, locked.get(placing.provider_uuid, ()))
            await _refuse_other_pools(tx, placing)
            demands += demands_now
        except PortChanged as error:
            errors[port_id] = error
    handed_out = await hand_out(networks, tx, demands)
    for demand, item in zip(demands, handed_out, strict=True):
        if item is None and demand.port_id not in errors:
            errors[demand.port_id] = await _missing(tx, placings[demand.port_id].provider_uuid, demand)
    return errors


async def give_one(
    networks: Networks, tx: Connection, port: Port, placing: Placing, locked: Mapping[str, Sequence[SubnetKind]]
) -> None:
    """Give a locked port the addresses that it has a claim for, and those that follow from its MAC there.

    Raises the error that `give` returns.
    """
    for error in (await give(networks, tx, {port.id: placing}, locked)).values():
        raise error
    await give_automatic(tx, uses.automatic(port, locked.get(placing.provider_uuid, ())))


async def give_automatic(
    tx: Connection, automatic: Sequence[Given], server_by_port: Mapping[str, str | None] = {}
) -> list[Given]:
    """Give ports addresses that follow from their MACs, in locked subnets; return those that were given.

    An address that some port has already stays with it. server_by_port: as hand_out has it.
    """
    return await store.insert(tx, automatic, [server_by_port.get(item.port_id) for item in automatic])


async def hand_out(
    networks: Networks, tx: Connection, demands: Sequence[Demand], server_by_port: Mapping[str, str | None] = {}
) -> list[Given | None]:
    """Give each demand an address; return the addresses in order. The caller has locked the subnets.

    A port gets all that it demands, or None for each demand. server_by_port: the server whose build assigns the port's
    addresses, until it settles. Raises IpAddressAlreadyAllocated for a taken address outside the pools.
    """
    if not demands:
        return []
    amounts = Counter(subnet_id for demand in demands if demand.in_pool for subnet_id in demand.subnet_ids)
    named = [(d.subnet_ids[0], d.address) for d in demands if d.address is not None and d.in_pool]
    starts: dict[str, int] = {}
    if networks.settings.assignment == "spread" and len(named) < len(demands):
        pools = await store.list_ranges(tx, "pool", sorted(amounts))
        chosen = {subnet_id: addressing.choose_start(item, networks.env.random) for subnet_id, item in pools.items()}
        starts = {subnet_id: start for subnet_id, start in chosen.items() if start is not None}
    free = await store.list_free(tx, amounts, named, starts)
    answers, change = addressing.hand_out(demands, free, starts)
    written = [item for item in answers if item is not None]
    inserted = await store.insert(tx, written, [server_by_port.get(item.port_id) for item in written])
    if len(inserted) < len(written):
        raise IpAddressAlreadyAllocated("IP address already allocated: choose another.")
    await store.change_free(tx, change)
    return answers


async def _missing(tx: Connection, provider_uuid: str, demand: Demand) -> RoostError:
    """Return the error of a demand that was claimed and has no address."""
    if demand.address is not None:
        return IpAddressAlreadyAllocated(
            f"IP address {addressing.show(demand.address)} already allocated: choose another."
        )
    return IpAddressGenerationFailure(await availability.describe_subnets(tx, provider_uuid, demand.subnet_ids))


async def _refuse_other_pools(tx: Connection, placing: Placing) -> None:
    """Raise PortChanged where a named address has entered or left the pools since it was planned."""
    planned = {(d.subnet_ids[0], d.address): d.in_pool for d in placing.demands if d.address is not None}
    if not planned:
        return
    pooled = await store.list_pooled(tx, list(planned))
    for (subnet_id, address), in_pool in planned.items():
        if in_pool != ((subnet_id, address) in pooled):
            raise PortChanged(
                f"The pools of subnet {subnet_id} changed around {addressing.show(address)}: repeat the request."
            )


async def take_back(tx: Connection, dropped: Sequence[Address | StrayAddress]) -> set[str]:
    """Take addresses from their ports, which are locked; those in pools become free. Return the providers due by it.

    An address that a hidden port lists for its guest becomes that port's. The provider becomes due for publication when
    its inventory changes: for such an address, for one that was claimed outside pools that are capacity, and for one
    inside them that was not claimed. `releases` gives no claim back on a provider that is due. The addresses of a
    subnet that does not exist are deleted.
    """
    locked = await store.lock_subnets(tx, {item.subnet_id for item in dropped})
    freed: dict[str, list[int]] = {}
    providers: set[str] = set()
    for item in await store.give_up(tx, [(item.subnet_id, item.address) for item in dropped]):
        subnet = locked.get(item.subnet_id)
        if subnet is None:
            continue
        if item.address is None or item.claimed != (item.in_pool and capacity.claimed_by_ports(subnet)):
            providers.add(subnet.provider_uuid)
        if item.address is not None and item.in_pool:
            freed.setdefault(item.subnet_id, []).append(item.address)
    if providers:
        await publication_rows.want(tx, sorted(providers))
    neighbours = await store.list_neighbours(tx, freed)
    await store.change_free(tx, addressing.take_back(freed, neighbours))
    return providers


async def renew_automatic(tx: Connection, port: Port, behind: Sequence[SubnetKind]) -> None:
    """Replace the port's EUI-64 addresses after its MAC address changed, or after it stopped being a router's.

    port: the locked port after the change, with the addresses that stay otherwise. behind: their locked subnets.
    Addresses that the port named in subnets of EUI-64 addresses are replaced too.
    """
    automatic = {subnet.id for subnet in behind if uses.is_automatic(subnet)}
    if not automatic or not uses.gets_automatic(port.device_owner):
        return
    gone = [item for item in port.addresses if item.subnet_id in automatic]
    await take_back(tx, gone)
    await give_automatic(tx, uses.automatic(port, behind))


async def hand_over(tx: Connection, addresses: Sequence[Address]) -> None:
    """Give addresses of hidden ports to other ports; the addresses' providers become due for publication.

    addresses: with the port and the claimed mark that they are to have. The ports and the subnets are locked.
    """
    await store.move(tx, addresses)
    await publication_rows.want(tx, sorted({item.provider_uuid for item in addresses}))


async def add_pools(tx: Connection, new: Sequence[Subnet]) -> None:
    """Write the pools of new subnets. All of their addresses are free."""
    await network_rows.insert_pools(tx, new)
    await store.change_free(tx, FreeChange((), tuple((subnet.id, pool) for subnet in new for pool in subnet.pools)))


async def set_pools(tx: Connection, subnet: Subnet) -> Ranges:
    """Write the pools of a locked subnet, and what follows from them. Return what is free of them."""
    await network_rows.set_pools(tx, subnet)
    await store.mark_anew(tx, [subnet.id])
    return await set_free(tx, subnet.id, subnet.pools)


async def set_free(tx: Connection, subnet_id: str, pools: Sequence[AddressRange]) -> Ranges:
    """Make the free ranges of a locked subnet its pools without what ports hold of them; return these ranges."""
    free_before = (await store.list_ranges(tx, "free_range", [subnet_id])).get(subnet_id, ())
    free = addressing.free_of(pools, await store.list_held(tx, subnet_id))
    await store.change_free(tx, addressing.difference({subnet_id: free_before}, {subnet_id: free}))
    return free


async def mark_anew(tx: Connection, subnet_ids: Collection[str]) -> None:
    """Set the marks `in_pool` and `claimed` of the addresses of subnets by what their pools are now.

    The subnets' providers become due for publication.
    """
    locked = await store.lock_subnets(tx, subnet_ids)
    await store.mark_anew(tx, list(locked))
    await publication_rows.want(tx, sorted({subnet.provider_uuid for subnet in locked.values()}))
