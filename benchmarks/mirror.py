"""How long `sync_placement_aggregates` takes to make Placement mirror host aggregates that it knows nothing of."""

import asyncio
import time

from benchmarks.ledger import private_database
from benchmarks.machine import Measured, get_server
from benchmarks.rows import Row
from roost.cli.serving.cloud_wiring import CloudParts
from roost.cli.settings import read_settings
from roost.compute.model.work import CHANNELS
from roost.compute.service import Compute
from roost.compute.service.aggregate_sync import sync_aggregates
from roost.compute.service.hosts import register_hosts
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.auth import Unrestricted
from roost.platform.database import Connection, Database
from roost.platform.wakeup import Wakeups
from roost.seams.agent import HostReport

MAKE_MEMBERS = """
INSERT INTO compute.host_aggregate_host (aggregate_uuid, host)
SELECT aggregate.uuid, host.name FROM compute.host JOIN compute.host_aggregate AS aggregate
ON host.id % $1 = aggregate.id % $1"""


def measure(row: Row) -> Measured:
    """Measure the seconds of each round's run; before each the mirror is empty."""
    return asyncio.run(_measure(row))


async def _measure(row: Row) -> Measured:
    async with private_database() as database:
        async with database.connection() as connection:
            server = await get_server(connection)
        compute = await _world(database, row)
        return Measured([await _round(compute, row) for _ in range(row.rounds)], [], server)


async def _world(database: Database, row: Row) -> Compute:
    """Make hosts, and aggregates (the row's segments) with their members, of which Placement is told nothing."""
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    cloud = CloudParts.wire(ledger, Wakeups(database, CHANNELS), read_settings(None), Unrestricted())
    reports = [HostReport(name=f"h{n}", vcpus=4, ram_mb=4096, disk_gb=40) for n in range(row.hosts)]
    await register_hosts(cloud.compute, reports, agent=None)
    async with database.transaction() as tx:
        await make_aggregates(tx, row.segments)
        await tx.execute(MAKE_MEMBERS, row.segments)
    return cloud.compute


async def make_aggregates(tx: Connection, count: int) -> None:
    """Make so many operators' aggregates, without members."""
    await tx.execute(
        "INSERT INTO compute.host_aggregate (uuid, name, of_operator)"
        " SELECT gen_random_uuid(), 'a' || n, true FROM generate_series(1, $1::int) AS n",
        count,
    )


async def _round(compute: Compute, row: Row) -> float:
    started = time.perf_counter()
    report = await sync_aggregates(compute)
    seconds = time.perf_counter() - started
    assert (int(report.status), len(report.changes)) == (0, row.hosts), report.problems
    again = await sync_aggregates(compute, prune=True)
    assert (int(again.status), again.changes) == (0, ()), "a second run writes nothing"
    async with compute.database.transaction() as tx:
        await tx.execute("DELETE FROM compute.host_aggregate_host")
    await sync_aggregates(compute, prune=True)
    async with compute.database.transaction() as tx:
        await tx.execute(MAKE_MEMBERS, row.segments)
    return seconds
