"""Delivers notifications from an outbox to one destination: at least once, and in order for each subject.

One process at a time holds the lease on a destination. No transaction is open while the destination is spoken to.
"""

from collections.abc import Sequence
from typing import Protocol

import structlog
from msgspec import Struct

from roost.platform.database import Database
from roost.platform.logs import EachMinute
from roost.platform.metrics import NOTIFICATIONS
from roost.platform.outbox import Outbox, Waiting
from roost.platform.settings import NotificationSettings

BATCH_MAX = 256
"""Notifications of one round."""
ROUNDS_MAX = 100
"""Rounds before somebody else may have a turn."""
LEASE_MARGIN_S = 5.0
"""How much longer a lease lasts than a round may take."""

log = structlog.get_logger()


class Sent(Struct, kw_only=True):
    """What came of a batch. delivered: ids. refused: id -> why; nothing that follows of its subject was sent.

    away: why the destination takes nothing at all, None if it does.
    """

    delivered: list[int] = []
    refused: dict[int, str] = {}
    away: str | None = None


class Destination(Protocol):
    """Somebody who takes notifications."""

    @property
    def name(self) -> str:
        """Return what the rows of the outbox call it."""

    async def send(self, batch: Sequence[Waiting], *, timeout_s: float) -> Sent:
        """Send them in order, for timeout_s at most; whatever goes wrong is in the answer."""

    async def close(self) -> None:
        """Close what is open."""


class Deliverer:
    """Who delivers to one destination, as long as it has the lease. owner: a UUID of this deliverer alone."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        destination: Destination,
        settings: NotificationSettings,
        *,
        owner: str,
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._destination = destination
        self._settings = settings
        self._owner = owner
        self._each_minute = EachMinute()

    async def work(self) -> None:
        """Deliver all that is due, or as much as one turn allows."""
        for _ in range(ROUNDS_MAX):
            if not await self.deliver():
                return

    async def deliver(self) -> bool:
        """Deliver one batch; return whether there may be more to do now."""
        settings, name, timeout_s = self._settings, self._destination.name, self._settings.timeout_s
        async with self._database.transaction() as tx:
            dropped = await self._outbox.drop_surplus(tx, name, rows_max=settings.outbox_rows_max)
            lease_s = timeout_s + LEASE_MARGIN_S
            leased = await self._outbox.lease(tx, name, owner=self._owner, lease_s=lease_s)
            batch = await self._outbox.list_waiting(tx, name, limit=BATCH_MAX) if leased else []
        if dropped:
            NOTIFICATIONS.labels(name, "dropped").inc(dropped)
            log.warning(
                "notifications were dropped, the oldest: more wait than [notifications] outbox_rows_max",
                destination=name, dropped=dropped, outbox_rows_max=settings.outbox_rows_max,
            )  # fmt: skip
        if not batch:
            return False
        sent = await self._destination.send(batch, timeout_s=timeout_s)
        await self._note(sent)
        return sent.away is None and bool(sent.delivered)

    async def _note(self, sent: Sent) -> None:
        name, outbox = self._destination.name, self._outbox
        limits = {"wait_max_s": self._settings.retry_max_s, "park_after_s": self._settings.park_after_s}
        async with self._database.transaction() as tx:
            await outbox.delete_delivered(tx, name, sent.delivered)
            parked = await outbox.put_off(tx, name, sent.refused, **limits)
            if sent.delivered or sent.away is None:
                await outbox.note_answer(tx, name)
            if sent.away is not None:
                parked += await outbox.note_silence(tx, name, sent.away, **limits)
        NOTIFICATIONS.labels(name, "delivered").inc(len(sent.delivered))
        NOTIFICATIONS.labels(name, "refused").inc(len(sent.refused))
        NOTIFICATIONS.labels(name, "parked").inc(parked)
        if parked:
            log.warning("notifications were parked: nobody took them", destination=name, parked=parked)
        reason = sent.away or next(iter(sent.refused.values()), None)
        if reason is not None and self._each_minute.is_due(name):
            log.warning("notifications wait for their destination", destination=name, reason=reason)
