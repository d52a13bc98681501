"""The second stage: a host is chosen, and the server and its address-less ports are claimed there in one step.

Servers with equal requests are searched for together and claimed in one set. Who is refused asks again, until it has
its claim or a fresh search finds no host: a claim conflict is nobody's failure.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from roost.compute.model import WORK_CHANNEL, Failure, Move, Placed, Stage
from roost.compute.service.hosts import count_closed_hosts, list_quiet_hosts
from roost.compute.service.work import get_host_cells, get_host_names
from roost.conductor.context import Build, Lease, moved
from roost.conductor.ports import ensure_ports
from roost.platform.crash import crash_point
from roost.scheduling.explain import ClosedHosts, addresses_asked, explain
from roost.scheduling.filters import apply_filters
from roost.scheduling.request import Request, alternatives, build_query, build_request, kinds_of, stays, suffix_of
from roost.scheduling.selection import join, select
from roost.seams.network import NetworkView, Port, PortsRefused
from roost.seams.placement import (
    IPV4_ADDRESS,
    VCPU,
    Allocations,
    Candidate,
    Candidates,
    Claimed,
    ClaimGroup,
    ConsumerClaim,
    ConsumerState,
    ConsumerType,
    Resources,
    Rule,
)

CANDIDATES_PER_SERVER = 4
CANDIDATES_MIN = 128
CANDIDATES_MAX = 1000
ROUNDS_MAX = 40
"""Searches that one batch may make; servers that others always beat to it then wait a moment."""

BUSY_DELAY_S = 0.2


@dataclass
class _Placing:
    """One server that looks for a host.

    ports: with the provider of an address that is claimed or assigned already. held: consumers as read under the lease.
    leaving: it may leave the segment of an address that this build assigned. beaten: a consumer changed under it.
    """

    build: Build
    ports: tuple[Port, ...]
    held: Mapping[str, ConsumerState]
    leaving: bool = False
    beaten: bool = False
    outcome: Placed | Failure | None = None

    @property
    def network_ids(self) -> set[str]:
        """The networks of its ports."""
        return {port.network_id for port in self.ports}


async def place(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Claim each server with its ports, or end it in ERROR with the reason why no host has room."""
    conductor = lease.conductor
    placings, moves = await _look(lease, builds)
    networks = await conductor.network.get_networks(sorted({one for p in placings for one in p.network_ids}))
    for placing in placings:
        # A network that went since its ports were looked at: the next look refuses the server and says so.
        placing.beaten = not placing.network_ids <= networks.keys()
    await _adopt(lease, [placing for placing in placings if not placing.beaten], networks)
    quiet = await _list_quiet(lease, placings)
    for _ in range(ROUNDS_MAX):
        waiting = [placing for placing in placings if placing.outcome is None and not placing.beaten]
        if not waiting:
            break
        await _search_and_claim(lease, waiting, networks, quiet)
    own = await _own_cells(lease, [p.outcome.host for p in placings if isinstance(p.outcome, Placed)])
    for placing in placings:
        work = placing.build.work
        match placing.outcome:
            case Placed():
                stage = Stage.ALLOCATE if any(port.pools for port in placing.ports) else Stage.BIND
                moves.append(moved(work, stage, placed=placing.outcome, keep=placing.outcome.host in own))
            case Failure():
                moves.append(moved(work, Stage.FAIL, failure=placing.outcome, keep=True))
            case None:
                moves.append(moved(work, Stage.PLACE, delay_s=BUSY_DELAY_S))
    ports = {placing.build.work.server_id: placing.ports for placing in placings}
    advanced = await lease.advance(builds, moves, ports=ports)
    if any(move.stage is not Stage.PLACE and not move.keep for move in moves):
        conductor.compute.wake(WORK_CHANNEL)  # conductors of other cells go on with these
    await _give_back(lease, [p for p in placings if p.build.work.server_id in advanced.lost])
    return advanced.going_on


async def _own_cells(lease: Lease, hosts: Sequence[str]) -> set[str]:
    """Those of the hosts with whose servers this conductor goes on itself: all, unless it is one of some cells only."""
    mine = lease.conductor.settings.cells
    if not mine:
        return set(hosts)
    cells = await get_host_cells(lease.conductor.compute, sorted(set(hosts)))
    return {host for host, cell in cells.items() if cell in mine}


async def _look(lease: Lease, builds: Sequence[Build]) -> tuple[list[_Placing], list[Move]]:
    """What the servers have already: ports, and claims of an earlier lease or attempt."""
    # Ports that this lease has just made belong to servers that nobody has claimed anything for.
    placings = [_Placing(build, build.ports, {}) for build in builds if build.ports is not None]
    moves = []
    again = [build for build in builds if build.ports is None]
    if again:
        answers = await ensure_ports(lease, again)
        uuids = [build.work.server_id for build in again]
        uuids += [port.id for answer in answers if not isinstance(answer, PortsRefused) for port in answer.ports]
        held = await lease.conductor.placement.get_consumers(uuids)
        # A generation counts only if it was read under the lease: with a later one, a conductor that was taken for dead
        # would overwrite, and then give back, the claim of the one that took over.
        ours = {build.work.server_id for build in await lease.held(again)}
        for build, answer in zip(again, answers, strict=True):
            if build.work.server_id not in ours:
                continue
            if isinstance(answer, PortsRefused):
                moves.append(moved(build.work, Stage.FAIL, failure=Failure(message=answer.reason), keep=True))
            else:
                ports = _with_claims(build.work.server_id, answer.ports, held)
                placings.append(_Placing(build, ports, held))
    return placings, moves


def _with_claims(server_id: str, ports: Sequence[Port], held: Mapping[str, ConsumerState]) -> tuple[Port, ...]:
    """The ports with the providers of their claims, where they have claims but no addresses yet.

    Those on flat networks are their server's: ports with one pool have no other, the rest take what is left.
    """
    own = held[server_id].allocations if server_id in held else {}
    left = Counter({uuid: resources.get(IPV4_ADDRESS, 0) for uuid, resources in own.items()})
    left.subtract(port.provider_uuid for port in ports if port.pools and port.provider_uuid)
    claimed: dict[str, str] = {}
    for port in sorted(ports, key=lambda port: len(port.pools)):
        if port.pools and port.provider_uuid is None:
            pool = next((pool for pool in port.pools if left[pool] > 0), None)
            if pool is not None:
                left[pool] -= 1
                claimed[port.id] = pool
        elif port.provider_uuid is None and port.id in held:
            claimed[port.id] = next(iter(held[port.id].allocations))
    return tuple(
        msgspec.structs.replace(port, provider_uuid=claimed[port.id]) if port.id in claimed else port for port in ports
    )


async def _adopt(lease: Lease, placings: Sequence[_Placing], networks: Mapping[str, NetworkView]) -> None:
    """Go on with whole claims that an earlier lease made for these servers and did not live to write down.

    They are claimed again as they are: the new generation shuts out whoever made them, should it still be alive. A port
    without a claim may be one that needs none where it was placed.
    """
    found: list[tuple[_Placing, str]] = []
    for placing in placings:
        own = placing.held.get(placing.build.work.server_id)
        whole = all(
            port.provider_uuid or not port.needs_address or () in kinds_of(networks[port.network_id])
            for port in placing.ports
        )
        if own and whole:
            found += [(placing, uuid) for uuid, resources in own.allocations.items() if VCPU in resources]
    if not found:
        return
    names = await get_host_names(lease.conductor.compute, [uuid for _, uuid in found])
    adopted = [(p, names[u]) for p, u in found if u in names and names[u] not in p.build.work.excluded_hosts]
    groups = []
    for placing, _host in adopted:
        uuids = [placing.build.work.server_id, *(p.id for p in placing.ports if not p.addresses and p.provider_uuid)]
        groups.append(ClaimGroup(tuple(_again(placing.held[uuid]) for uuid in uuids if uuid in placing.held)))
    for (placing, host), answer in zip(adopted, await lease.conductor.placement.claim(groups), strict=True):
        if isinstance(answer, Claimed):
            placing.outcome = _placed(placing, host, _kept_claims(placing), answer)
        else:
            placing.beaten = True


def _placed(
    placing: _Placing,
    host: str,
    claims: Mapping[str, tuple[str, Resources]],
    answer: Claimed,
) -> Placed:
    """claims: port id -> the provider where it claimed, and what."""
    return Placed(
        host=host,
        providers_by_port={port_id: provider for port_id, (provider, _) in claims.items()},
        classes_by_port={
            **{port.id: () for port in placing.ports if port.needs_address},
            **{port_id: tuple(resources) for port_id, (_, resources) in claims.items()},
        },
        generations=answer.generations,
    )


def _kept_pools(placing: _Placing) -> list[str]:
    """The pools of flat networks of which the server's claim is kept, one for each address."""
    kept = [port for port in placing.ports if port.pools and stays(port, free_to_leave=placing.leaving)]
    return [port.provider_uuid for port in kept if port.provider_uuid is not None]


def _kept_claims(placing: _Placing) -> dict[str, tuple[str, Resources]]:
    """Claims for ports that were found without an address, by port id: none that the server may leave."""
    unassigned = {} if placing.leaving else _unassigned(placing.ports)
    own = {port_id: (uuid, placing.held[port_id].allocations[uuid]) for port_id, uuid in unassigned.items()}
    return own | {
        port.id: (port.provider_uuid, {IPV4_ADDRESS: 1})
        for port in placing.ports
        if port.pools and port.provider_uuid and not port.addresses and stays(port, free_to_leave=placing.leaving)
    }


def _again(held: ConsumerState) -> ConsumerClaim:
    return ConsumerClaim(
        consumer_uuid=held.consumer_uuid,
        generation=held.generation,
        consumer_type=held.consumer_type,
        project_id=held.project_id,
        user_id=held.user_id,
        allocations=held.allocations,
    )


def _unassigned(ports: Sequence[Port]) -> dict[str, str]:
    """The providers of addresses that ports claimed themselves and were not assigned, by port id."""
    unassigned = [port for port in ports if not port.addresses and not port.pools]
    return {port.id: port.provider_uuid for port in unassigned if port.provider_uuid}


async def _list_quiet(lease: Lease, placings: Sequence[_Placing]) -> frozenset[str]:
    """Return the hosts that were not heard of lately, where a server that failed somewhere is to be placed."""
    if any(placing.build.work.excluded_hosts for placing in placings):
        return frozenset(await list_quiet_hosts(lease.conductor.compute))
    return frozenset()


async def _search_and_claim(
    lease: Lease, placings: Sequence[_Placing], networks: Mapping[str, NetworkView], quiet: frozenset[str]
) -> None:
    """One search for all servers, one claim for those that got a candidate; who gets neither is told why."""
    alike: dict[tuple[Request, bool], list[_Placing]] = {}
    for placing in placings:
        alike.setdefault((_request(placing, networks), _may_leave(placing)), []).append(placing)
    possible: list[tuple[list[Request], list[_Placing]]] = []
    for (bare, _), group in alike.items():
        asked = [apply_filters(one, lease.conductor.scheduling) for one in alternatives(bare)]
        going = [request for request in asked if request.impossible is None]
        if going:
            possible.append((going, group))
        else:
            await _refuse(lease, [(request, None) for request in asked], group)
    queries = [
        build_query(request, limit=min(CANDIDATES_MAX, max(CANDIDATES_MIN, CANDIDATES_PER_SERVER * len(group))))
        for requests, group in possible
        for request in requests
    ]
    chosen: list[tuple[_Placing, Candidate, str]] = []
    found = iter(await lease.conductor.placement.candidates(queries) if queries else [])
    for requests, group in possible:
        tried = [(request, next(found)) for request in requests]
        answer = join([answer for _, answer in tried])
        excluded = requests[0].excluded_hosts
        candidates = select(
            answer,
            len(group),
            lease.conductor.env.random,
            lease.conductor.scheduling,
            excluded=excluded,
            quiet=quiet if excluded else frozenset(),
            elsewhere=_may_leave(group[0]),
        )
        for placing, candidate in zip(group, candidates, strict=False):
            chosen.append((placing, candidate, answer.summaries[candidate.root_uuid].name))
        if not candidates:
            await _refuse(lease, tried, group)
    await _claim(lease, chosen, networks)


def _request(placing: _Placing, networks: Mapping[str, NetworkView]) -> Request:
    work = placing.build.work
    return build_request(
        work.spec,
        placing.ports,
        networks,
        excluded_hosts=work.excluded_hosts,
        free_to_leave=placing.leaving,
    )


async def _refuse(
    lease: Lease, tried: Sequence[tuple[Request, Candidates | None]], placings: Sequence[_Placing]
) -> None:
    """No host has room: let those go that may leave their segment, tell the others why."""
    conductor = lease.conductor
    may_leave = [placing for placing in placings if _may_leave(placing)]
    for placing in may_leave:
        placing.leaving = True
    assigned = {p.id: p.revision for placing in may_leave for p in placing.ports if p.addresses and not p.pinned}
    if assigned:
        crash_point("retry.before-unbind")
        await conductor.network.unassign_ports(assigned)
        crash_point("retry.after-unbind")
        answers = await ensure_ports(lease, [placing.build for placing in may_leave])
        for placing, ensured in zip(may_leave, answers, strict=True):
            if isinstance(ensured, PortsRefused):
                placing.outcome = Failure(message=ensured.reason)
            else:
                placing.ports = _with_claims(placing.build.work.server_id, ensured.ports, placing.held)
    final = [placing for placing in placings if placing not in may_leave]
    if final:
        usages = await conductor.placement.list_usages(addresses_asked(tried[0][0]))
        closed = ClosedHosts(*await count_closed_hosts(conductor.compute))
        for placing in final:
            earlier = placing.build.work.failure
            said = explain(tried, usages, ports=placing.ports, closed=closed, earlier=_told(earlier))
            host = earlier.host if earlier else None
            placing.outcome = Failure(message=said.message, host=host, funnel=said.funnel)


def _may_leave(placing: _Placing) -> bool:
    """Whether an address that this very build claimed holds the server to some of the hosts, and may be left."""
    if placing.leaving:
        return False
    return any(port.provider_uuid and not port.pinned for port in placing.ports)


def _told(failure: Failure | None) -> str | None:
    """The reason of an earlier failure, with its host; agents leave out where they are."""
    if failure is None or failure.host is None or failure.host in failure.message:
        return failure.message if failure else None
    return f"{failure.message}, on {failure.host}"


async def _claim(
    lease: Lease, chosen: Sequence[tuple[_Placing, Candidate, str]], networks: Mapping[str, NetworkView]
) -> None:
    if not chosen:
        return
    placement = lease.conductor.placement
    crash_point("place.before-claim")
    answers = await placement.claim(
        [ClaimGroup(tuple(_claims(placing, candidate, networks))) for placing, candidate, _ in chosen]
    )
    crash_point("place.after-claim")
    for (placing, candidate, host), answer in zip(chosen, answers, strict=True):
        if isinstance(answer, Claimed):
            claims = {**_kept_claims(placing), **_claimed_here(placing, candidate, networks)}
            placing.outcome = _placed(placing, host, claims, answer)
        elif any(shortfall.rule is Rule.CONSUMER_GENERATION for shortfall in answer.shortfalls):
            # Somebody else claimed for this server: its next holder looks at what there is.
            placing.beaten = True


def _claimed_here(
    placing: _Placing, candidate: Candidate, networks: Mapping[str, NetworkView]
) -> dict[str, tuple[str, Resources]]:
    """Which provider the candidate gives each address-less port, and what of it: by port id."""
    claims: dict[str, tuple[str, Resources]] = {}
    for port in placing.ports:
        chosen = candidate.providers_by_suffix.get(suffix_of(port.tag))
        if chosen:
            segments = networks[port.network_id].segments
            (classes,) = (segment.classes for segment in segments if segment.provider_uuid == chosen[0])
            claims[port.id] = chosen[0], dict.fromkeys(classes, 1)
    return claims


def _claims(placing: _Placing, candidate: Candidate, networks: Mapping[str, NetworkView]) -> list[ConsumerClaim]:
    """The server's claim on its host, and one for each port that gets its address from the candidate.

    A port's earlier claim, without an address as yet, is made again as it is: see _adopt; unless the server may leave
    it. On flat networks the server claims its ports' addresses itself, those that it keeps too.
    """
    work = placing.build.work
    here = _claimed_here(placing, candidate, networks)
    own: dict[str, dict[str, int]] = {uuid: dict(resources) for uuid, resources in candidate.allocations.items()}
    ports = []
    of_server = {port.id for port in placing.ports if port.pools}
    for port_id, (provider_uuid, resources) in here.items():
        if port_id in of_server:
            continue
        for name, amount in resources.items():
            own[provider_uuid][name] -= amount
        ports.append((port_id, ConsumerType.PORT, {provider_uuid: resources}))
    for pool in _kept_pools(placing):
        kept_there = own.setdefault(pool, {})
        kept_there[IPV4_ADDRESS] = kept_there.get(IPV4_ADDRESS, 0) + 1
    left = {
        uuid: {name: amount for name, amount in resources.items() if amount}
        for uuid, resources in own.items()
        if any(resources.values())
    }
    consumers: list[tuple[str, ConsumerType, Allocations]] = [(work.server_id, ConsumerType.INSTANCE, left), *ports]
    earlier = [_again(placing.held[uuid]) for uuid in _unassigned(placing.ports) if uuid not in here]
    if placing.leaving:  # for a segment where nothing is claimed: what is claimed goes back in the same step
        earlier = [msgspec.structs.replace(claim, allocations={}) for claim in earlier]
    return earlier + [
        ConsumerClaim(
            consumer_uuid=uuid,
            generation=placing.held[uuid].generation if uuid in placing.held else None,
            consumer_type=consumer_type.value,
            project_id=work.project_id,
            user_id=work.user_id,
            allocations=allocations,
        )
        for uuid, consumer_type, allocations in consumers
    ]


async def _give_back(lease: Lease, placings: Sequence[_Placing]) -> None:
    """The lease of these was lost after they were claimed: release only what this claim took.

    Only of the servers: a port can be deleted and made again meanwhile, and its generations then start anew. A port's
    claim that nobody goes on with is the network's reconciler's, which looks at the port under its lock. A claim that
    took the place of an earlier one is whoever's has the server now: of a flat network it may hold an address.
    """
    generations = {
        placing.build.work.server_id: placing.outcome.generations[placing.build.work.server_id]
        for placing in placings
        if isinstance(placing.outcome, Placed) and placing.build.work.server_id not in placing.held
    }
    if generations:
        await lease.conductor.placement.release(list(generations), generations=generations)
