"""Alembic's entry point: one schema's history, on one connection, behind one advisory lock."""

import asyncio
from functools import partial

import asyncpg
from alembic import context
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from roost.platform.timeouts import LEASE_S, Timeouts

LOCK_KEY = 0x526F6F7374  # "Roost"; two processes that start at once migrate one after the other


def _migrate(connection: Connection) -> None:
    schema = context.config.attributes["schema"]
    # A migration may wait for its locks and take its time; one whose process is gone gives them back.
    for name, value in Timeouts.of_lease(LEASE_S).idle_settings().items():
        connection.execute(text("SELECT set_config(:name, :value, false)"), {"name": name, "value": value})
    connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK_KEY})"))
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {schema}"))
    context.configure(connection=connection, version_table_schema=schema)
    with context.begin_transaction():
        context.run_migrations()


async def _run(dsn: str) -> None:
    # The address is asyncpg's to read, as everywhere else in Roost: SQLAlchemy knows no hosts without ports.
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=partial(asyncpg.connect, dsn), poolclass=NullPool
    )
    try:
        async with engine.connect() as connection:
            await connection.run_sync(_migrate)
            await connection.commit()
    finally:
        await engine.dispose()


asyncio.run(_run(context.config.attributes["dsn"]))
