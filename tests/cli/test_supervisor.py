"""`roost serve` as a whole: real processes, each test with a supervisor of its own or the shared one."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests import launching
from tests.processes import fork_servers, names_of

from roost.platform.postgres import PrivatePostgres

TIMEOUT_S = 60.0
ROOST = [sys.executable, "-c", "from roost.cli.main import main; main()"]
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

Started = tuple[subprocess.Popen[str], str]


def start(*arguments: str) -> Started:
    """A running `roost serve`, once it has said its address; without --listen (a conductor alone) it says none."""
    command = [*ROOST, "serve", *arguments, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.wait()
    return process, json.loads(line)["url"]


def stop(process: subprocess.Popen[str]) -> int:
    process.terminate()
    try:
        return process.wait(20)
    finally:
        process.kill()
        assert process.stdout is not None
        process.stdout.close()


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


def wait_for(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.05)  # another process is at work; nothing here can move its clock


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def postmaster_of(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0])


@pytest.fixture
def served(data_dir: Path) -> Iterator[Started]:
    process, url = start("all", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0", "--workers", "2")
    yield process, url
    stop(process)


class VersionsOnly(BaseHTTPRequestHandler):
    """A Placement as far as an import asks before it opens Roost's database."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"versions": [{"max_version": "1.39"}]}')

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def source_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), VersionsOnly) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_schema_newer_than_the_program_and_a_lost_version_file_end_every_command_with_one_sentence(
    data_dir: Path, source_url: str
) -> None:
    process, _ = start(f"--data-dir={data_dir}", "--listen=127.0.0.1:0", "placement")
    PrivatePostgres(data_dir)._run(
        "psql", "-h", str(PrivatePostgres(data_dir).socket_dir), "-U", "roost", "-d", "roost",
        "-c", "UPDATE placement.alembic_version SET version_num = 'placement_9999'",
    )  # fmt: skip
    stop(process)
    commands = (
        [*ROOST, "serve", "placement", "--listen=127.0.0.1:0"],
        [sys.executable, "-c", "from roost.cli.manage import main; main()", "audit"],
        [sys.executable, "-c", "from roost.cli.manage import main; main()", "import-placement", f"--from={source_url}"],
    )
    for sentence in ("this Roost knows it up to placement_", "names no version", "has files but no PG_VERSION"):
        for command in commands:
            done = subprocess.run(
                [*command, f"--data-dir={data_dir}"], capture_output=True, text=True, env=ENVIRONMENT, timeout=TIMEOUT_S
            )
            assert done.returncode == (255 if "audit" in command else 1), done
            found = sentence in done.stderr or ("audit" in command and "there is no database in" in done.stderr)
            assert found, done.stderr
            assert "Traceback" not in done.stderr
        version = data_dir / "postgres" / "PG_VERSION"
        if "placement" in sentence:
            version.write_text("")
        else:
            version.unlink(missing_ok=True)


def test_what_dies_comes_back_and_sigterm_ends_everything(served: Started, data_dir: Path) -> None:
    process, url = served
    assert status(url) == 200
    names = names_of(process.pid)
    assert sorted(names.values()) == ["agent-api-1", "api-1", "api-2", "conductor-1"]
    with urllib.request.urlopen(f"{url}/agent/v1", timeout=5) as response:
        agent_url = json.load(response)["url"]
    assert status(agent_url.removesuffix("/agent/v1")) == 200

    for pid in names:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: sorted(names_of(process.pid).values()) == ["agent-api-1", "api-1", "api-2", "conductor-1"])
    wait_for(lambda: status(url) == 200 and status(agent_url.removesuffix("/agent/v1")) == 200)
    assert not set(names) & set(names_of(process.pid))

    killed = postmaster_of(data_dir)
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: (data_dir / "postgres/postmaster.pid").exists() and postmaster_of(data_dir) != killed)
    wait_for(lambda: status(url) == 200)

    names, postmaster = names_of(process.pid), postmaster_of(data_dir)
    assert stop(process) == 0
    assert not any(alive(pid) for pid in (*names, postmaster))


def test_ctrl_c_says_that_all_has_stopped_and_where_the_data_is(data_dir: Path) -> None:
    command = [*ROOST, "serve", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("Roost serves placement, network, compute, conductor at http://")
    postmaster = postmaster_of(data_dir)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert said.endswith(f"Roost has stopped. The data is in {data_dir}: the same command goes on from there.\n")
    assert not alive(postmaster)


def test_children_end_with_a_supervisor_that_is_killed_and_the_next_one_adopts(data_dir: Path) -> None:
    process, _ = start("all", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0")
    names, postmaster = names_of(process.pid), postmaster_of(data_dir)
    process.kill()
    stop(process)
    wait_for(lambda: not any(alive(pid) for pid in names))
    assert alive(postmaster)
    process, url = start("all", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0")
    assert postmaster_of(data_dir) == postmaster
    assert status(url) == 200
    assert stop(process) == 0
    assert not alive(postmaster)


def test_one_that_is_stopped_while_the_database_is_made_leaves_nothing_running(data_dir: Path) -> None:
    command = [*ROOST, "serve", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    wait_for(lambda: (data_dir / "postgres.half").exists() and fork_servers(process.pid) != [])
    started = [*fork_servers(process.pid), *names_of(process.pid)]
    process.terminate()
    said, logged = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, said) == (0, "")
    assert "Traceback" not in logged
    assert not any(alive(pid) for pid in started)
    assert not PrivatePostgres(data_dir).is_running()


def test_two_supervisors_share_one_database_and_the_last_stops_it(served: Started, data_dir: Path) -> None:
    first, first_url = served
    second, second_url = start("conductor", "--data-dir", str(data_dir))
    assert second_url is None
    assert list(names_of(second.pid).values()) == ["conductor-1"]
    assert stop(first) == 0
    assert status(first_url) == 0
    postmaster = postmaster_of(data_dir)
    assert alive(postmaster)
    assert stop(second) == 0
    assert not alive(postmaster)


def run(*arguments: str) -> tuple[int, str]:
    done = launching.run(*arguments)
    return done.returncode, done.stderr


def test_a_port_in_use_is_said_before_anything_is_made(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, said = run("serve", "--data-dir", str(data_dir / "new"), "--listen", address)
    assert code == 1
    advice = "--listen names another address or port"
    assert said.strip().endswith(f"roost: cannot listen on {address}: Address already in use; {advice}")
    assert not (data_dir / "new").exists()


def test_a_database_that_does_not_answer_is_said() -> None:
    code, said = run("serve", "--database", "postgresql://roost@127.0.0.1:1/roost", "--listen", "127.0.0.1:0")
    assert code == 1
    assert "roost: no PostgreSQL answers at 127.0.0.1:1: Connection refused" in said
    assert "Traceback" not in said


def test_a_roost_that_does_not_answer_is_said() -> None:
    cloud = ROOT / "examples" / "three-racks.yaml"
    code, said = run("load", str(cloud), "--api", "http://127.0.0.1:1")
    assert (code, said.strip().endswith("does `roost serve` run there?")) == (1, True)


def test_a_roost_that_serves_placement_alone_is_said_to_serve_no_compute(data_dir: Path) -> None:
    process, url = start("placement", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0")
    try:
        for command in (["status"], ["servers"], ["load", str(ROOT / "examples" / "three-racks.yaml")]):
            code, said = run(*command, "--api", url)
            advice = "--api names a Roost that does, as `roost serve all`"
            assert (code, said) == (1, f"roost: {url} serves no Compute API: {advice}\n")
    finally:
        stop(process)


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "storage"),
        ("serve", "--listen", "8778"),
        ("serve", "--auth", "magic"),
        ("serve", "--database", "postgresql://x", "--data-dir", "y"),
        ("serve", "--workers", "0"),
        ("load", "examples/three-racks.yaml", "--api", "127.0.0.1:8778"),
        ("agent", "--fleet", "all", "--api", "127.0.0.1:8778"),
        ("agent", "--host", "../../etc", "--api", "http://127.0.0.1:8778"),
        ("agent", "--host", "h1\n", "--api", "http://127.0.0.1:8778"),
        ("agent", "--host", "h1", "--api", "http://127.0.0.1:8778", "--fence-after", "119"),
        ("nest",),
    ],
)
def test_bad_usage_is_exit_status_2(arguments: tuple[str, ...]) -> None:
    code, said = run(*arguments)
    assert code == 2
    assert "Traceback" not in said


def test_a_placement_service_alone_makes_its_schema_only_and_others_may_come_later(data_dir: Path) -> None:
    process, url = start("placement", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0")
    assert status(url) == 200
    names = PrivatePostgres(data_dir)._run(
        *("psql", "-h", str(data_dir / "run"), "-U", "roost", "-Atc"),
        "SELECT nspname FROM pg_namespace WHERE nspname IN ('placement', 'network', 'compute')",
    )
    assert names.split() == ["placement"]
    assert stop(process) == 0
    process, url = start("all", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0")
    assert status(url) == 200
    assert stop(process) == 0


def test_agents_of_several_hosts_start_side_by_side_each_with_a_folder_of_its_host(data_dir: Path) -> None:
    """The second said that another agent works with `agent`, where both kept their guests."""
    agents = [
        subprocess.Popen(
            [*ROOST, "agent", "--host", name, "--api", "http://127.0.0.1:1", "--until-stdin-ends"],
            stdin=subprocess.PIPE,
            cwd=data_dir,
            env=ENVIRONMENT,
        )
        for name in ("h1", "h2")
    ]
    try:
        wait_for(lambda: all((data_dir / "agent" / name / "guests.journal").exists() for name in ("h1", "h2")))
    finally:
        for agent in agents:
            agent.communicate(timeout=TIMEOUT_S)
    assert [agent.returncode for agent in agents] == [0, 0]
