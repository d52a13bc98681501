"""PostgreSQL is away for some seconds, as in a switch-over, and no boot that begins meanwhile is lost."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.cluster import Cluster, cluster
from tests.faults.replication import start_primary, start_standby
from tests.placement_client import Answer, PlacementClient, a_uuid, claim, inventories
from tests.processes import children_of

from roost.platform.postgres import PrivatePostgres

BOOTS = 20
SEGMENTS = 2
AWAY_S = float(os.environ.get("TEST_AWAY_S", "1"))
"""How long boots wait while the database is away. By hand: 10."""


class Servers:
    """Behind one address there is a PostgreSQL, and perhaps a standby of it."""

    def __init__(self, primary: PrivatePostgres, standby: PrivatePostgres | None = None) -> None:
        self.primary, self.standby = primary, standby

    def freeze(self) -> None:
        """Have it be silent: connections stay, and nobody answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Have it refuse: connections are ended, and there are no new ones."""
        self.primary.stop()

    def start(self) -> None:
        self.primary.start()

    def kill(self) -> None:
        """Have it die at once."""
        pid = self.primary.postmaster_pid()
        assert pid is not None
        os.kill(pid, signal.SIGQUIT)

    def promote(self) -> None:
        assert self.standby is not None
        self.standby._query("SELECT pg_promote()")

    def _signal(self, number: int) -> None:
        postmaster = self.primary.postmaster_pid()
        assert postmaster is not None
        for pid in (postmaster, *children_of(postmaster)):
            os.kill(pid, number)


Change = Callable[[Servers], None]
OUTAGES: dict[str, tuple[Change, Change]] = {
    "silent": (Servers.freeze, Servers.thaw),
    "refusing": (Servers.stop, Servers.start),
    "promoted": (Servers.kill, Servers.promote),
}


@pytest.fixture
def servers(data_dir: Path, request: pytest.FixtureRequest) -> Iterator[Servers]:
    primary = start_primary(data_dir)
    standby = start_standby(primary, data_dir) if request.param else None
    yield Servers(primary, standby)
    for server in (standby, primary):
        if server is not None:
            server.stop()


class Boots:
    """What Nova asks of Placement when it boots servers onto a routed network, and its first boot. Source: nova.py."""

    def __init__(self, client: PlacementClient, segments: list[str], host: str) -> None:
        self.client, self.segments, self.host = client, segments, host

    async def look(self) -> dict[str, Any]:
        """Have the prefilter and the scheduler ask; returns a candidate."""
        for segment in self.segments:
            answer = await self.client.call("GET", f"/resource_providers/{segment}/aggregates", version="1.1")
            assert answer.status == 200, answer
        path = "/allocation_candidates?limit=1000&resources=VCPU:1&member_of=in:" + ",".join(answer.body["aggregates"])
        answer = await self.client.call("GET", path, version="1.36")
        assert answer.status == 200, answer
        for part in ("", "/inventories", "/inventories/VCPU", "/aggregates", "/traits", "/usages"):
            shown = await self.client.call("GET", f"/resource_providers/{self.host}{part}", version="1.36")
            assert shown.status == 200, (part, shown)
        assert "no-cache" in answer.headers["Cache-Control"]
        request: dict[str, Any] = answer.body["allocation_requests"][0]
        return request

    async def claim(self, request: dict[str, Any]) -> Answer:
        """Have the scheduler look whether a new server holds something, and claim."""
        path = f"/allocations/{a_uuid()}"
        answer = await self.client.call("GET", path, version="1.28")
        assert (answer.status, answer.body) == (200, {"allocations": {}}), answer
        body = {**request, "project_id": "p", "user_id": "u", "consumer_generation": None}
        return await self.client.call("PUT", path, body, version="1.36")


async def make_cloud(client: PlacementClient) -> Boots:
    """One host, in the aggregate of segments, with room for all boots."""
    aggregate = a_uuid()
    host = await client.provider("host", VCPU=BOOTS)
    segments = [await client.provider(f"Neutron segment id {number}") for number in range(SEGMENTS)]
    for provider, generation in ((host, 1), *((segment, 0) for segment in segments)):
        body = {"aggregates": [aggregate], "resource_provider_generation": generation}
        await client.do("PUT", f"/resource_providers/{provider}/aggregates", body)
    return Boots(client, segments, host)


@asynccontextmanager
async def served(servers: Servers, **environment: str) -> AsyncIterator[tuple[Cluster, PlacementClient]]:
    """A Placement service of two workers on these servers, and a client that reaches both."""
    sockets = ",".join(str(server.socket_dir) for server in (servers.primary, servers.standby) if server)
    database = f"postgresql://roost@/roost?host={sockets}&target_session_attrs=primary"
    with cluster() as made:
        await asyncio.to_thread(made.serve, "placement", database=database, workers=2, environment=environment)
        async with PlacementClient.connect(made.url, reuse=False) as client:
            yield made, client
        assert "Traceback" not in made.logs()


@pytest.mark.parametrize(
    ("outage", "servers"), [(name, name == "promoted") for name in OUTAGES], ids=list(OUTAGES), indirect=["servers"]
)
async def test_no_boot_that_begins_while_the_database_is_away_is_lost(outage: str, servers: Servers) -> None:
    begin, end = OUTAGES[outage]
    async with served(servers) as (made, client):
        boots = await make_cloud(client)
        await asyncio.gather(*(boots.look() for _ in range(8)))  # both workers have an index
        await asyncio.to_thread(begin, servers)
        try:
            requests = await asyncio.gather(*(boots.look() for _ in range(BOOTS)))  # over before the database is back
            claims = [asyncio.create_task(boots.claim(request)) for request in requests]
            unsure = [
                asyncio.create_task(client.call("GET", f"/resource_providers/{a_uuid()}/aggregates")),
                asyncio.create_task(client.call("GET", f"/resource_providers/{boots.host}/inventories/DISK_GB")),
                asyncio.create_task(client.call("GET", "/allocation_candidates?resources=VCPU:1000")),
                asyncio.create_task(client.call("GET", "/resource_providers?name=nobody")),
                asyncio.create_task(client.call("DELETE", f"/allocations/{a_uuid()}")),
            ]
            assert await statuses(made.url, "/readyz", "/", "/placement/", "/readyz?database") == [200, 200, 200, 503]
            done, _ = await asyncio.wait([*claims, *unsure], timeout=AWAY_S)
            assert not done, "only the database can say so"
        finally:
            await asyncio.to_thread(end, servers)
        assert [answer.status for answer in await asyncio.gather(*claims)] == [204] * BOOTS
        assert [answer.status for answer in await asyncio.gather(*unsure)] == [404, 404, 200, 200, 404]
        assert await client.used(boots.host) == {"VCPU": BOOTS}
        full = await client.call("PUT", f"/allocations/{a_uuid()}", claim({boots.host: {"VCPU": 1}}))
        assert full.status == 409


@pytest.mark.parametrize("servers", [False], indirect=True)
async def test_an_index_that_is_not_recent_answers_nothing(servers: Servers) -> None:
    times = {"ROOST_PLACEMENT_READ_FROM_INDEX_S": "0", "ROOST_API_REQUEST_TIMEOUT_S": "2"}
    async with served(servers, **times) as (made, client):
        boots = await make_cloud(client)
        await asyncio.gather(*(boots.look() for _ in range(8)))
        assert await statuses(made.url, "/readyz", "/", "/placement/", "/readyz?database") == [200] * 4
        await asyncio.to_thread(servers.stop)
        assert await statuses(made.url, "/readyz", "/", "/placement/", "/readyz?database") == [503] * 4
        for method, path, body in (
            ("GET", "/allocation_candidates?resources=VCPU:1", None),
            ("GET", f"/resource_providers/{boots.host}/inventories", None),
            ("PUT", f"/resource_providers/{boots.host}/inventories", inventories(2, VCPU=1)),
        ):
            answer = await client.call(method, path, body)
            assert (answer.status, answer.headers.get("Retry-After")) == (503, "1"), answer
        await asyncio.to_thread(servers.start)
        await boots.look()


async def statuses(url: str, *paths: str) -> list[int]:
    """Return what paths of the listener answer, one after the other."""
    answered = []
    async with aiohttp.ClientSession(url) as session:
        for path in paths:
            async with session.get(path) as answer:
                answered.append(answer.status)
    return answered
