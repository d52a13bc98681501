import asyncio
import contextlib
import re
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from roost.platform.database import PASSFILE_WARNING, Connection, Database
from roost.platform.errors import BadRequest, DatabaseAway, DatabaseRefused, DatabaseUnavailable, LockTimeout
from roost.platform.timeouts import Timeouts
from roost.platform.wakeup import Wakeups

SRC = Path(__file__).parents[2] / "src"


async def test_uuids_and_addresses_are_strings_in_both_directions(database: Database) -> None:
    one = "11111111-1111-1111-1111-111111111111"
    async with database.transaction() as tx:
        assert await tx.fetchval("SELECT $1::uuid[]", [one]) == [one]
        assert await tx.fetchval("SELECT $1::inet", "10.0.0.1") == "10.0.0.1"
        assert await tx.fetchval("SELECT $1::cidr", "10.0.0.0/24") == "10.0.0.0/24"
        assert isinstance(await tx.fetchval("SELECT pg_current_xact_id()"), int)


@pytest.mark.parametrize("scope", ["transaction", "connection"])
async def test_a_connection_in_the_moment_between_the_servers_last_words_and_its_end_says_unavailable(
    database: Database, scope: str
) -> None:
    with pytest.raises(DatabaseUnavailable):
        async with getattr(database, scope)():
            raise asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress")


async def test_asyncpg_need_not_ask_what_the_arrays_in_statements_are(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would at the first use of each, on every connection; `_introspect_types` is what asks."""
    texts = [path.read_text() for path in SRC.rglob("store/*.py")]
    kinds = sorted({kind for text in texts for kind in re.findall(r"::(\w+)\[\]", text)})
    assert "uuid" in kinds
    introspect, types_asked = asyncpg.Connection._introspect_types, []

    async def ask(connection: Connection, type_ids: list[int], timeout_s: float | None) -> Any:
        types_asked.extend(type_ids)
        return await introspect(connection, type_ids, timeout_s)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", ask)
    database = await Database.open(dsn)
    async with database.transaction() as tx:
        for kind in kinds:
            assert await tx.fetchval(f"SELECT $1::{kind}[]", []) == [], kind
    await database.close()
    assert types_asked == []


async def cut(connection: Connection) -> None:
    with contextlib.suppress(asyncpg.PostgresConnectionError):
        await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    await connection.execute("SELECT 1")


async def run_side_by_side(connection: Connection) -> None:
    await asyncio.gather(connection.fetch("SELECT pg_sleep(0.1)"), connection.fetch("SELECT 1"))


@pytest.mark.parametrize("scope", ["transaction", "connection", "lookups"])
@pytest.mark.parametrize(
    ("work", "error", "text"),
    [
        (lambda connection: connection.fetch("SELECT $1::int"), asyncpg.InterfaceError, "expects 1 argument"),
        (lambda connection: connection.fetch("SELECT 1", 1), asyncpg.InterfaceError, "expects 0 arguments"),
        (lambda connection: connection.fetch("SELECT $1::int", "x"), asyncpg.DataError, "invalid input"),
        (lambda connection: connection.fetch("SELEC"), asyncpg.PostgresSyntaxError, "syntax error"),
        (run_side_by_side, asyncpg.InterfaceError, "another operation is in progress"),
        (cut, DatabaseUnavailable, "clos|released"),
    ],
)
async def test_a_bug_of_the_caller_is_no_outage_of_the_database(
    database: Database,
    scope: str,
    work: Callable[[Connection], Awaitable[object]],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        async with getattr(database, scope)() as connection:
            await work(connection)


async def test_a_pool_that_is_closed_says_unavailable(database: Database) -> None:
    closed = await Database.open(database.dsn, size=1)
    await closed.close()
    with pytest.raises(DatabaseUnavailable, match="pool is closed"):
        async with closed.connection():
            pass


async def test_who_has_the_last_connection_of_the_pool_gets_one_more(database: Database) -> None:
    small = await Database.open(database.dsn, size=1)
    try:
        for _ in range(2):
            async with small.transaction(), small.transaction() as tx:
                assert await tx.fetchval("SELECT 1") == 1
            async with small.connection() as connection:  # of the pool again
                assert await connection.fetchval("SELECT 1") == 1
    finally:
        await small.close()


async def test_the_connection_for_lookups_is_opened_again_after_it_was_cut(database: Database) -> None:
    async with database.lookups() as connection:
        first = await connection.fetchval("SELECT pg_backend_pid()")
        assert await connection.fetchval("SELECT $1::uuid[]", ["11111111-1111-1111-1111-111111111111"])
    with pytest.raises(DatabaseUnavailable):
        async with database.lookups() as connection:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    async with database.lookups() as connection:
        assert await connection.fetchval("SELECT pg_backend_pid()") != first


async def test_who_leaves_the_connection_for_lookups_in_a_transaction_leaves_it_to_nobody(database: Database) -> None:
    async with database.lookups() as connection:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        first = await connection.fetchval("SELECT pg_current_snapshot()::text")
    async with database.transaction() as tx:
        await tx.execute("SELECT pg_current_xact_id()")
    async with database.lookups() as connection:
        assert await connection.fetchval("SELECT pg_current_snapshot()::text") != first


def raising(code: str) -> str:
    return f"DO $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '{code}'; END $$"


BUSY = ("53000", "53100", "53200", "53300", "53400", "57014", "25P03", "25P04")
AWAY = ("57000", "57P01", "57P02", "57P03", "08000", "08006", "25006")


@pytest.mark.parametrize(
    ("code", "kind"), [*((code, DatabaseUnavailable) for code in BUSY), *((code, DatabaseAway) for code in AWAY)]
)
async def test_what_means_not_now_to_postgresql_is_no_failure_of_roost(
    database: Database, code: str, kind: type[DatabaseUnavailable]
) -> None:
    for scope in (database.transaction, database.connection, database.lookups):
        with pytest.raises(DatabaseUnavailable, match="no room") as error:
            async with scope() as connection:
                await connection.execute(raising(code))
        assert type(error.value) is kind


@pytest.mark.parametrize(
    ("snapshot", "kind"), [(False, DatabaseUnavailable), (True, DatabaseAway)], ids=["writes", "reads"]
)
async def test_a_server_that_goes_away_at_the_commit_may_have_written(
    database: Database, snapshot: bool, kind: type[DatabaseUnavailable]
) -> None:
    async def end_session() -> None:
        async with database.transaction(snapshot=snapshot) as tx, database.connection() as other:
            pid = await tx.fetchval("SELECT pg_backend_pid()")
            await other.execute("SELECT pg_terminate_backend($1, 5000)", pid)

    with pytest.raises(DatabaseUnavailable) as error:
        await end_session()
    assert type(error.value) is kind


async def test_a_server_that_goes_away_before_the_commit_has_written_nothing(database: Database) -> None:
    with pytest.raises(DatabaseAway):
        async with database.transaction() as tx:
            await cut(tx)


async def test_a_lock_that_is_not_given_back_in_time_is_told_by_name(database: Database) -> None:
    async def lock(tx: Connection) -> None:
        await tx.execute("SET LOCAL lock_timeout = 50")
        await tx.execute("SELECT pg_advisory_xact_lock(1)")

    async with database.transaction() as holder:
        await lock(holder)
        with pytest.raises(LockTimeout, match="another transaction holds what this one needs, try again"):
            async with database.transaction() as tx:
                await lock(tx)


async def test_every_session_has_the_limits_of_the_lease(database: Database) -> None:
    limited = await Database.open(database.dsn, size=1, lease_s=8)
    try:
        async with limited.transaction() as outer, limited.transaction() as inner, limited.lookups() as lookups:
            for connection in (outer, inner, lookups):
                for name, value in Timeouts.of_lease(8).session_settings().items():
                    shown = await connection.fetchval("SELECT setting FROM pg_settings WHERE name = $1", name)
                    # On a Unix socket, which these are, the system has no times of its own.
                    assert shown == ("0" if name.startswith("tcp_") else value), name
    finally:
        await limited.close()


async def test_a_connection_that_heard_wake_ups_keeps_its_limits(database: Database) -> None:
    limited = await Database.open(database.dsn, size=1, lease_s=8)
    try:
        wakeups = Wakeups(limited, ["roost_test"])
        running = asyncio.create_task(wakeups.run())
        async with database.connection() as other, asyncio.timeout(60):
            while not wakeups.count("roost_test"):
                await other.execute("NOTIFY roost_test")
                await wakeups.wait("roost_test", 0.1, since=0)
        running.cancel()
        await asyncio.wait([running])
        async with limited.connection() as connection:
            assert await connection.fetchval("SHOW idle_in_transaction_session_timeout") == "6s"
            assert await connection.fetchval("SELECT count(*) FROM pg_listening_channels()") == 0
    finally:
        await limited.close()


async def test_who_is_cancelled_after_its_session_was_ended_ends(database: Database) -> None:
    wakeups = Wakeups(database, ["roost_test"])
    listening = asyncio.create_task(wakeups.run())
    async with database.connection() as other:
        while not (pids := await other.fetch("SELECT pid FROM pg_stat_activity WHERE query ILIKE 'listen%'")):
            await asyncio.sleep(0.01)
        await other.fetch("SELECT pg_terminate_backend($1, 5000)", pids[0]["pid"])
    listening.cancel()
    assert await asyncio.wait([listening], timeout=2) == ({listening}, set())
    assert listening.cancelled()


async def test_a_transaction_that_was_ended_from_outside_is_told_when_it_goes_on(database: Database) -> None:
    limited = await Database.open(database.dsn, size=1, lease_s=0.01)  # 2 s in which it says nothing
    try:

        async def sleep_too_long(tx: Connection) -> None:
            backend = await tx.fetchval("SELECT pg_backend_pid()")
            async with database.connection() as looking, asyncio.timeout(20):
                while await looking.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", backend):
                    await asyncio.sleep(0.05)
            await tx.fetchval("SELECT 1")

        with pytest.raises(DatabaseUnavailable):
            async with limited.transaction() as tx:
                await sleep_too_long(tx)
        async with limited.transaction() as tx:
            assert await tx.fetchval("SELECT 1") == 1
    finally:
        await limited.close()


async def test_a_transaction_inside_another_that_was_ended_is_undone(database: Database) -> None:
    async with database.transaction() as tx:
        await tx.execute("CREATE TABLE public.done (what text)")
    limited = await Database.open(database.dsn, size=1)
    try:

        async def work(*, end_outer: bool) -> None:
            async with limited.transaction() as outer:
                backend = await outer.fetchval("SELECT pg_backend_pid()")
                async with limited.transaction() as inner:
                    await inner.execute("INSERT INTO public.done VALUES ('relying on the locks of the other')")
                    if end_outer:
                        await inner.execute("SELECT pg_terminate_backend($1)", backend)

        with pytest.raises(DatabaseUnavailable):
            await work(end_outer=True)
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT count(*) FROM public.done") == 0
        await work(end_outer=False)
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT count(*) FROM public.done") == 1
    finally:
        await limited.close()


async def test_a_task_begun_inside_a_transaction_leaves_its_connection_alone(database: Database) -> None:
    async def work() -> None:
        async with database.transaction() as tx:
            await tx.execute("SELECT 1")

    async with database.transaction() as outer:
        tasks = [asyncio.create_task(work()) for _ in range(5)]
        await outer.execute("SELECT pg_sleep(0.2)")  # they would all use `outer` meanwhile, which takes one at a time
        await asyncio.gather(*tasks)


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ("roost", "is not a PostgreSQL's"),
        ("mysql://u:SECRET@h/x", "is not a PostgreSQL's"),
        ("postgresql://u:SEC/RET@h/x", "is not a PostgreSQL's"),
        ("postgresql://u:12/SECRET@h/x", "is not a PostgreSQL's"),
        ("postgresql://u:SEC[RET@h/x", "is not a PostgreSQL's"),
        ("postgresql://u:SECRET@h/x?sslmode=no", "cannot be used: `sslmode` parameter must be one of"),
    ],
)
async def test_an_address_that_is_none_is_said_to_be_none_without_its_password(dsn: str, said: str) -> None:
    with pytest.raises(BadRequest) as refused:
        await Database.open(dsn)
    assert said in str(refused.value)
    assert not {"SECRET", "SEC", "RET", "12"} & set(re.findall(r"\w+", str(refused.value)))


@pytest.mark.parametrize(
    ("dsn", "where"),
    [
        ("postgresql://u:SECRET@127.0.0.1:1/x", "at 127.0.0.1:1"),
        ("postgresql://u:SECRET@nosuch.invalid/x", "at nosuch.invalid:5432"),
        ("postgresql://u:SECRET@/x?host=/nowhere", "at /nowhere"),
    ],
)
async def test_who_does_not_answer_is_named(dsn: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGPORT", raising=False)
    with pytest.raises(DatabaseUnavailable) as refused:
        await Database.open(dsn)
    assert str(refused.value).startswith(f"no PostgreSQL answers {where}: ")


@asynccontextmanager
async def postgres_that_says(answer: bytes) -> AsyncIterator[str]:
    """HOST:PORT of one that answers the first message of every connection so, and ends it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_server_without_the_tls_that_is_demanded_is_said_to_have_none() -> None:
    async with postgres_that_says(b"N") as address:
        with pytest.raises(DatabaseRefused) as refused:
            await Database.open(f"postgresql://u:SECRET@{address}/x?sslmode=require")
    assert str(refused.value).startswith(f"the PostgreSQL at {address} speaks no TLS, which sslmode demands")


@pytest.mark.parametrize(
    ("mode", "login", "advised"), [(0o644, "u", True), (0o600, "u", False), (0o644, "u:wrong", False)]
)
async def test_a_password_file_that_others_may_read_is_named_where_the_password_was_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
    mode: int,
    login: str,
    advised: bool,
) -> None:
    warnings.filterwarnings("ignore", PASSFILE_WARNING)  # as on import: pytest puts the filters back for each test
    file = tmp_path / ".pgpass"
    file.write_text("*:*:*:u:right\n")
    file.chmod(mode)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PGPASSFILE", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)
    fields = b"SFATAL\0C28P01\0Mpassword authentication failed\0\0"
    async with postgres_that_says(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields) as address:
        with pytest.raises(DatabaseRefused) as refused:
            await Database.open(f"postgresql://{login}@{address}/x?sslmode=disable")
    said = f"the PostgreSQL at {address} refuses the connection: password authentication failed"
    advice = f"; {file} was not read, as others than its owner may read it: chmod 600 {file}"
    assert str(refused.value) == said + (advice if advised else "")
    assert not [warning for warning in recwarn if "password file" in str(warning.message)]
