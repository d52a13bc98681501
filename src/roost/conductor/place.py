"""The stage `place`: a host is chosen, and the server and its address-less ports are claimed there in one step.

Servers with equal requests are searched for together and claimed in one set. Who is refused asks again, until it has
its claim or a fresh search finds no host: a claim conflict is nobody's failure.
"""

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from roost.compute.model.work import WORK_CHANNEL, Failure, MoveKind, Placed, Stage, StageChange
from roost.compute.service.aggregates import list_with_metadata
from roost.compute.service.hosts import count_closed_hosts, list_empty_aggregates, list_quiet_hosts
from roost.compute.service.work import get_host_cells
from roost.conductor.context import Build, Lease, end_of, sent_elsewhere, staged
from roost.conductor.holdings import claim_of, held_by_move
from roost.conductor.hosts_first import add_addresses
from roost.conductor.ports import ensure_ports
from roost.conductor.readdress import claim_both, list_freeable, may_readdress
from roost.conductor.resume import HostChosen, HostSearch, adopt_claims, begin_searches, release_claims, with_claims
from roost.platform.crash import crash_point
from roost.platform.grouping import grouped
from roost.scheduling.explain import ClosedHosts, addresses_asked, explain
from roost.scheduling.filters import narrow
from roost.scheduling.host_aggregates import aggregates_asked
from roost.scheduling.request import Request, build_queries, build_request, reached_through, suffix_of
from roost.scheduling.selection import join, select
from roost.scheduling.settings import SchedulingSettings
from roost.seams.network import NetworkView, PortsRefused
from roost.seams.placement import (
    IPV4_ADDRESS,
    Allocations,
    Candidate,
    Candidates,
    Claimed,
    ClaimGroup,
    ConsumerClaim,
    ConsumerType,
    Resources,
    Rule,
    add_allocations,
    subtract_allocations,
)

ROUNDS_MAX = 40
"""Searches that one batch may make; servers that others always beat to it then wait a moment."""

BUSY_DELAY_S = 0.2

Tried = tuple[Request, Candidates | None]
"""A narrowed request, with what was answered; None where it was not asked."""


async def place(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Claim each server with its ports, or end it in ERROR with the reason why no host has room."""
    searches, changes = await begin_searches(lease, builds)
    networks = await _read_networks(lease, searches)
    await adopt_claims(lease, [search for search in searches if not search.overtaken], networks)
    quiet = await _list_quiet(lease, searches)
    await _read_aggregates(lease, searches)
    for _ in range(ROUNDS_MAX):
        waiting = [search for search in searches if not _is_over(search)]
        if not waiting:
            break
        await _search_and_claim(lease, waiting, networks, quiet)
    hosts_of_own_cells = await _own_cells(lease, searches)
    changes += [_change_of(search, hosts_of_own_cells) for search in searches]
    ports = {search.server_id: search.ports for search in searches}
    advanced = await lease.advance(builds, changes, ports=ports)
    if any(change.stage is not Stage.PLACE and not change.keep for change in changes):
        lease.conductor.compute.wake(WORK_CHANNEL)  # conductors of other cells go on with these
    await release_claims(lease, [search for search in searches if search.server_id in advanced.lost])
    return advanced.going_on


async def _read_networks(lease: Lease, searches: Sequence[HostSearch]) -> Mapping[str, NetworkView]:
    """Return the searches' networks by id.

    A network was deleted after its ports were read: the next read refuses the server with that reason.
    """
    network_ids = {network_id for search in searches for network_id in search.network_ids}
    networks = await lease.conductor.network.get_networks(sorted(network_ids))
    for search in searches:
        search.overtaken = not search.network_ids <= networks.keys()
    return networks


async def _read_aggregates(lease: Lease, searches: Sequence[HostSearch]) -> None:
    compute = lease.conductor.compute
    aggregates = await list_with_metadata(compute)
    for search in searches:
        search.aggregates = aggregates_asked(
            aggregates,
            zone=search.build.work.spec.availability_zone,
            default_zone=compute.settings.default_availability_zone,
            project_id=search.build.work.project_id,
        )


def _change_of(search: HostSearch, hosts_of_own_cells: Set[str]) -> StageChange:
    """Return where the server goes from here, by what its search ended with."""
    work = search.build.work
    match search.outcome:
        case Placed():
            keep = search.outcome.host in hosts_of_own_cells
            return staged(work, _next_stage(search), placed=search.outcome, keep=keep)
        case Failure():
            return staged(work, end_of(work), failure=search.outcome, keep=True)
        case None if search.full_host is not None:
            message = f"{search.full_host} has no free address on a network of the server"
            return sent_elsewhere(work, message, host=search.full_host)
        case None:
            return staged(work, Stage.PLACE, delay_s=BUSY_DELAY_S)


def _is_over(search: HostSearch) -> bool:
    return search.outcome is not None or search.overtaken or search.full_host is not None


def _next_stage(search: HostSearch) -> Stage:
    move = search.build.work.move
    if move is None:
        has_pools = any(port.pools for port in search.ports)
        return Stage.ALLOCATE if has_pools else search.build.work.stages.after(Stage.PLACE)
    if move.kind is MoveKind.LIVE:
        return Stage.COPY
    return Stage.BIND if move.kind is MoveKind.UNSHELVE else Stage.STOP


async def _own_cells(lease: Lease, searches: Sequence[HostSearch]) -> set[str]:
    """Return the chosen hosts whose servers this conductor goes on with: all, unless it is one of some cells only."""
    hosts = {search.outcome.host for search in searches if isinstance(search.outcome, Placed)}
    own_cells = lease.conductor.settings.cells
    if not own_cells:
        return hosts
    cells = await get_host_cells(lease.conductor.compute, sorted(hosts))
    return {host for host, cell in cells.items() if cell in own_cells}


async def _list_quiet(lease: Lease, searches: Sequence[HostSearch]) -> frozenset[str]:
    """Return the hosts that were not heard of lately, where a server that failed somewhere is to be placed."""
    if any(search.build.work.excluded_hosts for search in searches):
        return frozenset(await list_quiet_hosts(lease.conductor.compute))
    return frozenset()


class _Group(NamedTuple):
    """Servers with equal requests. request: before it was narrowed; kinds: narrowed, for each kind of segments."""

    request: Request
    kinds: list[Request]
    searches: list[HostSearch]

    @property
    def possible(self) -> list[Request]:
        """Return what can be asked for."""
        return [request for request in self.kinds if request.impossible is None]


async def _search_and_claim(
    lease: Lease, searches: Sequence[HostSearch], networks: Mapping[str, NetworkView], quiet: frozenset[str]
) -> None:
    """Search once for all servers, claim once for those that got a candidate; tell the others why they got none."""
    groups: list[_Group] = []
    for group in _list_groups(searches, networks, lease.conductor.scheduling):
        if group.possible:
            groups.append(group)
        else:
            await _refuse(lease, [(request, None) for request in group.kinds], group.searches, networks)
    queries = [query for group in groups for query in build_queries(group.possible, servers=len(group.searches))]
    answers = iter(await lease.conductor.placement.candidates(queries) if queries else [])
    chosen: list[HostChosen] = []
    for group in groups:
        tried = [(request, next(answers)) for request in group.possible]
        chosen_for_group = _choose(lease, group, [answer for _, answer in tried], quiet)
        if not chosen_for_group:
            await _refuse(lease, tried, group.searches, networks)
        chosen += chosen_for_group
    if not lease.conductor.scheduling.ip_aware:
        chosen = await add_addresses(lease, chosen)
    await _claim(lease, chosen, networks)


def _list_groups(
    searches: Sequence[HostSearch], networks: Mapping[str, NetworkView], settings: SchedulingSettings
) -> list[_Group]:
    alike = grouped(((_request(search, networks), _may_leave(search)), search) for search in searches)
    return [_Group(request, narrow(request, settings), searches) for (request, _), searches in alike.items()]


def _choose(lease: Lease, group: _Group, answers: Sequence[Candidates], quiet: frozenset[str]) -> list[HostChosen]:
    """Return a host for each server, for the first ones if there are not enough; none if there is none."""
    answer = join(answers)
    excluded = group.possible[0].excluded_hosts
    candidates = select(
        answer,
        len(group.searches),
        lease.conductor.env.random,
        lease.conductor.scheduling,
        excluded=excluded,
        quiet=quiet if excluded else frozenset(),
        elsewhere=_may_leave(group.searches[0]),
    )
    return [
        HostChosen(search, group.request, candidate, answer.summaries[candidate.root_uuid].name)
        for search, candidate in zip(group.searches, candidates, strict=False)
    ]


def _request(search: HostSearch, networks: Mapping[str, NetworkView]) -> Request:
    work = search.build.work
    return build_request(
        work.spec,
        search.ports_asked,
        networks,
        excluded_hosts=work.excluded_hosts,
        source_host=work.move.source_host if work.move else None,
        free_to_leave=search.leaving,
        aggregates=search.aggregates,
    )


async def _refuse(
    lease: Lease,
    tried: Sequence[Tried],
    searches: Sequence[HostSearch],
    networks: Mapping[str, NetworkView],
) -> None:
    """Free those that may leave their segment, and end the others with the reason: no host has room."""
    may_leave = [search for search in searches if _may_leave(search)]
    final = [search for search in searches if search not in may_leave]
    await _leave_segments(lease, may_leave, networks)
    if final:
        await _explain_refusal(lease, tried, final)


async def _leave_segments(lease: Lease, searches: Sequence[HostSearch], networks: Mapping[str, NetworkView]) -> None:
    """Unassign the addresses that hold the servers to their segments; a search whose ports are refused then is over."""
    for search in searches:
        search.leaving = True
        if may_readdress(search.build.work):
            search.freed_ids = list_freeable(search.ports, networks)
    assigned = {p.id: p.revision for search in searches for p in search.ports if p.addresses and not p.pinned}
    if not assigned:
        return
    crash_point("retry.before-unbind")
    await lease.conductor.network.unassign_ports(assigned)
    crash_point("retry.after-unbind")
    answers = await ensure_ports(lease, [search.build for search in searches])
    for search, ensured in zip(searches, answers, strict=True):
        if isinstance(ensured, PortsRefused):
            search.outcome = Failure(message=ensured.reason)
        else:
            search.ports = with_claims(search.server_id, ensured.ports, search.consumers)


async def _explain_refusal(lease: Lease, tried: Sequence[Tried], searches: Sequence[HostSearch]) -> None:
    """End the searches with the reason why no host has room."""
    conductor = lease.conductor
    request = tried[0][0]
    usages = await conductor.placement.list_usages(addresses_asked(request))
    closed = ClosedHosts(*await count_closed_hosts(conductor.compute))
    aggregates = sorted({aggregate for nic in request.nics for aggregate in reached_through(nic)})
    empty = await list_empty_aggregates(conductor.compute, aggregates)
    networks = sorted({nic.network.id for nic in request.nics})
    held_by_network = await conductor.compute.network.count_held_addresses(networks) if networks else {}
    for search in searches:
        earlier = search.build.work.failure
        explanation = explain(
            tried,
            usages,
            ports=search.ports_asked,
            closed=closed,
            empty_aggregates=empty,
            earlier=_describe_failure(earlier),
            held=held_by_network,
        )
        host = earlier.host if earlier else None
        search.outcome = Failure(
            message=explanation.message, host=host, funnel=explanation.funnel, cause=explanation.cause
        )


def _may_leave(search: HostSearch) -> bool:
    """Return whether an address holds the server to some of the hosts and may be left.

    That is one that this very build claimed, or any of a server that may be readdressed.
    """
    if search.leaving:
        return False
    if may_readdress(search.build.work) and any(port.addresses and not port.pools for port in search.ports):
        return True
    return any(port.provider_uuid and not port.pinned for port in search.ports)


def _describe_failure(failure: Failure | None) -> str | None:
    """Return the reason of an earlier failure, with its host; agents leave out where they are."""
    if failure is None or failure.host is None or failure.host in failure.message:
        return failure.message if failure else None
    return f"{failure.message}, on {failure.host}"


async def _claim(lease: Lease, chosen: Sequence[HostChosen], networks: Mapping[str, NetworkView]) -> None:
    if not chosen:
        return
    placement = lease.conductor.placement
    crash_point("place.before-claim")
    answers = await placement.claim(
        [ClaimGroup(tuple(_claims(search, candidate, networks))) for search, _, candidate, _ in chosen]
    )
    crash_point("place.after-claim")
    for (search, _, candidate, host), answer in zip(chosen, answers, strict=True):
        if isinstance(answer, Claimed):
            search.placed_on(host, answer, claims=_claimed_here(search, candidate, networks))
        elif any(shortfall.rule is Rule.CONSUMER_GENERATION for shortfall in answer.shortfalls):
            # Another conductor claimed for this server, and has its lease: it goes on.
            search.overtaken = True


def _claimed_here(
    search: HostSearch, candidate: Candidate, networks: Mapping[str, NetworkView]
) -> dict[str, tuple[str, Resources]]:
    """Return which provider the candidate gives each address-less port, and what of it: by port id."""
    claims: dict[str, tuple[str, Resources]] = {}
    for port in search.ports_asked:
        chosen = candidate.providers_by_suffix.get(suffix_of(port.tag))
        if chosen:
            segments = networks[port.network_id].segments
            (classes,) = (segment.classes for segment in segments if segment.provider_uuid == chosen[0])
            claims[port.id] = chosen[0], dict.fromkeys(classes, 1)
    return claims


def _claims(search: HostSearch, candidate: Candidate, networks: Mapping[str, NetworkView]) -> list[ConsumerClaim]:
    """Return the server's claim on its host, and one for each port that gets its address from the candidate.

    A port's earlier claim, without an address as yet, is made again as it is (see adopt_claims), or released in the
    same step if the server may leave it. On flat networks the server itself claims its ports' addresses.
    """
    work = search.build.work
    of_server = {port.id for port in search.ports if port.pools}
    chosen = {
        port_id: {provider_uuid: resources}
        for port_id, (provider_uuid, resources) in _claimed_here(search, candidate, networks).items()
        if port_id not in of_server
    }
    # What agents make themselves is claimed when they do: nobody holds those ports yet.
    of_ports = {port.id: chosen[port.id] for port in search.ports if port.id in chosen and port.is_held}
    kept = add_allocations(*({pool: {IPV4_ADDRESS: 1}} for pool in search.pools_kept.values()))
    own = subtract_allocations(add_allocations(candidate.allocations, kept), add_allocations(*chosen.values()))
    port_claims: Mapping[str, Allocations] = of_ports
    if may_readdress(work):
        port_claims = claim_both(search.ports, search.consumers, of_ports)
    earlier = [search.consumers[uuid] for uuid in search.providers_unassigned if uuid not in of_ports]
    consumers: list[tuple[str, ConsumerType, Allocations]] = [
        (work.server_id, ConsumerType.INSTANCE, own),
        *((port_id, ConsumerType.PORT, allocations) for port_id, allocations in port_claims.items()),
    ]
    if work.move is not None:
        consumers.append((work.move.uuid, ConsumerType.MIGRATION, held_by_move(work.move, own)))
    return [state.claiming({} if search.leaving else state.allocations) for state in earlier] + [
        claim_of(work, uuid, consumer_type, search.consumers.get(uuid), allocations)
        for uuid, consumer_type, allocations in consumers
    ]
