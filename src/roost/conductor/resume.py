"""What an earlier lease left behind for a server that is to be placed: its ports, its claims, its addresses.

`place` chooses a host for what is missing. What is read here counts only while the lease is held: see `ports_held`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from roost.compute.model.work import Failure, Placed, StageChange
from roost.compute.service.work import get_host_names
from roost.conductor.context import Build, Lease
from roost.conductor.ports import ensure_ports, ports_held
from roost.conductor.readdress import free_ports, may_readdress
from roost.scheduling.host_aggregates import NOTHING_ASKED, AggregatesAsked
from roost.scheduling.request import Request, kinds_of, stays
from roost.seams.network import EnsuredPorts, NetworkView, Port
from roost.seams.placement import IPV4_ADDRESS, VCPU, Candidate, Claimed, ClaimGroup, ConsumerState, Resources


@dataclass
class HostSearch:
    """One server that looks for a host.

    ports: with the provider of an address that is claimed or assigned already. consumers: as read under the lease.
    leaving: it may leave the segment of an address that this build assigned. freed_ids: ports that may get other
    addresses. overtaken: a consumer changed under it. full_host: the host that was chosen for it without a look at
    addresses, and has none. aggregates: what operators' host aggregates ask of its host.
    """

    build: Build
    ports: tuple[Port, ...]
    consumers: Mapping[str, ConsumerState]
    leaving: bool = False
    freed_ids: frozenset[str] = frozenset()
    overtaken: bool = False
    full_host: str | None = None
    aggregates: AggregatesAsked = NOTHING_ASKED
    outcome: Placed | Failure | None = None

    @property
    def server_id(self) -> str:
        """Return whose search it is."""
        return self.build.work.server_id

    @property
    def network_ids(self) -> set[str]:
        """Return the networks of its ports."""
        return {port.network_id for port in self.ports}

    @property
    def ports_asked(self) -> tuple[Port, ...]:
        """Return its ports as a host is sought for them."""
        return free_ports(self.ports, self.freed_ids)

    @property
    def claims_coming(self) -> dict[str, tuple[str, Resources]]:
        """Return port id -> (provider, resources) of a claim beside that of the addresses that the port has."""
        if not may_readdress(self.build.work):
            return {}
        return {
            port.id: (uuid, resources)
            for port in self.ports
            if port.addresses and not port.pools and port.id in self.consumers
            for uuid, resources in self.consumers[port.id].allocations.items()
            if uuid != port.provider_uuid
        }

    @property
    def providers_unassigned(self) -> dict[str, str]:
        """Return the providers of addresses that ports have claimed themselves and were not assigned, by port id."""
        unassigned = [port for port in self.ports if port.is_held and not port.addresses and not port.pools]
        return {port.id: port.provider_uuid for port in unassigned if port.provider_uuid}

    @property
    def claims_kept(self) -> dict[str, tuple[str, Resources]]:
        """Return port id -> (provider, resources) of a claim without an address that the server may not leave."""
        unassigned = {} if self.leaving else self.providers_unassigned
        claims = {port_id: (uuid, self.consumers[port_id].allocations[uuid]) for port_id, uuid in unassigned.items()}
        return claims | {port_id: (pool, {IPV4_ADDRESS: 1}) for port_id, pool in self.pools_kept.items()}

    @property
    def pools_kept(self) -> dict[str, str]:
        """Return port id -> the pool of a flat network of which the server's claim is kept, address assigned or not."""
        kept = [port for port in self.ports if port.pools and stays(port, free_to_leave=self.leaving)]
        return {port.id: port.provider_uuid for port in kept if port.provider_uuid is not None}

    def placed_on(self, host: str, answer: Claimed, *, claims: Mapping[str, tuple[str, Resources]] = {}) -> None:
        """End the search: the server is claimed there. claims: new ones, beside those that are kept."""
        with_addresses = [port for port in self.ports if port.addresses and may_readdress(self.build.work)]
        staying = {port.id for port in with_addresses if claims.get(port.id, ("",))[0] == port.provider_uuid}
        leaving = (claims.keys() | self.freed_ids) - staying
        addresses_left = {port.id: port.addresses for port in with_addresses if port.id in leaving}
        claims = self.claims_kept | {port_id: claim for port_id, claim in claims.items() if port_id not in staying}
        self.outcome = Placed(
            host=host,
            providers_by_port={port_id: provider for port_id, (provider, _) in claims.items()},
            classes_by_port={
                **{port.id: () for port in self.ports if port.needs_address or port.id in addresses_left},
                **{port_id: tuple(resources) for port_id, (_, resources) in claims.items()},
            },
            generations=answer.generations,
            addresses_left=addresses_left,
        )


class HostChosen(NamedTuple):
    """The host that a search chose, and what the server would take there. request: before it was narrowed."""

    search: HostSearch
    request: Request
    candidate: Candidate
    host: str


def with_claims(server_id: str, ports: Sequence[Port], consumers: Mapping[str, ConsumerState]) -> tuple[Port, ...]:
    """Return the ports with the providers of their claims, where they have claims but no addresses yet.

    On flat networks the claims are the server's: ports with one pool have no other, the rest take what is left.
    """
    own = consumers[server_id].allocations if server_id in consumers else {}
    free_by_pool = Counter({uuid: resources.get(IPV4_ADDRESS, 0) for uuid, resources in own.items()})
    free_by_pool.subtract(port.provider_uuid for port in ports if port.pools and port.provider_uuid)
    providers = {port.id: next(iter(consumers[port.id].allocations)) for port in ports if port.id in consumers}
    for port in sorted(ports, key=lambda port: len(port.pools)):
        pool = next((pool for pool in port.pools if free_by_pool[pool] > 0), None)
        if pool is not None and port.provider_uuid is None:
            free_by_pool[pool] -= 1
            providers[port.id] = pool
    return tuple(
        msgspec.structs.replace(port, provider_uuid=port.provider_uuid or providers.get(port.id)) for port in ports
    )


async def begin_searches(lease: Lease, builds: Sequence[Build]) -> tuple[list[HostSearch], list[StageChange]]:
    """Return a search for each server, with what it has already, and the changes that end those without their ports."""
    # Servers whose ports this lease has just made have no claims yet; those that move have.
    searches = [HostSearch(b, b.ports, {}) for b in builds if b.ports is not None and b.work.move is None]
    again = [build for build in builds if build.ports is None or build.work.move is not None]
    if not again:
        return searches, []
    unread = [build for build in again if build.ports is None]
    answers_read = iter(await ensure_ports(lease, unread) if unread else [])
    answers = [
        next(answers_read) if build.ports is None else EnsuredPorts(build.work.server_id, build.ports)
        for build in again
    ]
    uuids = [build.work.server_id for build in again]
    uuids += [build.work.move.uuid for build in again if build.work.move]
    uuids += [port.id for answer in answers if isinstance(answer, EnsuredPorts) for port in answer.ports]
    consumers = await lease.conductor.placement.get_consumers(uuids)
    ports_by_server, changes = await ports_held(lease, again, answers)
    for build in again:
        ports = ports_by_server.get(build.work.server_id)
        if ports is not None:
            searches.append(HostSearch(build, with_claims(build.work.server_id, ports, consumers), consumers))
    return searches, changes


async def adopt_claims(lease: Lease, searches: Sequence[HostSearch], networks: Mapping[str, NetworkView]) -> None:
    """Go on with whole claims that a conductor made for these servers and died before it wrote them down.

    A port without a claim may be one that needs none where it was placed.
    """
    # R16, R24: claimed again as they are, so that the new generation shuts out a maker that is still alive.
    claimed: list[tuple[HostSearch, str]] = []
    for search in searches:
        own = search.consumers.get(search.server_id)
        whole = all(
            port.provider_uuid
            or not port.needs_address
            or (not port.is_held and not port.pools)
            or () in kinds_of(networks[port.network_id])
            for port in search.ports
        )
        # What a moving server claims is what it has, until its move holds that.
        if own and whole and (search.build.work.move is None or search.build.work.move.uuid in search.consumers):
            claimed += [(search, uuid) for uuid, resources in own.allocations.items() if VCPU in resources]
    if not claimed:
        return
    names = await get_host_names(lease.conductor.compute, [uuid for _, uuid in claimed])
    adopted = [(s, names[u]) for s, u in claimed if u in names and names[u] not in s.build.work.excluded_hosts]
    groups = []
    for search, _host in adopted:
        uuids = (search.server_id, *search.providers_unassigned, *search.claims_coming)
        states = [search.consumers.get(uuid) for uuid in uuids]
        groups.append(ClaimGroup(tuple(state.claiming(state.allocations) for state in states if state)))
    for (search, host), answer in zip(adopted, await lease.conductor.placement.claim(groups), strict=True):
        if isinstance(answer, Claimed):
            search.placed_on(host, answer, claims=search.claims_coming)
        else:
            search.overtaken = True


async def release_claims(lease: Lease, searches: Sequence[HostSearch]) -> None:
    """Release what these searches claimed for servers whose lease was lost before it could be written down.

    Claims of ports are left to the network's reconciler, which reads the port under its lock: a port can be deleted and
    made again meanwhile, and its generations then start anew. A claim that replaced an earlier one is left to the
    conductor that has the server now: of a flat network it may hold an address.
    """
    generations = {
        search.server_id: search.outcome.generations[search.server_id]
        for search in searches
        if isinstance(search.outcome, Placed) and search.server_id not in search.consumers
    }
    if generations:  # R17
        await lease.conductor.placement.release(list(generations), generations=generations)
