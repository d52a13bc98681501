"""Which schemas must be migrated, and what becomes of data that was there before a migration."""

import asyncio
import sys
import uuid
from collections.abc import Iterator

import asyncpg
import pytest
from alembic import command
from alembic.script import ScriptDirectory

from roost.cli.serving.roles import SCHEMAS
from roost.network.model.ports import PortFilter
from roost.network.store import networks as network_rows
from roost.network.store import ports as port_rows
from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.refresh import IndexRefresher
from roost.platform.database import Database
from roost.platform.migrate import SchemaTooNew, configuration, list_outdated, upgrade
from roost.platform.postgres import PrivatePostgres
from roost.platform.release import head, list_migrations
from roost.seams.network import Nic
from roost.seams.placement import VCPU, ClaimGroup, ConsumerClaim

LOCK_KEY = 0x526F6F7374
"""Of migrations/env.py, which only Alembic can import."""


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
            "UPDATE network.alembic_step SET version_num = 'network_0000' WHERE version_num <> 'network_0011'"
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


HOST, SERVER = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
STAMPED = f"""
INSERT INTO placement.provider (uuid, name, root_id, shape_xid, usage_xid) VALUES ('{HOST}', 'h1', 1, '900', '950');
INSERT INTO placement.resource_class (name) VALUES ('VCPU');
INSERT INTO placement.inventory VALUES (1, 1, 8, 0, 1, 8, 1, 1.0, 0);
INSERT INTO placement.deleted_provider (provider_id) VALUES (7);
"""


def test_a_ledger_with_stamps_goes_on_with_a_journal(empty_dsn: str) -> None:
    command.upgrade(configuration(empty_dsn, "placement"), "placement_0001")
    asyncio.run(_execute(empty_dsn, STAMPED))
    upgrade(empty_dsn, ["placement"])
    asyncio.run(_use(empty_dsn))


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


async def _execute(dsn: str, sql: str) -> None:
    database = await Database.open(dsn)
    async with database.transaction() as tx:
        await tx.execute(sql)
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


CLOUD = {
    name: f"00000000-0000-4000-8000-00000000000{number}" for number, name in enumerate(("net", "pool", "a", "b"), 1)
}
FLAT = """
INSERT INTO network.network (id, name, project_id, flat) VALUES ('{net}', 'legacy', 'p', true);
INSERT INTO network.subnet (id, network_id, project_id, ip_version, cidr, cell)
    VALUES ('{pool}', '{net}', 'p', 4, '10.1.0.0/29', 'cell1');
INSERT INTO network.pool VALUES ('{pool}', '10.1.0.2', '10.1.0.6');
INSERT INTO network.free_range VALUES ('{pool}', '10.1.0.5', '10.1.0.6');
INSERT INTO network.flat_address (server_id, tag, network_id, subnet_id, address, mac_address, ticket) VALUES
    ('{a}', '0', '{net}', '{pool}', '10.1.0.2', 'fa:16:3e:00:00:01', 1),
    ('{a}', '1', '{net}', '{pool}', '10.1.0.3', 'fa:16:3e:00:00:02', 1),
    ('{b}', '0', '{net}', '{pool}', '10.1.0.4', 'fa:16:3e:00:00:03', 2);
""".format(**CLOUD)


def test_addresses_of_flat_networks_come_to_be_on_hidden_ports_with_the_ids_that_builds_derive(empty_dsn: str) -> None:
    command.upgrade(configuration(empty_dsn, "network"), "network_0003")
    asyncio.run(_execute(empty_dsn, FLAT))
    upgrade(empty_dsn, ["network"])
    asyncio.run(_look(empty_dsn))


async def _look(dsn: str) -> None:
    database = await Database.open(dsn)
    async with database.transaction() as tx:
        shown = await port_rows.list_ports(tx, PortFilter())
        found = await port_rows.list_ports(tx, PortFilter(hidden=True))
        (subnet,) = await network_rows.list_subnets(tx, provider_uuids=[CLOUD["pool"]])
    await database.close()
    assert shown == []
    assert subnet.id == subnet.provider_uuid == CLOUD["pool"]
    ids = {
        Nic(tag=tag).port_id_of(CLOUD[server]): (CLOUD[server], tag)
        for server, tag in (("a", "0"), ("a", "1"), ("b", "0"))
    }
    assert {port.id: (port.made_for, port.nic_tag) for port in found} == ids
    assert {port.addresses[0].address: port.mac_address[-2:] for port in found} == {
        "10.1.0.2": "01", "10.1.0.3": "02", "10.1.0.4": "03",
    }  # fmt: skip
    assert all(port.device_id == port.made_for and port.reserved_from is None for port in found)
    assert not any(item.claimed or item.assigned_for for port in found for item in port.addresses)


HOSTS = "INSERT INTO network.host (name, physical_networks) VALUES ('h1', '{}'), ('h2', '{}')"
DRAWN = "INSERT INTO network.host (name, physical_networks) VALUES ('h3', '{}')"


def test_agents_keep_the_ids_that_their_hosts_names_gave_them_and_an_older_release_may_add_some(empty_dsn: str) -> None:
    command.upgrade(configuration(empty_dsn, "network"), "network_0005")
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
