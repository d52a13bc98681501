"""A pool is cut and grown while servers are built from it: done or 409, and no build fails that had room."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.cluster import Cluster, boot, cluster, network_ids, settle, until

from roost.cli.asking.cloud_client import CloudClient, CloudRefused

CLOUD = """
flavors: [{name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}]
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, subnets: [{cidr: 10.1.0.0/22}]}
hosts:
  - {name: 'r1-h[1-20]', vcpus: 64, ram_mb: 262144, disk_gb: 1000, physical_networks: [rack1]}
"""
WHOLE = {"start": "10.1.0.2", "end": "10.1.3.254"}
CUT = {"start": "10.1.0.2", "end": "10.1.2.254"}
SERVERS, TOGETHER, CLIENTS = 600, 25, 4
"""Servers in all, and in a request. There is room for all of them in the pool that is cut."""


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cluster]:
    """One segment of a thousand addresses, and hosts with room for all servers."""
    with cluster() as made:
        made.serve()
        made.load(CLOUD)
        made.agent()
        yield made


async def test_a_pool_changes_beside_builds(cloud: Cluster) -> None:
    async with CloudClient.connect(cloud.url) as client:
        network = (await network_ids(client))["public"]
        (subnet,) = await client.list_all("/network/v2.0/subnets", "subnets")
        over = asyncio.Event()
        changing = asyncio.create_task(change_pools(client, f"/network/v2.0/subnets/{subnet['id']}", over))
        requests = iter(range(SERVERS // TOGETHER))

        async def build() -> None:
            for number in requests:
                await boot(client, network, count=TOGETHER, name=f"web-{number}")

        await asyncio.gather(*(build() for _ in range(CLIENTS)))

        async def built() -> bool:
            return all(server["status"] != "BUILD" for server in await client.list_servers())

        await until(built)
        over.set()
        answered = await changing
        print(f"{SERVERS} servers; the pool was {dict(answered)}")  # noqa: T201 - the figures
        assert answered["cut"] > 0
        assert answered["grown"] > 0
        assert set(answered) <= {"cut", "grown", "cut: 409", "grown: 409"}
        servers = await client.list_servers()
        assert [server for server in servers if server["status"] != "ACTIVE"] == []
        assert len(servers) == SERVERS
        await settle(cloud)


async def change_pools(client: CloudClient, path: str, over: asyncio.Event) -> Counter[str]:
    """Cut and grow the pool until it is over; return how often each was done, or refused with nothing changed."""
    answered: Counter[str] = Counter()
    while not over.is_set():
        for word, pool in (("cut", CUT), ("grown", WHOLE)):
            before = (await client.call("GET", path))["subnet"]["allocation_pools"]
            try:
                await client.call("PUT", path, {"subnet": {"allocation_pools": [pool]}})
                answered[word] += 1
                pool_now = pool
            except CloudRefused as refusal:
                answered[f"{word}: {refusal.status}"] += 1
                (pool_now,) = before
            assert (await client.call("GET", path))["subnet"]["allocation_pools"] == [pool_now]
    return answered
