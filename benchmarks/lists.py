"""Lists of a cloud with servers, over HTTP: of servers in detail, of ports and of resource providers, by one client."""

import asyncio
from pathlib import Path

from benchmarks.boot import boot_until_active, world_of
from benchmarks.machine import Measured
from benchmarks.processes import prepared
from benchmarks.rows import Row

LISTS = {
    "/compute/v2.1/servers/detail?limit={}": "servers",
    "/network/v2.0/ports?limit={}": "ports",
    "/placement/resource_providers": "resource_providers",
}
"""Path -> the member of the answer that is the list."""


def measure(row: Row) -> Measured:
    """Measure milliseconds of CPU for each list, once a round, each in a new Roost."""
    with prepared() as data_dir:
        return Measured.of([asyncio.run(_one_round(row, data_dir)) for _ in range(row.rounds)])


async def _one_round(row: Row, data_dir: Path) -> Measured:
    async with world_of(row, data_dir) as world:
        await boot_until_active(world, row, row.held, held=0)
        async with world.meter.stretch(row.amount * len(LISTS), "list") as stretch:
            for _ in range(row.amount):
                for path, member in LISTS.items():
                    listed = (await world.client.call("GET", path.format(row.held)))[member]
                    assert len(listed) == (row.held if "limit" in path else row.hosts + row.segments)
        return await world.measured(stretch.cpu_ms, stretch)
