"""How evenly the servers of one request use segments of two sizes, over HTTP, with real processes."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from benchmarks.boot import World, boot_until_active, world_of
from benchmarks.machine import Measured
from benchmarks.processes import prepared
from benchmarks.rows import Row

PREFIXES = (28, 26)
"""Racks of 13 addresses and of 61, in turn."""
AVAILABILITIES = "/network/v2.0/network-ip-availabilities"


def measure(row: Row) -> Measured:
    """Measure by how many points the shares of free addresses differ at most, once a round, each in a new Roost."""
    with prepared() as data_dir:
        return Measured.of([asyncio.run(_one_round(row, data_dir)) for _ in range(row.rounds)])


async def _one_round(row: Row, data_dir: Path) -> Measured:
    async with world_of(row, data_dir, prefixes=PREFIXES) as world:
        before = await _free_by_subnet(world)
        async with world.meter.stretch(row.amount, "server") as stretch:
            await boot_until_active(world, row, row.amount, held=0)
        after = await _free_by_subnet(world)
        world.roost.assert_records_agree()
        shares = [100 * after[subnet] / addresses for subnet, addresses in before.items()]
        return await world.measured(max(shares) - min(shares), stretch)


async def _free_by_subnet(world: World) -> Mapping[str, int]:
    networks = (await world.client.call("GET", AVAILABILITIES))["network_ip_availabilities"]
    return {
        subnet["subnet_id"]: subnet["ip_availability_details"]["free_ips_in_allocation_pool"]
        for network in networks
        for subnet in network["subnet_ip_availability"]
    }
