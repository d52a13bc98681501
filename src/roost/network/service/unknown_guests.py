"""Hidden ports that hold what guests have and no server's port, so that nobody else is given it.

Of guests that the records do not know: compute names all of a host. A host whose ports are right already costs reads
only. The inventories follow from these ports: `rules/capacity.py`. Of NICs that servers have lost and their guests may
still have: such a port inherits what a port gives up, until compute says that the guest is without it.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from roost.network.errors import PortChanged, PortInUse
from roost.network.model.networks import SubnetKind
from roost.network.model.ports import HELD_OWNER, VIF_TYPE_BOUND, Address, Port
from roost.network.model.unknown_guests import HeldPort
from roost.network.rules import requests, uses
from roost.network.rules.addressing import Demand, holds, parse
from roost.network.rules.port_bindings import find_plugged
from roost.network.rules.unknown_guests import HostPlan, after_hold, is_held, list_pairs, plan_host
from roost.network.service import Networks, addresses, capacity
from roost.network.store import addresses as address_rows
from roost.network.store import networks as network_rows
from roost.network.store import ports, resources
from roost.network.store import publications as publication_rows
from roost.network.store import unknown_guests as store
from roost.platform.crash import crash_point
from roost.platform.database import Connection, reading
from roost.platform.grouping import grouped
from roost.platform.structs import copy_as
from roost.seams import unknown_guests as seam

HOSTS_MAX = 100
"""Hosts that are read together; each is written by itself."""
PORTS_MAX = 500
"""Hidden ports that are deleted in one transaction."""

GuestsByHost = Mapping[str, Sequence[seam.UnknownGuest]]


async def hold_addresses(networks: Networks, guests_by_host: GuestsByHost, *, as_of: float) -> list[seam.HeldAddresses]:
    """See GuestPortClient.hold_addresses."""
    answers: list[seam.HeldAddresses] = []
    changed: set[str] = set()
    names = sorted(guests_by_host)
    for start in range(0, len(names), HOSTS_MAX):
        batch = {name: guests_by_host[name] for name in names[start : start + HOSTS_MAX]}
        async with networks.database.transaction(snapshot=True) as tx:
            plans = await _plan(tx, batch)
            listed = await store.list_listed(tx, list(batch))
        for name, plan in plans.items():
            if is_held(plan, listed.get(name, {})):
                answers += map(after_hold, plan.answers)
                continue
            async with networks.database.transaction() as tx:
                answers_of_host, providers = await _set_host(networks, tx, name, batch[name], as_of=as_of)
            answers += answers_of_host
            changed |= providers
            crash_point("held.after-hold")
    await capacity.publish_now(networks, sorted(changed))
    return answers


async def list_held_addresses(networks: Networks, guests: Sequence[seam.UnknownGuest]) -> list[seam.HeldAddresses]:
    """See GuestPortClient.list_held_addresses."""
    by_host = grouped((guest.host, guest) for guest in guests)
    async with networks.database.transaction(snapshot=True) as tx:
        return [answer for plan in (await _plan(tx, by_host)).values() for answer in plan.answers]


count_held_addresses = reading(store.count_held)


async def list_holding_hosts(networks: Networks) -> set[str]:
    """See GuestPortClient.list_holding_hosts."""
    async with networks.database.connection() as connection:
        return set(await store.list_listed(connection, None))


async def _plan(tx: Connection, guests_by_host: GuestsByHost) -> dict[str, HostPlan]:
    hosts = {host.name: host for host in await network_rows.list_hosts(tx, sorted(guests_by_host))}
    pairs = list_pairs(guest for guests in guests_by_host.values() for guest in guests)
    places = await store.list_places(tx, pairs) if pairs else {}
    return {name: plan_host(guests, hosts.get(name), places) for name, guests in guests_by_host.items()}


async def _set_host(
    networks: Networks, tx: Connection, host: str, guests: Sequence[seam.UnknownGuest], *, as_of: float
) -> tuple[Sequence[seam.HeldAddresses], set[str]]:
    """Make the host's hidden ports what its guests have.

    Return what became of each guest's addresses, and the providers that are to be published. Locks are taken in
    everybody's order: ports by id, then subnets by id.
    """
    if not await store.is_newest(tx, host, datetime.fromtimestamp(as_of, UTC)):  # R46
        return (await _plan(tx, {host: guests}))[host].answers, set()
    listed = (await store.list_listed(tx, [host])).get(host, {})
    await ports.lock_ports(tx, list(listed))
    places = await store.list_places(tx, list_pairs(guests))
    subnet_ids = {subnet_id for pairs in listed.values() for subnet_id, _ in pairs}  # a port has none that is not there
    subnet_ids |= {place.subnet_id for some in places.values() for place in some}
    locked = await address_rows.lock_subnets(tx, subnet_ids)
    known = await ports.lock_ports(tx, list(listed))  # R47
    plan = (await _plan(tx, {host: guests}))[host]
    planned = {port.id: port for port in plan.ports}
    dropped = [
        item
        for port in known.values()
        for item in port.addresses
        if port.id not in planned or not planned[port.id].listed.get((item.subnet_id, item.address))
    ]
    await resources.delete(tx, "port", sorted(known.keys() - planned.keys()))
    await insert_ports(networks, tx, [port for port in plan.ports if port.id not in known])
    listing = [(*pair, port.id) for port in plan.ports for pair in port.listed if pair[0] in locked]
    await store.set_listed(tx, known.keys() | planned.keys(), listing)
    await addresses.take_back(tx, dropped)
    plan = (await _plan(tx, {host: guests}))[host]  # what was dropped may be another guest's now
    listed = (await store.list_listed(tx, [host])).get(host, {})
    missing = [
        (port.id, subnet_id, parse(address))
        for port in plan.ports
        for (subnet_id, address), is_planned in port.listed.items()
        if is_planned and listed.get(port.id, {}).get((subnet_id, address)) is False  # listed, in a locked subnet
    ]
    await _take(networks, tx, missing, locked)
    subnets_changed = {item.subnet_id for item in dropped} | {subnet_id for _, subnet_id, _ in missing}
    providers = {locked[subnet_id].provider_uuid for subnet_id in subnets_changed}
    await publication_rows.want(tx, sorted(providers))
    return list(map(after_hold, plan.answers)), providers


async def insert_ports(
    networks: Networks, tx: Connection, new: Sequence[HeldPort], *, of_lost_nics: bool = False
) -> None:
    """Make hidden ports without addresses, with new MAC addresses where other ports have those that they name.

    of_lost_nics: servers have lost the NICs; else the records do not know the guests. Raises PortChanged.
    """
    now = networks.env.now()
    drafts = [
        copy_as(
            Port,
            port,
            project_id="",
            device_owner=HELD_OWNER,
            made_for=port.server_id,
            nic_tag="",
            ip_allocation=requests.NONE,
            vif_type=VIF_TYPE_BOUND,
            left_at=now if of_lost_nics else None,
            addresses=(),
            created_at=now,
            updated_at=now,
        )
        for port in new
    ]
    ports_written = await addresses.insert_ports(networks, tx, drafts)
    others = [replace(draft, mac_address="") for draft in drafts if draft.id not in ports_written]
    if len(await addresses.insert_ports(networks, tx, others)) < len(others):
        raise PortChanged("No free MAC address was found: repeat the request.")


async def _take(
    networks: Networks, tx: Connection, missing: Sequence[tuple[str, str, int]], locked: Mapping[str, SubnetKind]
) -> None:
    """Give ports addresses that no port has. missing: (port id, subnet id, address). locked: their subnets, by id."""
    if not missing:
        return
    subnet_ids = {subnet_id for _, subnet_id, _ in missing if not uses.is_automatic(locked[subnet_id])}
    pools = await address_rows.list_ranges(tx, "pool", sorted(subnet_ids))
    demands = [
        Demand(port_id, (subnet_id,), address, holds(pools.get(subnet_id, ()), address), claimed=False)
        for port_id, subnet_id, address in missing
    ]
    given_by_port = await addresses.hand_out(networks, tx, demands)
    assert given_by_port.keys() == {port_id for port_id, _, _ in missing}, (
        "an address of a pool that no port has is free"
    )


async def hold_left(networks: Networks, tx: Connection, port: Port, gone: Sequence[Address]) -> None:
    """Keep what the guest of a locked port may still have after its change. Locks the addresses' subnets.

    gone: see readdressing.list_leaving. Call it before addresses are taken back.
    """
    locked = await address_rows.lock_subnets(tx, {item.subnet_id for item in gone})
    listed = {(item.subnet_id, item.address): False for item in gone if item.subnet_id in locked}
    if not listed:
        return
    assert port.host is not None, "a port on no host has no guest"
    hidden = HeldPort(
        id=networks.env.new_uuid(),
        network_id=port.network_id,
        server_id=port.device_id,
        host=port.host,
        mac_address="",
        listed=listed,
    )
    await insert_ports(networks, tx, [hidden], of_lost_nics=True)
    await store.set_listed(tx, [hidden.id], [(*pair, hidden.id) for pair in listed])


async def refuse_plugged(tx: Connection, port: Port, server_id: str) -> None:
    """Raise PortInUse while the guest of another server may still have an address of a locked port."""
    if (reason := find_plugged(await store.list_plugged(tx, [port.id]), {port.id: server_id}).get(port.id)) is not None:
        raise PortInUse(reason)


async def give_up_left(networks: Networks, server_ids: Sequence[str] | None = None) -> None:
    """See NicClient.give_up_ports. server_ids: None for all."""
    async with networks.database.connection() as connection:
        nics_left = await store.list_left(connection, server_ids)
    if not nics_left:
        return
    states = await networks.compute.get_server_states(sorted({nic.server_id for nic in nics_left}))
    plugged = {(server_id, host) for server_id, state in states.items() for host in state.hosts_plugged}
    going = [nic for nic in nics_left if (nic.server_id, nic.host) not in plugged]
    for start in range(0, len(going), PORTS_MAX):
        batch = going[start : start + PORTS_MAX]
        async with networks.database.transaction() as tx:
            locked = await ports.lock_ports(tx, [nic.port_id for nic in batch])
            await address_rows.lock_subnets(tx, {subnet_id for nic in batch for subnet_id in nic.subnet_ids})
            locked = await ports.lock_ports(tx, list(locked))  # R47
            given_up = [item for port in locked.values() for item in port.addresses]
            await resources.delete(tx, "port", list(locked))
            await store.set_listed(tx, locked, [])
            await addresses.take_back(tx, given_up)
        await capacity.publish_now(networks, sorted({item.provider_uuid for item in given_up}))
