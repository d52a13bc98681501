"""From the first POST until every server is ACTIVE, over HTTP, with real processes and fsync on."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.cluster import QUICK, Cluster, boot, cluster, network_ids, settle

from benchmarks.machine import Server, get_server
from benchmarks.rows import Row
from roost.cli.asking.cloud_client import CloudClient
from roost.platform.database import Connection, Database

CLIENTS = 4
LOOK_S = 0.02
PATIENCE_S = 120.0
COUNT_ACTIVE = """-- benchmarks.count_active
SELECT count(*) FROM compute.server WHERE status = 'ACTIVE'
"""
COUNT_UNPUBLISHED = """-- benchmarks.count_unpublished
SELECT count(*) FROM compute.host WHERE published < wanted
"""


def cloud(row: Row) -> str:
    """One routed network over row.segments racks, each with addresses enough, with row.hosts over all of them."""
    prefix = 24 if row.amount + row.held <= 200 * row.segments else 20
    lines = ["flavors:", "  - {name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}", "networks:", "  - name: public"]
    lines.append("    segments:")
    for number in range(row.segments):
        lines.append(
            f"      - {{name: rack{number}, physical_network: rack{number}, network_type: vlan,"
            f" segmentation_id: {number + 1}, subnets: [{{cidr: 10.{number}.0.0/{prefix}}}]}}"
        )
    lines.append("hosts:")
    for number in range(row.segments):
        names = f"r{number}-h[1-{row.hosts // row.segments}]"
        lines.append(
            f"  - {{name: '{names}', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack{number}]}}"
        )
    return "\n".join(lines) + "\n"


async def measure(row: Row) -> tuple[list[float], Server]:
    """Servers per second, once a round, each in a new Roost; and on what PostgreSQL."""
    figures = []
    for _ in range(row.rounds):
        figure, server = await _one_round(row)
        figures.append(figure)
    return figures, server


async def _one_round(row: Row) -> tuple[float, Server]:
    async with world_of(row) as world:
        await boot_until_active(world, row, row.held, held=0)
        started = time.monotonic()
        await boot_until_active(world, row, row.amount, held=row.held)
        seconds = time.monotonic() - started
        server = await get_server(world.connection)
        await settle(world.made)
    return row.amount / seconds, server


@dataclass(frozen=True)
class World:
    """A Roost with the row's hosts, all of which take servers, and who looks at it. network: the id of the one."""

    made: Cluster
    client: CloudClient
    connection: Connection
    network: str
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def fetch(self, query: str, *arguments: object) -> object:
        """Return the query's one value; for several tasks, which share the connection."""
        async with self.looking:
            return await self.connection.fetchval(query, *arguments)


@asynccontextmanager
async def world_of(row: Row, *agent_options: str, environment: Mapping[str, str] = QUICK) -> AsyncIterator[World]:
    """Yield it; it is gone afterwards. environment: of its processes."""
    with cluster(environment) as made:
        made.serve()
        made.load(cloud(row))
        made.agent(*agent_options)
        database = await Database.open(made.dsn, size=1)
        try:
            async with CloudClient.connect(made.url) as client, database.connection() as connection:
                while await connection.fetchval(COUNT_UNPUBLISHED):  # the ledger hears of hosts after they are up
                    await asyncio.sleep(LOOK_S)
                yield World(made, client, connection, (await network_ids(client))["public"])
        finally:
            await database.close()


async def boot_until_active(world: World, row: Row, amount: int, *, held: int) -> None:
    """Boot, and wait. Looks straight into the database, so that looking costs next to nothing."""
    places = asyncio.Semaphore(CLIENTS)

    async def ask(first: int) -> None:
        async with places:
            await boot(world.client, world.network, count=min(row.batch, amount - first), name=f"s{held + first}")

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        for first in range(0, amount, row.batch):
            tasks.create_task(ask(first))
        while await world.connection.fetchval(COUNT_ACTIVE) < held + amount:
            await asyncio.sleep(LOOK_S)
