"""Tells others of ports that changed: compute by notices, and whoever is notified by the outbox.

A notice names a server whose ports are to be read again, and a port if its build lost one. It is sent after the commit,
until compute has heard it; it may be told twice. Notifications are written by comparing ports before and after some
work of a transaction, so that no operation can forget to notify; one that is undone notifies of nothing.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager

from roost.network.model.ports import Port, PortFilter, is_server_id
from roost.network.rules.notifications import port_events
from roost.network.service import Networks, unknown_guests
from roost.network.store import notices as store
from roost.network.store import ports as port_rows
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.outbox import Notification
from roost.platform.repeat import at_once
from roost.platform.request_ids import own_request_id

NOTICES_MAX = 500


async def note(tx: Connection, ports: Collection[Port], *, deleted: bool = False) -> list[str]:
    """Note the servers of ports that are new, changed or deleted, and return them.

    ports: one that changed is among them twice, as it was and as it is. deleted: builds that held them have lost them.
    """
    pairs = [(port.device_id, port.id if deleted and port.reserved_from is not None else None) for port in ports]
    if of_servers := list(dict.fromkeys(pair for pair in pairs if is_server_id(pair[0]))):
        await store.insert_notices(tx, of_servers)
    return servers_of(ports)


async def tell(networks: Networks, server_ids: Sequence[str] | None = None) -> int:
    """Send the compute service the notices of these servers, or the oldest of all; return how many there were.

    Two processes that send the same do no harm.
    """
    async with networks.database.connection() as connection:
        notices = await store.list_notices(connection, server_ids, NOTICES_MAX)
    if not notices:
        return 0
    crash_point("port.before-tell")
    await networks.compute.ports_changed(list(dict.fromkeys(notices.values())))
    crash_point("port.after-tell")
    async with networks.database.transaction() as tx:
        await store.delete_notices(tx, list(notices))
    await unknown_guests.give_up_left(networks, sorted({change.server_id for change in notices.values()}))
    return len(notices)


tell_now = at_once(tell, "telling compute of changed ports")


def servers_of(ports: Iterable[Port]) -> list[str]:
    """Return the devices of the ports that may be servers of this cloud, in order."""
    return sorted({port.device_id for port in ports if is_server_id(port.device_id)})


@asynccontextmanager
async def telling(networks: Networks, tx: Connection, ids: Collection[str]) -> AsyncIterator[None]:
    """Lock the ports, and write notifications of what the block changes of them, also of new ones.

    Nothing is read or written where nobody is notified.
    """
    if networks.outbox is None or not ids:
        yield
        return
    port_ids = sorted(set(ids))
    before = await port_rows.lock_ports(tx, port_ids)
    yield
    after = {port.id: port for port in await port_rows.list_ports(tx, PortFilter(ids=tuple(port_ids), hidden=True))}
    now, request_id = networks.env.now(), own_request_id()
    notifications = [
        Notification(
            message_id=networks.env.new_uuid(),
            subject=port.id,
            event_type=event_type,
            publisher_id=f"network.{networks.outbox.host}",
            payload=payload,
            timestamp=now,
            request={"request_id": request_id, "project_id": port.project_id},
        )
        for port in (before | after).values()
        for event_type, payload in port_events(before.get(port.id), after.get(port.id))
    ]
    await networks.outbox.write(tx, notifications)
