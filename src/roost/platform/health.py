"""Whether the database can serve at this moment, and whether this process has a connection for one more request."""

import asyncio

import asyncpg
import structlog

from roost.platform.database import UNAVAILABLE, Connection, Database
from roost.platform.errors import reason_of
from roost.platform.logs import EachMinute

ANSWER_S = 0.7
"""`/healthz` is answered within a second, whatever the database does."""
LOOK_TIMEOUT_S = 5.0

log = structlog.get_logger()

LIMIT_MEMORY = """-- platform.limit_memory
SET LOCAL work_mem = '64kB'
"""

WRITE_TEMPORARY_FILE = """-- platform.write_temporary_file
SELECT count(*) FROM generate_series(1, 40000)
"""
"""The rows do not fit into that memory, so PostgreSQL writes about 1 MB beside its data, and deletes it."""


class Health:
    """Looks through a connection of its own: neither a pool in use nor a transaction that waits makes it wait."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._look: asyncio.Task[str | None] | None = None
        self._each_minute = EachMinute()

    async def find_fault(self) -> str | None:
        """Return why the database cannot serve, None if it can. Who asks during a look gets its answer.

        Strangers read it, so what PostgreSQL said of it is in the log alone.
        """
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._look_once())
        look = self._look  # another one may have begun when this one's answer is here
        done, _ = await asyncio.wait((look,), timeout=ANSWER_S)
        return look.result() if done else f"the database does not answer within {ANSWER_S} s"

    async def find_hindrance(self) -> str | None:
        """Return why no new request should come: the database cannot serve, or has no connection for it."""
        return await self.find_fault() or await self._database.find_fault(within_s=ANSWER_S)

    def close(self) -> None:
        """End the connection."""
        if self._look is not None:
            self._look.cancel()
        if self._connection is not None:
            self._connection.terminate()

    async def _look_once(self) -> str | None:
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                if self._connection is None or self._connection.is_closed():
                    self._connection = await asyncpg.connect(self._database.dsn)
                async with self._connection.transaction():
                    await self._connection.execute(LIMIT_MEMORY)
                    await self._connection.execute(WRITE_TEMPORARY_FILE)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, *UNAVAILABLE) as error:
            if self._connection is not None:
                self._connection.terminate()
            if self._each_minute.is_due(type(error).__name__):
                log.warning("the database cannot serve", reason=reason_of(error))
            return "the database cannot serve"
        return None
