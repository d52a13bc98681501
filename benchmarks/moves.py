"""Servers that move, over HTTP, with real processes and fsync on: all of them at once, or off hosts that died."""

import asyncio
import time
from collections.abc import Sequence

from tests.cluster import settle

from benchmarks.boot import CLIENTS, LOOK_S, PATIENCE_S, boot_until_active, world_of
from benchmarks.machine import Server, get_server
from benchmarks.rows import Kind, Row
from roost.cli.asking.cloud_client import CloudClient
from roost.platform.database import Connection

COUNT_MOVED = """-- benchmarks.count_moved
SELECT count(*) FROM compute.server WHERE status = 'VERIFY_RESIZE'
"""
LIST_IDS = """-- benchmarks.list_ids
SELECT id FROM compute.server WHERE $1::text[] IS NULL OR host = ANY($1) ORDER BY id
"""
COUNT_LEFT = """-- benchmarks.count_left
SELECT count(*) FROM compute.server WHERE host = ANY($1::text[]) AND NOT (task_state IS NULL AND fault IS NOT NULL)
"""


async def measure(row: Row) -> tuple[list[float], Server]:
    """Migrations per second, or seconds until no server waits on hosts that died; once a round, each in a new Roost."""
    figures = []
    for _ in range(row.rounds):
        figure, server = await _one_round(row)
        figures.append(figure)
    return figures, server


async def _one_round(row: Row) -> tuple[float, Server]:
    async with world_of(row) as world:
        await boot_until_active(world, row, row.amount, held=0)
        server = await get_server(world.connection)
        if row.kind is Kind.EVACUATE:
            return await _evacuate(world.client, world.connection, row), server
        seconds = await _migrate(world.client, world.connection, row)
        await _act(world.client, await _ids(world.connection, None), {"confirmResize": None})
        await settle(world.made)
        return row.amount / seconds, server


async def _migrate(client: CloudClient, connection: Connection, row: Row) -> float:
    server_ids = await _ids(connection, None)
    started = time.monotonic()
    await _act(client, server_ids, {"migrate": None})
    async with asyncio.timeout(PATIENCE_S):
        while await connection.fetchval(COUNT_MOVED) < row.amount:
            await asyncio.sleep(LOOK_S)
    return time.monotonic() - started


async def _evacuate(client: CloudClient, connection: Connection, row: Row) -> float:
    """Force the first row.held hosts of the first rack down, and evacuate what is there."""
    hosts = [f"r0-h{number}" for number in range(1, row.held + 1)]
    for host in hosts:
        down = {"host": host, "binary": "nova-compute", "forced_down": True}
        await client.call("PUT", "/compute/v2.1/os-services/force-down", down)
    server_ids = await _ids(connection, hosts)
    started = time.monotonic()
    await _act(client, server_ids, {"evacuate": {}})
    async with asyncio.timeout(PATIENCE_S):
        while await connection.fetchval(COUNT_LEFT, hosts):
            await asyncio.sleep(LOOK_S)
    return time.monotonic() - started


async def _ids(connection: Connection, hosts: Sequence[str] | None) -> list[str]:
    return [str(record[0]) for record in await connection.fetch(LIST_IDS, hosts)]


async def _act(client: CloudClient, server_ids: Sequence[str], action: dict[str, object]) -> None:
    places = asyncio.Semaphore(CLIENTS)

    async def ask(server_id: str) -> None:
        async with places:
            await client.call("POST", f"/compute/v2.1/servers/{server_id}/action", action)

    async with asyncio.TaskGroup() as tasks:
        for server_id in server_ids:
            tasks.create_task(ask(server_id))
