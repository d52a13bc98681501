"""Which schemas must be migrated, and what becomes of data that was there before a migration."""

import asyncio
from collections.abc import Iterator

import pytest
from alembic import command
from alembic.script import ScriptDirectory

from roost.cli.roles import SCHEMAS
from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.refresh import IndexRefresher
from roost.platform.database import Database
from roost.platform.migrate import SchemaTooNew, configuration, head, list_outdated, upgrade
from roost.platform.postgres import PrivatePostgres
from roost.seams.placement import VCPU, ClaimGroup, ConsumerClaim


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_last_migration_by_its_file_name_is_alembics_head(schema: str) -> None:
    assert ScriptDirectory.from_config(configuration("", schema)).get_heads() == [head(schema)]


async def test_a_schema_that_is_missing_or_not_at_its_head_is_outdated(database: Database) -> None:
    assert await list_outdated(database, SCHEMAS) == []
    async with database.transaction() as tx:
        await tx.execute("UPDATE network.alembic_version SET version_num = 'network_0000'")
        await tx.execute("DROP SCHEMA placement CASCADE")
        await tx.execute("DELETE FROM compute.alembic_version")
    assert await list_outdated(database, SCHEMAS) == ["placement", "network", "compute"]
    assert await list_outdated(database, ["compute"]) == ["compute"]


async def test_a_schema_that_is_newer_than_this_roost_is_refused_by_name(database: Database) -> None:
    async with database.transaction() as tx:
        await tx.execute("UPDATE network.alembic_version SET version_num = 'network_9999'")
    sentence = f"schema network in the database is at network_9999, and this Roost knows it up to {head('network')}"
    with pytest.raises(SchemaTooNew, match=sentence):
        await list_outdated(database, SCHEMAS)
    assert await list_outdated(database, ["placement"]) == []


@pytest.fixture
def empty_dsn(postgres: PrivatePostgres) -> Iterator[str]:
    """A database in which nothing is."""
    postgres._query("CREATE DATABASE test_migrations")
    yield postgres.dsn.replace("/roost?", "/test_migrations?")
    postgres._query("DROP DATABASE test_migrations WITH (FORCE)")


HOST, SERVER = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
STAMPED = f"""
INSERT INTO placement.provider (uuid, name, root_id, shape_xid, usage_xid) VALUES ('{HOST}', 'h1', 1, '900', '950');
INSERT INTO placement.resource_class (name) VALUES ('VCPU');
INSERT INTO placement.inventory VALUES (1, 1, 8, 0, 1, 8, 1, 1.0, 0);
INSERT INTO placement.deleted_provider (provider_id) VALUES (7);
"""


def test_a_ledger_with_stamps_goes_on_with_a_journal(empty_dsn: str) -> None:
    command.upgrade(configuration(empty_dsn, "placement"), "placement_0001")
    asyncio.run(_fill(empty_dsn))
    upgrade(empty_dsn, ["placement"])
    asyncio.run(_use(empty_dsn))


async def _fill(dsn: str) -> None:
    database = await Database.open(dsn)
    async with database.transaction() as tx:
        await tx.execute(STAMPED)
    await database.close()


async def _use(dsn: str) -> None:
    database = await Database.open(dsn)
    ledger, refresher = Ledger(database), IndexRefresher(database)
    await sync_standard_names(ledger)
    loaded = await refresher.fresh()
    assert loaded.used[loaded.row_by_uuid[HOST]] == {VCPU: 0}
    server = ConsumerClaim(
        consumer_uuid=SERVER, generation=None, consumer_type=None, project_id="p", user_id="u",
        allocations={HOST: {VCPU: 3}},
    )  # fmt: skip
    await claims_service.claim(ledger, [ClaimGroup((server,))])
    index = await refresher.fresh()
    assert index is loaded
    assert index.used[index.row_by_uuid[HOST]] == {VCPU: 3}
    await database.close()
