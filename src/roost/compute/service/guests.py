"""What agents ask and say: orders for their hosts, and reports on guests. One function, one transaction.

The orders come from the pipeline, the consequences of a report go to it; `compute/rules/guests.py` decides them.
"""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial

import structlog

from roost.compute.model.server import Requester
from roost.compute.model.work import GUEST_CHANNEL, GUEST_LOST, WORK_CHANNEL, Failure, Guest
from roost.compute.rules import guests as rules
from roost.compute.rules.agent_tokens import EVERY_HOST, HostPatterns
from roost.compute.rules.guests import GuestList
from roost.compute.rules.nics import without_doubtful_ports
from roost.compute.service import action_log
from roost.compute.service.agent_tokens import HostsAllowed, every_host
from roost.compute.service.context import Compute, reading
from roost.compute.service.hosts import publish_hosts
from roost.compute.service.leases import LeaseRequest, Renewed, renew_leases
from roost.compute.service.notifications import announce, watch_states
from roost.compute.service.poll_waits import RECHECK_S, PollWaits
from roost.compute.service.unknown_guests import hold_addresses_now
from roost.compute.store import guests as store
from roost.compute.store import unknown_guests as unknown_rows
from roost.platform.batches import Batches
from roost.platform.database import Connection
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
    ReportAnswer,
)

ORDERS_MAX = 1000
"""Orders in one answer."""
TOKEN_RECHECK_S = 3.0
"""A held poll asks again at least so often what its token is for."""
POLLS_TOGETHER_MAX = 1000
"""Polls that come together renew leases, and bring hosts back, together: 10,000 would wait long for a connection."""

FOUND, FOUND_EVENT = "find_guest", "compute_find_guest"
"""Roost's own action: a guest that was taken for lost was seen."""

log = structlog.get_logger()


class Polls:
    """The polls of one listener: however many are held, they look together at which hosts have orders."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._looking = asyncio.Lock()
        self._next_look: asyncio.Task[set[str]] | None = None
        self._renewing = Batches(partial(renew_leases, compute), most=POLLS_TOGETHER_MAX)
        self._returning = Batches(self._publish_returned, most=POLLS_TOGETHER_MAX)
        self._waits: PollWaits | None = None

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
        Raises Unauthorized; NotFound, which names the hosts that do not exist; and HostHeld where other agents serve
        all of them. Not one transaction: it holds none while it waits.
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
            names_now = list(hosts) if hosts is not None else await _list_declared(compute, covered)
            if names_now != names:
                names, renewed_at = names_now, loop.time()
                renewed = await self._renew(names, agent)
            orders: list[GuestOrder] = []
            if not (await self._look()).isdisjoint(renewed.hosts_held):
                async with compute.database.connection() as connection:
                    orders = [
                        without_doubtful_ports(order, nics)
                        for order, nics in await store.list_orders(
                            connection, renewed.hosts_held, agent_id=agent.id, busy=busy, limit=ORDERS_MAX
                        )
                    ]
            left_s = deadline - loop.time()
            if orders or left_s <= 0:
                return Polled(
                    orders=tuple(orders),
                    elsewhere=renewed.elsewhere,
                    lease_s=compute.settings.lease_s,
                    held_s=renewed_at - asked_at,
                    as_of=renewed.as_of,
                )
            if compute.wakeups and hosts is not None:
                self._waits = self._waits or PollWaits(compute.wakeups, self._look)
                recheck_s = left_s if allowed is every_host else min(left_s, TOKEN_RECHECK_S)
                await self._waits.wait(renewed.hosts_held, recheck_s, since=heard)
            elif compute.wakeups:  # a host may be declared meanwhile
                await compute.wakeups.wait(GUEST_CHANNEL, min(RECHECK_S, left_s), since=heard)
            else:
                await asyncio.sleep(min(RECHECK_S, left_s))

    async def _renew(self, names: Sequence[str], agent: AgentIdentity) -> Renewed:
        renewed = await self._renewing.do(LeaseRequest(tuple(names), agent))
        if isinstance(renewed, RoostError):
            raise renewed
        if renewed.hosts_behind:
            await self._returning.do(list(renewed.hosts_behind))
        return renewed

    async def _publish_returned(self, polls: Sequence[list[str]]) -> list[None]:
        """Publish hosts that are back, a rack of single agents in one set. A failure is left to the periodic look."""
        try:
            await publish_hosts(self._compute, sorted({name for returned in polls for name in returned}))
        except (RoostError, TimeoutError) as error:
            log.warning("publishing hosts that are back failed; the next round retries", reason=str(error))
        return [None] * len(polls)

    async def _look(self) -> set[str]:
        """Return the hosts that have orders, as of a moment after this call; calls that come together share it."""
        if self._next_look is None:
            self._next_look = asyncio.create_task(self._look_once())
        return await asyncio.shield(self._next_look)

    async def _look_once(self) -> set[str]:
        async with self._looking:
            self._next_look = None  # what is committed from here on, this look may not see
            async with self._compute.database.connection() as connection:
                return await store.list_pending_hosts(connection)


async def report(compute: Compute, reports: Sequence[GuestReport], *, agent: AgentIdentity) -> list[ReportAnswer]:
    """Take or refuse each report, in order, all in one transaction; the same report twice does nothing more."""
    async with compute.database.transaction() as tx:
        # Work before guests, the order of the pipeline. Also for `begun`, which needs no work row: the pipeline locks
        # guests in any order, protected by its locks on work.
        works = await store.lock_works(tx, {report.server_id for report in reports})
        guests = await store.lock_guests(tx, {report.key for report in reports})  # R20
        # Read after the guests are locked, so that no report is taken from an agent that has lost its lease.
        hosts_held = await store.list_hosts_held(tx, {report.host for report in reports}, agent_id=agent.id)
        outcome = rules.decide_reports(reports, agent_id=agent.id, hosts_held=hosts_held, guests=guests, works=works)
        await store.mark_guests(tx, begun=outcome.begun, states=outcome.states, agent_id=agent.id)
        await store.delete_guests(tx, outcome.gone)
        states = await watch_states(compute, tx, _servers_of(outcome))
        await store.activate_servers(tx, outcome.active)
        keys_seen = {(server_id, host) for server_id, (host, _) in outcome.changed.items()}
        await _restore_servers(compute, tx, keys_seen)
        changed = await store.change_servers(tx, outcome.changed)
        await action_log.finish(compute, tx, dict.fromkeys(changed))
        await store.keep_servers(tx, outcome.unchanged)
        await action_log.finish(compute, tx, {key: failure.message for key, failure in outcome.unchanged.items()})
        await store.restore_works(tx, outcome.kept)
        await store.retry_works(tx, outcome.retreats)
        await store.resume_works(tx, outcome.resumed)
        await action_log.finish(compute, tx, await store.lose_guests(tx, _failures(outcome.lost)))
        await store.find_guests_again(tx, outcome.found_again)
        await _restore_servers(compute, tx, outcome.found_again)
        await action_log.add_launches(compute, tx, active=outcome.active, retreats=outcome.retreats, states=states)
    if outcome.moves_work:
        compute.wake(WORK_CHANNEL)
    _log_lost(outcome.lost, agent)
    return outcome.answers


async def compare_guests(
    compute: Compute, listed: GuestsBody, *, covered: HostPatterns = EVERY_HOST
) -> list[GuestAttempt]:
    """Compare all guests that an agent has with what its hosts are asked for; return those that it must destroy.

    listed: hosts' names are compared as bytes. covered: the hosts for which the caller may speak. Guests that are
    missing are marked on their servers, which keep addresses and claims; those that nobody asked for hold theirs.
    """
    agent = listed.agent
    async with compute.database.connection() as connection:
        leased = await store.list_hosts_of(connection, agent_id=agent.id, after=listed.after, until=listed.until)
        hosts = {name for name in leased if covered.covers(name)}
        present = [guest for guest in listed.guests if guest.host in hosts]
        attempts = await store.list_attempts(connection, {guest.server_id for guest in present}) if present else {}
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
        )

    outcome = compare(guests)
    async with compute.database.transaction() as tx:
        if outcome.changes_guests:
            keys = outcome.keys_changed
            works = await store.lock_works(tx, {server_id for server_id, _ in keys})
            locked = await store.lock_guests(tx, keys)
            still_held = await store.list_hosts_held(tx, {host for _, host in keys}, agent_id=agent.id)
            changes = compare([guest for guest in locked if guest.host in still_held])
            await store.adopt_guests(tx, changes.adopted, agent_id=agent.id)
            await store.adopt_guests(tx, changes.disowned, agent_id=None)
            await store.delete_guests(tx, changes.gone)
            attempts_gone = {guest.server_id: guest.attempt for guest in locked if guest.key in changes.gone}
            await store.resume_works(
                tx,
                [w.server_id for w in works if (n := attempts_gone.get(w.server_id)) is not None and w.goes_on_with(n)],
            )
            states = await watch_states(compute, tx, {server_id for server_id, _ in changes.lost | changes.found_again})
            await action_log.finish(compute, tx, await store.lose_guests(tx, _failures(changes.lost)))
            await store.find_guests_again(tx, changes.found_again)
            await _restore_servers(compute, tx, changes.found_again)
            await announce(compute, tx, states)
        hosts_changed = await unknown_rows.set_unknown_guests(tx, outcome.unknown, hosts=hosts)
    if outcome.changes_guests:
        compute.wake(WORK_CHANNEL)
        compute.wake(GUEST_CHANNEL)
    _log_lost(outcome.lost, agent)
    await hold_addresses_now(compute, hosts_changed)
    return list(outcome.superseded)


async def _restore_servers(compute: Compute, tx: Connection, keys: Collection[GuestKey]) -> None:
    """End the ERROR of servers whose guests are seen, where Roost had believed that they were lost; log it."""
    for server_id, host in (await store.restore_servers(tx, keys) if keys else {}).items():
        by = Requester(
            request_id=f"req-{compute.env.new_uuid()}", project_id=compute.default_project, user_id=compute.default_user
        )
        await action_log.begin(compute, tx, server_id, FOUND, by, event=FOUND_EVENT, host=host, finished=True)
        log.info("found guest: its server is not in ERROR any more", server=server_id, host=host)


def _servers_of(outcome: rules.ReportOutcome) -> set[str]:
    """Return the servers whose state may change."""
    lost_or_found = {server_id for server_id, _ in {*outcome.lost, *outcome.found_again}}
    return {*outcome.active, *outcome.changed, *outcome.unchanged, *lost_or_found}


def _failures(keys: Collection[GuestKey]) -> dict[GuestKey, Failure]:
    return {
        key: Failure(message=rules.lost_guest_sentence(key[1]), host=key[1], kind=GUEST_LOST) for key in sorted(keys)
    }


def _log_lost(keys: Collection[GuestKey], agent: AgentIdentity) -> None:
    for server_id, host in sorted(keys):
        log.warning(
            "lost guest: its host no longer has it, and nobody asked for that",
            server=server_id,
            host=host,
            agent=agent.id,
        )


list_host_names = reading(store.list_host_names)


async def _list_declared(compute: Compute, covered: HostPatterns) -> list[str]:
    names = await list_host_names(compute, declared_only=True)
    return names if covered is EVERY_HOST else [name for name in names if covered.covers(name)]
