"""Claims one by one over HTTP, as Nova makes them, with real processes and fsync on."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import Measured, get_server
from benchmarks.processes import Client, client_of, launched, prepared
from benchmarks.rows import Row

CLIENTS = 8
WORKERS = 2
HOST = {"VCPU": 1024, "MEMORY_MB": 2**20, "DISK_GB": 20000}
SERVER = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10}
OWNER = str(uuid.uuid4())


def measure(row: Row) -> Measured:
    """Measure claims per second, once a round, each in a new Roost."""
    with prepared() as data_dir:
        return Measured.of([asyncio.run(_one_round(row, data_dir)) for _ in range(row.rounds)])


async def _one_round(row: Row, data_dir: Path) -> Measured:
    with launched(data_dir) as roost:
        roost.serve("placement", workers=WORKERS)
        async with client_of(roost.url, CLIENTS) as client:
            hosts = await _providers(client, row.hosts, HOST)
            segments = await _providers(client, row.segments, {"IPV4_ADDRESS": 65000})
            async with roost.meter().stretch(row.amount, "claim") as stretch:
                await _for_each(row.amount, lambda number: _claim(client, number, hosts, segments))
            held = await _for_each(row.hosts, lambda n: client.call("GET", f"/resource_providers/{hosts[n]}/usages"))
            assert sum(usages["usages"]["VCPU"] for usages in held) == row.amount
            async with roost.meter().watch() as connection:
                return Measured([row.amount / stretch.seconds], [stretch], await get_server(connection))


async def _providers(client: Client, count: int, totals: Mapping[str, int]) -> list[str]:
    """Make providers, each with these inventories."""
    uuids = [str(uuid.uuid4()) for _ in range(count)]
    inventories = {name: {"total": total} for name, total in totals.items()}

    async def make(number: int) -> None:
        provider = {"uuid": uuids[number], "name": uuids[number]}
        await client.call("POST", "/resource_providers", provider)
        body = {"resource_provider_generation": 0, "inventories": inventories}
        await client.call("PUT", f"/resource_providers/{uuids[number]}/inventories", body)

    await _for_each(count, make)
    return uuids


async def _claim(client: Client, number: int, hosts: Sequence[str], segments: Sequence[str]) -> None:
    """Claim a server on the next host, with an address of that host's segment."""
    host = number % len(hosts)
    body = {
        "allocations": {
            hosts[host]: {"resources": SERVER},
            segments[host % len(segments)]: {"resources": {"IPV4_ADDRESS": 1}},
        },
        "project_id": OWNER, "user_id": OWNER, "consumer_generation": None, "consumer_type": "INSTANCE",
    }  # fmt: skip
    await client.call("PUT", f"/allocations/{uuid.uuid4()}", body)


async def _for_each(count: int, work: Callable[[int], Awaitable[Any]]) -> list[Any]:
    """Do it for each number, by eight clients, and return what came of it."""
    numbers, results = iter(range(count)), []

    async def client() -> None:
        for number in numbers:
            results.append(await work(number))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CLIENTS):
            tasks.create_task(client())
    return results
