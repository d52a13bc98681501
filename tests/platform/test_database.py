from roost.platform.database import Database


async def test_uuids_and_addresses_are_strings_in_both_directions(database: Database) -> None:
    one = "11111111-1111-1111-1111-111111111111"
    async with database.transaction() as tx:
        assert await tx.fetchval("SELECT $1::uuid[]", [one]) == [one]
        assert await tx.fetchval("SELECT $1::inet", "10.0.0.1") == "10.0.0.1"
        assert await tx.fetchval("SELECT $1::cidr", "10.0.0.0/24") == "10.0.0.0/24"
        assert isinstance(await tx.fetchval("SELECT pg_current_xact_id()"), int)
