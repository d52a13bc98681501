"""Which outbox goes to which destinations; the reconcilers' processes deliver."""

import socket
from collections.abc import Coroutine
from typing import Any

from roost.platform.database import Database
from roost.platform.delivery import Deliverer
from roost.platform.env import Env
from roost.platform.outbox import Outbox
from roost.platform.repeat import repeat
from roost.platform.settings import NotificationSettings

DELIVER_S = 1.0
"""How long a notification waits at most where its destination takes it."""


def outbox_of(settings: NotificationSettings, service: str) -> Outbox | None:
    """Return the service's outbox; None where nobody is notified, so that nothing is written."""
    if not settings.destinations:
        return None
    return Outbox(service, host=settings.host or socket.gethostname(), destinations=settings.destinations)


def deliveries(
    settings: NotificationSettings, outbox: Outbox | None, database: Database, env: Env
) -> list[Coroutine[Any, Any, None]]:
    """Return what delivers the outbox's notifications, each destination by itself; none of these ever returns."""
    if outbox is None:
        return []
    from roost.platform.destinations import destinations_of

    exchanges = {"compute": settings.compute_exchange, "network": settings.network_exchange}
    topics = {"compute": settings.versioned_topics, "network": settings.topics}
    destinations = destinations_of(settings, exchange=exchanges[outbox.schema], topics=topics[outbox.schema])
    return [
        repeat(
            Deliverer(database, outbox, destination, settings, owner=env.new_uuid()).work,
            f"delivering notifications to {destination.name}",
            interval_s=DELIVER_S,
        )
        for destination in destinations
    ]
