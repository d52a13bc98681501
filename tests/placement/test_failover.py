"""Another server behind the same address, real ones: nothing of the first stays in the index."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from roost.placement.search.index import Index
from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.refresh import IndexRefresher
from roost.platform.database import Database
from roost.platform.errors import DatabaseUnavailable
from roost.platform.migrate import upgrade
from roost.platform.postgres import PrivatePostgres
from roost.seams.placement import VCPU, Inventory, ProviderState

REPLICATED = {"fsync": "off", "wal_level": "replica"}


@pytest.fixture
def other_postgres(data_dir: Path) -> Iterator[PrivatePostgres]:
    """A second server, migrated."""
    server = PrivatePostgres(data_dir / "other", settings=REPLICATED)
    server.start()
    upgrade(server.dsn, ["placement"])
    yield server
    server.stop()


async def fill(dsn: str, *names: str) -> None:
    database = await Database.open(dsn)
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    states = [
        ProviderState(uuid=f"00000000-0000-4000-8000-{number:012}", name=name, inventories={VCPU: Inventory(total=8)})
        for number, name in enumerate(names)
    ]
    await claims_service.ensure_providers(ledger, states)
    await database.close()


def names(index: Index) -> list[str]:
    return sorted(index.names[row] for row in index.row_by_id.values())


async def test_a_server_with_other_data_behind_the_same_address_has_the_index_loaded_anew(
    postgres: PrivatePostgres, dsn: str, other_postgres: PrivatePostgres, data_dir: Path
) -> None:
    database_name = dsn.partition("?")[0].rpartition("/")[2]
    other_postgres._query(f"ALTER DATABASE roost RENAME TO {database_name}")
    await fill(dsn, "h1", "h2", "h3")
    await fill(other_postgres.dsn.replace("/roost?", f"/{database_name}?"), "other-h1")
    address = data_dir / "address"
    address.symlink_to(postgres.socket_dir)
    database = await Database.open(f"postgresql://roost@/{database_name}?host={address}")
    async with database.connection() as connection:
        for _ in range(1000):  # the other's journal lies below all that the first has seen
            await connection.execute("SELECT pg_current_xact_id()")
    refresher = IndexRefresher(database)
    assert names(await refresher.fresh()) == ["h1", "h2", "h3"]

    address.unlink()
    address.symlink_to(other_postgres.socket_dir)
    postgres._query(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{database_name}'")
    with suppress(DatabaseUnavailable):  # if the connection is not yet known to be cut
        await refresher.fresh()
    assert names(await refresher.fresh()) == ["other-h1"]
    await database.close()


async def test_a_standby_answers_nothing_and_is_another_server_once_promoted(
    other_postgres: PrivatePostgres, data_dir: Path
) -> None:
    await fill(other_postgres.dsn, "h1")
    await asyncio.to_thread(other_postgres.stop)
    copy = ["cp", "-a", data_dir / "other", data_dir / "standby"]  # with owners, which shutil forgets
    await asyncio.to_thread(subprocess.run, copy, check=True)
    (data_dir / "standby" / "postgres" / "standby.signal").touch()
    standby = PrivatePostgres(data_dir / "standby", settings=REPLICATED)
    await asyncio.to_thread(standby.start)
    try:
        database = await Database.open(standby.dsn)
        refresher = IndexRefresher(database)
        with pytest.raises(DatabaseUnavailable, match="standby"):
            await refresher.fresh()
        async with database.lookups() as connection:
            pid = connection.get_server_pid()
            assert await connection.fetchval("SELECT pg_promote()")
        assert names(await refresher.fresh()) == ["h1"]
        assert refresher._seen.server[1] == "00000002"
        async with database.lookups() as connection:
            assert connection.get_server_pid() == pid
        await database.close()
    finally:
        await asyncio.to_thread(standby.stop)


async def test_a_crash_of_one_backend_that_uses_transaction_ids_again_hides_no_change(data_dir: Path) -> None:
    """The postmaster lives on, but ids of aborted transactions that left nothing on disk are given again."""
    server = PrivatePostgres(data_dir / "crashing", settings={**REPLICATED, "wal_writer_delay": "10s"})
    await asyncio.to_thread(server.start)
    try:
        await asyncio.to_thread(upgrade, server.dsn, ["placement"])
        await fill(server.dsn, "h1")
        database = await Database.open(server.dsn)
        refresher = IndexRefresher(database)
        await refresher.fresh()
        async with database.connection() as connection:
            for _ in range(100):
                await connection.execute("BEGIN; SELECT pg_current_xact_id(); ROLLBACK")
            pid = connection.get_server_pid()
        await refresher.fresh()
        seen = refresher._seen
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while True:
            try:
                await fill(server.dsn, "h1", "h2")
                break
            except DatabaseUnavailable:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)  # another process recovers
        with suppress(DatabaseUnavailable):  # if the connection is not yet known to be cut
            await refresher.fresh()
        assert names(await refresher.fresh()) == ["h1", "h2"]
        assert refresher._seen.xmax < seen.xmax, "the ids were used again, or this shows nothing"
        await database.close()
    finally:
        await asyncio.to_thread(server.stop)
