"""From POST to ACTIVE, server by server, in each order of the stages: ports are on the critical path.

`python -m benchmarks.orders` prints p50, p99 and the conductor's CPU for each boot, all three orders side by side. As a
row of the benchmarks an order's figure is its p50.
"""

import asyncio
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import typer
from tests.cluster import boot, settle
from tests.processes import names_of

from benchmarks.boot import CLIENTS, PATIENCE_S, World, world_of
from benchmarks.machine import Server, get_server
from benchmarks.rows import Kind, Row

VERSIONS = {"late": 1, "early-create": 2, "early": 3}
"""Order -> the service version of every agent that has it chosen."""
LOOK_S = 0.002
LAUNCHED = """-- benchmarks.is_active
SELECT status = 'ACTIVE' FROM compute.server WHERE name = $1
"""
COUNT_ORDER = """-- benchmarks.count_order
SELECT count(*) FROM compute.server WHERE build_order ->> 'name' = $1
"""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figures:
    """Milliseconds from POST to ACTIVE, and of the conductor's CPU for each boot."""

    p50: float
    p99: float
    cpu: float


async def measure(row: Row) -> tuple[list[float], Server]:
    """Return the p50, once a round, each in a new Roost. The row's name ends with the order."""
    figures = []
    for _ in range(row.rounds):
        found, server = await measure_order(row, order_of(row))
        figures.append(found.p50)
    return figures, server


def order_of(row: Row) -> str:
    """Return the order that a row is about."""
    return next(order for order in VERSIONS if row.name in (f"order-{order}", f"order-{order}-small"))


async def measure_order(row: Row, order: str) -> tuple[Figures, Server]:
    """Return what one round came to, in a new Roost whose agents are all of the order's service version."""
    async with world_of(row, f"--service-version={VERSIONS[order]}") as world:
        await _boot_all(world, row.held, prefix="held")
        cpu_before_s = conductor_cpu_s(world)
        seconds = await _boot_all(world, row.amount, prefix="s")
        cpu_s = conductor_cpu_s(world) - cpu_before_s
        server = await get_server(world.connection)
        await settle(world.made)
        built = await world.connection.fetchval(COUNT_ORDER, order)
        assert built == row.amount + row.held, f"{built} servers were built in the order {order}"
    steps = statistics.quantiles(seconds, n=100, method="inclusive")
    return Figures(steps[49] * 1000, steps[98] * 1000, cpu_s * 1000 / row.amount), server


async def _boot_all(world: World, amount: int, *, prefix: str) -> list[float]:
    """Boot one after the other from each of a few clients; return how long each took."""
    names = iter([f"{prefix}{number}" for number in range(amount)])
    seconds: list[float] = []

    async def client() -> None:
        for name in names:
            started = time.monotonic()
            await boot(world.client, world.network, name=name)
            while not await world.fetch(LAUNCHED, name):
                await asyncio.sleep(LOOK_S)
            seconds.append(time.monotonic() - started)

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        for _ in range(CLIENTS):
            tasks.create_task(client())
    return seconds


def conductor_cpu_s(world: World) -> float:
    """Return the CPU that the conductor's process has had so far. Source: proc(5), /proc/pid/stat."""
    supervisor = world.made.processes[0].pid
    total = 0.0
    for pid, name in names_of(supervisor).items():
        if name.startswith("conductor-"):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return total


def main(rounds: int = 3, amount: int = 200, held: int = 20, hosts: int = 60, segments: int = 3) -> None:
    """Measure all three orders, round by round in turn, and print the medians."""
    row = Row(name="order", kind=Kind.ORDER, hosts=hosts, segments=segments, amount=amount, held=held, unit="ms")
    figures: dict[str, list[Figures]] = {order: [] for order in VERSIONS}
    for _ in range(rounds):
        for order, known in figures.items():
            known.append(asyncio.run(measure_order(row, order))[0])
    print("| order | p50 ms | p99 ms | conductor's CPU for each boot, ms |\n|---|---|---|---|")
    for order, known in figures.items():
        medians = [statistics.median(getattr(one, name) for one in known) for name in ("p50", "p99", "cpu")]
        print(f"| {order} | {medians[0]:.0f} | {medians[1]:.0f} | {medians[2]:.1f} |")


if __name__ == "__main__":
    typer.run(main)
