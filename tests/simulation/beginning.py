"""The cloud with which each story begins: the services make it once, then it is copied, with UUIDs of the story's seed.

A copy is one statement, where making it takes 400.
"""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from tests.conductor.world import World
from tests.placements import open_placement
from tests.simulation.chance import SeededEnv
from tests.simulation.identities import BOOTED

from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.service.guests import Polls
from roost.network.rules.segments import segment_aggregate_uuid
from roost.placement.model import NameKind
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.database import Connection, Database

HOSTS = {"r1-h1": "rack1", "r1-h2": "rack1", "r1-h3": "rack1", "r2-h1": "rack2", "r2-h2": "rack2"}
VCPUS = 3
"""Of each host."""
SUBNETS = ("10.1.0", "10.2.0", "10.9.0")
"""Of the routed network's racks, and of the other network."""
SECOND = ("10.1.1", "10.2.1", "10.9.1")
"""Of the same, once an operator has made them."""
TABLES = """
SELECT format('%I.%I', table_schema, table_name) AS name,
    string_agg(quote_ident(column_name), ', ') FILTER (WHERE is_generated = 'NEVER') AS columns
FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema IN ('placement', 'network', 'compute', 'audit') AND table_type = 'BASE TABLE'
AND table_name NOT IN ('alembic_version', 'alembic_step', 'trait', 'resource_class', 'change_horizon', 'mark_key',
    'database_seen')
GROUP BY 1 ORDER BY 1
"""
"""All but what a new schema has, and standard names. Without its horizon, every search would load the index anew."""
SEQUENCES = """
SELECT format('%I.%I', schemaname, sequencename) AS name,
    coalesce(CASE WHEN $1 THEN last_value + increment_by END, start_value) AS next
FROM pg_sequences
WHERE schemaname IN ('placement', 'network', 'compute') AND sequencename !~ '^(trait|resource_class)_'
ORDER BY 1
"""
BEGIN_ANEW = """
CREATE OR REPLACE FUNCTION audit.begin_anew(cloud jsonb) RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    {statements}
END $body$
"""
EMPTY = "DELETE FROM {name};"
FILL = """INSERT INTO {name} ({columns}) OVERRIDING SYSTEM VALUE
    SELECT {columns} FROM jsonb_populate_recordset(NULL::{name}, cloud -> '{name}');"""
NUMBER = "PERFORM setval('{name}', {next}, false);"
DUMP = "SELECT json_object_agg(name, rows) FROM (VALUES {tables}) AS t (name, rows)"
DUMP_TABLE = "('{name}', (SELECT coalesce(json_agg(t), '[]') FROM {name} t))"
DUMP_SEQUENCE = "('{name}', (SELECT to_json(last_value + is_called::int) FROM {name}))"
PUT_BACK = """
CREATE OR REPLACE FUNCTION audit.put_back(cloud jsonb) RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    {statements}
END $body$
"""
NUMBER_AS_DUMPED = "PERFORM setval('{name}', (cloud ->> '{name}')::bigint, false);"
JOURNAL = "placement.change"
"""Is not copied: its rows are of transactions that were; who has no index yet reads everything."""
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+\+00:00")


class Beginning(NamedTuple):
    """The cloud, table by table, as JSON. uuids: those that were drawn when it was made; networks: its networks' ids.

    connection: for copies alone: no trigger and no foreign key looks at what it does, and a connection that comes to be
    so, or is so no longer, plans all its statements again.
    dump: the statement that returns all rows and the numbers of new ones. standard_ids: see Ledger.
    """

    connection: Connection
    tables: str
    uuids: tuple[str, ...]
    networks: tuple[str, str]
    dump: str
    standard_ids: dict[NameKind, dict[str, int]]

    @classmethod
    async def make(cls, database: Database, connection: Connection) -> "Beginning":
        """Make a cloud with little room: five hosts on two racks, a routed network, one that all reach."""
        await connection.execute("SET session_replication_role = replica")
        await _define(connection, {})
        await connection.execute("SELECT audit.begin_anew('{}')")
        chance = SeededEnv(0)
        world = await World.make(database, env=chance.env)
        await create_flavor(world.compute, FlavorRequest(name="large", vcpus=2, ram_mb=1024, disk_gb=1))
        for rack in sorted(set(HOSTS.values())):
            names = [host for host, on in HOSTS.items() if on == rack]
            await world.declare(*names, reach=[rack, "backend"], vcpus=VCPUS)
        await Polls(world.compute).poll(list(HOSTS), agent=BOOTED, busy=[], wait_s=0)
        routed = await world.routed(rack1=f"{SUBNETS[0]}.0/29", rack2=f"{SUBNETS[1]}.0/29")
        plain = await world.cloud.plain(f"{SUBNETS[2]}.0/29", physical_network="backend")
        tables = await _read(connection)
        await _define(connection, tables)
        ledger = Ledger(database)
        await sync_standard_names(ledger)
        text = INSTANT.sub("now", json.dumps(tables))
        dump = await _define_dumps(connection)
        return cls(connection, text, tuple(chance.uuids_drawn), (routed.id, plain.id), dump, ledger.standard_ids)

    async def copy(self, database: Database, chance: SeededEnv) -> tuple[World, list[str]]:
        """Empty the world, and fill it with the cloud; returns it, and the ids of its networks."""
        uuids = {uuid: chance.env.new_uuid() for uuid in self.uuids}
        uuids |= {segment_aggregate_uuid(old): segment_aggregate_uuid(new) for old, new in uuids.items()}
        tables = UUID.sub(lambda uuid: uuids.get(uuid[0], uuid[0]), self.tables)
        await self.connection.execute("SELECT audit.begin_anew($1)", tables)
        return await self.wire(database, chance), [uuids[network] for network in self.networks]

    async def wire(self, database: Database, chance: SeededEnv) -> World:
        """Wire the services on what there is, as processes do that begin."""
        ledger = Ledger(database, chance.env, standard_ids=self.standard_ids)
        return World.wire(ledger, await open_placement(ledger))

    async def take_dump(self) -> str:
        """Return the world as it is."""
        return str(await self.connection.fetchval(self.dump))

    async def put_back(self, dump: str) -> None:
        """Make the world what it was."""
        await self.connection.execute("SELECT audit.put_back($1)", dump)


async def _read(connection: Connection) -> dict[str, list[object]]:
    """Return the rows of each table that has any."""
    names = [row["name"] for row in await connection.fetch(TABLES) if row["name"] != JOURNAL]
    rows = {name: await connection.fetchval(f"SELECT jsonb_agg(t) FROM {name} t") for name in names}
    return {name: json.loads(text) for name, text in rows.items() if text}


async def _define(connection: Connection, filled: Mapping[str, object]) -> None:
    """Define the function that empties all tables, fills these, and has new rows numbered from where they are now."""
    tables, sequences = await connection.fetch(TABLES), await connection.fetch(SEQUENCES, bool(filled))
    statements = [EMPTY.format(**table) for table in tables]
    statements += [FILL.format(**table) for table in tables if table["name"] in filled]
    statements += [NUMBER.format(**sequence) for sequence in sequences]
    await connection.execute(BEGIN_ANEW.format(statements="\n    ".join(statements)))


async def _define_dumps(connection: Connection) -> str:
    """Define the function that puts a dump back; return the statement that makes one."""
    tables, sequences = await connection.fetch(TABLES), await connection.fetch(SEQUENCES, True)
    dumped = [table for table in tables if table["name"] != JOURNAL]
    statements = [EMPTY.format(**table) for table in tables] + [FILL.format(**table) for table in dumped]
    statements += [NUMBER_AS_DUMPED.format(**sequence) for sequence in sequences]
    await connection.execute(PUT_BACK.format(statements="\n    ".join(statements)))
    values = [DUMP_TABLE.format(**table) for table in dumped]
    values += [DUMP_SEQUENCE.format(**sequence) for sequence in sequences]
    return DUMP.format(tables=", ".join(values))
