"""Make a schema that a database does not have, whole, from its wing's `schema.sql`; older ones are migrate.py's."""

import asyncpg

from roost.platform.database import Connection, set_session
from roost.platform.errors import RoostError
from roost.platform.release import WINGS, head, last_by_kind
from roost.platform.timeouts import LEASE_S, Timeouts

LOCK_KEY = 0x526F6F7374  # "Roost"; two processes that start at once make or migrate one after the other

PREPARE = """-- platform.prepare_schema
DO $$ BEGIN
    IF to_regnamespace('{schema}') IS NULL THEN CREATE SCHEMA {schema}; END IF;
    CREATE TABLE IF NOT EXISTS {schema}.alembic_version (version_num varchar(32) PRIMARY KEY);
    IF to_regclass('{schema}.alembic_step') IS NULL THEN
        CREATE TABLE {schema}.alembic_step AS SELECT version_num FROM {schema}.alembic_version;
        ALTER TABLE {schema}.alembic_step ADD PRIMARY KEY (version_num);
    END IF;
END $$
"""
"""Releases before there were two steps have `alembic_version` alone."""


class SchemaNotMade(RoostError):
    """A schema that the database does not have cannot be made."""


async def make_new(dsn: str, schema: str) -> bool:
    """Make a schema of this release, contracted, where no migration was made; returns whether it was so.

    Raises SchemaNotMade, with nothing changed.
    """
    connection = await asyncpg.connect(dsn)
    try:
        await set_session(connection, Timeouts.of_lease(LEASE_S).idle_settings())
        async with connection.transaction():
            return await _make_new(connection, schema)
    except asyncpg.PostgresError as error:
        raise SchemaNotMade(f"the schema {schema} cannot be made in the database: {error}") from error
    finally:
        await connection.close()


async def _make_new(connection: Connection, schema: str) -> bool:
    await connection.execute(f"SELECT pg_advisory_xact_lock({LOCK_KEY})")
    await connection.execute(PREPARE.format(schema=schema))
    made_before = f"SELECT FROM {schema}.alembic_step UNION ALL SELECT FROM {schema}.alembic_version"  # noqa: S608
    if await connection.fetchval(f"SELECT EXISTS ({made_before})"):
        return False
    await connection.execute((WINGS / schema / "schema.sql").read_text())
    stamp = f"INSERT INTO {schema}.alembic_step SELECT unnest($1::text[])"
    await connection.execute(stamp, list(last_by_kind(schema).values()))
    await connection.execute(f"INSERT INTO {schema}.alembic_version VALUES ($1)", head(schema))  # noqa: S608
    return True
