"""A whole Roost in one process, without HTTP: real services on one database, and hosts that a test plays itself."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace
from tests.agent.cloud import AGENT
from tests.compute.reporting import report
from tests.conductor.agent_network import LocalAgentNetwork
from tests.invariants import assert_books_agree
from tests.network.cloud import PROJECT, Cloud
from tests.next_call import instead
from tests.placements import ARRANGEMENT, Arrangement, open_placement

from roost.agent.drivers import LaunchFailed
from roost.agent.old_agents import AgentPorts
from roost.clients.local_compute import LocalCompute
from roost.clients.local_network import LocalNetwork
from roost.compute.model.server import NicAsked, Requester, ServerRequest
from roost.compute.model.work import CHANNELS, MoveKind
from roost.compute.old_agents.rules.orders import VERSION_EARLY
from roost.compute.rules.silence import Listening
from roost.compute.service import Compute, guests
from roost.compute.service import flavors as flavor_service
from roost.compute.service import hosts as host_service
from roost.compute.service import moves as move_service
from roost.compute.service import servers as server_service
from roost.compute.service.flavors import FlavorRequest
from roost.compute.service.moves import MoveRequest
from roost.compute.service.silence import SilenceWatch
from roost.compute.service.work import lease_work
from roost.compute.settings import ComputeSettings
from roost.conductor import old_agents
from roost.conductor.context import Build, Conductor, Lease
from roost.conductor.pipeline import carry, run_once
from roost.conductor.settings import ConductorSettings
from roost.network.model.networks import Network
from roost.network.service import Networks
from roost.network.service.reconciler import reconcile_once as reconcile_ports
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.database import Database
from roost.platform.env import Env
from roost.platform.wakeup import Wakeups
from roost.seams.agent import GuestOrder, GuestReport, HostReport
from roost.seams.audit import AuditedPlacement

LEASE_S = 30.0
BY = Requester(request_id="req-1", project_id=PROJECT, user_id="user", is_admin=True)


class KilledHere(BaseException):
    """The conductor died before it wrote where its servers stand."""


@contextmanager
def stages_until(stages: int) -> Iterator[None]:
    """Batches pass so many stages, then the conductor dies."""
    left, advance = stages, Lease.advance

    async def counted(*arguments: Any, **more: Any) -> Any:
        nonlocal left
        if left == 0:
            raise KilledHere
        left -= 1
        return await advance(*arguments, **more)

    with patch.object(Lease, "advance", counted), suppress(KilledHere):
        yield


@dataclass
class World:
    """One cloud. A host does nothing until a test lets it."""

    database: Database
    compute: Compute
    networks: Networks
    conductor: Conductor
    launches: list[tuple[str, str]] = field(default_factory=list)
    guests: dict[tuple[str, str], int] = field(default_factory=dict)
    states: dict[tuple[str, str], str] = field(default_factory=dict)
    running: set[tuple[str, str]] = field(default_factory=set)
    versions: dict[str, int] = field(default_factory=dict)
    disks_on: set[str] = field(default_factory=set)
    refusals: list[str] = field(default_factory=list)
    agent_network: LocalAgentNetwork = field(init=False)

    def __post_init__(self) -> None:
        self.agent_network = LocalAgentNetwork(self.networks)

    @classmethod
    async def make(
        cls, database: Database, *, seed: int = 1, env: Env | None = None, arrangement: Arrangement = ARRANGEMENT
    ) -> "World":
        """A cloud with one flavor. env: of a seeded clock and UUIDs, where chance is to be repeatable."""
        made = await cls.open(database, env=env or Env(random=Random(seed)), arrangement=arrangement)
        await flavor_service.create_flavor(made.compute, FlavorRequest(name="small", vcpus=1, ram_mb=512, disk_gb=1))
        return made

    @classmethod
    async def open(cls, database: Database, *, env: Env, arrangement: Arrangement = ARRANGEMENT) -> "World":
        """Wire the services on what is in the database, and write the standard names there."""
        ledger = Ledger(database, env)
        await sync_standard_names(ledger)
        return cls.wire(ledger, await open_placement(ledger, arrangement))

    @classmethod
    def wire(cls, ledger: Ledger, placement: AuditedPlacement) -> "World":
        """Wire the services as a process does, on what there is."""
        database, env = ledger.database, ledger.env
        compute = Compute(database, env, placement, settings=ComputeSettings())
        networks = Networks(database, env, placement, LocalCompute(compute))
        compute.network = LocalNetwork(networks)
        conductor = Conductor(
            compute,
            placement,
            compute.network,
            compute.network,
            env,
            Wakeups(database, CHANNELS),
            ConductorSettings(lease_s=LEASE_S, recheck_s=60),
        )
        return cls(database, compute, networks, conductor)

    async def hosts(self, *names: str, reach: Sequence[str] = (), vcpus: int = 64, cell: str = "cell1") -> None:
        """Hosts of a cell that reach these physical networks, whose agents are there."""
        await self.declare(*names, reach=reach, vcpus=vcpus, cell=cell)
        await self.hear(*names)

    async def declare(self, *names: str, reach: Sequence[str] = (), vcpus: int = 64, cell: str = "cell1") -> None:
        """Hosts of a cell that reach these physical networks, as a cloud file declares them."""
        reports = [
            HostReport(name=name, vcpus=vcpus, ram_mb=262144, disk_gb=2000, physical_networks=tuple(reach), cell=cell)
            for name in names
        ]
        await host_service.register_hosts(self.compute, reports, agent=None)

    async def hear(self, *names: str) -> None:
        """The agents of these hosts poll."""
        for has_disks in (False, True):
            if theirs := [name for name in names if (name in self.disks_on) is has_disks]:
                agent = replace(AGENT, keeps_disks=has_disks)
                await guests.Polls(self.compute).poll(theirs, agent=agent, busy=[], wait_s=0)

    async def fall_silent(self, *names: str, for_s: float) -> None:
        """These hosts were last heard of so long ago; nobody has looked at that yet."""
        async with self.database.connection() as connection:
            await connection.execute(
                "UPDATE compute.host SET seen_at = now() - $2 * interval '1 s' WHERE name = ANY($1)", names, for_s
            )
            await connection.execute("UPDATE compute.agent SET seen_at = NULL, hosts_digest = NULL")

    async def look_for_silent(self) -> list[str]:
        """One look of a listener that has listened for long; the hosts that have fallen silent."""
        async with self.database.connection() as connection:
            now = await connection.fetchval("SELECT now()")
        return await SilenceWatch(self.compute, Listening(since=now - timedelta(hours=1), last=now)).look()

    def let_in_old_agents(self) -> None:
        """Have agents below service version 3 their say, and agents make, bind and delete ports."""
        if self.conductor.old_agents is None:
            self.compute.settings = replace(self.compute.settings, service_version_min=1)
            old_agents.let_in(self.conductor)

    async def set_version(self, host: str, version: int) -> None:
        """The agent of this host speaks the contract of that service version from now on."""
        if version < VERSION_EARLY:
            self.let_in_old_agents()
        self.versions[host] = version
        agent = replace(AGENT, service_version=version)
        await guests.Polls(self.compute).poll([host], agent=agent, busy=[], wait_s=0)

    async def routed(self, **cidr_by_physical_network: str) -> Network:
        """A routed network with one segment for each physical network."""
        cloud = self.cloud
        network = await cloud.network()
        for physical_network, cidr in cidr_by_physical_network.items():
            segment = await cloud.segment(network, physical_network)
            await cloud.subnet(network, cidr, segment)
        return network

    @property
    def cloud(self) -> Cloud:
        """For networks and ports."""
        return Cloud(self.networks, self.compute.network, self.compute)

    async def boot(
        self, *network_ids: str, count: int = 1, port_id: str | None = None, fixed_ip: str | None = None
    ) -> list[str]:
        """Accept servers; their ids. fixed_ip: on each of the networks."""
        nics = tuple(NicAsked(network_id=network_id, fixed_ip=fixed_ip) for network_id in network_ids)
        if port_id is not None:
            nics += (NicAsked(port_id=port_id),)
        request = ServerRequest(name="web", flavor_ref="small", nics=nics, count=count)
        made = await server_service.create_servers(self.compute, request, project_id=PROJECT, user_id="user")
        return list(made.server_ids)

    async def conduct(self) -> None:
        """Let the conductor do all that is due."""
        while await run_once(self.conductor):
            pass

    async def die_after(self, stages: int, *, limit: int = 10) -> None:
        """A conductor takes servers through so many stages, does the outside effects of the next, and is killed."""
        owner = self.compute.env.new_uuid()
        rows = await lease_work(self.compute, owner=owner, limit=limit, lease_s=LEASE_S)
        with stages_until(stages):
            await carry(Lease(self.conductor, owner), [Build(work) for work in rows])

    @asynccontextmanager
    async def asleep(self, owner: Any, name: str, *, before: bool = False) -> AsyncIterator[None]:
        """A conductor sleeps through its lease after its next call of a method, or before it, while the block runs."""
        asleep, wake = asyncio.Event(), asyncio.Event()

        async def sleep(real: Any, *arguments: Any, **more: Any) -> Any:
            answer = None if before else await real(*arguments, **more)
            asleep.set()
            await wake.wait()
            return await real(*arguments, **more) if before else answer

        instead(owner, name, sleep)
        sleeper = asyncio.create_task(run_once(self.conductor))
        await asleep.wait()
        await self.expire_leases()
        try:
            yield
        finally:
            wake.set()
            await sleeper

    async def orders(self, *, silent: Sequence[str] = ()) -> list[GuestOrder]:
        """What hosts are asked for, but for silent ones."""
        names = await guests.list_host_names(self.compute, declared_only=False)
        heard = [name for name in names if name not in silent]
        orders: list[GuestOrder] = []
        kinds = {name: (self.versions.get(name), name in self.disks_on) for name in heard}
        for version, has_disks in sorted(set(kinds.values()), key=str):
            agent = AGENT if version is None else replace(AGENT, service_version=version)
            theirs = [name for name in heard if kinds[name] == (version, has_disks)]
            polls = guests.Polls(self.compute)
            orders += (await polls.poll(theirs, agent=replace(agent, keeps_disks=has_disks), busy=[], wait_s=0)).orders
        return orders

    async def serve_hosts(
        self, *, failing: Sequence[str] = (), silent: Sequence[str] = (), refused: Sequence[str] = ()
    ) -> int:
        """Let hosts do what they are asked: failing ones fail each launch, silent ones nothing. How many orders.

        refused: states into which no host brings a guest that is there.
        """
        orders = await self.orders(silent=silent)
        reports = []
        for order in orders:
            state = order.desired
            present = self.guests.get((order.server_id, order.host))
            if state != "absent" and present != order.attempt:
                self.launches.append((order.server_id, order.host))
                await self.report(order.server_id, order.host, order.attempt, "begun")
                state = state if await self._take_ports(order) and order.host not in failing else "failed"
            elif state == "absent":
                await self._old_agents(order.host).give_back(order)
            elif state in refused:
                state = "failed" if self.states[order.server_id, order.host] == "incoming" else "unchanged"
            self._note(order.server_id, order.host, order.attempt, state)
            reports.append(self._report(order.server_id, order.host, order.attempt, state, desired=order.desired))
        await report(self.compute, reports, agent=AGENT)
        return len(orders)

    async def _take_ports(self, order: GuestOrder) -> bool:
        """The host's agent makes and binds what is missing; whether it could."""
        try:
            await self._old_agents(order.host).take(order)
        except LaunchFailed as error:
            self.refusals.append(str(error))
            return False
        return True

    def _old_agents(self, host: str) -> AgentPorts:
        """The part of the host's agent that is about ports, of its version."""
        return AgentPorts(self.agent_network, service_version=self.versions.get(host, AGENT.service_version))

    def _note(self, server_id: str, host: str, attempt: int, state: str) -> None:
        """A host does what it was asked for: no two guests of one server ever have their NICs up."""
        if state == "unchanged":
            return
        if state in ("absent", "failed"):
            self.guests.pop((server_id, host), None)
        else:
            self.guests[server_id, host] = attempt
            self.states[server_id, host] = state
        self.running.discard((server_id, host))
        if state in ("running", "paused"):
            assert not [key for key in self.running if key[0] == server_id], f"two guests of {server_id}"
            self.running.add((server_id, host))

    async def report(self, server_id: str, host: str, attempt: int, state: str) -> bool:
        """What one host says; whether it was accepted."""
        (answer,) = await report(self.compute, [self._report(server_id, host, attempt, state)], agent=AGENT)
        return answer.accepted

    def _report(
        self, server_id: str, host: str, attempt: int, state: str, *, desired: str | None = None
    ) -> GuestReport:
        return GuestReport(
            server_id=server_id, host=host, attempt=attempt, state=state, message="told to fail", desired=desired
        )

    async def run(
        self, *, failing: Sequence[str] = (), silent: Sequence[str] = (), refused: Sequence[str] = ()
    ) -> None:
        """Conductor and hosts, turn by turn, until nothing is due any more."""
        await self.conduct()
        while await self.serve_hosts(failing=failing, silent=silent, refused=refused):
            await self.conduct()

    async def move(
        self, server_id: str, kind: MoveKind, *, to: str | None = None, flavor: str | None = None, **more: Any
    ) -> None:
        """Ask for a move. more: of MoveRequest."""
        request = MoveRequest(kind=kind, host=to, flavor_ref=flavor, **more)
        await move_service.begin_move(self.compute, server_id, request, BY)

    async def end_move(self, server_id: str, *, revert: bool) -> None:
        """Confirm or revert a move."""
        await move_service.end_move(self.compute, server_id, BY, revert=revert)

    async def delete(self, *server_ids: str) -> None:
        """Ask for deletes."""
        for server_id in server_ids:
            await server_service.delete_server(self.compute, server_id)

    async def statuses(self) -> dict[str, str]:
        """Server id -> status."""
        async with self.database.connection() as connection:
            return {row[0]: row[1] for row in await connection.fetch("SELECT id, status FROM compute.server")}

    async def fault(self, server_id: str) -> str:
        """The sentence with which a server ended in ERROR."""
        async with self.database.connection() as connection:
            return str(
                await connection.fetchval("SELECT fault ->> 'message' FROM compute.server WHERE id = $1", server_id)
            )

    async def expire_leases(self) -> None:
        """As if every conductor had died long ago; and whatever waits is due."""
        async with self.database.connection() as connection:
            await connection.execute("UPDATE compute.work SET lease_until = now() - interval '1 s', run_at = now()")

    async def settled(self) -> None:
        """Nothing is at work, and everything agrees."""
        await reconcile_ports(self.networks)
        await assert_books_agree(self.database)
