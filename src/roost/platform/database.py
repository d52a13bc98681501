"""Connections and transactions on PostgreSQL, and what its failures mean to a caller."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import asyncpg

from roost.platform.errors import DatabaseUnavailable, TransactionVictim, reason_of

POOL_SIZE = 8
CONNECT_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 60.0

Connection = Any
"""An asyncpg connection inside a transaction; asyncpg is not typed."""

SETTINGS = {"application_name": "roost", "jit": "off", "timezone": "UTC"}
LOOKUP_SETTINGS = {**SETTINGS, "plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}
"""For statements that find a few rows by key: planned once, whether the tables were empty then or are now."""

UNAVAILABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # used just between the server's last words and the end of the connection
    asyncpg.ReadOnlySQLTransactionError,
    OSError,
    TimeoutError,
)
"""Failures that say nothing about the request: the server is away, restarting or another one, or has no time."""

VICTIM = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
POOL_WAIT_S = 30.0
"""Who waits longer for a connection is told that the database is away: all are held by others that wait."""


async def _prepare_connection(connection: Connection) -> None:
    # UUIDs and addresses are canonical lower-case strings everywhere in Roost; JSON columns hold encoded text.
    for type_name in ("uuid", "inet", "cidr"):
        await connection.set_type_codec(type_name, schema="pg_catalog", encoder=str, decoder=str, format="text")


async def _keep_session(_connection: Connection) -> None:
    # Roost leaves no session state behind, so a connection needs no reset between two uses.
    return None


async def _open_pool(dsn: str, *, least: int, most: int) -> Any:
    return await asyncpg.create_pool(
        dsn,
        min_size=least,
        max_size=most,
        init=_prepare_connection,
        reset=_keep_session,
        timeout=CONNECT_TIMEOUT_S,
        command_timeout=COMMAND_TIMEOUT_S,
        server_settings=SETTINGS,
    )


class Database:
    """A pool of connections to one PostgreSQL database.

    UUIDs, `inet` and `cidr` values are `str` in both directions; `json`/`jsonb` are encoded text; `xid8` is int.
    """

    def __init__(self, dsn: str, pool: Any, inner: Any) -> None:
        self.dsn = dsn
        self._pool = pool
        self._inner = inner
        self._lookups: Connection | None = None
        self._lookups_lock = asyncio.Lock()

    @classmethod
    async def open(cls, dsn: str, *, size: int = POOL_SIZE) -> "Database":
        """Connect. Raises DatabaseUnavailable when no server answers at `dsn`."""
        try:
            return cls(dsn, await _open_pool(dsn, least=1, most=size), await _open_pool(dsn, least=0, most=size))
        except UNAVAILABLE as error:
            raise DatabaseUnavailable(f"no PostgreSQL answers: {reason_of(error)}") from error

    async def close(self) -> None:
        """Close every connection; those still at work after 5 s are cut."""
        if self._lookups is not None:
            self._lookups.terminate()
        try:
            await asyncio.wait_for(asyncio.gather(self._pool.close(), self._inner.close()), 5)
        except TimeoutError:
            self._pool.terminate()
            self._inner.terminate()

    @asynccontextmanager
    async def transaction(self, *, snapshot: bool = False) -> AsyncIterator[Connection]:
        """One transaction: committed at the end of the block, undone by any exception.

        snapshot: read only, and every statement sees the same instant (REPEATABLE READ).
        Raises DatabaseUnavailable when the server goes away; whether the commit arrived is then not known.
        """
        isolation = {"isolation": "repeatable_read", "readonly": True} if snapshot else {}
        try:
            async with self._acquire() as connection:
                async with connection.transaction(**isolation):
                    yield connection
        except VICTIM as error:
            raise TransactionVictim(f"the transaction gave way to another: {error}") from error
        except UNAVAILABLE as error:
            raise DatabaseUnavailable(f"the database went away: {error or type(error).__name__}") from error

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection without a transaction: each statement is one of its own."""
        try:
            async with self._acquire() as connection:
                yield connection
        except VICTIM as error:
            raise TransactionVictim(f"the transaction gave way to another: {error}") from error
        except UNAVAILABLE as error:
            raise DatabaseUnavailable(f"the database went away: {error or type(error).__name__}") from error

    @asynccontextmanager
    async def _acquire(self) -> AsyncIterator[Connection]:
        """A connection; to who holds one, one apart from the pool: all of it may wait for what that has locked."""
        outer = _holder.get()
        pool = self._inner if outer is self else self._pool
        async with pool.acquire(timeout=POOL_WAIT_S) as connection:
            _holder.set(self)
            try:
                yield connection
            finally:
                _holder.set(outer)

    @asynccontextmanager
    async def lookups(self) -> AsyncIterator[Connection]:
        """The one connection for statements that find a few rows by key, apart from the pool: no writer holds it up.

        It is opened when first asked for, has LOOKUP_SETTINGS, and one user at a time.
        """
        try:
            async with self._lookups_lock:
                if self._lookups is None or self._lookups.is_closed():
                    self._lookups = await asyncpg.connect(
                        self.dsn,
                        timeout=CONNECT_TIMEOUT_S,
                        command_timeout=COMMAND_TIMEOUT_S,
                        server_settings=LOOKUP_SETTINGS,
                    )
                    await _prepare_connection(self._lookups)
                try:
                    yield self._lookups
                finally:
                    if self._lookups.is_in_transaction():  # cancelled twice: its next user would see the past
                        self._lookups.terminate()
        except UNAVAILABLE as error:
            raise DatabaseUnavailable(f"the database went away: {error or type(error).__name__}") from error


_holder: ContextVar[Database | None] = ContextVar("holder", default=None)
"""Of whose connections the running task holds one."""
