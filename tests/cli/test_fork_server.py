"""The fork server of `roost serve`: its processes outlive it, and how they end is known all the same."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_supervisor import alive, status, wait_for
from tests.cluster import PATH, Cluster
from tests.processes import children_of, fork_servers, names_of

from roost.cli.serving.fork_server import WITHOUT_THREADS


@pytest.fixture
def roost(data_dir: Path) -> Iterator[Cluster]:
    cluster = Cluster(data_dir)
    try:
        cluster.serve("placement", workers=2)
        yield cluster
    finally:
        cluster.close()


def deaths(roost: Cluster) -> list[dict[str, Any]]:
    """What the supervisor said of processes that died."""
    log = (roost.directory / "serve-1.log").read_text()
    return [json.loads(line) for line in log.splitlines() if "process died" in line]


def test_how_a_process_ended_is_in_the_log_and_a_fork_of_the_same_server_replaces_it(roost: Cluster) -> None:
    supervisor = roost.processes[0].pid
    servers, names = fork_servers(supervisor), names_of(supervisor)
    victim = next(pid for pid, name in names.items() if name == "api-2")
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: victim not in names_of(supervisor))
    wait_for(lambda: sorted(names_of(supervisor).values()) == ["api-1", "api-2"])
    assert fork_servers(supervisor) == servers
    [death] = deaths(roost)
    assert (death["child"], death["pid"], death["status"]) == ("api-2", victim, -signal.SIGKILL)


def test_processes_go_on_without_their_fork_server_and_the_next_one_replaces_those_that_die(roost: Cluster) -> None:
    supervisor = roost.processes[0].pid
    [server], names = fork_servers(supervisor), names_of(supervisor)
    os.kill(server, signal.SIGKILL)
    wait_for(lambda: not alive(server))
    assert status(roost.url) == 200
    assert all(alive(pid) for pid in names)
    assert deaths(roost) == []

    victim, other = names
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: deaths(roost) != [])
    wait_for(lambda: list(names_of(supervisor).values()) == [names[victim]])
    assert fork_servers(supervisor) != [server]
    assert alive(other)
    assert [(death["pid"], death["status"]) for death in deaths(roost)] == [(victim, None)]

    roost.stop(roost.processes[0])
    assert not any(alive(pid) for pid in (other, *names_of(supervisor)))


def test_a_process_has_a_session_of_its_own_and_no_socket_of_another(roost: Cluster) -> None:
    """A second one that held the first one's standard input would hide that the first one died."""
    pids = [*names_of(roost.processes[0].pid)]
    assert [os.getsid(pid) for pid in pids] == pids
    sockets = [os.readlink(f"/proc/{pid}/fd/0") for pid in pids]
    assert all(word.startswith("socket:") for word in sockets)
    held = [[os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()] for pid in pids]
    assert [[own.count(word) for word in sockets] for own in held] == [[1, 0], [0, 1]]


def test_nothing_that_the_fork_server_imports_starts_a_thread() -> None:
    """A fork has none of the threads of its parent, but whatever they held; of itself NumPy's algebra ends its own."""
    imports = "from roost.cli.serving import process, cloud_wiring"
    program = f"import os; {imports}; print(len(os.listdir('/proc/self/task')))"
    environment = {**os.environ, "PYTHONPATH": PATH, **WITHOUT_THREADS}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "1\n"


def test_the_fork_server_ends_with_a_supervisor_that_is_killed(roost: Cluster) -> None:
    supervisor = roost.processes[0]
    [server] = fork_servers(supervisor.pid)
    assert len(children_of(server)) == 2
    roost.stop(supervisor, signal.SIGKILL)
    wait_for(lambda: not alive(server))
