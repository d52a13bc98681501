"""Claims of groups of four resources, in one process, on a PostgreSQL with fsync on."""

import asyncio
import tempfile
import time
import uuid
from pathlib import Path

from benchmarks.rows import Row
from roost.placement import service
from roost.placement.service import Ledger
from roost.platform.database import Database
from roost.platform.migrate import upgrade
from roost.platform.postgres import PrivatePostgres
from roost.seams.placement import Claimed, ClaimGroup, ConsumerClaim, Inventory, ProviderState

HOST = {"VCPU": Inventory(total=10**6), "MEMORY_MB": Inventory(total=10**9), "DISK_GB": Inventory(total=10**8)}


async def measure(row: Row) -> list[float]:
    """Groups per second, once a round."""
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
            hosts, segments = [_uuid() for _ in range(row.hosts)], [_uuid() for _ in range(row.segments)]
            states = [ProviderState(uuid=host, name=host, inventories=HOST) for host in hosts]
            room = {"IPV4_ADDRESS": Inventory(total=10**6)}
            states += [ProviderState(uuid=segment, name=segment, inventories=room) for segment in segments]
            await service.ensure_providers(ledger, states)
            rates = [await _one_round(ledger, row, hosts, segments) for _ in range(row.rounds)]
            await database.close()
            return rates
        finally:
            postgres.stop()


async def _one_round(ledger: Ledger, row: Row, hosts: list[str], segments: list[str]) -> float:
    batches = [
        [_group(hosts[(start + n) % len(hosts)], segments[n % len(segments)]) for n in range(row.batch)]
        for start in range(0, row.amount, row.batch)
    ]
    started = time.monotonic()
    for groups in batches:
        answers = await service.claim(ledger, groups)
        assert all(isinstance(answer, Claimed) for answer in answers)
    return row.amount / (time.monotonic() - started)


def _group(host: str, segment: str) -> ClaimGroup:
    return ClaimGroup(
        (
            _claim("INSTANCE", {host: {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10}}),
            _claim("PORT", {segment: {"IPV4_ADDRESS": 1}}),
        )
    )


def _claim(consumer_type: str, allocations: dict[str, dict[str, int]]) -> ConsumerClaim:
    return ConsumerClaim(
        consumer_uuid=_uuid(), generation=None, consumer_type=consumer_type, project_id="p", user_id="u",
        allocations=allocations,
    )  # fmt: skip


def _uuid() -> str:
    return str(uuid.uuid4())
