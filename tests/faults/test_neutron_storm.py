"""Novas boot, delete and shelve beside a Neutron while Roost, its poller, Neutron or PostgreSQL are away in turn.

No boot is sent where no address is, every answer is one that clients know, and one round later all agrees.
ROOST_STORM_SEED gives it other choices.
"""

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

import msgspec
from tests.cluster import Cluster, cluster, until
from tests.fake_neutron import FakeNeutron, NoAddress
from tests.placement.neutron import Notifier
from tests.placement.nova import Nova, Segment, a_segment, clause
from tests.placement_client import CUT, NO_HEADERS, PlacementClient, a_uuid
from tests.processes import children_of, names_of

from roost.platform.database import Database
from roost.platform.postgres import PrivatePostgres
from roost.seams.placement import IPV4_ADDRESS

SEED = int(os.environ.get("ROOST_STORM_SEED", "1"))
CALLERS = 4
SERVERS_MAX = 80
AWAY_S = 2.0
CUTS = 10
BETWEEN = 15
"""Boots that succeed between one fault and the next."""
AGREED_S = 45.0
"""A poll, the time in which another process takes the poll over, and a busy machine."""
FORESEEN = {200, 201, 204, 404, 409, 503, CUT}
SETTINGS = {
    "ROOST_NEUTRON_POLL_S": "0.3", "ROOST_NEUTRON_FULL_S": "0.6", "ROOST_PLACEMENT_IMPLIED_ADDRESSES": "true",
    "ROOST_API_REQUEST_TIMEOUT_S": "5",
}  # fmt: skip


class Interrupted(Exception):
    """A request was answered 503 or not at all: nobody knows whether it was done."""


class HttpApi:
    """What Nova calls, over HTTP; statuses: how often each was answered."""

    def __init__(self, client: PlacementClient) -> None:
        self.client = client
        self.statuses: Counter[int] = Counter()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        version: str | None = "1.39",
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> tuple[int, Any]:
        """Return (status, body). Raises Interrupted."""
        answer = await self.client.call(method, path, body, version=version, headers=headers)
        self.statuses[answer.status] += 1
        assert answer.status in FORESEEN, (method, path, body, answer)
        if answer.status in (CUT, 503):
            raise Interrupted(answer.detail)
        return answer.status, answer.body


async def test_a_storm_beside_a_neutron_over_admits_nothing_and_agrees_one_round_later() -> None:
    neutron, segments = FakeNeutron(), [a_segment(4, 10), a_segment(9, 10), a_segment(400, 3)]
    with cluster() as made:
        async with neutron.serve():
            await asyncio.to_thread(_serve, made, neutron)
            async with PlacementClient.connect(made.url, reuse=False) as client:
                client._session._retry_connection = False  # a DELETE that was cut would be sent again, and find nothing
                storm = Storm(made, neutron, segments, HttpApi(client), Random(SEED))
                try:
                    await storm.publish()
                    await storm.blow()
                    await storm.delete_interrupted()
                    await storm.delete_left_segments()
                    await until(storm.agrees, timeout_s=AGREED_S, what="Placement and Neutron do not agree")
                except BaseException as error:
                    error.add_note(f"ROOST_STORM_SEED={SEED}: {storm.told} {storm.disagreed}\n{made.logs()}")
                    raise
                statuses = storm.nova.api.statuses
                assert storm.times_full > 0, "no segment was ever full"
                assert {204, CUT} <= statuses.keys(), statuses  # a database that is away is waited for
                assert "Traceback" not in made.logs()


def _serve(made: Cluster, neutron: FakeNeutron) -> None:
    environment = {**SETTINGS, "ROOST_NEUTRON_URL": neutron.url}
    made.serve("placement", "--with-neutron", environment=environment, workers=2)


async def _send(*tellings: Awaitable[bool]) -> None:
    for told in await asyncio.gather(*tellings, return_exceptions=True):
        assert isinstance(told, bool | Interrupted), told


class Storm:
    """Callers of one Nova, and a hand that takes away what they need.

    interrupted: servers whose last request nobody knows the outcome of. told: what was done to the processes.
    gone: segments that Neutron made and deleted meanwhile, as Neutrons do that have deleted a network: twice at once.
    """

    def __init__(
        self, made: Cluster, neutron: FakeNeutron, segments: list[Segment], api: HttpApi, random: Random
    ) -> None:
        self.made, self.neutron, self.segments, self.random = made, neutron, segments, random
        self.nova: Any = Nova(api)
        self.servers: list[str] = []
        self.shelved: list[str] = []
        self.interrupted: list[str] = []
        self.told: list[str] = []
        self.gone: list[Segment] = []
        self.disagreed = ""
        self.booted = 0
        self.times_full = 0
        self.over = asyncio.Event()

    async def publish(self) -> None:
        """Make the providers, and wait for the first round: it tells which segments are of one network."""
        client, notifier = self.nova.api.client, Notifier(self.nova)
        for state in (state for segment in self.segments for state in segment.host_states()):
            path = f"/resource_providers/{state.uuid}"
            await client.do("POST", "/resource_providers", {"uuid": state.uuid, "name": state.name})
            body = {"resource_provider_generation": 0, "inventories": msgspec.to_builtins(state.inventories)}
            await client.do("PUT", f"{path}/inventories", body)
            body = {"resource_provider_generation": 1, "traits": [*(state.traits or ())]}
            await client.do("PUT", f"{path}/traits", body)
        self.neutron.add_network({segment.uuid: segment.addresses for segment in self.segments})
        assert await notifier.send(*map(notifier.subnet, self.segments))
        known = "SELECT count(*) FROM placement.provider WHERE network_id IS NOT NULL"
        database = await Database.open(self.made.dsn, size=1)

        async def is_known() -> bool:
            async with database.connection() as connection:
                return bool(await connection.fetchval(known) == len(self.segments))

        await until(is_known)
        await database.close()

    async def blow(self) -> None:
        """Until every fault has been, each in the midst of boots."""
        async with asyncio.TaskGroup() as group:
            for number in range(CALLERS):
                group.create_task(self._call_until_over(Random(SEED * 1000 + number)))
            group.create_task(self._come_and_go_until_over())
            faults: list[Callable[[], Awaitable[None]]] = [
                self._kill_poller, self._kill_worker, self._kill_supervisor, self._stop_neutron, self._cut_connections,
                self._stop_postgresql,
            ]  # fmt: skip
            for fault in self.random.sample(faults, len(faults)):
                await self._some_more()
                self.told.append(fault.__name__)
                await fault()
                await self._next_round()
            await self._some_more()
            self.over.set()

    async def _next_round(self) -> None:
        """Wait until a round has seen a port that is there only now."""
        port = self.neutron.add_port(self.segments[-1].uuid, a_uuid())

        async def is_claimed() -> bool:
            with contextlib.suppress(Interrupted):
                return bool((await self.nova.claim_of(port))["allocations"])
            return False

        await until(is_claimed, timeout_s=AGREED_S, what=f"no round after {self.told}")

    async def _some_more(self) -> None:
        boots_wanted = self.booted + BETWEEN

        async def are_booted() -> bool:
            return self.booted >= boots_wanted

        await until(are_booted, what=f"nothing boots after {self.told}")

    # What the callers do.

    async def _call_until_over(self, random: Random) -> None:
        while not self.over.is_set():
            action = random.choice((self._boot, self._boot, self._boot, self._delete, self._shelve, self._unshelve))
            if len(self.servers) + len(self.shelved) >= SERVERS_MAX:
                action = self._delete
            try:
                await action(random)
            except Interrupted:
                await asyncio.sleep(0.05)  # a client that was told to try again
            await asyncio.sleep(random.random() * 0.03)  # a client thinks

    async def _come_and_go_until_over(self) -> None:
        """Networks come and go; what is not answered, Neutron does not send again."""
        notifiers = Notifier(self.nova), Notifier(self.nova)
        while not self.over.is_set():
            segment = a_segment(3, 0)
            self.neutron.add_network({segment.uuid: 3})
            await _send(*(notifier.send(notifier.subnet(segment)) for notifier in notifiers))
            await asyncio.sleep(self.random.random())
            self.neutron.delete_network(segment.uuid)
            self.gone.append(segment)
            await _send(*(notifier.send(notifier.delete(segment)) for notifier in notifiers))

    async def _boot(self, random: Random) -> None:
        server, nics = a_uuid(), random.choice((1, 1, 2))
        await self._place(server, *[clause(*self.segments)] * nics)
        if server not in self.nova.hosts:
            return
        segment = self._segment_of(server)
        for _ in range(nics):
            try:
                self.neutron.add_port(segment.uuid, server)
            except NoAddress:
                raise AssertionError(f"{server} was sent to a full segment of {segment.addresses}") from None
        self.times_full += not self.neutron.free(segment.uuid)
        self.servers.append(server)
        self.booted += 1

    async def _delete(self, random: Random) -> None:
        if server := self._take(random, self.servers):
            self.neutron.delete_ports_of(server)
            await self._release(server)

    async def _shelve(self, random: Random) -> None:
        """Its ports keep their addresses. Until a round has seen that, they are offered: only where there is room."""
        roomy = self.segments[-1]
        if server := self._take(random, [one for one in self.servers if self._segment_of(one) is roomy]):
            await self._release(server)
            self.shelved.append(server)

    async def _unshelve(self, random: Random) -> None:
        if server := self._take(random, self.shelved):
            await self._place(server, *[clause(self.segments[-1])] * len(self.neutron.ports_of(server)))
            assert server in self.nova.hosts, "it has its addresses"
            self.servers.append(server)

    def _take(self, random: Random, servers: list[str]) -> str | None:
        """Choose a server that no other caller is at from now on."""
        if not servers:
            return None
        server = random.choice(servers)
        for state in (self.servers, self.shelved):
            if server in state:
                state.remove(server)
        return server

    def _segment_of(self, server: str) -> Segment:
        return next(segment for segment in self.segments if self.nova.hosts[server] in segment.hosts)

    async def _place(self, server: str, *clauses: str) -> None:
        try:
            await self.nova.boot(1, *clauses, servers=[server])
        except Interrupted:
            self.interrupted.append(server)
            raise

    async def _release(self, server: str) -> None:
        try:
            await self.nova.delete(server)
        except Interrupted:
            self.nova.hosts.pop(server, None)
            self.interrupted.append(server)
            raise

    # What is done to them.

    def _workers(self) -> dict[str, int]:
        """Name -> process id; the first polls."""
        return {name: pid for pid, name in names_of(self.made.processes[0].pid).items()}

    async def _kill_poller(self) -> None:
        self._kill_one_of(sorted(self._workers().items())[:1])

    async def _kill_worker(self) -> None:
        self._kill_one_of(sorted(self._workers().items())[1:])

    def _kill_one_of(self, workers: list[tuple[str, int]]) -> None:
        with contextlib.suppress(ProcessLookupError):
            for _, pid in workers:
                os.kill(pid, signal.SIGKILL)

    async def _kill_supervisor(self) -> None:
        await asyncio.to_thread(self.made.stop, self.made.processes[0], signal.SIGKILL)
        await asyncio.to_thread(_serve, self.made, self.neutron)
        self.nova.api.client.url = f"{self.made.url}/placement"

    async def _stop_neutron(self) -> None:
        self.neutron.is_down = True
        await asyncio.sleep(AWAY_S)  # callers go on meanwhile
        self.neutron.is_down = False

    async def _cut_connections(self) -> None:
        database = await Database.open(self.made.dsn, size=1)
        async with database.connection() as connection:
            for _ in range(CUTS):
                await asyncio.sleep(self.random.random() * 0.1)  # claims and rounds are under way
                await connection.execute(
                    """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE application_name LIKE 'roost %' AND pid <> pg_backend_pid()"""
                )
        await database.close()

    async def _stop_postgresql(self) -> None:
        postmaster = PrivatePostgres(self.made.data_dir).postmaster_pid()
        assert postmaster is not None
        pids = [postmaster, *children_of(postmaster)]
        self._send(pids, signal.SIGSTOP)
        try:
            await asyncio.sleep(AWAY_S)  # callers wait meanwhile
        finally:
            self._send(pids, signal.SIGCONT)

    def _send(self, pids: list[int], number: signal.Signals) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    # What is true in the end.

    async def delete_interrupted(self) -> None:
        """Delete the servers that went wrong, as an operator does."""
        for server in self.interrupted:
            self.neutron.delete_ports_of(server)

            async def is_deleted(server: str = server) -> bool:
                with contextlib.suppress(Interrupted):
                    status, body = await self.nova.api.call("DELETE", f"/allocations/{server}")
                    assert status in (204, 404), body
                    return True
                return False

            await until(is_deleted)

    async def delete_left_segments(self) -> None:
        """Delete what is left of segments whose deletion was not answered, as an operator does: nothing holds it."""
        assert len(self.gone) > len(self.segments)
        for segment in self.gone:
            status, body = await self.nova.api.call("DELETE", f"/resource_providers/{segment.uuid}")
            assert status in (204, 404), body
        _, body = await self.nova.api.call("GET", "/resource_providers")
        providers = {provider["uuid"] for provider in body["resource_providers"]}
        assert providers == {uuid for segment in self.segments for uuid in (segment.uuid, *segment.hosts)}

    async def agrees(self) -> bool:
        """Tell whether each segment's used and free addresses are what Neutron has."""
        with contextlib.suppress(Interrupted):
            for segment in self.segments:
                if not await self._agrees(segment):
                    return False
            return True
        return False

    async def _agrees(self, segment: Segment) -> bool:
        used = await self.nova.used(segment)
        _, body = await self.nova.api.call("GET", f"/resource_providers/{segment.uuid}/inventories")
        inventory = body["inventories"][IPV4_ADDRESS]
        free = inventory["total"] - inventory["reserved"] - used
        figures_wanted = (self.neutron.served(segment.uuid), self.neutron.free(segment.uuid))
        self.disagreed = f"of {segment.addresses} used and free are {(used, free)}, should be {figures_wanted}"
        return (used, free) == figures_wanted
