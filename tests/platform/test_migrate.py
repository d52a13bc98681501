"""Which schemas must be migrated, and what becomes of data that was there before a migration."""

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator

import asyncpg
import pytest
from alembic.script import ScriptDirectory
from tests.upgrade.kept import migrate_as_kept

from roost.cli.serving.roles import SCHEMAS
from roost.platform.database import Database
from roost.platform.migrate import SchemaState, SchemaTooNew, configuration, list_outdated, read_states, upgrade
from roost.platform.new_schemas import LOCK_KEY, SchemaNotMade
from roost.platform.postgres import PrivatePostgres
from roost.platform.release import head, list_migrations


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_last_migrations_by_their_file_names_are_alembics_heads(schema: str) -> None:
    last_by_kind = {migration.contracts: migration.revision for migration in list_migrations(schema)}
    heads = ScriptDirectory.from_config(configuration("", schema)).get_heads()
    assert set(heads) == set(last_by_kind.values())
    assert max(heads) == head(schema)


async def test_a_schema_that_is_missing_or_not_at_its_head_is_outdated(database: Database) -> None:
    assert await list_outdated(database, SCHEMAS) == []
    async with database.transaction() as tx:
        await tx.execute(
            "UPDATE network.alembic_step SET version_num = 'network_0004' WHERE version_num <> 'network_0011'"
        )
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


START = """
import asyncio, sys
from roost.platform.database import Database
from roost.platform.migrate import bring_up_to_date

async def start():
    await bring_up_to_date(await Database.open(sys.argv[1], size=2), ["placement"], contract=True)

asyncio.run(start())
"""


COUNT_WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
WHERE locktype = 'advisory' AND NOT granted AND d.datname = current_database()
"""


async def test_nodes_that_start_at_once_on_an_empty_database_make_its_schema_once(empty_dsn: str) -> None:
    """All of them have found nothing before the first one makes anything."""
    held = await asyncpg.connect(empty_dsn)
    await held.execute("SELECT pg_advisory_lock($1)", LOCK_KEY)
    words = (sys.executable, "-c", START, empty_dsn)
    nodes = [await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE) for _ in range(3)]
    try:
        async with asyncio.timeout(60):
            while await held.fetchval(COUNT_WAITING) < len(nodes):
                await asyncio.sleep(0.05)  # other processes are at work; nothing here can move their clocks
            await held.close()
            ended = await asyncio.gather(*(node.communicate() for node in nodes))
    finally:
        await held.close()
        for node in nodes:
            if node.returncode is None:
                node.kill()
    assert [node.returncode for node in nodes] == [0, 0, 0], ended
    database = await Database.open(empty_dsn)
    assert await list_outdated(database, ["placement"]) == []
    await database.close()


def test_a_new_database_is_made_without_alembic_and_contracted(empty_dsn: str) -> None:
    words = [sys.executable, "-c", f"{START}\nprint(*sys.modules)", empty_dsn]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert {"alembic", "sqlalchemy"} & set(done.stdout.split()) == set()
    state = asyncio.run(_read_state(empty_dsn))
    assert (state.oldest, state.expands, state.contracts) == (head("placement"), (), ())


async def _read_state(dsn: str) -> SchemaState:
    database = await Database.open(dsn)
    (state,) = await read_states(database, ["placement"])
    await database.close()
    return state


def test_an_empty_schema_that_an_operator_made_is_filled(empty_dsn: str) -> None:
    asyncio.run(_execute(empty_dsn, "CREATE SCHEMA network"))
    for _ in range(2):
        upgrade(empty_dsn, ["network"])
    assert asyncio.run(_agent_ids(empty_dsn)) == []


def test_what_is_in_the_way_of_a_new_schema_is_said_and_left(empty_dsn: str) -> None:
    asyncio.run(_execute(empty_dsn, "CREATE SCHEMA network; CREATE TABLE network.port (mine text)"))
    with pytest.raises(
        SchemaNotMade, match='the schema network cannot be made in the database: relation "port" already'
    ):
        upgrade(empty_dsn, ["network"])
    assert asyncio.run(_list_tables(empty_dsn)) == ["network.port"]


async def _list_tables(dsn: str) -> list[str]:
    database = await Database.open(dsn)
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT format('%s.%s', schemaname, tablename) AS name FROM pg_tables WHERE schemaname = ANY($1)",
            [*SCHEMAS],
        )
    await database.close()
    return [row["name"] for row in rows]


async def _execute(dsn: str, sql: str) -> None:
    database = await Database.open(dsn)
    async with database.transaction() as tx:
        await tx.execute(sql)
    await database.close()


HOSTS = "INSERT INTO network.host (name, physical_networks) VALUES ('h1', '{}'), ('h2', '{}')"
DRAWN = "INSERT INTO network.host (name, physical_networks) VALUES ('h3', '{}')"


def test_agents_keep_the_ids_that_their_hosts_names_gave_them_and_an_older_release_may_add_some(empty_dsn: str) -> None:
    migrate_as_kept(empty_dsn)
    asyncio.run(_execute(empty_dsn, HOSTS))
    upgrade(empty_dsn, ["network"])
    asyncio.run(_execute(empty_dsn, DRAWN))
    namespace = uuid.UUID("8a0d3c52-6f0c-5d43-9a4b-6167656e7473")
    ids = asyncio.run(_agent_ids(empty_dsn))
    assert len(set(ids)) == 3
    assert ids[:2] == [str(uuid.uuid5(namespace, name)) for name in ("h1", "h2")]


async def _agent_ids(dsn: str) -> list[str]:
    database = await Database.open(dsn)
    async with database.transaction() as tx:
        rows = await tx.fetch("SELECT agent_id FROM network.host ORDER BY name")
    await database.close()
    return [str(row["agent_id"]) for row in rows]
