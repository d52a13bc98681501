"""What idle agents cost: CPU of Roost and PostgreSQL for each poll, over HTTP, with real processes and fsync on.

Each host has an agent of its own, which polls when its lease is due to be renewed, and lists its guests, of which it
has none, once in POLLS_PER_LIST polls.
"""

import asyncio
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from tests.cluster import cluster

from benchmarks.machine import Server, get_server
from benchmarks.rows import Row
from roost.cli.asking.cloud_client import CloudClient
from roost.platform.database import Database
from roost.platform.postgres import PrivatePostgres

CLIENTS = 16
HOSTS_PER_CALL = 1000
POLLS_PER_LIST = 20
"""A list every five minutes, and a poll every fifteen seconds."""
MAKE_DUE = "-- benchmarks.make_due\nUPDATE compute.host SET seen_at = now() - interval '15 s'"


async def measure(row: Row) -> tuple[list[float], Server]:
    """Milliseconds of CPU for each poll, once a round, in one Roost; and on what PostgreSQL."""
    with cluster() as made:
        made.serve()
        postmaster = PrivatePostgres(made.data_dir).postmaster_pid()
        assert postmaster is not None
        roots = [made.processes[0].pid, postmaster]
        database = await Database.open(made.dsn, size=1)
        try:
            async with CloudClient.connect(made.url) as client:
                url = await client.agent_url()
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CLIENTS)) as session:
                agents = await _register(session, made.url, row.hosts)
                figures = []
                for _ in range(row.rounds):
                    async with database.connection() as connection:
                        await connection.execute(MAKE_DUE)
                    before_s = _cpu_seconds(roots)
                    await _poll_all(session, url, agents)
                    figures.append((_cpu_seconds(roots) - before_s) / row.hosts * 1000)
            async with database.connection() as connection:
                server = await get_server(connection)
        finally:
            await database.close()
    return figures, server


async def _register(session: aiohttp.ClientSession, url: str, count: int) -> dict[str, str]:
    """Host name -> the id of its agent."""
    agents = {f"host-{number}": str(uuid.uuid4()) for number in range(count)}
    names = list(agents)
    for start in range(0, count, HOSTS_PER_CALL):
        hosts = [
            {"name": name, "vcpus": 64, "ram_mb": 262144, "disk_gb": 2000}
            for name in names[start : start + HOSTS_PER_CALL]
        ]
        await _call(session, "PUT", f"{url}/compute/hosts", {"hosts": hosts})
    return agents


async def _poll_all(session: aiohttp.ClientSession, url: str, agents: Mapping[str, str]) -> None:
    """Each agent polls once, CLIENTS of them at a time."""
    waiting = list(enumerate(agents.items()))

    async def poll() -> None:
        while waiting:
            number, (host, agent_id) = waiting.pop()
            agent = {"id": agent_id}
            await _call(session, "POST", f"{url}/poll", {"agent": agent, "hosts": [host], "wait_s": 0})
            if number % POLLS_PER_LIST == 0:
                await _call(session, "POST", f"{url}/guests", {"agent": agent, "guests": [], "as_of": 0})

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CLIENTS):
            tasks.create_task(poll())


async def _call(session: aiohttp.ClientSession, method: str, url: str, body: Any) -> None:
    async with session.request(method, url, json=body) as response:
        answer = await response.text()
        assert response.status == 200, answer


def _cpu_seconds(roots: Sequence[int]) -> float:
    """The CPU that these processes and all their descendants have used."""
    children: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue  # it has ended since
        pid, fields = int(text.split(" ", 1)[0]), text.rpartition(")")[2].split()
        children.setdefault(int(fields[1]), []).append(pid)
        used[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    total, left = 0.0, list(roots)
    while left:
        pid = left.pop()
        total += used.get(pid, 0.0)
        left += children.get(pid, [])
    return total
