"""The Neutron beside the ledger: its client, and the poller of `roost serve placement --with-neutron`."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import structlog

from roost.cli.settings import Settings
from roost.clients.neutron import HttpNeutron
from roost.clients.neutron_notifications import Heard, NeutronListener
from roost.placement.model import NEUTRON_CHANNEL
from roost.placement.service.ledger import Ledger
from roost.placement.service.neutron import Round, run_round
from roost.placement.service.neutron_status import keep_searches_seen
from roost.placement.service.neutron_view import NeutronView
from roost.placement.store.neutron import lock_poll, unlock_poll
from roost.platform.errors import BadRequest, DatabaseUnavailable
from roost.platform.keystone import Keystone
from roost.platform.logs import EachMinute
from roost.platform.repeat import repeat
from roost.platform.settings import NeutronSettings
from roost.platform.wakeup import Wakeups
from roost.seams.neutron import NeutronClient

LOCK_RETRY_S = 5.0
GAP_S = 1.0
"""Between the end of a round and the next, whatever is heard: notifications come by the hundred."""

RECHECK_S = 60.0
SEARCHES_KEPT_S = 10.0

log = structlog.get_logger()


def make_neutron(settings: Settings) -> HttpNeutron:
    """Return the client of the configured Neutron. Raises BadRequest, which says what is missing."""
    settings.neutron.check(has_catalog=bool(settings.keystone.auth_url))
    if settings.neutron.token or not settings.keystone.auth_url:
        return HttpNeutron(settings.neutron, None)
    settings.keystone.check()
    return HttpNeutron(settings.neutron, Keystone(settings.keystone))


def make_listener(settings: NeutronSettings) -> NeutronListener | None:
    """Return who hears Neutron's notifications; None where nobody does."""
    return NeutronListener(settings) if settings.amqp_url else None


class NeutronPoll:
    """Rounds with Neutron for as long as a process runs; of all processes on a database one polls, the others wait."""

    def __init__(
        self,
        ledger: Ledger,
        neutron: NeutronClient,
        settings: NeutronSettings,
        listener: NeutronListener | None = None,
    ) -> None:
        self._ledger = ledger
        self._listener = listener
        self._woken = asyncio.Event()
        self._neutron = neutron
        self._settings = settings
        self._each_minute = EachMinute()
        self._view = NeutronView(full_s=settings.full_s, grace_s=settings.claim_grace_s, zones=settings.zone_by_segment)

    async def run(self) -> None:
        """Poll until cancelled, over whatever happens."""
        async with asyncio.TaskGroup() as tasks:
            poll_s = self._settings.poll_s
            tasks.create_task(repeat(self._poll, "agreeing with Neutron", interval_s=poll_s, pause=self._pause))
            keep = partial(keep_searches_seen, self._ledger)
            tasks.create_task(repeat(keep, "keeping which searches were seen", interval_s=SEARCHES_KEPT_S))
            if self._listener is not None:
                tasks.create_task(self._listener.run(self.hear))
            if self._ledger.wakeups is not None:
                tasks.create_task(self._hear_ledger(self._ledger.wakeups))

    def hear(self, heard: Heard) -> None:
        """Begin a round soon, for something may have changed."""
        if heard.port_gone:
            self._view.doubt(heard.port_gone)
        self._woken.set()

    async def _hear_ledger(self, wakeups: Wakeups) -> None:
        """Begin a round soon whenever Neutron has told the ledger of a segment: perhaps of a port that is gone."""
        heard = wakeups.count(NEUTRON_CHANNEL)
        while True:
            before, heard = heard, await wakeups.wait(NEUTRON_CHANNEL, RECHECK_S, since=heard)
            if heard != before:
                self._view.doubt_all()
                self._woken.set()

    async def _pause(self) -> None:
        """Wait for poll_s, or until something is heard and GAP_S are over."""
        gap_s = min(GAP_S, self._settings.poll_s)
        await asyncio.sleep(gap_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.poll_s - gap_s):
                await self._woken.wait()

    async def _poll(self) -> None:
        """Wait until no other process polls, and do rounds until one fails."""
        async with self._ledger.database.connection() as connection:
            while not await lock_poll(connection):
                await asyncio.sleep(LOCK_RETRY_S)
            try:
                while True:
                    await connection.execute("SELECT 1")  # a server that went away has let go of the lock
                    self._woken.clear()  # what is heard from here on, this round may not see
                    self._log_round(await run_round(self._ledger, self._neutron, self._view))
                    await self._pause()
            finally:
                with suppress(DatabaseUnavailable):
                    await unlock_poll(connection)

    def _log_round(self, done: Round) -> None:
        if done.drifts:
            drifts_left = sum(not drift.repaired for drift in done.drifts)
            log.info("agreed with Neutron", ports=done.ports, changes=len(done.drifts), left=drifts_left)
        note = done.sight.note()
        if note is not None and self._each_minute.is_due("partial"):
            log.warning("not everything is given back", reason=note)


def check_with_neutron(settings: Settings, services: Sequence[str]) -> None:
    """Raise BadRequest when `--with-neutron` cannot work."""
    if "network" in services:
        raise BadRequest("--with-neutron: Roost serves the network itself; it is for `roost serve placement`")
    try:
        settings.neutron.check(has_catalog=bool(settings.keystone.auth_url))
    except BadRequest as error:
        raise BadRequest(f"--with-neutron: {error}") from error
    if not settings.placement.implied_addresses:
        log.warning("servers claim no addresses unless [placement] implied_addresses is true; only ports do")
