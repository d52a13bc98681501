"""What agents ask and say: orders for their hosts, and reports on guests. One function, one transaction.

The orders come from the pipeline, the consequences of a report go to it; `compute/rules/guests.py` decides them.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial

from msgspec.structs import replace

from roost.compute.model.agents import DeclaredHosts
from roost.compute.model.recovery import PendingHosts
from roost.compute.model.server import Requester
from roost.compute.model.work import GUEST_CHANNEL, GUEST_LOST, WORK_CHANNEL, Failure, Guest
from roost.compute.rules import events
from roost.compute.rules import guests as rules
from roost.compute.rules.agent_tokens import EVERY_HOST, HostPatterns
from roost.compute.rules.guests import GuestList, ReportOutcome
from roost.compute.rules.own_states import guest_of_report, list_differing, list_replugged
from roost.compute.service import action_log
from roost.compute.service.agent_tokens import HostsAllowed, every_host
from roost.compute.service.agents import admit_call
from roost.compute.service.context import Compute
from roost.compute.service.events import NOTHING_RECORDED, Recorded, record
from roost.compute.service.guest_orders import list_orders
from roost.compute.service.hosts import publish_hosts_now
from roost.compute.service.leases import LeaseRequest, Renewed, renew_leases
from roost.compute.service.nics import ask_for_nics, give_up_ports_now
from roost.compute.service.notifications import announce, watch_states
from roost.compute.service.own_states import take_own_states
from roost.compute.service.poll_waits import RECHECK_S, PollWaits
from roost.compute.service.recovery import begin_recovery, look_at_mark, mark_of, note_listed, told_later
from roost.compute.service.unknown_guests import hold_addresses_now
from roost.compute.store import guests as store
from roost.compute.store import hosts as host_rows
from roost.compute.store import recovery as recovery_rows
from roost.compute.store import unknown_guests as unknown_rows
from roost.platform.batches import Batches
from roost.platform.database import Connection, reading
from roost.platform.errors import RoostError
from roost.seams.agent import (
    AgentIdentity,
    GuestAttempt,
    GuestKey,
    GuestOrder,
    GuestReport,
    GuestsBody,
    OrderId,
    Polled,
    ReportsAnswered,
)

TOKEN_RECHECK_S = 3.0
"""A held poll asks again at least so often what its token is for."""
POLLS_TOGETHER_MAX = 1000
"""Polls that come together renew leases, and bring hosts back, together: 10,000 would wait long for a connection."""

FOUND, FOUND_EVENT = "find_guest", "compute_find_guest"
"""Roost's own action: a guest that was taken for lost was seen."""


class Polls:
    """The polls of one listener: however many are held, they look together at which hosts have orders."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._looking = asyncio.Lock()
        self._next_look: asyncio.Task[PendingHosts] | None = None
        self._renewing = Batches(partial(renew_leases, compute), most=POLLS_TOGETHER_MAX)
        self._returning = Batches(self._publish_returned, most=POLLS_TOGETHER_MAX)
        self._waits: PollWaits | None = None
        self._declared: DeclaredHosts | None = None

    async def poll(
        self,
        hosts: Sequence[str] | None,
        *,
        agent: AgentIdentity,
        busy: Sequence[OrderId],
        wait_s: float,
        allowed: HostsAllowed = every_host,
    ) -> Polled:
        """Return what the hosts should change; wait up to wait_s seconds while there is nothing, without a connection.

        hosts: None for every declared host that is allowed and that no other agent serves, those declared meanwhile
        too. allowed: asked again and again, since a token may be revoked while the poll is held. The agent takes or
        renews its leases as of this call, and not at the end of a wait: nothing was heard of it since.
        Raises Unauthorized; AgentRefused; NotFound, which names the hosts that do not exist; and HostHeld where other
        agents serve all of them. Not one transaction: it holds none while it waits.
        """
        compute = self._compute
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        deadline = asked_at + min(wait_s, compute.settings.poll_wait_max_s)
        renewed = Renewed()
        names: list[str] | None = None
        renewed_at = asked_at
        while True:
            heard = compute.wakeups.count(GUEST_CHANNEL) if compute.wakeups else 0
            covered = await allowed()
            names_now = list(hosts) if hosts is not None else await self._list_declared(covered)
            if names_now != names:
                names, renewed_at = names_now, loop.time()
                renewed = await self._renew(LeaseRequest(tuple(names), agent, named=hosts is not None))
            orders: list[GuestOrder] = []
            pending = await self._look()
            list_wanted = not pending.to_list.isdisjoint(renewed.hosts_held)
            if not pending.with_orders.isdisjoint(renewed.hosts_held):
                orders_open = await list_orders(compute, agent, busy=busy)
                orders = [order for order in orders_open if order.host in renewed.hosts_held]
            left_s = deadline - loop.time()
            if orders or list_wanted or left_s <= 0:
                return Polled(
                    orders=tuple(orders),
                    elsewhere=renewed.elsewhere,
                    lease_s=compute.settings.lease_s,
                    held_s=renewed_at - asked_at,
                    as_of=renewed.as_of,
                    mark=renewed.mark,
                    list_wanted=list_wanted,
                )
            if compute.wakeups and hosts is not None:
                self._waits = self._waits or PollWaits(compute.wakeups, self._look_at_names)
                recheck_s = left_s if allowed is every_host else min(left_s, TOKEN_RECHECK_S)
                await self._waits.wait(renewed.hosts_held, recheck_s, since=heard)
            elif compute.wakeups:  # a host may be declared meanwhile
                await compute.wakeups.wait(GUEST_CHANNEL, min(RECHECK_S, left_s), since=heard)
            else:
                await asyncio.sleep(min(RECHECK_S, left_s))

    async def _renew(self, request: LeaseRequest) -> Renewed:
        renewed = await self._renewing.do(request)
        if isinstance(renewed, RoostError):
            raise renewed
        if renewed.hosts_behind:
            await self._returning.do(list(renewed.hosts_behind))
        return renewed

    async def _publish_returned(self, polls: Sequence[list[str]]) -> list[None]:
        """Publish hosts that are back, a rack of single agents in one set."""
        await publish_hosts_now(self._compute, sorted({name for returned in polls for name in returned}))
        return [None] * len(polls)

    async def _list_declared(self, covered: HostPatterns) -> list[str]:
        """Return the hosts that are declared now; they are read when their changes were counted on."""
        async with self._compute.database.connection() as connection:
            declared = await host_rows.read_declared(connection, self._declared)
        self._declared = declared
        return list(declared.names if covered is EVERY_HOST else filter(covered.covers, declared.names))

    async def _look_at_names(self) -> Collection[str]:
        return (await self._look()).names

    async def _look(self) -> PendingHosts:
        """Return the hosts that have orders, as of a moment after this call; calls that come together share it."""
        if self._next_look is None:
            self._next_look = asyncio.create_task(self._look_once())
        return await asyncio.shield(self._next_look)

    async def _look_once(self) -> PendingHosts:
        async with self._looking:
            self._next_look = None  # what is committed from here on, this look may not see
            async with self._compute.database.connection() as connection:
                return await store.list_pending_hosts(connection)


async def take_reports(compute: Compute, reports: Sequence[GuestReport], *, agent: AgentIdentity) -> ReportsAnswered:
    """Take or refuse each report, in order; the same report twice does nothing more. Raises AgentRefused.

    All in one transaction, but for what guests did by themselves: that is judged after it. While the records recover
    each is refused, and may be made again.
    """
    await admit_call(compute, agent)
    ordered = [report for report in reports if not report.by_itself]
    own = [guest_of_report(report) for report in reports if report.by_itself]
    outcome, mark = await _take_ordered(compute, ordered, agent)
    if mark is None:
        return ReportsAnswered(tuple(rules.refuse_for_now(report) for report in reports), agent.mark)
    own_answers = iter(await take_own_states(compute, own, agent=agent) if own else ())
    answers = iter(outcome.answers)
    return ReportsAnswered(tuple(next(own_answers if report.by_itself else answers) for report in reports), mark)


async def _take_ordered(
    compute: Compute, reports: Sequence[GuestReport], agent: AgentIdentity
) -> tuple[ReportOutcome, str | None]:
    """Take or refuse reports on what was ordered; return what came of it, and the agent's mark.

    No mark: the records recover, and nothing was taken.
    """
    recorded = NOTHING_RECORDED
    async with compute.database.transaction() as tx:
        # Work before guests, the order of the pipeline. Also for `begun`, which needs no work row: the pipeline locks
        # guests in any order, protected by its locks on work.
        works = await store.lock_works(tx, {report.server_id for report in reports})
        meeting = {report.server_id for report in reports if report.meeting is not None}
        guests = await store.lock_guests(tx, {report.key for report in reports}, server_ids=meeting)  # R20
        # Read after the guests are locked, so that no report is taken from an agent that has lost its lease.
        hosts_held = await store.list_hosts_held(tx, {report.host for report in reports}, agent_id=agent.id)
        mark = await recovery_rows.move_mark(tx, agent.id)
        before = replace(mark, value=mark.value - 1)
        mark_told = told_later(agent, before)
        recovers = mark.recovering or mark_told is not None
        if not recovers:
            outcome = rules.decide_reports(
                reports, agent_id=agent.id, hosts_held=hosts_held, guests=guests, works=works
            )
            recorded = await _write_outcome(compute, tx, outcome, agent)
    if mark_told is not None:
        await begin_recovery(compute, agent, mark_told=mark_told, mark_known=before.value)
    if recovers:
        return ReportOutcome(), None
    if outcome.moves_work:
        compute.wake(WORK_CHANNEL)
    if outcome.asked_again:
        compute.wake(GUEST_CHANNEL)
    recorded.tell()
    await give_up_ports_now(compute, outcome.unplugged)
    return outcome, mark_of(mark)


async def _write_outcome(compute: Compute, tx: Connection, outcome: ReportOutcome, agent: AgentIdentity) -> Recorded:
    await store.mark_guests(
        tx,
        begun=outcome.begun,
        states=outcome.states,
        sequences=outcome.sequences,
        nics_versions=outcome.nics_versions,
        agent_id=agent.id,
    )
    await store.meet(tx, outcome.meetings, outcome.asked_again)
    await store.delete_guests(tx, outcome.gone)
    states = await watch_states(compute, tx, _servers_of(outcome))
    await store.activate_servers(tx, outcome.active)
    keys_seen = {(server_id, host) for server_id, (host, _) in outcome.changed.items()}
    keys_restored = await _restore_servers(compute, tx, keys_seen)
    changed = await store.change_servers(tx, outcome.changed)
    await action_log.finish(compute, tx, dict.fromkeys(changed))
    await store.keep_servers(tx, outcome.unchanged)
    await action_log.finish(compute, tx, {key: failure.message for key, failure in outcome.unchanged.items()})
    await store.restore_works(tx, outcome.kept)
    await store.retry_works(tx, outcome.retreats)
    await store.resume_works(tx, outcome.resumed)
    await action_log.finish(compute, tx, await store.lose_guests(tx, _failures(outcome.lost)))
    await store.find_guests_again(tx, outcome.found_again)
    keys_restored |= await _restore_servers(compute, tx, outcome.found_again)
    await action_log.add_launches(compute, tx, active=outcome.active, retreats=outcome.retreats, states=states)
    return await record(tx, [*events.of_lost(outcome.lost), *events.of_restored(keys_restored)])


async def compare_guests(
    compute: Compute, listed: GuestsBody, *, covered: HostPatterns = EVERY_HOST
) -> list[GuestAttempt]:
    """Compare all guests that an agent has with what its hosts are asked for; return those that it must destroy.

    listed: hosts' names are compared as bytes. covered: the hosts for which the caller may speak. Guests that are
    missing are marked on their servers, which keep addresses and claims; those that nobody asked for hold theirs.
    Raises AgentRefused.
    """
    agent = listed.agent
    mark = await look_at_mark(compute, agent, await admit_call(compute, agent))
    async with compute.database.connection() as connection:
        leased = await store.list_hosts_of(connection, agent_id=agent.id, after=listed.after, until=listed.until)
        hosts = {name for name in leased if covered.covers(name)}
        present = [guest for guest in listed.guests if guest.host in hosts]
        server_ids = {guest.server_id for guest in present}
        attempts = await store.list_begun_attempts(connection, server_ids) if present else {}
        guests = await store.list_guests_on(connection, hosts)
        former = {guest.agent_id for guest in guests if guest.agent_id not in (None, agent.id)}
        agents_alive = await store.list_agents_alive(connection, former) if former else set[str]()

    def compare(guests: Sequence[Guest]) -> GuestList:
        return rules.decide_guest_list(
            present,
            agent_id=agent.id,
            as_of_s=listed.as_of,
            guests=guests,
            attempts_by_server=attempts,
            agents_alive=agents_alive,
            recovering=mark.recovering,
        )

    outcome = compare(guests)
    recorded = NOTHING_RECORDED
    database = compute.database
    # Of an idle agent it is one statement, which needs no transaction around it.
    async with database.transaction() if outcome.changes_guests else database.connection() as tx:
        if outcome.changes_guests:
            recorded = await _write_list(compute, tx, outcome.keys_changed, compare, agent=agent)
        hosts_changed = await unknown_rows.set_unknown_guests(tx, outcome.unknown, hosts=hosts)
    if outcome.changes_guests:
        compute.wake(WORK_CHANNEL)
        compute.wake(GUEST_CHANNEL)
    recorded.tell()
    if mark.recovering:
        await note_listed(compute, hosts)
    else:
        await hold_addresses_now(compute, hosts_changed)
        if differing := list_differing(present, guests):
            await take_own_states(compute, differing, agent=agent)
        await ask_for_nics(compute, list_replugged(present, guests))
    return list(outcome.superseded)


async def _write_list(
    compute: Compute,
    tx: Connection,
    keys: Collection[GuestKey],
    compare: Callable[[Sequence[Guest]], GuestList],
    *,
    agent: AgentIdentity,
) -> Recorded:
    """Lock these guests, compare once more, and write what changes."""
    works = await store.lock_works(tx, {server_id for server_id, _ in keys})
    locked = await store.lock_guests(tx, keys)
    still_held = await store.list_hosts_held(tx, {host for _, host in keys}, agent_id=agent.id)
    changes = compare([guest for guest in locked if guest.host in still_held])
    await store.adopt_guests(tx, changes.adopted, agent_id=agent.id)
    await store.mark_guests(tx, begun=changes.begun, states={}, sequences={}, nics_versions={}, agent_id=agent.id)
    await store.adopt_guests(tx, changes.disowned, agent_id=None)
    await store.delete_guests(tx, changes.gone)
    attempts_gone = {guest.server_id: guest.attempt for guest in locked if guest.key in changes.gone}
    await store.resume_works(
        tx, [w.server_id for w in works if (n := attempts_gone.get(w.server_id)) is not None and w.goes_on_with(n)]
    )
    states = await watch_states(compute, tx, {server_id for server_id, _ in changes.lost | changes.found_again})
    await action_log.finish(compute, tx, await store.lose_guests(tx, _failures(changes.lost)))
    await store.find_guests_again(tx, changes.found_again)
    await store.take_over(tx, {server_id for server_id, _ in changes.taken_over})
    keys_restored = await _restore_servers(compute, tx, changes.found_again)
    await announce(compute, tx, states)
    return await record(tx, [*events.of_lost(changes.lost), *events.of_restored(keys_restored)])


async def _restore_servers(compute: Compute, tx: Connection, keys: Collection[GuestKey]) -> set[GuestKey]:
    """End the ERROR of servers whose guests are seen, where Roost had believed that they were lost; return which."""
    hosts_by_server = await store.restore_servers(tx, keys) if keys else {}
    for server_id, host in hosts_by_server.items():
        by = Requester(
            request_id=f"req-{compute.env.new_uuid()}", project_id=compute.default_project, user_id=compute.default_user
        )
        await action_log.begin(compute, tx, server_id, FOUND, by, event=FOUND_EVENT, host=host, finished=True)
    return set(hosts_by_server.items())


def _servers_of(outcome: ReportOutcome) -> set[str]:
    """Return the servers whose state may change."""
    lost_or_found = {server_id for server_id, _ in {*outcome.lost, *outcome.found_again}}
    return {*outcome.active, *outcome.changed, *outcome.unchanged, *lost_or_found}


def _failures(keys: Collection[GuestKey]) -> dict[GuestKey, Failure]:
    return {
        key: Failure(message=rules.lost_guest_sentence(key[1]), host=key[1], kind=GUEST_LOST) for key in sorted(keys)
    }


list_host_names = reading(store.list_host_names)
