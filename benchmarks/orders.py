"""From POST to ACTIVE, server by server, in each order of the stages: ports are on the critical path.

`python -m benchmarks.orders` prints p50, p99 and the conductor's CPU for each boot, all three orders side by side. As a
row of the benchmarks an order's figure is its p50.
"""

import asyncio
import os
import statistics
import time
from pathlib import Path

import typer

from benchmarks.boot import CLIENTS, World, world_of
from benchmarks.machine import Measured
from benchmarks.processes import PATIENCE_S, prepared
from benchmarks.rows import Kind, Row

VERSIONS = {"late": 1, "early-create": 2, "early": 3}
"""Order -> the service version of every agent that has it chosen."""
VERSION_MIN = "ROOST_COMPUTE_SERVICE_VERSION_MIN"
LOOK_S = 0.002
LAUNCHED = """-- benchmarks.is_active
SELECT status = 'ACTIVE' FROM compute.server WHERE name = $1
"""
COUNT_ORDER = """-- benchmarks.count_order
SELECT count(*) FROM compute.server WHERE build_order ->> 'name' = $1
"""


def measure(row: Row) -> Measured:
    """Measure the p50, once a round, each in a new Roost. The row's name ends with the order."""
    with prepared() as data_dir:
        return Measured.of([measure_order(row, order_of(row), data_dir)[0] for _ in range(row.rounds)])


def order_of(row: Row) -> str:
    """Return the order that a row is about."""
    return next(order for order in VERSIONS if row.name in (f"order-{order}", f"order-{order}-small"))


def measure_order(row: Row, order: str, data_dir: Path) -> tuple[Measured, float]:
    """Return one round, in a new Roost whose agents are all of the order's service version, and its p99 in ms."""
    os.environ[VERSION_MIN] = "1"  # else hosts of older agents take no servers; for this row alone
    try:
        return asyncio.run(_measure(row, order, data_dir))
    finally:
        del os.environ[VERSION_MIN]


async def _measure(row: Row, order: str, data_dir: Path) -> tuple[Measured, float]:
    async with world_of(row, data_dir, f"--service-version={VERSIONS[order]}") as world:
        await _boot_all(world, row.held, prefix="held")
        async with world.meter.stretch(row.amount, "server") as stretch:
            seconds = await _boot_all(world, row.amount, prefix="s")
        world.roost.assert_records_agree()
        (built,) = await world.fetch(COUNT_ORDER, order)
        assert built == row.amount + row.held, f"{built} servers were built in the order {order}"
        steps = statistics.quantiles(seconds, n=100, method="inclusive")
        return await world.measured(steps[49] * 1000, stretch), steps[98] * 1000


async def _boot_all(world: World, amount: int, *, prefix: str) -> list[float]:
    """Boot one after the other from each of a few clients; return how long each took."""
    names = iter([f"{prefix}{number}" for number in range(amount)])
    seconds: list[float] = []

    async def client() -> None:
        async with world.meter.watch() as connection:
            for name in names:
                started = time.monotonic()
                await world.boot(name)
                while not await connection.fetchval(LAUNCHED, name):
                    await asyncio.sleep(LOOK_S)
                seconds.append(time.monotonic() - started)

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        for _ in range(CLIENTS):
            tasks.create_task(client())
    return seconds


def main(rounds: int = 3, amount: int = 200, held: int = 20, hosts: int = 60, segments: int = 3) -> None:
    """Measure all three orders, round by round in turn, and print the medians."""
    row = Row(name="order", kind=Kind.ORDER, hosts=hosts, segments=segments, amount=amount, held=held, unit="ms")
    figures: dict[str, list[tuple[float, float, float]]] = {order: [] for order in VERSIONS}
    with prepared() as data_dir:
        for _ in range(rounds):
            for order, known in figures.items():
                measured, p99 = measure_order(row, order, data_dir)
                known.append((measured.figures[0], p99, measured.stretches[0].cpu["conductor"]))
    print(f"{measured.server}\n| order | p50 ms | p99 ms | conductor's CPU for each boot, ms |\n|---|---|---|---|")
    for order, known in figures.items():
        p50, p99, cpu = map(statistics.median, zip(*known, strict=True))
        print(f"| {order} | {p50:.0f} | {p99:.0f} | {cpu:.1f} |")


if __name__ == "__main__":
    typer.run(main)
