"""Addresses of existing ports that follow from MACs: a new subnet adds them, a new MAC address replaces them.

None of them is claimed. A port that gets its first addresses gets these with them: see addresses and builds.
"""

from collections.abc import Iterable, Sequence

from roost.network.errors import SubnetInUse
from roost.network.model.networks import Subnet, SubnetKind
from roost.network.model.ports import Port
from roost.network.rules import uses
from roost.network.service import Networks, addresses, notices
from roost.network.store import addresses as address_rows
from roost.network.store import ports as port_rows
from roost.network.store import subnets as subnet_rows
from roost.platform.database import Connection

PORTS_PAGE = 500


async def spread(networks: Networks, subnet: Subnet) -> None:
    """Assign an address of the subnet to every port with addresses of its provider.

    The subnet is committed, so whoever assigns from now on sees it. Whoever assigns just now holds its port's lock, and
    is waited for. A port that a build holds is left to the reconciler, which comes back until none is left. Its server
    shows what the build bound. Source: Neutron, add_auto_addrs_on_network_ports.
    """
    after, building = "", False
    while True:
        async with networks.database.transaction() as tx:
            page = await port_rows.list_network_ports(tx, subnet.network_id, after=after, limit=PORTS_PAGE)
            if not page:
                if not building:
                    await subnet_rows.finish_spreading(tx, subnet.id)
                return
            after = page[-1]
            wanting = [port for port in (await port_rows.lock_ports(tx, page)).values() if _has_none(port, subnet)]
            ports = [port for port in wanting if port.reserved_from is None]
            building = building or len(ports) < len(wanting)
            if not await address_rows.lock_subnets(tx, [subnet.id]):
                return  # it was deleted meanwhile
            automatic = [item for port in ports for item in uses.automatic(port, [subnet])]
            addresses_given = await addresses.give_automatic(tx, automatic)
            got = {item.port_id for item in addresses_given}
            await port_rows.touch(tx, sorted(got))
            servers = await notices.note_servers(tx, [port for port in ports if port.id in got])
        await notices.tell_now(networks, servers)


async def finish(networks: Networks) -> None:
    """Go on with the subnets that some ports have no address of yet: a process died, or builds held the ports."""
    async with networks.database.connection() as connection:
        subnets_spreading = await subnet_rows.list_spreading(connection)
    for subnet in subnets_spreading:
        await spread(networks, subnet)


async def renew(tx: Connection, port: Port, behind: Sequence[SubnetKind]) -> None:
    """Replace the port's EUI-64 addresses after its MAC address changed, or after it stopped being a router's.

    port: the locked port after the change, with the addresses that stay otherwise. behind: their subnets, locked.
    Addresses that the port named in subnets of EUI-64 addresses are replaced too.
    """
    automatic = {subnet.id for subnet in behind if uses.is_automatic(subnet)}
    if not automatic or not uses.gets_automatic(port.device_owner):
        return
    gone = [item for item in port.addresses if item.subnet_id in automatic]
    await addresses.take_back(tx, gone)
    await addresses.give_automatic(tx, uses.automatic(port, behind))


async def drop(tx: Connection, subnet: Subnet, ports: Iterable[Port]) -> list[str]:
    """Delete all addresses of a subnet that was deleted in this transaction. Return the servers to be told.

    ports: all that have addresses in it, locked before. A port that a build holds keeps its revision, so the build
    goes on.
    Raises SubnetInUse for a router's interface. Source: Neutron, _remove_subnet_ip_allocations_from_ports.
    """
    losing = [port for port in ports if any(item.subnet_id == subnet.id for item in port.addresses)]
    routers = [port.id for port in losing if port.device_owner in uses.INTERFACE_OWNERS]
    if routers:
        raise SubnetInUse(
            f"Router ports have addresses in subnet {subnet.id}: delete {routers[0]}"
            + (f" and {len(routers) - 1} more first." if len(routers) > 1 else " first.")
        )
    gone = [item for port in losing for item in port.addresses if item.subnet_id == subnet.id]
    await addresses.take_back(tx, gone)
    await port_rows.touch(tx, [port.id for port in losing if port.reserved_from is None])
    return await notices.note_servers(tx, losing)


def _has_none(port: Port, subnet: Subnet) -> bool:
    here = [item for item in port.addresses if item.provider_uuid == subnet.provider_uuid]
    return bool(here) and all(item.subnet_id != subnet.id for item in here)
