"""Tells the compute service of ports that clients changed or deleted: after the commit, and until it has heard.

A notice names a server whose ports are to be read again, and a port if its build lost one. It may be told twice.
"""

from collections.abc import Iterable, Sequence

from roost.network.model.ports import Port
from roost.network.rules.port_bindings import is_server_id
from roost.network.service import Networks, leaving
from roost.network.store import notices as store
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.repeat import at_once

NOTICES_MAX = 500


async def note(tx: Connection, before: Port, after: Port | None) -> list[str]:
    """Note the servers of a changed port, and return them. after: None for a deleted port."""
    devices = {before.device_id, after.device_id if after else ""}
    servers = sorted(device for device in devices if is_server_id(device))
    lost = before.id if after is None and before.reserved_from is not None else None
    await store.insert_notices(tx, servers, lost_port_id=lost)
    return servers


async def note_servers(tx: Connection, ports: Sequence[Port]) -> list[str]:
    """Note the servers of ports that are new, or have other addresses, and return them. No build lost one of these."""
    servers = servers_of(ports)
    await store.insert_notices(tx, servers)
    return servers


async def tell(networks: Networks, server_ids: Sequence[str] | None = None) -> int:
    """Send the compute service the notices of these servers, or the oldest of all; return how many there were.

    Two processes that send the same do no harm.
    """
    async with networks.database.connection() as connection:
        notices = await store.list_notices(connection, server_ids, NOTICES_MAX)
    if not notices:
        return 0
    crash_point("port.before-tell")
    await networks.compute.ports_changed(list(notices.values()))
    crash_point("port.after-tell")
    async with networks.database.transaction() as tx:
        await store.delete_notices(tx, list(notices))
    await leaving.give_up(networks, sorted({change.server_id for change in notices.values()}))
    return len(notices)


tell_now = at_once(tell, "telling compute of changed ports")


def servers_of(ports: Iterable[Port]) -> list[str]:
    """Return the devices of the ports that may be servers of this cloud, in order."""
    return sorted({port.device_id for port in ports if is_server_id(port.device_id)})
