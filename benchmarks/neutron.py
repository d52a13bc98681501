"""Rounds with a Neutron: the first, which claims for every port, and those after it, which find nothing.

Neutron is the tests' stand-in, over HTTP and in a process of its own: the CPU is Roost's alone, without PostgreSQL's.
`python -m benchmarks.neutron` prints CPU and seconds of each kind of round.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from multiprocessing import get_context
from multiprocessing.connection import Connection

import typer
from tests.fake_neutron import FakeNeutron
from tests.placement.nova import Segment
from tests.placement.providers import a_uuid

from benchmarks.ledger import private_database
from benchmarks.machine import Measured, Server, get_server, this_machine
from benchmarks.rows import ROWS, Kind, Row
from roost.clients.neutron import HttpNeutron
from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.neutron import run_round
from roost.placement.service.neutron_view import NeutronView
from roost.placement.settings import PlacementSettings
from roost.platform.settings import NeutronSettings

STARTED_S = 60.0


@dataclass(frozen=True)
class Spent:
    """What one round took, in seconds."""

    cpu_s: float
    clock_s: float


@dataclass(frozen=True)
class Rounds:
    """What the three kinds took: the first, one that reads all ports again, one that asks for changes."""

    first: Spent
    whole: Spent
    changes: Spent


def measure(row: Row) -> Measured:
    """Measure the seconds of CPU of each round of the row's kind."""
    measured = [asyncio.run(measure_rounds(row)) for _ in range(row.rounds)]
    spent = [rounds.first if row.kind is Kind.NEUTRON_FIRST else rounds.changes for rounds, _ in measured]
    return Measured([each.cpu_s for each in spent], [], measured[0][1])


async def measure_rounds(row: Row) -> tuple[Rounds, Server]:
    """Return what each kind took with a new ledger, and on what PostgreSQL."""
    segments = [Segment(-(-row.held // row.segments), []) for _ in range(row.segments)]
    async with private_database() as database, _neutron(segments, row.held) as neutron:
        async with database.connection() as connection:
            server = await get_server(connection)
        ledger = Ledger(database, settings=PlacementSettings(implied_addresses=True))
        await sync_standard_names(ledger)
        await claims_service.ensure_providers(ledger, [segment.states()[0] for segment in segments])
        view = NeutronView(full_s=0.0)
        first = await _round(ledger, neutron, view, row, drifts=row.held + row.segments)
        whole = await _round(ledger, neutron, view, row, drifts=0)
        view.full_s = 3600.0
        return Rounds(first, whole, await _round(ledger, neutron, view, row, drifts=0)), server


async def _round(ledger: Ledger, neutron: HttpNeutron, view: NeutronView, row: Row, *, drifts: int) -> Spent:
    cpu_s, clock_s = time.process_time(), time.perf_counter()
    done = await run_round(ledger, neutron, view)
    spent = Spent(time.process_time() - cpu_s, time.perf_counter() - clock_s)
    assert (done.ports, len(done.drifts)) == (row.held, drifts)
    assert all(drift.repaired for drift in done.drifts)
    return spent


@asynccontextmanager
async def _neutron(segments: Sequence[Segment], ports: int) -> AsyncIterator[HttpNeutron]:
    """A client of a Neutron with one network and so many servers' ports on its segments, until the block ends."""
    ours, theirs = get_context("spawn").Pipe()
    sizes = {segment.uuid: segment.addresses for segment in segments}
    process = get_context("spawn").Process(target=_serve, args=(sizes, ports, theirs), daemon=True)
    process.start()
    try:
        assert await asyncio.to_thread(ours.poll, STARTED_S), "the stand-in does not start"
        client = HttpNeutron(NeutronSettings(url=ours.recv()), None)
        yield client
        await client.close()
    finally:
        process.kill()
        process.join()


def _serve(sizes: dict[str, int], ports: int, pipe: Connection) -> None:
    neutron = FakeNeutron()
    neutron.add_network(sizes)
    subnets = list(neutron.subnets.values())
    for number in range(ports):
        subnet = subnets[number % len(subnets)]
        address = IPv4Address(subnet["allocation_pools"][0]["start"]) + number // len(subnets)
        neutron.add_port(subnet["segment_id"], a_uuid(), address=str(address))

    async def serve() -> None:
        async with neutron.serve():
            pipe.send(neutron.url)
            await asyncio.Event().wait()

    asyncio.run(serve())


def main(rounds: int = 3, name: str = "neutron-10000") -> None:
    """Measure with a new ledger each time, and print the medians."""
    row = next(row for row in ROWS if row.name == name)
    measured = [asyncio.run(measure_rounds(row))[0] for _ in range(rounds)]
    print("| round | CPU, s | on the clock, s |\n|---|---|---|")
    for kind in ("first", "whole", "changes"):
        spent: list[Spent] = [getattr(each, kind) for each in measured]
        columns = ([each.cpu_s for each in spent], [each.clock_s for each in spent])
        figures = (f"{statistics.median(all_s):.2f} ({min(all_s):.2f} to {max(all_s):.2f})" for all_s in columns)
        print(f"| {kind} | {' | '.join(figures)} |")
    print(this_machine())


if __name__ == "__main__":
    typer.run(main)
