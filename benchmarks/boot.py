"""From the first POST until every server is ACTIVE, over HTTP, with real processes and fsync on."""

import asyncio
import time

from tests.cluster import Cluster, boot, cluster, network_ids, settle

from benchmarks.rows import Row
from roost.cli.cloud_client import CloudClient
from roost.platform.database import Database

CLIENTS = 4


def cloud(row: Row) -> str:
    """One routed network over row.segments racks, each a /24, and a quarter more hosts than a rack needs."""
    lines = ["flavors:", "  - {name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}", "networks:", "  - name: public"]
    lines.append("    segments:")
    for number in range(row.segments):
        lines.append(
            f"      - {{name: rack{number}, physical_network: rack{number}, network_type: vlan,"
            f" segmentation_id: {number + 1}, subnets: [{{cidr: 10.{number}.0.0/24}}]}}"
        )
    lines.append("hosts:")
    for number in range(row.segments):
        names = f"r{number}-h[1-{row.hosts // row.segments}]"
        lines.append(
            f"  - {{name: '{names}', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack{number}]}}"
        )
    return "\n".join(lines) + "\n"


async def measure(row: Row) -> list[float]:
    """Servers per second, once a round; each round in a new Roost."""
    return [await _one_round(row) for _ in range(row.rounds)]


async def _one_round(row: Row) -> float:
    with cluster() as made:
        made.serve()
        made.load(cloud(row))
        made.agent()
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            requests = row.amount // row.batch
            places = asyncio.Semaphore(CLIENTS)

            async def ask(number: int) -> None:
                async with places:
                    await boot(client, network, count=row.batch, name=f"s{number}")

            started = time.monotonic()
            await asyncio.gather(*(ask(number) for number in range(requests)), _all_active(made, row.amount))
            seconds = time.monotonic() - started
            await settle(made)
    return row.amount / seconds


async def _all_active(made: Cluster, amount: int) -> None:
    """Looks straight into the database, so that looking costs next to nothing."""
    database = await Database.open(made.dsn, size=1)
    try:
        async with database.connection() as connection:
            while await connection.fetchval("SELECT count(*) FROM compute.server WHERE status = 'ACTIVE'") < amount:
                await asyncio.sleep(0.02)
    finally:
        await database.close()
