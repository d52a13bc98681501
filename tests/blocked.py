"""Waits until somebody waits in the database of a test."""

import asyncio

from roost.platform.database import Database

BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def until_blocked(database: Database, count: int) -> None:
    """Wait until as many sessions, or more, wait for others' locks. It has a connection of its own.

    In a transaction the server would give its first answer again and again.
    """
    async with asyncio.timeout(20), database.connection() as connection:
        while await connection.fetchval(BLOCKED) < count:
            await asyncio.sleep(0.01)
