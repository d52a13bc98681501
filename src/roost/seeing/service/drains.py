"""Drains and recoveries as operators ask for them: planned, begun, watched, cancelled. Conductors carry them out."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from msgspec.structs import replace

from roost.compute.model.cloud import Host
from roost.compute.model.departures import Departure
from roost.compute.model.server import Requester
from roost.compute.service.aggregates import list_host_aggregates
from roost.compute.service.departures import list_departures
from roost.compute.service.events import record
from roost.compute.service.hosts import list_hosts
from roost.network.service.networks import list_segments
from roost.network.service.views import get_networks
from roost.seeing.errors import DrainInvalid, DrainNotFound, HostsBusy, HostsNotFound, HostsUp
from roost.seeing.model import PARALLEL_MAX, Drain, DrainKind, DrainPlan, DrainRequest
from roost.seeing.rules import drains as rules
from roost.seeing.service.context import Seeing
from roost.seeing.service.fits import find_no_room
from roost.seeing.store import drains as store

DRAINS_MAX = 100
"""Drains that a list has, the youngest."""


class Begun(NamedTuple):
    """A drain, None for one that was only planned, and what it was to do when it was asked for."""

    drain: Drain | None
    plan: DrainPlan


async def begin_drain(seeing: Seeing, request: DrainRequest, by: Requester, *, dry_run: bool = False) -> Begun:
    """Begin a drain or a recovery, or go on with the one of the very same hosts; first say what it will come to.

    dry_run: only that. Raises DrainInvalid (no hosts, amounts out of bounds), HostsNotFound, HostsUp (a host that is to
    be recovered is up) and HostsBusy (another drain has some of the hosts).
    """
    request = await _resolve_segment(seeing, request)
    if fault := rules.find_request_fault(request, PARALLEL_MAX):
        raise DrainInvalid(fault)
    _check_hosts(request, await list_hosts(seeing.compute, request.hosts))
    request_id = f"req-{seeing.env.new_uuid()}"
    departures = await list_departures(seeing.compute, request.hosts, request_id=request_id)
    plan = await _plan(seeing, request, departures)
    if dry_run:
        return Begun(None, plan)
    async with seeing.compute.database.transaction() as tx:
        others = await store.lock_overlapping(tx, request.kind, request.hosts)
        same = next((drain for drain in others if drain.hosts == request.hosts), None)
        if same is not None and (changed := await store.change_drain(tx, same.id, request)):
            return Begun(changed, plan)
        if refusal := rules.find_overlap_refusal(request, [drain for drain in others if drain is not same]):
            raise HostsBusy(refusal)
        drain = await store.insert_drain(
            tx,
            request,
            project_id=by.project_id,
            user_id=by.user_id,
            request_id=request_id,
            servers=len(departures),
        )
        recorded = await record(tx, rules.of_drain(drain, "begun", f"servers to leave: {len(departures)}"))
    recorded.tell()
    return Begun(drain, plan)


async def _resolve_segment(seeing: Seeing, request: DrainRequest) -> DrainRequest:
    """Return the request with the hosts that reach its segment, a name or an id, besides those that it names.

    Raises DrainInvalid for a segment that is not there, or a name that several have.
    """
    hosts = set(request.hosts)
    if request.segment is not None:
        segments = await list_segments(seeing.networks)
        named = [segment for segment in segments if request.segment in (segment.id, segment.name)]
        if len(named) != 1:
            count = "no segment has" if not named else f"{len(named)} segments have"
            raise DrainInvalid(f"segment {request.segment}: {count} that name or id; expected one")
        views = await get_networks(seeing.networks, [named[0].network_id])
        aggregates = [
            part.placement_aggregate
            for view in views.values()
            for part in view.segments
            if part.provider_uuid == named[0].id and part.placement_aggregate
        ]
        for aggregate in await list_host_aggregates(seeing.compute, uuids=aggregates):
            hosts |= set(aggregate.hosts)
    return replace(request, hosts=tuple(sorted(hosts)))


def _check_hosts(request: DrainRequest, hosts: Sequence[Host]) -> None:
    if missing := set(request.hosts) - {host.name for host in hosts}:
        raise HostsNotFound(rules.missing_sentence(missing))
    up = [host.name for host in hosts if not host.down]
    if request.kind is DrainKind.RECOVER and up:
        raise HostsUp(rules.up_sentence(up))


async def _plan(seeing: Seeing, request: DrainRequest, departures: Sequence[Departure]) -> DrainPlan:
    no_room = await find_no_room(
        seeing,
        rules.list_to_place(request.kind, departures),
        closed=request.hosts,
        readdress=request.readdress,
    )
    return rules.plan_drain(request.kind, departures, no_room)


async def get_drain(seeing: Seeing, drain_id: int) -> Drain:
    """Return the drain with that number. Raises DrainNotFound."""
    async with seeing.compute.database.connection() as connection:
        drain = await store.find_drain(connection, drain_id)
    if drain is None:
        raise DrainNotFound(f"Drain {drain_id} could not be found.")
    return drain


async def list_drains(seeing: Seeing, hosts: Sequence[str] | None = None) -> list[Drain]:
    """Return the youngest drains of these hosts, or of any; at most DRAINS_MAX."""
    async with seeing.compute.database.connection() as connection:
        return await store.list_drains(connection, hosts, limit=DRAINS_MAX)


async def cancel_drain(seeing: Seeing, drain_id: int) -> Drain:
    """Begin no more moves of this drain, and enable the hosts that it disabled, also of one that is over.

    What is under way goes on. Hosts that a recovery forced down stay so. Raises DrainNotFound.
    """
    async with seeing.compute.database.transaction() as tx:
        drain = await store.cancel_drain(tx, drain_id)
        if drain is None:
            raise DrainNotFound(f"Drain {drain_id} could not be found.")
        recorded = await record(tx, rules.of_drain(drain, "cancelled", "no more moves begin"))
    recorded.tell()
    return drain


async def purge_drains(seeing: Seeing) -> int:
    """Delete drains that have been over for `keep_history_days`, and can no longer be cancelled; return how many."""
    kept = timedelta(days=seeing.compute.settings.keep_history_days)
    async with seeing.compute.database.transaction() as tx:
        return await store.purge_drains(tx, older_than=kept)
