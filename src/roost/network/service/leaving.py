"""NICs that servers have lost and their guests may still have: until they are without them nobody gets the addresses.

A hidden port lists what the guest has, as for an unknown guest, and inherits what a port gives up. Compute says when a
guest is without it.
"""

from collections.abc import Sequence

from roost.network.errors import PortInUse
from roost.network.model.ports import Address, Port
from roost.network.model.unknown_guests import HeldPort
from roost.network.rules.port_bindings import find_plugged
from roost.network.service import Networks, addresses, capacity
from roost.network.service.unknown_guests import insert_ports
from roost.network.store import addresses as address_rows
from roost.network.store import ports as port_rows
from roost.network.store import resources
from roost.network.store import unknown_guests as store
from roost.platform.database import Connection

PORTS_MAX = 500
"""Hidden ports that are deleted in one transaction."""


async def leave(networks: Networks, tx: Connection, port: Port, gone: Sequence[Address]) -> None:
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
        provider_uuid=gone[0].provider_uuid,
        server_id=port.device_id,
        host=port.host,
        mac_address="",
        listed=listed,
    )
    await insert_ports(networks, tx, [hidden], of_lost_nics=True)
    await store.set_listed(tx, [hidden.id], [hidden], locked)


async def refuse_plugged(tx: Connection, port: Port, server_id: str) -> None:
    """Raise PortInUse while the guest of another server may still have an address of a locked port."""
    if (reason := find_plugged(await store.list_plugged(tx, [port.id]), {port.id: server_id}).get(port.id)) is not None:
        raise PortInUse(reason)


async def give_up(networks: Networks, server_ids: Sequence[str] | None = None) -> int:
    """See NicClient.give_up_ports. server_ids: None for all."""
    async with networks.database.connection() as connection:
        nics_left = await store.list_left(connection, server_ids)
    if not nics_left:
        return 0
    states = await networks.compute.get_server_states(sorted({nic.server_id for nic in nics_left}))
    plugged = {(server_id, host) for server_id, state in states.items() for host in state.hosts_plugged}
    going = sorted(nic.port_id for nic in nics_left if (nic.server_id, nic.host) not in plugged)
    for start in range(0, len(going), PORTS_MAX):
        async with networks.database.transaction() as tx:
            locked = await port_rows.lock_ports(tx, going[start : start + PORTS_MAX])
            await address_rows.lock_subnets(tx, await store.list_listed_subnets(tx, list(locked)))
            locked = await port_rows.lock_ports(tx, list(locked))  # R47
            given_up = [item for port in locked.values() for item in port.addresses]
            await resources.delete(tx, "port", list(locked))
            await store.set_listed(tx, locked, [], [])
            await addresses.take_back(tx, given_up)
        await capacity.publish_now(networks, sorted({item.provider_uuid for item in given_up}))
    return len(going)
