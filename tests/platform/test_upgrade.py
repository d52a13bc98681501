"""A cloud that an early Roost left behind is upgraded by the kept release, then by this one; nothing of it is lost."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.invariants import assert_books_agree
from tests.upgrade.kept import migrate_as_kept

from roost.cli.serving.roles import SCHEMAS
from roost.platform.database import Database
from roost.platform.migrate import SchemaTooOld, bring_up_to_date, list_outdated, upgrade
from roost.platform.postgres import PrivatePostgres

MANAGE = (sys.executable, "-c", "from roost.cli.manage import main; main()")
DUMP = Path(__file__).parent / "data" / "cloud-before-leases.sql"
"""By pg_dump of version 67cb3ef: twelve ACTIVE servers on a routed, a flat and a plain network, over two cells, one of
them with a user's port and an address of the user's choice; and two ports of nobody, with and without an address."""

COUNTS = """
SELECT (SELECT count(*) FROM compute.server WHERE status = 'ACTIVE') AS servers,
    (SELECT count(*) FROM network.port) AS ports,
    (SELECT count(*) FROM network.address) AS addresses,
    (SELECT count(*) FROM compute.guest WHERE reported = 'running') AS guests,
    (SELECT sum(used)::int FROM placement.inventory) AS used
"""


@pytest.fixture
def old_dsn(postgres: PrivatePostgres) -> Iterator[str]:
    """A database as that version left it."""
    postgres._query("CREATE DATABASE test_upgrade")
    dsn = postgres.dsn.replace("/roost?", "/test_upgrade?")
    subprocess.run([postgres._bin_dir() / "psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", DUMP, dsn], check=True)
    yield dsn
    postgres._query("DROP DATABASE test_upgrade WITH (FORCE)")


async def test_a_cloud_of_an_early_version_is_refused_until_the_kept_release_upgraded_it(old_dsn: str) -> None:
    database = await Database.open(old_dsn, size=2)
    try:
        async with database.connection() as connection:
            before = dict(await connection.fetchrow(COUNTS))
            flat_count = await connection.fetchval("SELECT count(*) FROM network.flat_address")
        assert (before["servers"], flat_count) == (12, 6)
        sentence = r"at placement_0003, .* have an earlier release upgrade it first, .*docs/upgrade/roost.md"
        for contract in (False, True):
            with pytest.raises(SchemaTooOld, match=sentence):
                await bring_up_to_date(database, SCHEMAS, contract=contract)
        manage = [*MANAGE, "db", "upgrade", "--database", old_dsn]
        refused = await asyncio.to_thread(subprocess.run, manage, capture_output=True, text=True, check=False)
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused.stderr
        await asyncio.to_thread(migrate_as_kept, old_dsn)
        assert set(await list_outdated(database, SCHEMAS)) == set(SCHEMAS)
        await asyncio.to_thread(upgrade, old_dsn, SCHEMAS)
        async with database.connection() as connection:
            after = dict(await connection.fetchrow(COUNTS))
        # Addresses of flat networks are on ports since.
        moved = {"ports": before["ports"] + flat_count, "addresses": before["addresses"] + flat_count}
        assert after == before | moved
        await assert_books_agree(database)
        audit = await asyncio.to_thread(
            subprocess.run, [*MANAGE, "audit", "--database", old_dsn], capture_output=True, text=True, check=False
        )
        assert audit.returncode == 0, audit.stdout + audit.stderr
    finally:
        await database.close()
