"""Telling the compute service of ports that clients changed or deleted: after the commit, and until it has heard.

What is told is only whose ports to look at again, and which of them a build lost; saying it twice does nothing more.
"""

import re
from collections.abc import Iterable, Sequence

import structlog

from roost.network.model.ports import Port
from roost.network.service import Networks
from roost.network.store import notices as store
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.errors import RoostError

NOTICES_MAX = 500
SERVER_ID = re.compile("[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")

log = structlog.get_logger()


async def note(tx: Connection, before: Port, after: Port | None) -> list[str]:
    """Write down whose ports are no longer what they were; after None: the port is deleted. Returns the servers."""
    devices = {before.device_id, after.device_id if after else ""}
    servers = sorted(device for device in devices if is_server_id(device))
    lost = before.id if after is None and before.reserved_from is not None else None
    await store.insert_notices(tx, servers, lost_port_id=lost)
    return servers


async def note_servers(tx: Connection, ports: Sequence[Port]) -> list[str]:
    """Write down whose ports are new, or have other addresses than they had, lost none. Returns the servers."""
    servers = servers_of(ports)
    await store.insert_notices(tx, servers)
    return servers


async def tell(networks: Networks, server_ids: Sequence[str] | None = None) -> int:
    """Send the compute service what it has not heard of these servers, or of the oldest notices of all.

    Returns how many notices there were. Two that tell the same do no harm.
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
    return len(notices)


async def tell_now(networks: Networks, server_ids: Sequence[str]) -> None:
    """Right after the commit that wrote the notices; if the compute service cannot be had, it is told later."""
    if not server_ids:
        return
    try:
        await tell(networks, server_ids)
    except RoostError as error:
        log.warning(
            "telling compute of changed ports failed; the reconciler retries",
            servers=list(server_ids),
            reason=str(error),
        )


def servers_of(ports: Iterable[Port]) -> list[str]:
    """What may be servers of this cloud, of the devices that the ports name."""
    return sorted({port.device_id for port in ports if is_server_id(port.device_id)})


def is_server_id(device_id: str) -> bool:
    """Clients may write anything as a port's device."""
    return SERVER_ID.fullmatch(device_id) is not None
