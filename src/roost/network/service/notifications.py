"""Notifies of ports: compares them before and after some work of a transaction.

So no operation can forget to notify. One that is refused or rolled back notifies of nothing.
"""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

import structlog

from roost.network.model.ports import Port, PortFilter
from roost.network.rules.notifications import port_events
from roost.network.service import Networks
from roost.network.store import ports as port_rows
from roost.platform.database import Connection
from roost.platform.outbox import Notification


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
    await _write(networks, tx, before, after, port_ids)


async def _write(
    networks: Networks, tx: Connection, before: Mapping[str, Port], after: Mapping[str, Port], ids: Collection[str]
) -> None:
    assert networks.outbox is not None
    now = networks.env.now()
    request_id = structlog.contextvars.get_contextvars().get("request_id")
    notifications = []
    for port_id in ids:
        port = after.get(port_id) or before.get(port_id)
        for event_type, payload in port_events(before.get(port_id), after.get(port_id)):
            assert port is not None
            notification = Notification(
                message_id=networks.env.new_uuid(),
                subject=port_id,
                event_type=event_type,
                publisher_id=f"network.{networks.outbox.host}",
                payload=payload,
                timestamp=now,
                request={"request_id": request_id, "project_id": port.project_id},
            )
            notifications.append(notification)
    await networks.outbox.write(tx, notifications)
