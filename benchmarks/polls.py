"""What idle agents cost: CPU of Roost and PostgreSQL for each poll, over HTTP, with real processes and fsync on.

Each host has an agent of its own, which polls when its lease is due to be renewed, and lists its guests, of which it
has none, once in POLLS_PER_LIST polls.
"""

import asyncio
import uuid
from collections.abc import Mapping

from benchmarks.machine import Measured, get_server
from benchmarks.processes import Client, Roost, client_of, launched, prepared
from benchmarks.rows import Row

CLIENTS = 16
HOSTS_PER_CALL = 1000
POLLS_PER_LIST = 20
"""A list every five minutes, and a poll every fifteen seconds."""
MAKE_DUE = "-- benchmarks.make_due\nUPDATE compute.host SET seen_at = now() - interval '15 s'"


def measure(row: Row) -> Measured:
    """Measure milliseconds of CPU for each poll, once a round, in one Roost."""
    with prepared() as data_dir, launched(data_dir) as roost:
        return asyncio.run(_measure(row, roost))


async def _measure(row: Row, roost: Roost) -> Measured:
    roost.serve()
    meter, rounds = roost.meter(), []
    async with client_of(roost.url, CLIENTS) as client:
        url = (await client.call("GET", "/agent/v1"))["url"]
        agents = await _register(client, row.hosts)
        for _ in range(row.rounds):
            async with meter.watch() as connection:
                await connection.execute(MAKE_DUE)
            async with meter.stretch(row.hosts, "poll") as stretch:
                await _poll_all(client, url, agents)
            async with meter.watch() as connection:
                rounds.append(Measured([stretch.cpu_ms], [stretch], await get_server(connection)))
    return Measured.of(rounds)


async def _register(client: Client, count: int) -> dict[str, str]:
    """Host name -> the id of its agent."""
    agents = {f"host-{number}": str(uuid.uuid4()) for number in range(count)}
    names = list(agents)
    for start in range(0, count, HOSTS_PER_CALL):
        hosts = [
            {"name": name, "vcpus": 64, "ram_mb": 262144, "disk_gb": 2000}
            for name in names[start : start + HOSTS_PER_CALL]
        ]
        await client.call("PUT", "/compute/hosts", {"hosts": hosts})
    return agents


async def _poll_all(client: Client, url: str, agents: Mapping[str, str]) -> None:
    """Each agent polls once, CLIENTS of them at a time."""
    waiting = list(enumerate(agents.items()))

    async def poll() -> None:
        while waiting:
            number, (host, agent_id) = waiting.pop()
            agent = {"id": agent_id}
            await client.call("POST", f"{url}/poll", {"agent": agent, "hosts": [host], "wait_s": 0})
            if number % POLLS_PER_LIST == 0:
                await client.call("POST", f"{url}/guests", {"agent": agent, "guests": [], "as_of": 0})

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CLIENTS):
            tasks.create_task(poll())
