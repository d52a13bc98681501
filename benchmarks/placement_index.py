"""The index: loading it from PostgreSQL, keeping it fresh when nothing happens, and searching it in process."""

import asyncio
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.rows import Row
from roost.placement import service
from roost.placement.candidates import search
from roost.placement.refresh import IndexRefresher
from roost.placement.service import Ledger
from roost.platform.database import Database
from roost.platform.migrate import upgrade
from roost.platform.postgres import PrivatePostgres
from roost.seams.placement import SHARING, CandidateQuery, Inventory, ProviderState, RequestGroup

HOST = {
    "VCPU": Inventory(total=64, allocation_ratio=16.0),
    "MEMORY_MB": Inventory(total=262144, reserved=512),
    "DISK_GB": Inventory(total=2000),
}
SERVER = RequestGroup(suffix="", resources={"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10})


def _uuid() -> str:
    return str(uuid.uuid4())


@asynccontextmanager
async def cloud(row: Row) -> AsyncIterator[tuple[Ledger, list[str]]]:
    """A ledger with the row's hosts and segments on a PostgreSQL of its own; and the segments' aggregates."""
    with tempfile.TemporaryDirectory(prefix="roost-benchmark-") as name:
        directory = Path(name)
        directory.chmod(0o711)  # noqa: ASYNC240
        postgres = PrivatePostgres(directory)
        postgres.start()
        try:
            await asyncio.to_thread(upgrade, postgres.dsn)  # migrations run a loop of their own
            database = await Database.open(postgres.dsn)
            ledger = Ledger(database)
            await service.sync_standard_names(ledger)
            aggregates = [_uuid() for _ in range(row.segments)]
            states = [
                ProviderState(
                    uuid=_uuid(), name=f"host{n}", inventories=HOST, traits=frozenset({"HW_CPU_X86_AVX2"}),
                    placement_aggregates=frozenset({aggregates[n % row.segments]}),
                )
                for n in range(row.hosts)
            ]  # fmt: skip
            states += [
                ProviderState(
                    uuid=_uuid(), name=f"segment{n}", inventories={"IPV4_ADDRESS": Inventory(total=250, max_unit=250)},
                    traits=frozenset({SHARING}), placement_aggregates=frozenset({aggregate}),
                )
                for n, aggregate in enumerate(aggregates)
            ]  # fmt: skip
            await service.ensure_providers(ledger, states)
            yield ledger, aggregates
            await database.close()
        finally:
            postgres.stop()


async def measure_load(row: Row) -> list[float]:
    """Seconds until a new process has its index, once a round."""
    async with cloud(row) as (ledger, _aggregates):
        seconds = []
        for _ in range(row.rounds):
            started = time.perf_counter()
            index = await IndexRefresher(ledger.database).fresh()
            seconds.append(time.perf_counter() - started)
            assert len(index) == row.hosts + row.segments
        return seconds


async def measure_candidates(row: Row) -> list[float]:
    """Milliseconds for a query with an address from one of eight segments, in process, once a round."""
    async with cloud(row) as (ledger, aggregates):
        index = await ledger.index.fresh()
        milliseconds = []
        for _ in range(row.rounds):
            queries = [CandidateQuery(groups=(SERVER, _nic(aggregates, n)), limit=row.batch) for n in range(row.amount)]
            started = time.perf_counter()
            for n, query in enumerate(queries):
                assert len(search(index, query, start=n).candidates) == min(row.batch, row.hosts)
            milliseconds.append((time.perf_counter() - started) * 1000 / row.amount)
        return milliseconds


async def measure_refresh(row: Row) -> dict[str, float]:
    """Milliseconds of a refresh after nothing, and after one claim, on an index that is loaded."""
    async with cloud(row) as (ledger, _aggregates):
        index = await ledger.index.fresh()
        quiet = []
        for _ in range(50):
            started = time.perf_counter()
            await ledger.index.fresh()
            quiet.append(time.perf_counter() - started)
        busy = []
        for n in range(50):
            state = ProviderState(uuid=index.uuids[0], name=f"renamed{n}")
            await service.ensure_providers(ledger, [state])
            started = time.perf_counter()
            await ledger.index.fresh()
            busy.append(time.perf_counter() - started)
        return {"quiet_ms": sorted(quiet)[25] * 1000, "changed_ms": sorted(busy)[25] * 1000}


def _nic(aggregates: list[str], number: int) -> RequestGroup:
    size = min(8, len(aggregates))
    chosen = frozenset(aggregates[(number + k) % len(aggregates)] for k in range(size))
    return RequestGroup(suffix="_nic0", resources={"IPV4_ADDRESS": 1}, member_of=(chosen,))


def main() -> None:
    """Print the figures at 10,000 hosts on 250 segments."""
    load = Row("load-10000", "index-load", hosts=10000, segments=250, amount=1, batch=1, unit="s")
    some = Row("candidates-10000", "candidates", hosts=10000, segments=250, amount=500, batch=10, unit="ms")
    print("load, s:", asyncio.run(measure_load(load)))
    print("refresh:", asyncio.run(measure_refresh(load)))
    print("candidates, ms:", asyncio.run(measure_candidates(some)))


if __name__ == "__main__":
    main()
