"""Alembic's entry point: one schema's history, on one connection, behind one advisory lock."""

import asyncio
from functools import partial

import asyncpg
from alembic import context
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from roost.platform.errors import DatabaseUnavailable
from roost.platform.new_schemas import LOCK_KEY
from roost.platform.timeouts import LEASE_S, Timeouts

LOCK_WAIT_S = 0.2
"""How long requests wait behind a migration that waits for a lock. It takes several: PostgreSQL looks for deadlocks
after a second, and would end a request's transaction."""
LOCK_PAUSE_S = 0.2
LOCK_TRIES_MAX = 1500
"""Ten minutes: what holds a table for longer, such as a dump, is not waited for."""
NOT_GOT = ("55P03", "40P01")
"""lock_not_available, deadlock_detected. Source: PostgreSQL 15, appendix A."""


def _migrate(connection: Connection) -> None:
    schema = context.config.attributes["schema"]
    # A migration may take its time; one whose process is gone gives its locks back.
    for name, value in Timeouts.of_lease(LEASE_S).idle_settings().items():
        connection.execute(text("SELECT set_config(:name, :value, false)"), {"name": name, "value": value})
    connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK_KEY})"))
    connection.execute(text(f"SET LOCAL lock_timeout = {round(LOCK_WAIT_S * 1000)}"))  # R35
    context.configure(connection=connection, version_table="alembic_step", version_table_schema=schema)
    with context.begin_transaction():
        context.run_migrations()
    if oldest := context.config.attributes["oldest"]:
        connection.execute(text(f"DELETE FROM {schema}.alembic_version"))  # noqa: S608
        connection.execute(text(f"INSERT INTO {schema}.alembic_version VALUES (:oldest)"), {"oldest": oldest})  # noqa: S608


async def _run(dsn: str) -> None:
    """Migrate, all or nothing, as often as a lock is not got in time."""
    # The address is asyncpg's to read, as everywhere else in Roost: SQLAlchemy knows no hosts without ports.
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=partial(asyncpg.connect, dsn), poolclass=NullPool
    )
    try:
        for tries_left in reversed(range(LOCK_TRIES_MAX)):
            try:
                async with engine.connect() as connection:
                    await connection.run_sync(_migrate)
                    return await connection.commit()
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) not in NOT_GOT:
                    raise
                if tries_left == 0:
                    raise DatabaseUnavailable("a table is held by a session that does not let go of it") from error
            await asyncio.sleep(LOCK_PAUSE_S)
    finally:
        await engine.dispose()


asyncio.run(_run(context.config.attributes["dsn"]))
