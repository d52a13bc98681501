"""What agents ask and say: orders for their hosts, and reports on guests. One function, one transaction.

The orders come from the pipeline, the consequences of a report go to it; `compute/guests.py` decides them.
"""

import asyncio
from collections.abc import Sequence

from roost.compute import guests as rules
from roost.compute.guests import KnownGuest, ReportAnswer
from roost.compute.model import GuestOrder, GuestReport
from roost.compute.service import Compute
from roost.compute.service.hosts import heartbeat
from roost.compute.service.poll_waits import RECHECK_S, PollWaits
from roost.compute.store import guests as store
from roost.platform.batches import Batches
from roost.platform.errors import NotFound

ORDERS_MAX = 1000
"""Orders in one answer."""
POLLS_TOGETHER_MAX = 1000
"""Polls that come together are noted together: one by one, 10,000 waited too long for a connection."""
WAIT_MAX_S = 30.0

BusyOrder = tuple[str, str, int, str]
"""(server_id, host, attempt, desired) of an order that the agent is at work on."""


class Polls:
    """The polls of one listener: however many are held, they look together at which hosts have orders."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._looking = asyncio.Lock()
        self._next_look: asyncio.Task[set[str]] | None = None
        self._waits: PollWaits | None = None
        self._keeping_alive = Batches(self._keep_alive, most=POLLS_TOGETHER_MAX)

    async def poll(self, hosts: Sequence[str] | None, *, busy: Sequence[BusyOrder], wait_s: float) -> list[GuestOrder]:
        """What the hosts should change; waits up to wait_s seconds while there is nothing, without a connection.

        hosts: None for every declared host, those declared meanwhile too. All of them are alive as of this call.
        Raises NotFound, which names the hosts that do not exist. Not one transaction: it holds none while it waits.
        """
        compute = self._compute
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(wait_s, WAIT_MAX_S)
        alive: set[str] = set()
        while True:
            heard = compute.wakeups.count("roost_guest") if compute.wakeups else 0
            names = list(hosts) if hosts is not None else await list_host_names(compute, declared_only=True)
            new = [name for name in names if name not in alive]
            if new:
                if missing := await self._keeping_alive.do(new):
                    raise NotFound(f"there is no host {', '.join(missing)}")
                alive.update(new)
            orders = []
            if not (await self._look()).isdisjoint(names):
                async with compute.database.connection() as connection:
                    orders = await store.list_orders(connection, names, busy=busy, limit=ORDERS_MAX)
            left_s = deadline - loop.time()
            if orders or left_s <= 0:
                return orders
            if compute.wakeups and hosts is not None:
                self._waits = self._waits or PollWaits(compute.wakeups, self._look)
                await self._waits.wait(names, left_s, since=heard)
            elif compute.wakeups:  # a host may be declared meanwhile
                await compute.wakeups.wait("roost_guest", min(RECHECK_S, left_s), since=heard)
            else:
                await asyncio.sleep(min(RECHECK_S, left_s))

    async def _keep_alive(self, polls: Sequence[Sequence[str]]) -> list[list[str]]:
        """Note that the hosts of these polls are there; returns, for each poll, those that do not exist.

        Of a poll that names one of those, no host is noted.
        """
        names = sorted({name for hosts in polls for name in hosts})
        async with self._compute.database.connection() as connection:
            missing = set(rules.missing_names(names, await store.list_known_hosts(connection, names)))
        missing_by_poll = [[name for name in hosts if name in missing] for hosts in polls]
        alive = {name for hosts, absent in zip(polls, missing_by_poll, strict=True) if not absent for name in hosts}
        await heartbeat(self._compute, sorted(alive))
        return missing_by_poll

    async def _look(self) -> set[str]:
        """The hosts that have orders, as of a moment after this call; callers that come together share the answer."""
        if self._next_look is None:
            self._next_look = asyncio.create_task(self._look_once())
        return await asyncio.shield(self._next_look)

    async def _look_once(self) -> set[str]:
        async with self._looking:
            self._next_look = None  # what is committed from here on, this look may not see
            async with self._compute.database.connection() as connection:
                return await store.list_pending_hosts(connection)


async def report(compute: Compute, reports: Sequence[GuestReport]) -> list[ReportAnswer]:
    """Take or refuse each report, in order, all in one transaction; the same report twice does nothing more."""
    async with compute.database.transaction() as tx:
        # Work before guests, as the pipeline locks them when it sends a server to its host; for `begun` too, which
        # needs no work row: the pipeline changes guests in no order of their own, under its locks on work.
        works = await store.lock_works(tx, {report.server_id for report in reports})
        guests = await store.lock_guests(tx, {(report.server_id, report.host) for report in reports})
        outcome = rules.decide_reports(reports, guests=guests, works=works)
        await store.mark_guests(tx, begun=outcome.begun, running=outcome.running)
        await store.delete_guests(tx, outcome.gone)
        await store.activate_servers(tx, outcome.active)
        await store.retry_works(tx, outcome.retreats)
        await store.resume_works(tx, outcome.resumed)
    if outcome.moves_work:
        compute.wake("roost_work")
    return outcome.answers


async def list_unknown_guests(compute: Compute, listed: Sequence[KnownGuest]) -> list[KnownGuest]:
    """Those of the guests that hosts say they have and that nothing asks for any more: they must be destroyed."""
    async with compute.database.connection() as connection:
        attempts = await store.list_guest_attempts(connection, [(guest.server_id, guest.host) for guest in listed])
    return rules.unknown_guests(listed, attempts_by_guest=attempts)


async def list_host_names(compute: Compute, *, declared_only: bool) -> list[str]:
    """All hosts, or those that a cloud file declared, by name."""
    async with compute.database.connection() as connection:
        return await store.list_host_names(connection, declared_only=declared_only)
