"""What idle agents cost for each poll, over HTTP, with real processes and fsync on.

Each host has an agent of its own, which polls when its lease is due to be renewed, and lists its guests, of which it
has none, once in POLLS_PER_LIST polls: CPU of Roost and PostgreSQL. Or one agent has all hosts: what PostgreSQL itself
counts as the time of its statements.
"""

import asyncio
import statistics
import uuid
from collections.abc import Mapping

from benchmarks.machine import Measured, get_server
from benchmarks.processes import Client, Roost, client_of, launched, prepared
from benchmarks.rows import Kind, Row

CLIENTS = 16
HOSTS_PER_CALL = 1000
POLLS_PER_LIST = 20
"""A list every five minutes, and a poll every fifteen seconds."""
# So long ago that a poll writes that it was heard, and not so long that hosts become silent before their turn.
MAKE_DUE = """-- benchmarks.make_due
DO $$ BEGIN
    UPDATE compute.host SET seen_at = now() - interval '5 s';
    IF to_regclass('compute.agent') IS NOT NULL THEN
        EXECUTE 'UPDATE compute.agent SET seen_at = now() - interval ''5 s''';
    END IF;
END $$
"""
EXEC_MS = """-- benchmarks.get_exec_ms
SELECT sum(total_exec_time) FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = 'roost') AND userid <> 'watcher'::regrole
"""


def measure(row: Row) -> Measured:
    """Measure milliseconds for each poll, of CPU or of PostgreSQL's statements, once a round, in one Roost."""
    with prepared() as data_dir, launched(data_dir) as roost:
        return asyncio.run((_measure_fleet if row.kind is Kind.POLL_FLEET else _measure)(row, roost))


async def _measure(row: Row, roost: Roost) -> Measured:
    roost.serve()
    meter, rounds = roost.meter(), []
    async with client_of(roost.url, CLIENTS) as client:
        url = (await client.call("GET", "/agent/v1"))["url"]
        agents = await _register(client, row.hosts)
        for _ in range(2):  # the hosts are taken; those that this left silent for too long come back
            await _poll_all(client, url, agents)
        for _ in range(row.rounds):
            async with meter.watch() as connection:
                await connection.execute(MAKE_DUE)
            async with meter.stretch(row.hosts, "poll") as stretch:
                await _poll_all(client, url, agents)
            async with meter.watch() as connection:
                rounds.append(Measured([stretch.cpu_ms], [stretch], await get_server(connection)))
    return Measured.of(rounds)


async def _measure_fleet(row: Row, roost: Roost) -> Measured:
    roost.serve()
    meter, rounds = roost.meter(), []
    async with client_of(roost.url, CLIENTS) as client:
        url = (await client.call("GET", "/agent/v1"))["url"]
        hosts = list(await _register(client, row.hosts))
        agent = {"id": str(uuid.uuid4()), "boot_id": str(uuid.uuid4()), "secret": "of a benchmark"}
        poll = {"agent": agent, "hosts": hosts, "wait_s": 0}
        for _ in range(2):  # the hosts are taken, and held
            await client.call("POST", f"{url}/poll", poll)
        for _ in range(row.rounds):
            exec_ms = []
            async with (
                meter.stretch(row.amount, "poll") as stretch,
                meter.watch("postgres") as counts,
                meter.watch() as connection,
            ):
                for _ in range(row.amount):
                    await connection.execute(MAKE_DUE)
                    before_ms = await counts.fetchval(EXEC_MS)
                    await client.call("POST", f"{url}/poll", poll)
                    exec_ms.append(await counts.fetchval(EXEC_MS) - before_ms)
            async with meter.watch() as connection:
                rounds.append(Measured([statistics.median(exec_ms)], [stretch], await get_server(connection)))
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
            agent = {"id": agent_id, "boot_id": agent_id, "secret": "of a benchmark"}
            await client.call("POST", f"{url}/poll", {"agent": agent, "hosts": [host], "wait_s": 0})
            if number % POLLS_PER_LIST == 0:
                await client.call("POST", f"{url}/guests", {"agent": agent, "guests": [], "as_of": 0})

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CLIENTS):
            tasks.create_task(poll())
