"""Who waits for whom in the database of a test."""

from roost.platform.database import Connection

BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def count_blocked(connection: Connection) -> int:
    """How many sessions wait for another's lock at this moment, also when asked inside a transaction."""
    await connection.execute("SELECT pg_stat_clear_snapshot()")  # a transaction would be told the first answer again
    return int(await connection.fetchval(BLOCKED))
