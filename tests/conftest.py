"""A private PostgreSQL for each test process, and an empty migrated database for each test."""

import asyncio
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import structlog
import uvloop
from hypothesis import HealthCheck, settings
from tests.memory import roomy_memory
from tests.postgres_servers import PG_BIN
from tests.sampling import deselect

from roost.cli.serving.roles import SCHEMAS
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.database import Database
from roost.platform.migrate import upgrade
from roost.platform.postgres import PrivatePostgres

# How long an example takes says how busy the machine is.
settings.register_profile("roost", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("roost")

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes would each compile Roost again

pytest_plugins = ("tests.costs",)

LONGEST = (
    "tests/test_postgres_versions.py",
    "tests/upgrade/",
    "tests/simulation/",
    "tests/howto/",
    "tests/schemathesis/",
    "tests/clients/",
    "tests/placement/test_model.py",
    "tests/faults/",
)
"""Files and folders whose tests take longest, which come first; whoever is done takes what another has left over."""
STORIES_S_MAX = 240
"""What the simulation's stories may take of all workers together, on cores that do nothing else."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest first, and leave files together: what a file's tests share is made once. Sample long series."""
    rank = {
        item: next((n for n, one in enumerate(LONGEST) if item.nodeid.startswith(one)), len(LONGEST)) for item in items
    }
    items.sort(key=rank.__getitem__)
    if left_out := set(deselect(items)):
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return uvloop's loop, on which Roost's processes run too."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_collection_finish() -> None:
    """Leave what is imported and collected out of every later garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """End what many tests shared."""
    if made := sys.modules.get("tests.launching"):
        for end in made.AT_END:
            end()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what the simulation's stories took of all workers."""
    durations = [
        report.duration
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, ())
        if "test_stories_end_well" in report.nodeid and report.when == "call"
    ]
    if durations:
        spent_s = sum(durations)
        terminalreporter.write_line(f"stories: {spent_s:.0f} s of workers, {STORIES_S_MAX} are allowed on idle cores")


@pytest.fixture(autouse=True)
def logging_is_left_alone() -> Iterator[None]:
    """A program that a test runs in this process may not configure the logging of the tests after it."""
    yield
    configured = structlog.get_config()["cache_logger_on_first_use"]
    structlog.reset_defaults()
    assert not configured, "the test configured logging: run the program in a process of its own, or without that"


@pytest.fixture(scope="session")
def reachable_dir() -> Iterator[Path]:
    """A folder that PostgreSQL's user may enter too: pytest's own are closed to everybody else."""
    directory = Path(tempfile.mkdtemp(prefix="roost-test-", dir=roomy_memory()))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data directory of the test's own."""
    directory = Path(tempfile.mkdtemp(prefix="roost-test-", dir=roomy_memory()))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(reachable_dir: Path) -> Iterator[PrivatePostgres]:
    """A PostgreSQL for tests that do not kill it; with a database `template`, migrated, with the standard names.

    Each copy of a database is a checkpoint, after which PostgreSQL would log every page that is written to as a whole.
    """
    server = PrivatePostgres(reachable_dir, pg_bin=PG_BIN, settings={"fsync": "off", "full_page_writes": "off"})
    server.start()
    server._query("CREATE DATABASE template")
    dsn = server.dsn.replace("/roost?", "/template?")
    upgrade(dsn, SCHEMAS)
    asyncio.run(insert_standard_names(dsn))
    yield server
    server.stop()


async def insert_standard_names(dsn: str) -> None:
    """Do once what every process begins with, so that no test has to wait for it."""
    database = await Database.open(dsn, size=1)
    await sync_standard_names(Ledger(database))
    await database.close()


@pytest.fixture(scope="session")
def execute(postgres: PrivatePostgres) -> Iterator[Callable[[str], None]]:
    """Run a statement on the server, on one connection for all tests: a new psql for each would take longer."""
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(postgres.dsn))
    yield lambda sql: loop.run_until_complete(connection.execute(sql))
    loop.run_until_complete(connection.close())
    loop.close()


@pytest.fixture
def copied_from() -> str:
    """The database that the test's own is a copy of."""
    return "template"


@pytest.fixture
def dsn(postgres: PrivatePostgres, execute: Callable[[str], None], copied_from: str) -> Iterator[str]:
    """The address of a migrated database of the test's own, which is empty unless the file names another template."""
    name = f"test_{os.urandom(6).hex()}"
    execute(f"CREATE DATABASE {name} TEMPLATE {copied_from} STRATEGY file_copy")
    yield postgres.dsn.replace("/roost?", f"/{name}?")
    execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    """A pool on an empty, migrated database."""
    opened = await Database.open(dsn)
    yield opened
    if placements := sys.modules.get("tests.placements"):
        await placements.close_placements()
    await opened.close()
