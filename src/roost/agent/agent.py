"""The agent: makes what is desired be so, for one host or for a fleet of them.

It polls for orders, begins what it is told to launch only once that was confirmed, drives the driver, and reports in
sets. `desired.py` decides what to do, the driver knows how a guest is made, `lease.py` whether the agent still serves
its hosts. Nothing is lost with the API or with the agent: orders come again until they are reported, reports are kept
until they are answered.
"""

import asyncio
import contextlib
import signal
import ssl
from collections.abc import Sequence
from typing import Any

import aiohttp
import structlog

from roost.agent.connection import REFUSED_PAUSE_S, Connection, NotLetIn, Refused
from roost.agent.desired import decide_actions
from roost.agent.destroying import RETRY_S, Destroying
from roost.agent.drivers import Driver
from roost.agent.fence import Fence
from roost.agent.guest_lists import (
    VERSION_SAYS_STATES,
    gather_own_changes,
    list_guests,
    order_report,
    own_reports,
    split_by_host,
)
from roost.agent.identity import check_guests, keep_mark, make_identity
from roost.agent.lease import Lease, now_s
from roost.agent.old_agents import AgentPorts
from roost.agent.order_log import bind_request, log_failure, log_own_changes
from roost.agent.predecessor import Predecessor, ServedElsewhere
from roost.agent.token import TokenSource
from roost.platform.crash import crash_point
from roost.platform.errors import reason_of
from roost.seams.agent import (
    NICS_UP,
    SERVICE_VERSION,
    GuestKey,
    GuestOrder,
    GuestReport,
    GuestsBody,
    GuestsCompared,
    GuestState,
    HostReport,
    HostsBody,
    OrderId,
    PollBody,
    Polled,
    Refusal,
    ReleaseBody,
    ReportAnswer,
    ReportsAnswered,
    ReportsBody,
)
from roost.seams.guests import MemorySource
from roost.seams.old_agents import AgentNetwork

POLL_WAIT_S = 20.0
POLL_WAIT_FLEET_S = 5.0
"""How long the API may hold a poll; for every declared host shorter, since a poll is also what keeps hosts alive."""
LAUNCHES_AT_ONCE = 1000
BUSY_MAX = 10_000
"""Orders worked on at once; above it no more are asked for."""
REPORTS_PER_CALL = 1000
GUESTS_PER_CALL = 2000
HOSTS_PER_CALL = 1000
COLLECT_S = 0.004
"""How long a report waits for others to go with it."""
IDLE_PAUSE_S = 0.1
"""Before the next poll, when all orders of the last one were being worked on already."""
GUEST_LIST_S = 300.0
"""How often all guests are listed, beside the first time and when a host or the API came back."""
LEASE_RETRY_S = 2.0
"""Before a report on a host that another agent serves is made again."""
STOP_S = 3.0
"""How long a stopping agent goes on telling what it has done."""

log = structlog.get_logger()


async def run(
    *,
    api_url: str,
    hosts: Sequence[HostReport] | None,
    driver: Driver,
    stop: asyncio.Event | None = None,
    token: TokenSource | None = None,
    tls: ssl.SSLContext | None = None,
    network: AgentNetwork | None = None,
    service_version: int = SERVICE_VERSION,
    fence_after_s: float | None = None,
    waits: bool = True,
    resumes: bool = False,
) -> None:
    """Work until cancelled. Raises GuestsElsewhere before the first call, and ServedElsewhere.

    hosts: registered as they are; None for every host that a cloud file declared, now or later. token: None where the
    API asks for none. tls: None to trust whom the machine trusts. network: for ports that are this agent's to make or
    bind. service_version: whose contract it speaks. fence_after_s: the guests' NICs go down so long after the leases
    ended. resumes: what ran when the host was started anew runs again. Raises TokenRefused if the first call is not let
    in, and ServedElsewhere when, at the start, another agent has one of the hosts, or all declared ones.
    """
    if stop is None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    try:
        if hosts is not None:
            check_guests(driver, [host.name for host in hosts])
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=tls or True)) as session:
            ports = AgentPorts(network, service_version=service_version)
            connection = Connection(session, api_url, token)
            agent = Agent(connection, hosts, driver, ports, service_version, fence_after_s, waits, resumes)
            work = asyncio.create_task(agent.run())
            try:
                await _first(stop.wait(), work)
                if not work.done():
                    await agent.finish(STOP_S)
            finally:
                work.cancel()
                await asyncio.wait([work])
            await agent.release(STOP_S)
            if not work.cancelled():
                await work
    finally:
        await driver.close()


class Agent:
    """Orders being worked on, and reports that are not answered yet."""

    def __init__(
        self,
        connection: Connection,
        hosts: Sequence[HostReport] | None,
        driver: Driver,
        ports: AgentPorts,
        service_version: int,
        fence_after_s: float | None = None,
        waits: bool = True,
        resumes: bool = False,
    ) -> None:
        self._resumes = resumes
        self._predecessor = Predecessor(waits=waits)
        self._ports = ports
        self._connection = connection
        self._hosts = hosts
        self._driver = driver
        self._busy: set[OrderId] = set()
        self._tasks: dict[GuestKey, asyncio.Task[None]] = {}  # the latest of each guest; each awaits the one before
        self._destroying = Destroying(driver)
        self._slots = asyncio.Semaphore(LAUNCHES_AT_ONCE)
        self._outbox: list[tuple[GuestReport, asyncio.Future[ReportAnswer]]] = []
        self._outbox_filled = asyncio.Event()
        self._told = asyncio.Event()
        self._told.set()
        self._stopping = False
        self._lease = Lease()
        self._list_due_s = float("-inf")
        self._returns_seen = 0
        self._reports_answered = 0
        self._was_refused = False
        self._fence = Fence(driver, self._lease, fence_after_s)
        self._agent = make_identity(driver, service_version=service_version, fence_after_s=fence_after_s)

    async def run(self) -> None:
        """Work until cancelled. Raises ServedElsewhere."""
        self._fence.begin()  # R42
        await self._register()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send_reports())
                if self._agent.service_version >= VERSION_SAYS_STATES:
                    group.create_task(self._tell_own_changes())
                while True:
                    await self._turn(group)
        except ExceptionGroup as errors:  # not `except*`: before Python 3.11.4 it wraps what it raises again
            if (refusals := errors.subgroup(ServedElsewhere)) is None:
                raise
            raise refusals.exceptions[0] from None

    async def _turn(self, group: asyncio.TaskGroup) -> None:
        """Poll once, work on what is ordered, and list the guests if that is due."""
        asked_s, answers = now_s(), self._reports_answered
        try:
            polled = await self._poll()
        except Refused as refusal:
            if refusal.status == 409 and not self._lease.ever_held:
                return await self._predecessor.wait(refusal)
            self._was_refused = True
            self._list_due_s = asked_s  # another agent may have had its hosts meanwhile
            if not isinstance(refusal, NotLetIn):  # which was said
                log.warning("the poll was refused", error=str(refusal))
            await asyncio.sleep(IDLE_PAUSE_S if refusal.status == 404 else REFUSED_PAUSE_S)
            if refusal.status == 404:
                await self._register()  # its database may be a new one
            return
        self._was_refused = False
        if answers == self._reports_answered:  # otherwise a later mark may have come
            self._agent = keep_mark(self._driver, self._agent, polled.mark)
        came_back = self._lease.renew(polled, asked_s=asked_s) or self._returns_seen != self._connection.returns
        if came_back or polled.list_wanted:
            self._returns_seen = self._connection.returns
            self._list_due_s = asked_s
        if self._fence.is_down:
            self._list_due_s = asked_s
        if asked_s < self._list_due_s:
            self._fence.put_off()
        if self._stopping or len(self._busy) > BUSY_MAX:
            await asyncio.sleep(IDLE_PAUSE_S)
            return
        if not self._work_on(group, polled.orders) and polled.orders:
            await asyncio.sleep(IDLE_PAUSE_S)
        if asked_s >= self._list_due_s:
            self._list_due_s = asked_s + GUEST_LIST_S
            if await self._list_guests(group, polled.as_of):
                self._fence.put_off()
            else:
                self._list_due_s = asked_s

    async def finish(self, timeout_s: float) -> None:
        """Take no more orders; until all reports made so far are answered, or the time is over."""
        self._stopping = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._told.wait(), timeout_s)

    async def release(self, timeout_s: float) -> None:
        """Release the hosts to other agents, if the API takes that in time; otherwise the leases run out."""
        if self._lease.ever_held:
            with contextlib.suppress(TimeoutError, Refused):
                body = ReleaseBody(agent=self._agent)
                await asyncio.wait_for(self._connection.call("POST", "/release", body, dict[str, Any]), timeout_s)

    # Polling.

    async def _register(self) -> None:
        """Say which hosts there are. Raises ServedElsewhere when another agent has one of them, at the start only."""
        hosts = tuple(self._hosts or ())
        for start in range(0, len(hosts), HOSTS_PER_CALL):
            body = HostsBody(agent=self._agent, hosts=hosts[start : start + HOSTS_PER_CALL])
            while True:
                try:
                    await self._connection.call("PUT", "/hosts", body, dict[str, Any])
                    break
                except Refused as refusal:
                    if refusal.status == 409 and not self._lease.ever_held:
                        await self._predecessor.wait(refusal)
                        continue
                    log.error("the API refuses the hosts", error=str(refusal))
                    await asyncio.sleep(REFUSED_PAUSE_S)

    async def _list_guests(self, group: asyncio.TaskGroup, as_of: float) -> bool:
        """Say all that runs here, in pages of whole hosts; begin to destroy what runs elsewhere or was made anew since.

        Return whether the NICs of that are down, whatever becomes of this agent.
        """
        are_down = True
        listed = list_guests(self._driver, service_version=self._agent.service_version, resumes=self._resumes)
        for after, until, guests in split_by_host(listed, GUESTS_PER_CALL):
            body = GuestsBody(agent=self._agent, after=after, until=until, as_of=as_of, guests=tuple(guests))
            compared = await self._connection.call_until_taken("POST", "/guests", body, GuestsCompared)
            try:
                self._destroying.begin(group, compared.superseded)
            except OSError as error:
                log.error("which guests have no NICs any more is not written", error=reason_of(error))
                are_down = False
        return are_down

    async def _poll(self) -> Polled:
        wait_s = POLL_WAIT_FLEET_S if self._hosts is None else POLL_WAIT_S
        if not self._lease.is_held or self._was_refused or len(self._busy) > BUSY_MAX:
            wait_s = 0.0
        hosts = None if self._hosts is None else tuple(host.name for host in self._hosts)
        body = PollBody(agent=self._agent, hosts=hosts, wait_s=wait_s, busy=tuple(self._busy))
        return await self._connection.call("POST", "/poll", body, Polled, wait_s=wait_s)

    def _work_on(self, group: asyncio.TaskGroup, orders: Sequence[GuestOrder]) -> bool:
        """Start what the orders ask for; whether there was anything."""
        actions = decide_actions(orders, guests_by_key=self._driver.guests_by_key(), busy=self._busy)
        for key in actions.interrupt:
            self._tasks[key].cancel()
        for order in actions.hurry:
            self._hurry(order)
        for order in actions.launch:
            self._start(group, order, self._launch)
        for order in actions.change:
            self._start(group, order, self._change)
        for order in actions.confirm:
            self._start(group, order, self._confirm)
        for order in actions.destroy:
            self._start(group, order, self._make_absent)
        return not actions.none

    def _hurry(self, order: GuestOrder) -> None:
        self._driver.hurry(order.key)
        self._busy.add(order.id)
        self._tasks[order.key].add_done_callback(lambda _done: self._busy.discard(order.id))

    def _start(self, group: asyncio.TaskGroup, order: GuestOrder, work: Any) -> None:
        self._busy.add(order.id)
        earlier = self._destroying.list_tasks(order.key)
        if (latest := self._tasks.get(order.key)) is not None:
            earlier.append(latest)
        task = group.create_task(self._carry_out(order, work, earlier))
        self._tasks[order.key] = task

        def forget(done: asyncio.Task[None]) -> None:
            self._busy.discard(order.id)
            if self._tasks.get(order.key) is done:
                del self._tasks[order.key]

        task.add_done_callback(forget)

    async def _carry_out(self, order: GuestOrder, work: Any, earlier: Sequence[asyncio.Task[None]]) -> None:
        """Work on one order once the earlier ones for the same guest are out of the way."""
        bind_request(order)
        if earlier:
            await asyncio.wait(earlier)
        await work(order)

    # Guests.

    async def _launch(self, order: GuestOrder) -> None:
        try:
            if not await self._begin(order):
                return
            crash_point("agent.after-begin")
            async with self._slots:
                await self._driver.launch(await self._ports.take(order))
        except Exception as error:
            log_failure("a guest could not be launched", order, error)
            await self._destroying.destroy(order.key, order.attempt, disk=not order.keeps_disk)
            await self._report(order, "failed", str(error) or type(error).__name__)
            return
        await self._confirm(order)

    async def _begin(self, order: GuestOrder) -> bool:
        """Return whether the guest may run here, as the API says now; say where it awaits its memory, or disk.

        Raises what the driver says of that only where it may: otherwise nothing here is to be touched.
        """
        meeting, failure = None, None
        try:
            meeting = await self._driver.expect(order)
        except OSError as error:
            failure = error
        while True:
            if not (await self._report(order, "begun", meeting=meeting)).accepted:
                return False
            if self._lease.is_held:
                break  # otherwise it was confirmed long ago: the host may have been given up since
        if failure is not None:
            raise failure
        return True

    async def _change(self, order: GuestOrder) -> None:
        """Bring the guest into another state; what brings its NICs up is begun as a launch is."""
        try:
            if order.desired in NICS_UP and not await self._begin(order):
                return
            await self._driver.change(order)
        except Exception as error:
            log_failure("a guest does not change its state", order, error)
            await self._tell_unchanged(order, str(error) or type(error).__name__)
            return
        crash_point("agent.after-change")
        await self._confirm(order)

    async def _tell_unchanged(self, order: GuestOrder, reason: str) -> None:
        """Say that the guest is as it was; one that was about to take over another's memory goes, and is made again."""
        guest = self._driver.guests_by_key().get(order.key)
        if guest is not None and guest.state == "incoming":
            await self._destroying.destroy(order.key, order.attempt, disk=not order.keeps_disk)
            await self._report(order, "failed", reason)
            return
        await self._report(order, "unchanged", reason)
        await asyncio.sleep(RETRY_S)  # before the order comes again, if it does

    async def _confirm(self, order: GuestOrder) -> None:
        assert order.desired != "absent"
        answer = await self._report(order, order.desired)
        if answer.refusal is Refusal.SUPERSEDED:
            await self._destroying.destroy(order.key, order.attempt)  # two of one server, otherwise
        elif answer.refusal is Refusal.UNKNOWN:
            self._list_due_s = float("-inf")  # its addresses are to be held soon

    async def _make_absent(self, order: GuestOrder) -> None:
        await self._destroying.destroy(order.key, order.attempt, disk=True)
        if order.key in self._driver.guests_by_key():
            log.error("a guest of a higher attempt stays", server_id=order.server_id, host=order.host)
            await asyncio.sleep(RETRY_S)  # the order is of an older database, and comes again
            return
        await self._ports.give_back(order)
        await self._report(order, "absent")

    # Reporting.

    async def _report(
        self, order: GuestOrder, state: GuestState, message: str = "", *, meeting: MemorySource | None = None
    ) -> ReportAnswer:
        """Report it, with others if there are any, and again until there is an answer, by who serves the host."""
        report = order_report(self._driver, order, state, message=message, meeting=meeting)
        while True:
            answer = await self._put_out(report)
            if answer.refusal is not Refusal.NO_LEASE:
                return answer
            await asyncio.sleep(LEASE_RETRY_S)

    async def _tell_own_changes(self) -> None:
        """Report what guests do by themselves, once; what is refused, or no longer so, is in the next list."""
        while True:
            reports = own_reports(self._driver, await gather_own_changes(self._driver))
            log_own_changes(reports)
            await asyncio.gather(*[self._put_out(report) for report in reports])

    def _put_out(self, report: GuestReport) -> asyncio.Future[ReportAnswer]:
        """Have it reported; the answer comes later."""
        answered: asyncio.Future[ReportAnswer] = asyncio.get_running_loop().create_future()
        self._outbox.append((report, answered))
        self._outbox_filled.set()
        self._told.clear()
        return answered

    async def _send_reports(self) -> None:
        while True:
            await self._outbox_filled.wait()
            await self._lease.wait()
            if len(self._outbox) < REPORTS_PER_CALL:
                await asyncio.sleep(COLLECT_S)
            batch, self._outbox = self._outbox[:REPORTS_PER_CALL], self._outbox[REPORTS_PER_CALL:]
            if not self._outbox:
                self._outbox_filled.clear()
            outcomes = any(report.state != "begun" for report, _ in batch)
            if outcomes:
                crash_point("agent.before-report")
            body = ReportsBody(agent=self._agent, reports=tuple(report for report, _ in batch))
            answer = await self._connection.call_until_taken("POST", "/reports", body, ReportsAnswered)
            self._agent = keep_mark(self._driver, self._agent, answer.mark)
            self._reports_answered += 1
            if outcomes:
                crash_point("agent.after-report")
            for (_, answered), taken in zip(batch, answer.reports, strict=True):
                if not answered.done():
                    answered.set_result(taken)
            if not self._outbox:
                self._told.set()


async def _first(waiting: Any, work: asyncio.Task[None]) -> None:
    """Wait until either is done; the first is cancelled then."""
    waiter = asyncio.ensure_future(waiting)
    try:
        await asyncio.wait([waiter, work], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
