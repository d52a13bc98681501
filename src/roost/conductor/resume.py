"""What an earlier lease left behind for a server that is to be placed: its ports, its claims, its addresses.

`place` chooses a host for what is missing. What is read here counts only while the lease is held: see `ports_held`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from roost.compute.model import Failure, Move, Placed
from roost.compute.service.work import get_host_names
from roost.conductor.allocate import read_flat_nics, with_claims
from roost.conductor.context import Build, Lease
from roost.conductor.ports import ensure_ports, ports_held
from roost.scheduling.request import kinds_of, stays
from roost.seams.network import EnsuredPorts, FlatNic, FlatNics, NetworkView, Port
from roost.seams.placement import VCPU, Claimed, ClaimGroup, ConsumerState, Resources


@dataclass
class HostSearch:
    """One server that looks for a host.

    ports: with the provider of an address that is claimed or assigned already. held: consumers as read under the lease.
    leaving: it may leave the segment of an address that this build assigned. overtaken: a consumer changed under it.
    flat: its NICs on flat networks, with their pools as ports have their providers, and the server's ticket there.
    """

    build: Build
    ports: tuple[Port, ...]
    held: Mapping[str, ConsumerState]
    leaving: bool = False
    overtaken: bool = False
    outcome: Placed | Failure | None = None
    flat: tuple[FlatNic, ...] = ()
    ticket: int = 0

    @classmethod
    def of(
        cls, build: Build, ports: Sequence[Port], held: Mapping[str, ConsumerState], flat: FlatNics | None
    ) -> "HostSearch":
        """Return the search with what the server has claimed already. flat: None for a server on no flat network."""
        known = tuple(with_claim(port, held.get(port.id)) for port in ports)
        if flat is None:
            return cls(build, known, held)
        nics = with_claims(flat.nics, held.get(build.work.server_id))
        return cls(build, known, held, flat=nics, ticket=flat.ticket)

    @property
    def server_id(self) -> str:
        """Whose search it is."""
        return self.build.work.server_id

    @property
    def network_ids(self) -> set[str]:
        """The networks of its NICs."""
        return {port.network_id for port in self.ports} | {nic.network_id for nic in self.flat}

    @property
    def is_whole(self) -> bool:
        """Whether every NIC was found."""
        return len(self.ports) + len(self.flat) == len(self.build.work.spec.nics)

    @property
    def providers_unassigned(self) -> dict[str, str]:
        """The providers of addresses that are claimed but not assigned, by port id."""
        return {port.id: port.provider_uuid for port in self.ports if port.provider_uuid and not port.addresses}

    @property
    def claims_kept(self) -> dict[str, tuple[str, Resources]]:
        """Where claims of ports without an address are, and what of: by port id; none if the server may leave them."""
        unassigned = {} if self.leaving else self.providers_unassigned
        return {port_id: (uuid, self.held[port_id].allocations[uuid]) for port_id, uuid in unassigned.items()}

    @property
    def pools_kept(self) -> dict[str, str]:
        """The pools of flat networks from which the server's claim is kept, by the tag of the NIC."""
        kept = [nic for nic in self.flat if stays(nic, free_to_leave=self.leaving)]
        return {nic.tag: nic.provider_uuid for nic in kept if nic.provider_uuid is not None}

    def placed_on(
        self,
        host: str,
        answer: Claimed,
        *,
        claims: Mapping[str, tuple[str, Resources]] = {},
        pools: Mapping[str, str] = {},
    ) -> None:
        """End the search: the server is claimed there. claims, pools: new ones, beside those that are kept."""
        claims = self.claims_kept | dict(claims)
        self.outcome = Placed(
            host=host,
            providers_by_port={port_id: provider for port_id, (provider, _) in claims.items()},
            classes_by_port={
                **{port.id: () for port in self.ports if port.needs_address},
                **{port_id: tuple(resources) for port_id, (_, resources) in claims.items()},
            },
            generations=answer.generations,
            pools_by_tag=self.pools_kept | dict(pools),
            ticket=self.ticket,
        )


def with_claim(port: Port, consumer: ConsumerState | None) -> Port:
    """Return the port with the provider of its claim, where it has a claim but no address yet."""
    if port.provider_uuid is not None or consumer is None:
        return port
    return msgspec.structs.replace(port, provider_uuid=next(iter(consumer.allocations)))


async def begin_searches(lease: Lease, builds: Sequence[Build]) -> tuple[list[HostSearch], list[Move]]:
    """Return a search for each server, with what it has already, and the moves that end those without their ports."""
    # Ports that this lease has just made belong to servers that nobody has claimed anything for.
    fresh = [build for build in builds if build.ports is not None]
    flat = await read_flat_nics(lease, [(build, build.ports or ()) for build in fresh])
    searches = [HostSearch.of(build, build.ports or (), {}, flat.get(build.work.server_id)) for build in fresh]
    again = [build for build in builds if build.ports is None]
    if not again:
        return searches, []
    answers = await ensure_ports(lease, again)
    ensured = [(b, a.ports) for b, a in zip(again, answers, strict=True) if isinstance(a, EnsuredPorts)]
    flat = await read_flat_nics(lease, ensured)
    uuids = [build.work.server_id for build in again] + [port.id for _, ports in ensured for port in ports]
    held = await lease.conductor.placement.get_consumers(uuids)
    ports_by_server, moves = await ports_held(lease, again, answers)
    for build in again:
        ports = ports_by_server.get(build.work.server_id)
        if ports is not None:
            searches.append(HostSearch.of(build, ports, held, flat.get(build.work.server_id)))
    return searches, moves


async def adopt_claims(lease: Lease, searches: Sequence[HostSearch], networks: Mapping[str, NetworkView]) -> None:
    """Go on with whole claims that an earlier lease made for these servers and did not live to write down.

    A port without a claim may be one that needs none where it was placed.
    """
    # R16: claimed again as they are, so that the new generation shuts out whoever made them, should it still be alive.
    claimed: list[tuple[HostSearch, str]] = []
    for search in searches:
        own = search.held.get(search.server_id)
        whole = all(
            port.provider_uuid or not port.needs_address or () in kinds_of(networks[port.network_id])
            for port in search.ports
        )
        if own and whole and all(nic.provider_uuid for nic in search.flat):
            claimed += [(search, uuid) for uuid, resources in own.allocations.items() if VCPU in resources]
    if not claimed:
        return
    names = await get_host_names(lease.conductor.compute, [uuid for _, uuid in claimed])
    adopted = [(s, names[u]) for s, u in claimed if u in names and names[u] not in s.build.work.excluded_hosts]
    groups = []
    for search, _host in adopted:
        states = [search.held.get(uuid) for uuid in (search.server_id, *search.providers_unassigned)]
        groups.append(ClaimGroup(tuple(state.claiming(state.allocations) for state in states if state)))
    for (search, host), answer in zip(adopted, await lease.conductor.placement.claim(groups), strict=True):
        if isinstance(answer, Claimed):
            search.placed_on(host, answer)
        else:
            search.overtaken = True


async def release_claims(lease: Lease, searches: Sequence[HostSearch]) -> None:
    """Release what these searches claimed for servers whose lease was lost before it could be written down.

    Only of the servers: a port can be deleted and made again meanwhile, and its generations then start anew. A port's
    claim that nobody goes on with is the network's reconciler's, which looks at the port under its lock. A claim that
    took the place of an earlier one is whoever's has the server now: of a flat network it may hold an address.
    """
    generations = {
        search.server_id: search.outcome.generations[search.server_id]
        for search in searches
        if isinstance(search.outcome, Placed) and search.server_id not in search.held
    }
    if generations:  # R17
        await lease.conductor.placement.release(list(generations), generations=generations)
