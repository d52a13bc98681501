"""Addresses that follow from MACs, where ports have others already: a new subnet gives them, a new MAC changes them.

Nothing of it is claimed. Who gets its first addresses gets these with them; see assignments and builds.
"""

from roost.network import uses
from roost.network.model import Port, Subnet
from roost.network.service import Networks, assignments
from roost.network.store import addresses
from roost.network.store import ports as port_rows
from roost.platform.database import Connection

PORTS_PAGE = 500


async def add_to_ports(networks: Networks, subnet: Subnet) -> int:
    """Give every port that has addresses where the subnet is the one that follows from its MAC. Returns how many.

    The subnet is committed, so that whoever assigns from now on sees it; whoever does so just now holds its port's
    lock, and is waited for. Source: Neutron, add_auto_addrs_on_network_ports.
    """
    count, after = 0, ""
    while True:
        async with networks.database.transaction() as tx:
            page = await port_rows.list_network_ports(tx, subnet.network_id, after=after, limit=PORTS_PAGE)
            if not page:
                return count
            after = page[-1]
            ports = [port for port in (await port_rows.lock_ports(tx, page)).values() if _has_none(port, subnet)]
            await addresses.lock_subnets(tx, [subnet.id])
            given = [item for port in ports for item in uses.automatic(port, [subnet])]
            await addresses.insert(tx, given, [_assigned_for(port) for port in ports if uses.automatic(port, [subnet])])
            # A build goes on with the port as it read it: what it placed is not touched by one more address.
            await port_rows.touch(tx, [port.id for port in ports if port.reserved_from is None])
            count += len(given)


async def renew(tx: Connection, port: Port) -> None:
    """The port, locked, has this MAC from now on: its addresses that followed from the one before go, others come."""
    if port.provider_uuid is None:
        return
    subnets = (await addresses.lock_provider_subnets(tx, [port.provider_uuid])).get(port.provider_uuid, ())
    automatic = {subnet.id for subnet in subnets if uses.is_automatic(subnet)}
    if not automatic or not uses.gets_automatic(port.device_owner):
        return
    await addresses.delete(
        tx, [(item.subnet_id, item.address) for item in port.addresses if item.subnet_id in automatic]
    )
    await assignments.add_automatic(tx, uses.automatic(port, subnets), None)


def _has_none(port: Port, subnet: Subnet) -> bool:
    here = [item for item in port.addresses if item.provider_uuid == subnet.provider_uuid]
    return bool(here) and all(item.subnet_id != subnet.id for item in here)


def _assigned_for(port: Port) -> str | None:
    """The server whose build gave the port all that it has: an address more does not pin it."""
    servers = {item.assigned_for for item in port.addresses}
    return servers.pop() if len(servers) == 1 else None
