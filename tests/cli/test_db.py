"""`roost-manage db`: each state of a database between two releases, what is said of it, and what is done."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext

import asyncpg
import pytest
from rich.console import Console
from tests.blocked import until_blocked
from tests.upgrade.rehearsed import CONTRACT, EXPAND, two_more_migrations

from roost.cli.managing import upgrading
from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.serving.roles import SCHEMAS
from roost.platform.database import Database
from roost.platform.migrate import OlderReleaseConnected, SchemaTooNew, bring_up_to_date, read_states
from roost.platform.release import head

OLD_SESSION = "roost compute_0001 network_9999 placement_9999"


@pytest.fixture
async def old(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A session of an older release."""
    connection = await asyncpg.connect(dsn, server_settings={"application_name": OLD_SESSION})
    yield connection
    await connection.close()


async def check(dsn: str) -> int:
    return await upgrading.check(_target(dsn), Console(width=200), as_json=False)


async def upgrade(dsn: str, *, expand: bool) -> None:
    await upgrading.upgrade(_target(dsn), Console(width=200), expand=expand)


def _target(dsn: str) -> LedgerTarget:
    return LedgerTarget(data_dir=None, database=dsn, pg_bin=None)


async def test_a_database_is_expanded_then_contracted_and_says_so(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert await check(dsn) == 0
    assert "Nothing is left to do." in capsys.readouterr().out
    with two_more_migrations():
        assert await check(dsn) == 3
        assert f"{EXPAND}  {CONTRACT}" in " ".join(capsys.readouterr().out.split(" "))
        await upgrade(dsn, expand=True)
        assert capsys.readouterr().out == f"Expanded by 1 migration: {EXPAND}.\n"
        assert await check(dsn) == 4
        await upgrade(dsn, expand=True)
        assert "Nothing to do." in capsys.readouterr().out
        await upgrade(dsn, expand=False)
        out = capsys.readouterr().out
        assert out == f"Contracted by 1 migration: {CONTRACT}.\nOlder releases are refused from now on.\n"
        assert await check(dsn) == 0
    with pytest.raises(SchemaTooNew, match=f"at compute_9002, and this Roost knows it up to {head('compute')}"):
        await check(dsn)


@pytest.mark.parametrize(
    ("steps", "newer_asks", "exit_status", "sentence"),
    [
        ("", False, 0, "Nothing is left to do."),
        ("", True, 3, "To be expanded: `roost-manage db upgrade --expand`"),
        ("expand", True, 4, "Expanded: both releases can run."),
        ("expand", False, 0, "Expanded for a newer Roost: this release goes on beside it."),
        ("expand contract", True, 0, "Nothing is left to do."),
        ("expand contract", False, 1, "run the newer Roost that migrated it"),
        ("contract", True, 0, "Nothing is left to do."),
        ("contract", False, 1, "run the newer Roost that migrated it"),
    ],
)
async def test_each_of_two_releases_says_in_which_state_the_database_is_to_it(
    dsn: str, steps: str, newer_asks: bool, exit_status: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with two_more_migrations():
        for step in steps.split():
            await upgrade(dsn, expand=step == "expand")
    capsys.readouterr()
    with two_more_migrations() if newer_asks else nullcontext():
        try:
            checked = await check(dsn), capsys.readouterr().out
        except SchemaTooNew as error:  # a command that fails with a sentence ends with status 1
            checked = 1, str(error)
    assert (checked[0], sentence in checked[1]) == (exit_status, True), checked


async def test_an_older_release_uses_what_is_expanded_for_a_newer_one_and_leaves_it(dsn: str) -> None:
    with two_more_migrations():
        await upgrade(dsn, expand=True)
    assert await check(dsn) == 0
    await upgrade(dsn, expand=False)
    database = await Database.open(dsn, size=1)
    (state,) = await read_states(database, ["compute"])
    assert (state.for_newer, state.to_contract) == (True, False)
    await bring_up_to_date(database, SCHEMAS, contract=True)
    await database.close()
    with two_more_migrations():
        assert await check(dsn) == 4


async def test_nothing_is_contracted_while_an_older_release_is_connected(
    dsn: str, old: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("roost.platform.migrate.OLDER_PATIENCE_S", 0.0)
    with two_more_migrations():
        await upgrade(dsn, expand=True)
        for _ in range(2):
            with pytest.raises(
                OlderReleaseConnected, match="sessions of an older Roost still use the database, 1 from this"
            ):
                await upgrade(dsn, expand=False)
            assert await check(dsn) == 4
        assert await old.fetchval("SELECT count(rehearsal) FROM compute.server") == 0
        capsys.readouterr()
        assert await upgrading.check(_target(dsn), Console(), as_json=True) == 4
        document = json.loads(capsys.readouterr().out)
        assert document["state"] == "contract"
        (session,) = document["older_sessions"]
        assert (session["pid"], session["release"]) == (old.get_server_pid(), OLD_SESSION)
        assert [one["contracts"] for one in document["schemas"]] == [[], [], [CONTRACT], []]


async def test_sessions_that_are_just_ending_are_waited_for(dsn: str, old: asyncpg.Connection) -> None:
    with two_more_migrations():
        contracting = asyncio.create_task(upgrade(dsn, expand=False))
        await asyncio.sleep(0)
        await old.close()
        await contracting
        assert await check(dsn) == 0


async def test_a_placement_service_alone_has_its_own_schema_only(database: Database, dsn: str) -> None:
    async with database.transaction() as tx:
        await tx.execute("DROP SCHEMA compute CASCADE")
        await tx.execute("DROP SCHEMA network CASCADE")
        await tx.execute("DROP SCHEMA seeing CASCADE")
    assert await check(dsn) == 0
    await upgrade(dsn, expand=False)
    assert [state.oldest for state in await read_states(database, SCHEMAS)] == [head("placement"), None, None, None]


async def test_a_schema_that_is_missing_is_made_whole(
    database: Database, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with database.transaction() as tx:
        await tx.execute("DROP SCHEMA seeing CASCADE")
    assert await check(dsn) == 3
    assert "missing the whole schema" in " ".join(capsys.readouterr().out.split())
    await upgrade(dsn, expand=True)
    assert capsys.readouterr().out == "Made 1 schema: seeing.\n"
    assert await check(dsn) == 0


async def test_requests_are_answered_while_a_migration_waits_for_their_table(database: Database, dsn: str) -> None:
    with two_more_migrations():
        async with database.transaction() as tx:
            await tx.execute("SELECT FROM compute.server")
            expanding = asyncio.create_task(upgrade(dsn, expand=True))
            await until_blocked(database, 1)
            async with asyncio.timeout(20), database.connection() as connection:
                await connection.execute("SELECT FROM compute.server")
            assert not expanding.done()
        await expanding
        assert await check(dsn) == 4
