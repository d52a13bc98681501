"""Connections and transactions on PostgreSQL, and what its failures mean to a caller."""

import asyncio
import functools
import os
import re
import stat
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

import asyncpg
import structlog
from asyncpg.introspection import INTRO_LOOKUP_TYPES

from roost.platform.errors import (
    BadRequest,
    DatabaseAway,
    DatabaseRefused,
    DatabaseTooOld,
    DatabaseUnavailable,
    LockTimeout,
    TransactionVictim,
    reason_of,
)
from roost.platform.logs import EachMinute
from roost.platform.postgres import OLDEST_MAJOR
from roost.platform.release import session_name
from roost.platform.shares import Shares
from roost.platform.timeouts import LEASE_S, Timeouts

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

P = ParamSpec("P")
R = TypeVar("R")
POOL_SIZE = 8
CONNECT_TIMEOUT_S = 10.0

Connection = Any
"""An asyncpg connection inside a transaction; asyncpg is not typed."""

SETTINGS = {"application_name": session_name(), "jit": "off", "timezone": "UTC"}
LOOKUP_SETTINGS = {**SETTINGS, "plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}
"""For statements that find a few rows by key: planned once, whether the tables were empty then or are now."""

UNAVAILABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,  # class 53: disk full, out of memory, too many connections
    asyncpg.OperatorInterventionError,  # class 57: shut down, starting, crashed, or a statement was cancelled
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TransactionTimeoutError,  # Roost sets none, an operator may
    asyncpg.InternalClientError,  # used just between the server's last words and the end of the connection
    asyncpg.ReadOnlySQLTransactionError,
    OSError,
    TimeoutError,
)
"""Failures that say nothing about the request: the server is away, restarting or another one, or has no time."""

NOT_AWAY = (
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
)
"""Those of them that a server answers which is there: what is short or too slow is not mended by waiting for it."""

CONNECTION_LOST = re.compile(r"clos(ed|ing)$|released back to the pool$|another operation is cancelling$")
"""What asyncpg.InterfaceError says of a connection or a pool that is gone; everything else is a bug of the caller's."""

VICTIM = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
POOL_WAIT_S = 30.0
"""Waiting longer for a connection raises DatabaseUnavailable: all of the pool belong to tasks that wait themselves."""


PASSFILE_WARNING = "password file .* has group or world access"
"""asyncpg's; `open` says the same, if the password was needed."""
warnings.filterwarnings("ignore", PASSFILE_WARNING)

ARRAYS = ("bool", "bytea", "inet", "int4", "int8", "json", "jsonb", "name", "timestamptz", "uuid", "xid8")
_array_types: list[Any] = []
"""What PostgreSQL says of these arrays. It is the same on every server, so a process asks once."""

log = structlog.get_logger()


async def _prepare_connection(connection: Connection, *, timeouts: Timeouts) -> None:
    if connection.get_server_version().major < OLDEST_MAJOR:
        version = connection.get_settings().server_version
        raise DatabaseTooOld(f"PostgreSQL {OLDEST_MAJOR} or later is needed, this server is {version}")
    timeouts.watch_peer(connection._transport.get_extra_info("socket").fileno())
    # Not among the start-up parameters: a pooler between refuses those that it does not know, or drops them.
    await set_session(connection, timeouts.session_settings())
    # UUIDs and addresses are canonical lower-case strings everywhere in Roost; JSON columns hold encoded text.
    for type_name in ("uuid", "inet", "cidr"):
        await connection.set_type_codec(type_name, schema="pg_catalog", encoder=str, decoder=str, format="text")
    await _describe_arrays(connection)


async def _describe_arrays(connection: Connection) -> None:
    """Tell asyncpg of the arrays in statements, which it would ask the server for at their first use, for 8 ms."""
    if not _array_types:
        names = [f"_{name}" for name in ARRAYS]
        oids = await connection.fetchval("SELECT array_agg(oid) FROM pg_catalog.pg_type WHERE typname = ANY($1)", names)
        _array_types[:] = await connection.fetch(INTRO_LOOKUP_TYPES, oids)  # two connections may ask at once
    connection._protocol.get_settings().register_data_types(_array_types)


async def set_session(connection: Connection, settings: Mapping[str, str]) -> None:
    """Set the time-outs for the rest of the session."""
    names, values = list(settings), list(settings.values())
    await connection.execute(
        "SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS setting (name, value)",
        names,
        values,
    )


async def _keep_session(_connection: Connection) -> None:
    # Roost leaves no session state behind, so a connection needs no reset between two uses.
    return None


async def _open_pool(dsn: str, *, least: int, most: int, timeouts: Timeouts) -> Any:
    return await asyncpg.create_pool(
        dsn,
        min_size=least,
        max_size=most,
        init=functools.partial(_prepare_connection, timeouts=timeouts),
        reset=_keep_session,
        timeout=CONNECT_TIMEOUT_S,
        command_timeout=timeouts.statement_s,
        server_settings=SETTINGS,
    )


@dataclass
class _Progress:
    """How far a block of statements has come. commits: a COMMIT is sent, whose outcome only its answer tells."""

    commits: bool = False


@contextmanager
def _errors_translated() -> Iterator[_Progress]:
    """Raise what PostgreSQL's failures mean to the caller; outages are logged once a minute."""
    progress = _Progress()
    try:
        yield progress
    except VICTIM as error:
        raise TransactionVictim(f"the transaction was ended for another: {error}") from error
    except asyncpg.LockNotAvailableError as error:
        raise LockTimeout(f"another transaction holds what this one needs, try again: {error}") from error
    except (*UNAVAILABLE, asyncpg.InterfaceError) as error:
        if isinstance(error, asyncpg.InterfaceError) and not CONNECTION_LOST.search(str(error)):
            raise
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise asyncio.CancelledError from error  # what fails while a task ends shall not keep it
        reason = str(error) or type(error).__name__
        if _each_minute.is_due(type(error).__name__):
            log.warning("the database cannot serve", reason=reason)
        kind = DatabaseUnavailable if progress.commits or isinstance(error, NOT_AWAY) else DatabaseAway
        raise kind(f"the database cannot serve at the moment: {reason}") from error


class Database:
    """A pool of connections to one PostgreSQL database.

    UUIDs, `inet` and `cidr` values are `str` in both directions; `json`/`jsonb` are encoded text; `xid8` is int.
    """

    def __init__(self, dsn: str, timeouts: Timeouts, pool: Any, inner: Any) -> None:
        self.dsn = dsn
        self._timeouts = timeouts
        self._pool = pool
        self._inner = inner
        self._shares = Shares(max(1, pool.get_max_size() // 2))
        self._lookups: Connection | None = None
        self._lookups_lock = asyncio.Lock()

    @classmethod
    async def open(cls, dsn: str, *, size: int = POOL_SIZE, lease_s: float = LEASE_S) -> "Database":
        """Connect. lease_s: how long others may be held up by a process that uses this and dies (timeouts.py).

        Raises BadRequest for a `dsn` that is none, DatabaseUnavailable when no server answers there, DatabaseRefused,
        DatabaseTooOld. None of them shows a password.
        """
        timeouts = Timeouts.of_lease(lease_s)
        where = _address_of(dsn)
        try:
            pool = await _open_pool(dsn, least=1, most=size, timeouts=timeouts)
            return cls(dsn, timeouts, pool, await _open_pool(dsn, least=0, most=size, timeouts=timeouts))
        except asyncpg.ClientConfigurationError as error:
            raise BadRequest(f"the address of the database cannot be used: {error}") from error
        except asyncpg.InvalidAuthorizationSpecificationError as error:
            text = f"the PostgreSQL{where} refuses the connection: {error}{_passfile_advice(dsn)}"
            raise DatabaseRefused(text) from error
        except UNAVAILABLE as error:
            if "rejected SSL upgrade" in str(error):
                text = (
                    f"the PostgreSQL{where} speaks no TLS, which sslmode demands: turn it on there, or change sslmode"
                )
                raise DatabaseRefused(text) from error
            raise DatabaseUnavailable(f"no PostgreSQL answers{where}: {reason_of(error)}") from error
        except (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:  # no such database, no such option
            raise DatabaseRefused(f"the PostgreSQL{where} refuses the connection: {error}") from error

    def figures(self) -> "Iterator[Metric]":
        """Yield how many connections there are, and how many of them are in use."""
        from prometheus_client.metrics_core import GaugeMetricFamily  # 0.1 s, which commands need not pay

        connections = GaugeMetricFamily(
            "roost_database_connections",
            "Connections by pool (main; inner: of transactions within others) and state (used, idle, allowed).",
            labels=["pool", "state"],
        )
        for name, pool in (("main", self._pool), ("inner", self._inner)):
            size, idle = pool.get_size(), pool.get_idle_size()
            for state, count in (("used", size - idle), ("idle", idle), ("allowed", pool.get_max_size())):
                connections.add_metric([name, state], count)
        yield connections

    async def find_fault(self, *, within_s: float) -> str | None:
        """Return why a request would get no connection within so long, None if it would."""
        try:
            async with self._pool.acquire(timeout=within_s):
                return None
        except TimeoutError:
            return f"all {self._pool.get_max_size()} connections of this process are in use for {within_s:g} s"
        except (asyncpg.PostgresError, asyncpg.InterfaceError, *UNAVAILABLE) as error:
            if _each_minute.is_due(type(error).__name__):
                log.warning("the database cannot serve", reason=reason_of(error))
            return "this process gets no connection to the database"

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
        """Yield a transaction: committed at the end of the block, undone by any exception.

        snapshot: read only, and every statement sees the same instant (REPEATABLE READ).
        Raises DatabaseAway when the server goes away before the commit, DatabaseUnavailable when that is not known.
        """
        isolation = {"isolation": "repeatable_read", "readonly": True} if snapshot else {}
        outer = _held.get().around_this()
        with _errors_translated() as progress:
            async with self._acquire() as connection:
                async with connection.transaction(**isolation):
                    yield connection
                    if not snapshot and outer is not None and outer.is_in_transaction():
                        # What this one did relies on the locks of the one around it, which may have been ended while
                        # this process was stopped. This one still has its own locks, for which others wait.
                        await outer.execute("SELECT 1")
                    progress.commits = not snapshot  # R24

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Yield a connection without a transaction: each statement is one of its own.

        Raises DatabaseAway, after which a statement that writes may have been done: who repeats only reads here.
        """
        with _errors_translated():
            async with self._acquire() as connection:
                yield connection

    @asynccontextmanager
    async def _acquire(self) -> AsyncIterator[Connection]:
        """Yield a connection, apart from the pool for a task that has one: all of the pool may wait for its locks."""
        outer = _held.get()
        is_inner = outer.database is self
        pool, share = (self._inner, nullcontext()) if is_inner else (self._pool, self._shares.hold())
        async with share, pool.acquire(timeout=POOL_WAIT_S) as connection:
            taken = _Held(self, connection, asyncio.current_task())
            _held.set(taken)
            try:
                yield connection
            finally:
                _held.set(outer)
                taken.connection = None  # a task that was begun meanwhile, and goes on, still has `taken`

    @asynccontextmanager
    async def lookups(self) -> AsyncIterator[Connection]:
        """Yield the one connection for statements that find a few rows by key; no writer holds it up.

        It is opened when first asked for, has LOOKUP_SETTINGS, and one user at a time.
        """
        with _errors_translated():
            async with self._lookups_lock:
                if self._lookups is None or self._lookups.is_closed():
                    self._lookups = await asyncpg.connect(
                        self.dsn,
                        timeout=CONNECT_TIMEOUT_S,
                        command_timeout=self._timeouts.statement_s,
                        server_settings=LOOKUP_SETTINGS,
                    )
                    await _prepare_connection(self._lookups, timeouts=self._timeouts)
                try:
                    yield self._lookups
                finally:
                    if self._lookups.is_in_transaction():  # cancelled twice: its next user would see the past
                        self._lookups.terminate()


def count_changed(status: str) -> int:
    """Return how many rows a statement changed, by its status."""
    return int(status.rpartition(" ")[2])


def _address_of(dsn: str) -> str:
    """Return " at HOST:PORT", "" where the address does not say it. Raises BadRequest, without the password."""
    try:
        parts = urlsplit(dsn)
        hosts = parts.netloc.rpartition("@")[2]
        well_formed = parts.scheme in ("postgresql", "postgres") and "@" not in parts.path
        well_formed = well_formed and all(re.fullmatch(r"(\[.*\]|[^:]*)(:\d*)?", host) for host in hosts.split(","))
    except ValueError:
        well_formed = False
    if not well_formed:
        raise BadRequest(
            "the address of the database is not a PostgreSQL's: expected postgresql://user:password@host:port/name, "
            "with %XX for special characters in the password"
        )
    query = parse_qs(parts.query)
    host = hosts or query.get("host", [""])[0] or os.environ.get("PGHOST", "")
    if not host or host.startswith("/") or re.search(r":\d+$", host):
        return host and f" at {host}"
    return f" at {host}:{query.get('port', [''])[0] or os.environ.get('PGPORT') or 5432}"


def _passfile_advice(dsn: str) -> str:
    """Return what to do where the password file may have had the password, and asyncpg did not read it; else ""."""
    if urlsplit(dsn).password or os.environ.get("PGPASSWORD"):
        return ""
    query = parse_qs(urlsplit(dsn).query)
    file = Path(query.get("passfile", [""])[0] or os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    try:
        is_open = bool(file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    except OSError:
        is_open = False
    return f"; {file} was not read, as others than its owner may read it: chmod 600 {file}" if is_open else ""


@dataclass
class _Held:
    """A connection that a task holds, and whose it is. connection: None once it was given back."""

    database: Database | None = None
    connection: Connection | None = None
    task: asyncio.Task[object] | None = None

    def around_this(self) -> Connection | None:
        """Return the connection if the running task has it: a task begun within a transaction does not use it."""
        return self.connection if self.task is asyncio.current_task() else None


_held: ContextVar[_Held] = ContextVar("held", default=_Held())  # noqa: B039 - nothing changes the default
"""What the running task, or who began it, took last."""

_each_minute = EachMinute()


class HasDatabase(Protocol):
    """A service whose operations are functions of it."""

    database: Database


def reading(
    read: Callable[Concatenate[Connection, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[HasDatabase, P], Coroutine[Any, Any, R]]:
    """Return the operation that a store's function is by itself, on a connection of its own: it decides nothing."""

    @functools.wraps(read)
    async def operation(service: HasDatabase, /, *args: P.args, **kwargs: P.kwargs) -> R:
        async with service.database.connection() as connection:
            return await read(connection, *args, **kwargs)

    return operation
