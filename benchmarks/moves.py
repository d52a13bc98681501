"""Servers that move, over HTTP, with real processes and fsync on: all of them at once, or off hosts that died."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from benchmarks.boot import CLIENTS, World, boot_until_active, world_of
from benchmarks.machine import Measured
from benchmarks.processes import PATIENCE_S, Client, prepared
from benchmarks.rows import Kind, Row

COUNT_MOVED = """-- benchmarks.count_moved
SELECT count(*) FROM compute.server WHERE status = 'VERIFY_RESIZE'
"""
LIST_IDS = """-- benchmarks.list_ids
SELECT id::text FROM compute.server WHERE $1::text[] IS NULL OR host = ANY($1) ORDER BY id
"""
COUNT_LEFT = """-- benchmarks.count_left
SELECT count(*) FROM compute.server WHERE host = ANY($1::text[]) AND NOT (task_state IS NULL AND fault IS NOT NULL)
"""


def measure(row: Row) -> Measured:
    """Measure migrations per second, or seconds until no server waits on hosts that died; each in a new Roost."""
    with prepared() as data_dir:
        return Measured.of([asyncio.run(_one_round(row, data_dir)) for _ in range(row.rounds)])


async def _one_round(row: Row, data_dir: Path) -> Measured:
    async with world_of(row, data_dir) as world:
        await boot_until_active(world, row, row.amount, held=0)
        if row.kind is Kind.EVACUATE:
            return await _evacuate(world, row)
        return await _migrate(world, row)


async def _migrate(world: World, row: Row) -> Measured:
    server_ids = await world.fetch(LIST_IDS, None)
    async with world.meter.stretch(row.amount, "move") as stretch, asyncio.timeout(PATIENCE_S):
        await _act(world.client, server_ids, {"migrate": None})
        await world.until(COUNT_MOVED, row.amount)
    await _act(world.client, server_ids, {"confirmResize": None})
    world.roost.assert_records_agree()
    return await world.measured(row.amount / stretch.seconds, stretch)


async def _evacuate(world: World, row: Row) -> Measured:
    """Force the first row.held hosts of the first rack down, and evacuate what is there."""
    hosts = [f"r0-h{number}" for number in range(1, row.held + 1)]
    for host in hosts:
        down = {"host": host, "binary": "nova-compute", "forced_down": True}
        await world.client.call("PUT", "/compute/v2.1/os-services/force-down", down)
    server_ids = await world.fetch(LIST_IDS, hosts)
    async with world.meter.stretch(len(server_ids), "server") as stretch, asyncio.timeout(PATIENCE_S):
        await _act(world.client, server_ids, {"evacuate": {}})
        await world.until(COUNT_LEFT, 0, hosts)
    return await world.measured(stretch.seconds, stretch)


async def _act(client: Client, server_ids: Sequence[str], action: dict[str, object]) -> None:
    places = asyncio.Semaphore(CLIENTS)

    async def ask(server_id: str) -> None:
        async with places:
            await client.call("POST", f"/compute/v2.1/servers/{server_id}/action", action)

    async with asyncio.TaskGroup() as tasks:
        for server_id in server_ids:
            tasks.create_task(ask(server_id))
