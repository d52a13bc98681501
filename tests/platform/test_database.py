import asyncpg
import pytest

from roost.platform.database import Database
from roost.platform.errors import DatabaseUnavailable


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
