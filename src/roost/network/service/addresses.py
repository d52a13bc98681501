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
from roost.network.model.ports import Address, FreeChange, Given, Port
from roost.network.rules import addressing, capacity, port_security, requests, uses
from roost.network.rules.addressing import Demand, Ranges, holds
from roost.network.rules.requests import NetworkState, Placing
from roost.network.service import Networks, availability, pick
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
    """Return the port with this MAC address, also in its address pairs that name none."""
    pairs = port_security.with_own_mac(port.allowed_address_pairs, mac_address)
    return replace(port, mac_address=mac_address, allowed_address_pairs=pairs)


async def refuse_taken(tx: Connection, placings: Sequence[Placing]) -> None:
    """Raise IpAddressAlreadyAllocated when a named address is taken already. Call it before the claim."""
    named = _list_named(placings)
    taken = await store.list_taken(tx, named) if named else []
    if taken:
        raise IpAddressAlreadyAllocated(f"IP address {', '.join(taken)} already allocated: choose another.")


def _list_named(placings: Iterable[Placing]) -> list[tuple[str, int]]:
    """Return the (subnet id, address) of the addresses that the placings name."""
    demands = (demand for placing in placings for demand in placing.demands)
    return [(demand.subnet_ids[0], demand.address) for demand in demands if demand.address is not None]


async def give(
    networks: Networks,
    tx: Connection,
    placings: Mapping[str, Placing],
    locked: Mapping[str, Sequence[SubnetKind]],
    automatic: Sequence[Given] = (),
) -> dict[str, RoostError]:
    """Give ports the addresses that they have claims for; return by port id the error of each that gets none.

    locked: by provider UUID, the subnets of the placings' providers. One statement locks them all: a second
    one could lock a new subnet out of order. automatic: as hand_out has it. Raises IpAddressAlreadyAllocated.
    """
    errors: dict[str, RoostError] = {}
    demands: list[Demand] = []
    named = _list_named(placings.values())
    pools = await store.list_ranges(tx, "pool", sorted({subnet_id for subnet_id, _ in named})) if named else {}
    for port_id, placing in placings.items():
        try:
            demands_now = requests.demands_today(placing, locked.get(placing.provider_uuid, ()))
            _refuse_other_pools(placing, pools)
            demands += demands_now
        except PortChanged as error:
            errors[port_id] = error
    given_by_port = await hand_out(networks, tx, demands, automatic)
    for demand in demands:
        if demand.port_id not in given_by_port and demand.port_id not in errors:
            errors[demand.port_id] = await _missing(tx, placings[demand.port_id].provider_uuid, demand)
    return errors


async def give_one(
    networks: Networks, tx: Connection, port: Port, placing: Placing, locked: Mapping[str, Sequence[SubnetKind]]
) -> None:
    """Give a locked port the addresses that it has a claim for, and those that follow from its MAC there.

    Raises the error that `give` returns.
    """
    automatic = uses.automatic(port, locked.get(placing.provider_uuid, ()))
    for error in (await give(networks, tx, {port.id: placing}, locked, automatic)).values():
        raise error


async def hand_out(
    networks: Networks,
    tx: Connection,
    demands: Sequence[Demand],
    automatic: Sequence[Given] = (),
    *,
    building: bool = False,
) -> dict[str, list[Given]]:
    """Give ports addresses; return by port id those of each that got all that it demands. The subnets are locked.

    automatic: addresses that follow from MACs. A port that does not get all its demands gets none of these either. An
    address that some port has already stays with it. building: the addresses are the builds' of the ports' servers
    until they settle.
    Raises IpAddressAlreadyAllocated for a taken address outside the pools.
    """
    answers: list[Given | None] = []
    if demands:
        amounts = Counter(subnet_id for demand in demands if demand.in_pool for subnet_id in demand.subnet_ids)
        named = [(d.subnet_ids[0], d.address) for d in demands if d.address is not None and d.in_pool]
        starts: dict[str, int] = {}
        if networks.settings.assignment == "spread" and len(named) < len(demands):
            pools = await store.list_ranges(tx, "pool", sorted(amounts))
            chosen = {name: addressing.choose_start(item, networks.env.random) for name, item in pools.items()}
            starts = {name: start for name, start in chosen.items() if start is not None}
        free = await store.list_free(tx, amounts, named, starts)
        answers, change = addressing.hand_out(demands, free, starts)
        await store.change_free(tx, change)
    lacking = {demand.port_id for demand, answer in zip(demands, answers, strict=True) if answer is None}
    giving = [*filter(None, answers), *(item for item in automatic if item.port_id not in lacking)]
    inserted = await store.insert(tx, giving, building=building)
    if not set(inserted).issuperset(filter(None, answers)):
        raise IpAddressAlreadyAllocated("IP address already allocated: choose another.")
    given_by_port: dict[str, list[Given]] = {item.port_id: [] for item in giving}
    for item in inserted:
        given_by_port[item.port_id].append(item)
    return given_by_port


async def _missing(tx: Connection, provider_uuid: str, demand: Demand) -> RoostError:
    """Return the error of a demand that was claimed and has no address."""
    if demand.address is not None:
        return IpAddressAlreadyAllocated(
            f"IP address {addressing.show(demand.address)} already allocated: choose another."
        )
    return IpAddressGenerationFailure(await availability.describe_subnets(tx, provider_uuid, demand.subnet_ids))


def _refuse_other_pools(placing: Placing, pools: Mapping[str, Sequence[AddressRange]]) -> None:
    """Raise PortChanged where a named address has entered or left the pools since it was planned."""
    for demand in placing.demands:
        pools_now = pools.get(demand.subnet_ids[0], ())
        if demand.address is not None and demand.in_pool != holds(pools_now, demand.address):
            raise PortChanged(
                f"The pools of subnet {demand.subnet_ids[0]} changed around {addressing.show(demand.address)}: "
                "repeat the request."
            )


async def take_back(tx: Connection, dropped: Sequence[Address]) -> set[str]:
    """Take addresses from their ports, which are locked; those in pools become free. Return the providers due by it.

    An address that a hidden port lists for its guest becomes that port's. The provider becomes due for publication when
    its inventory changes: for such an address, for one that was claimed outside pools that are capacity, and for one
    inside them that was not claimed. `releases` gives no claim back on a provider that is due. The addresses of a
    subnet that does not exist are deleted.
    """
    locked = await store.lock_subnets(tx, {item.subnet_id for item in dropped})
    freed: dict[str, list[int]] = {}
    providers: set[str] = set()
    given_up = await store.give_up(tx, [(item.subnet_id, item.address) for item in dropped])
    for subnet_id, address, in_pool, claimed in given_up:
        subnet = locked.get(subnet_id)
        if subnet is None:
            continue
        if address is None or claimed != (in_pool and capacity.claimed_by_ports(subnet)):
            providers.add(subnet.provider_uuid)
        if address is not None and in_pool:
            freed.setdefault(subnet_id, []).append(addressing.parse(address))
    if providers:
        await publication_rows.want(tx, sorted(providers))
    beside = [
        (subnet_id, number)
        for subnet_id, numbers in freed.items()
        for number in {number + step for number in numbers for step in (-1, 1)}
        if holds((addressing.block_range(locked[subnet_id].cidr),), number)
    ]
    neighbours = await store.list_free(tx, {}, beside, {})
    await store.change_free(tx, addressing.take_back(freed, neighbours))
    return providers


async def renew_automatic(networks: Networks, tx: Connection, port: Port, behind: Sequence[SubnetKind]) -> None:
    """Replace the port's EUI-64 addresses after its MAC address changed, or after it stopped being a router's.

    port: the locked port after the change, with the addresses that stay otherwise. behind: their locked subnets.
    Addresses that the port named in subnets of EUI-64 addresses are replaced too.
    """
    automatic = {subnet.id for subnet in behind if uses.is_automatic(subnet)}
    if not automatic or not uses.gets_automatic(port.device_owner):
        return
    gone = [item for item in port.addresses if item.subnet_id in automatic]
    await take_back(tx, gone)
    await hand_out(networks, tx, (), uses.automatic(port, behind))


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
