"""A round of a drain: a conductor leases it, looks at all its servers, and does what is to be done now.

Nothing is known from one round to the next but the drain itself. A conductor that dies leaves the drain to another;
one that lost its lease begins at most a move too many, and none twice: a server is in one move at a time.
"""

from functools import partial
from typing import NamedTuple

import structlog

from roost.compute.errors import HostNotFound
from roost.compute.model.server import Requester
from roost.compute.service.departures import list_departures
from roost.compute.service.events import record
from roost.compute.service.hosts import disable_host, enable_host, force_down, list_hosts
from roost.compute.service.moves import MoveRequest, begin_move, end_move
from roost.platform.errors import BadRequest, Conflict, NotFound
from roost.seeing.model import Drain
from roost.seeing.rules import drains as rules
from roost.seeing.rules.drains import SETTLE_S, HostChange, Round
from roost.seeing.service.context import Seeing
from roost.seeing.store import drains as store

ROUND_S = 1.0
"""Between two rounds of one drain."""

DRAINS_AT_ONCE_MAX = 16
"""Drains that have a round one after another; the rest have theirs at the next look."""

OVERTAKEN = (BadRequest, Conflict, NotFound)
"""The server is in another state than when the round looked; the next one sees in which."""

log = structlog.get_logger()


class Lease(NamedTuple):
    """A conductor's hold on one drain, for one round."""

    seeing: Seeing
    drain: Drain
    owner: str
    lease_s: float

    @property
    def by(self) -> Requester:
        """Return in whose name moves begin."""
        drain = self.drain
        return Requester(request_id=drain.request_id, project_id=drain.project_id, user_id=drain.user_id, is_admin=True)

    async def keep(self) -> bool:
        """Renew it; return False once it is lost."""
        async with self.seeing.compute.database.transaction() as tx:
            return await store.keep_lease(tx, self.drain.id, self.owner, lease_s=self.lease_s)


async def work_on_drains(seeing: Seeing, *, lease_s: float) -> int:
    """Have a round of each drain that is due; return how many had one.

    lease_s: how long a conductor that died holds a drain up; it is renewed before each move that begins.
    """
    for count in range(DRAINS_AT_ONCE_MAX):
        owner = seeing.env.new_uuid()
        async with seeing.compute.database.transaction() as tx:
            drain = await store.lease_drain(tx, owner, lease_s=lease_s)
        if drain is None:
            return count
        await _have_round(Lease(seeing, drain, owner, lease_s))
    return DRAINS_AT_ONCE_MAX


async def _have_round(lease: Lease) -> None:
    """Close the hosts, look, confirm and begin moves, and write how the servers stand."""
    drain, compute = lease.drain, lease.seeing.compute
    changed = await _change_hosts(lease)
    if changed is None:
        return
    departures = await list_departures(compute, drain.hosts, request_id=drain.request_id)
    plan = rules.plan_round(drain, departures)
    if not await _do(lease, plan):
        return
    over, pause_s = plan.over and not changed, SETTLE_S if changed else ROUND_S
    async with compute.database.transaction() as tx:
        kept = await store.end_round(tx, drain.id, lease.owner, plan.progress, over=over, pause_s=pause_s)
        words = f"servers that stay: {len(plan.progress.staying)}"
        recorded = await record(tx, rules.of_drain(drain, "over", words) if kept and over else [])
    recorded.tell()


async def _change_hosts(lease: Lease) -> int | None:
    """Make the hosts closed, dead or open, as the drain wants them; return how many were not, None for a lost lease."""
    hosts = await list_hosts(lease.seeing.compute, lease.drain.hosts)
    changes = rules.list_host_changes(lease.drain, hosts)
    for host, change in changes:
        if not await lease.keep():
            return None
        try:
            await _change_host(lease, host.name, change)
        except HostNotFound:
            continue
        log.info("a drain changed a host", drain=lease.drain.id, host=host.name, change=change.value)
    return len(changes)


async def _change_host(lease: Lease, name: str, change: HostChange) -> None:
    compute = lease.seeing.compute
    match change:
        case HostChange.DISABLE:
            await disable_host(compute, name, reason=lease.drain.reason, by=lease.by)
        case HostChange.ENABLE:
            await enable_host(compute, name, by=lease.by)
        case HostChange.FORCE_DOWN:
            await force_down(compute, name, True, by=lease.by)


async def _do(lease: Lease, plan: Round) -> bool:
    """Confirm and begin what the round says; return False once the lease is lost."""
    compute, drain = lease.seeing.compute, lease.drain
    works = [(server_id, partial(end_move, compute, server_id, lease.by, revert=False)) for server_id in plan.confirm]
    for server_id, kind in plan.begin:
        request = MoveRequest(kind=kind, readdress=drain.readdress)
        works.append((server_id, partial(begin_move, compute, server_id, request, lease.by)))
    for server_id, work in works:
        if not await lease.keep():
            return False
        try:
            await work()
        except OVERTAKEN as error:
            log.info("a drain was overtaken", drain=drain.id, server=server_id, reason=str(error))
    return True
