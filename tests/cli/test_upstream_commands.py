"""`roost-manage placement db` and `placement status`: upstream's programs, on Roost's database."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest
from oslo_upgradecheck import upgradecheck
from typer.testing import CliRunner

from roost.cli.endings import FAILED
from roost.cli.manage import app
from roost.cli.managing.upstream_commands import FAILURE, SUCCESS, Check, table
from roost.cli.serving.roles import SCHEMAS

pytestmark = pytest.mark.usefixtures("postgres")


@pytest.fixture(autouse=True)
def logging_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands run in this process, whose logging is the other tests' too."""
    monkeypatch.setattr("roost.cli.managing.upstream_commands.configure_logging", lambda _program: None)


@pytest.fixture
async def empty(dsn: str) -> str:
    """A database without schemas."""
    connection = await asyncpg.connect(dsn)
    for schema in SCHEMAS:
        await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    await connection.close()
    return dsn


def manage(dsn: str, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["placement", *words, "--database", dsn])
    return done.exit_code, done.output


def check(dsn: str, *words: str) -> tuple[int, str]:
    done = CliRunner(env={"ROOST_DATABASE": dsn}).invoke(app, ["placement", "status", "upgrade", "check", *words])
    return done.exit_code, done.output


def test_a_database_is_synced_once_and_again(empty: str) -> None:
    status, said = check(empty)
    assert status == FAILURE
    assert "Not of this version: placement" in said
    for _ in range(2):
        assert manage(empty, "db", "sync") == (0, "")
        assert check(empty)[0] == SUCCESS
    status, said = manage(empty, "db", "version")
    assert status == 0
    assert said.startswith("placement_0")


async def test_a_newer_schema_is_a_failure(empty: str) -> None:
    assert (await asyncio.to_thread(manage, empty, "db", "sync"))[0] == 0
    connection = await asyncpg.connect(empty)
    await connection.execute("UPDATE placement.alembic_version SET version_num = 'placement_9999'")
    await connection.close()
    status, said = await asyncio.to_thread(check, empty)
    assert status == FAILURE
    assert "the schema placement in the database is at placement_9999" in said.replace("|\n|  ", "")


def test_a_database_that_does_not_answer_is_not_known() -> None:
    status, said = check("postgresql://roost@127.0.0.1:1/roost")
    assert status == FAILED
    assert "no PostgreSQL answers at 127.0.0.1:1" in said


def test_wrong_usage_is_no_finding(dsn: str) -> None:
    status, said = check(dsn, "--nope")
    assert (status, "No such option" in said) == (FAILED, True)


@pytest.mark.parametrize(
    ("name", "words", "begins"),
    [
        ("placement-manage", ["db", "version"], "placement_0"),
        ("placement-status", ["upgrade", "check"], "+----"),
        ("roost-manage", ["placement", "db", "version"], "placement_0"),
    ],
)
def test_a_link_of_upstreams_name_is_upstreams_program(
    tmp_path: Path, dsn: str, name: str, words: list[str], begins: str
) -> None:
    program = tmp_path / "installed"
    program.write_text(f"#!{sys.executable}\nfrom roost.cli.entry import run_manage\nrun_manage()\n")
    program.chmod(0o755)
    (tmp_path / name).symlink_to("installed")
    environment = {**os.environ, "ROOST_DATABASE": dsn}
    done = subprocess.run([tmp_path / name, *words], capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode, done.stdout[: len(begins)]) == (SUCCESS, begins), done.stderr


def test_data_needs_no_migration_of_its_own() -> None:
    assert CliRunner().invoke(app, ["placement", "db", "online_data_migrations"]).exit_code == 0


@pytest.mark.filterwarnings("ignore:the .* constant is deprecated:DeprecationWarning")  # prettytable's, of oslo's
@pytest.mark.parametrize(
    "details", [None, "There is something to do, and it is told in so many words that it needs a second line."]
)
def test_the_table_is_as_oslo_upgradecheck_prints_it(capsys: pytest.CaptureFixture[str], details: str | None) -> None:
    code = upgradecheck.Code.FAILURE if details else upgradecheck.Code.SUCCESS

    class Commands(upgradecheck.UpgradeCommands):
        _upgrade_checks = (("Schemas", lambda _self: upgradecheck.Result(code, details)),)

    Commands().check()
    theirs = capsys.readouterr().out.splitlines()
    ours = table([Check("Schemas", int(code), details or "")])
    assert ours == theirs
