"""How many API processes `roost serve` has where nobody says it, and how many database connections each process has."""

import os

from roost.cli.managing.ledger_target import LedgerTarget, connect

WORKERS_LEAST, WORKERS_MOST = 2, 8
POOL_LEAST, POOL_MOST = 4, 8
BESIDE_POOL = 3
"""Connections of a process beside its pool: for transactions within others, for look-ups, for LISTEN."""

PRIVATE_CONNECTIONS = 160  # of the private PostgreSQL's 200: other supervisors on it need some too

ALLOWED = """
-- cli.count_connections
SELECT least(
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0),
    (SELECT nullif(datconnlimit, -1) FROM pg_catalog.pg_database WHERE datname = current_database()),
    (SELECT nullif(rolconnlimit, -1) FROM pg_catalog.pg_roles WHERE rolname = current_user))
"""


async def count_connections(target: LedgerTarget) -> int:
    """Return how many connections Roost may have. Raises what a database that cannot be used raises."""
    if target.database is None:
        return PRIVATE_CONNECTIONS
    async with connect(target.database) as database, database.connection() as connection:
        return int(await connection.fetchval(ALLOWED))


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def choose_workers(*, cores: int, connections: int, others: int) -> int:
    """Return the number of API processes: the cores, from WORKERS_LEAST to WORKERS_MOST, as connections allow.

    connections: that the database allows. others: processes besides. At least one.
    """
    fitting = connections // (POOL_LEAST + BESIDE_POOL) - others
    return max(1, min(max(cores, WORKERS_LEAST), WORKERS_MOST, fitting))


def choose_pool_size(*, connections: int, processes: int) -> int:
    """Return the size of each process's pool."""
    return max(POOL_LEAST, min(POOL_MOST, connections // max(1, processes) - BESIDE_POOL))
