"""From the first POST until every server is ACTIVE, over HTTP, with real processes and fsync on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.costs import Meter, Stretch
from benchmarks.machine import Measured, get_server
from benchmarks.processes import (
    LOOK_S,
    PATIENCE_S,
    Client,
    Roost,
    client_of,
    launched,
    prepared,
    until_hosts_take_servers,
)
from benchmarks.rows import Row

CLIENTS = 4
COUNT_ACTIVE = """-- benchmarks.count_active
SELECT count(*) FROM compute.server WHERE status = 'ACTIVE'
"""


def cloud(row: Row, prefixes: Sequence[int] = ()) -> str:
    """One routed network over row.segments racks, with row.hosts over all of them.

    prefixes: of the racks' subnets, over and over; without any, each rack has addresses enough.
    """
    prefixes = prefixes or ((24 if row.amount + row.held <= 200 * row.segments else 20),)
    lines = ["flavors:", "  - {name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}", "networks:", "  - name: public"]
    lines.append("    segments:")
    for number in range(row.segments):
        lines.append(
            f"      - {{name: rack{number}, physical_network: rack{number}, network_type: vlan,"
            f" segmentation_id: {number + 1}, subnets: [{{cidr: 10.{number}.0.0/{prefixes[number % len(prefixes)]}}}]}}"
        )
    lines.append("hosts:")
    for number in range(row.segments):
        names = f"r{number}-h[1-{row.hosts // row.segments}]"
        lines.append(
            f"  - {{name: '{names}', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack{number}]}}"
        )
    return "\n".join(lines) + "\n"


def measure(row: Row) -> Measured:
    """Measure servers per second, once a round, each in a new Roost."""
    with prepared() as data_dir:
        return Measured.of([asyncio.run(_one_round(row, data_dir)) for _ in range(row.rounds)])


async def _one_round(row: Row, data_dir: Path) -> Measured:
    async with world_of(row, data_dir) as world:
        await boot_until_active(world, row, row.held, held=0)
        async with world.meter.stretch(row.amount, "server") as stretch:
            await boot_until_active(world, row, row.amount, held=row.held)
        world.roost.assert_records_agree()
        return await world.measured(row.amount / stretch.seconds, stretch)


@dataclass(frozen=True)
class World:
    """A Roost with the row's hosts, all of which take servers, and who asks it. network, flavor: ids of the one."""

    roost: Roost
    client: Client
    meter: Meter
    network: str
    flavor: str

    async def boot(self, name: str, *, count: int = 1) -> None:
        """Ask for `count` servers, in one request."""
        server = {
            "name": name, "flavorRef": self.flavor, "imageRef": "", "networks": [{"uuid": self.network}],
            "min_count": count, "max_count": count,
        }  # fmt: skip
        await self.client.call("POST", "/compute/v2.1/servers", {"server": server})

    async def until(self, query: str, value: object, *arguments: object) -> None:
        """Look straight into the database until it says so, so that looking costs next to nothing."""
        async with self.meter.watch() as connection:
            while await connection.fetchval(query, *arguments) != value:
                await asyncio.sleep(LOOK_S)

    async def fetch(self, query: str, *arguments: object) -> list[Any]:
        """Return the query's first column."""
        async with self.meter.watch() as connection:
            return [record[0] for record in await connection.fetch(query, *arguments)]

    async def measured(self, figure: float, stretch: Stretch) -> Measured:
        """Return one round's figure, and on what it was measured."""
        async with self.meter.watch() as connection:
            return Measured([figure], [stretch], await get_server(connection))


@asynccontextmanager
async def world_of(row: Row, data_dir: Path, *agent_options: str, prefixes: Sequence[int] = ()) -> AsyncIterator[World]:
    """Yield it; it is gone afterwards. prefixes: as of `cloud`."""
    with launched(data_dir) as roost:
        roost.serve()
        roost.load(cloud(row, prefixes))
        roost.agent(*agent_options)
        await until_hosts_take_servers(roost.meter())
        async with client_of(roost.url) as client:
            networks = (await client.call("GET", "/network/v2.0/networks"))["networks"]
            flavors = (await client.call("GET", "/compute/v2.1/flavors"))["flavors"]
            yield World(roost, client, roost.meter(), networks[0]["id"], flavors[0]["id"])


async def boot_until_active(world: World, row: Row, amount: int, *, held: int) -> None:
    """Boot, and wait."""
    places = asyncio.Semaphore(CLIENTS)

    async def ask(first: int) -> None:
        async with places:
            await world.boot(f"s{held + first}", count=min(row.batch, amount - first))

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        for first in range(0, amount, row.batch):
            tasks.create_task(ask(first))
        await world.until(COUNT_ACTIVE, held + amount)
