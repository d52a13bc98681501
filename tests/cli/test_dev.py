"""`roost dev` in one terminal, and `roost status` and `roost servers` from another: real processes, real Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import launching
from tests.cluster import ROOST, Cluster, _template, cluster
from tests.processes import children_of, words_of

from roost.cli.asking.local_cloud import _ended

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "three-racks.yaml"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
TIMEOUT_S = 60.0


@pytest.fixture
def dev(data_dir: Path) -> Iterator["subprocess.Popen[str]"]:
    """A `roost dev` that has just begun."""
    command = [*ROOST, "dev", str(EXAMPLE), "--servers", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0"]
    environment = {**ENVIRONMENT, "ROOST_PG_TEMPLATE": _template()}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    yield process
    process.kill()
    process.communicate()


def ask(url: str, *arguments: str) -> str:
    done = launching.run(*arguments, "--api", url)
    assert done.returncode == 0, done.stderr
    return done.stdout


def status_when(url: str, key: str, count: int) -> dict[str, Any]:
    """The status once `key` is `count`: other processes are at work, and nothing here can move their clocks."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        status: dict[str, Any] = json.loads(ask(url, "status", "--json"))
        if status[key] == count:
            return status
        assert time.monotonic() < deadline_s, status
        time.sleep(0.2)


def test_one_command_serves_loads_and_runs_and_ctrl_c_ends_it_all(dev: "subprocess.Popen[str]", data_dir: Path) -> None:
    assert dev.stdout is not None
    serves, created, up, hint = (dev.stdout.readline() for _ in range(4))
    assert serves.endswith(f"its log is {data_dir / 'roost.log'}.\n")
    url = re.findall(r"http://[0-9.:]+", serves)[0].rstrip(".")
    assert created == "Created 1 flavor, 1 network, 3 segments, 3 subnets, 12 hosts, 40 servers.\n"
    assert up == "12 hosts are up.\n"
    assert hint == (
        f"Ask it from another terminal: roost status --api {url}, roost servers --api {url}. Ctrl-C stops it all.\n"
    )
    status = status_when(url, "builds_total", 0)
    assert [(one["segment"], one["total"], one["used"], one["free"]) for one in status["segments"]] == [
        ("rack1", 13, 13, 0), ("rack2", 13, 13, 0), ("rack3", 5, 5, 0),
    ]  # fmt: skip
    text = ask(url, "status").splitlines()
    assert text[0] == "12 hosts: 12 up."
    assert text[3].split() == ["public", "rack1", "13", "13", "0"]
    assert text[-1] == "No server is being built or deleted."
    servers = json.loads(ask(url, "servers", "--json"))["servers"]
    assert sorted(one["status"] for one in servers) == ["ACTIVE"] * 31 + ["ERROR"] * 9
    lines = ask(url, "servers").splitlines()
    assert lines[0].split() == ["id", "name", "status", "host", "addresses"]
    assert [line.split()[0] for line in lines[1:41]] == [one["id"] for one in servers]
    failed = ", ".join(one["name"] for one in servers if one["status"] == "ERROR")
    assert lines[42].startswith(f"{failed}: No valid host was found: 12 hosts considered")
    assert len(lines) == 43

    dev.send_signal(signal.SIGINT)
    out, said = dev.communicate(timeout=TIMEOUT_S)
    assert (dev.returncode, out) == (0, "")
    assert said == f"Roost has stopped. The data is in {data_dir}: the same command goes on from there.\n"
    assert not (data_dir / "postgres" / "postmaster.pid").exists()


def test_a_second_dev_on_the_same_data_is_refused_in_a_sentence(dev: "subprocess.Popen[str]", data_dir: Path) -> None:
    assert dev.stdout is not None
    dev.stdout.readline()
    second = launching.run("dev", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0")
    advice = "stop it, or give another --data-dir"
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr == f"roost: another roost works with {data_dir}: {advice}\n"


def test_dev_ends_with_a_sentence_when_a_part_of_it_does(dev: "subprocess.Popen[str]") -> None:
    assert dev.stdout is not None
    dev.stdout.readline()
    [agent] = [pid for pid in children_of(dev.pid) if "agent" in words_of(pid)]
    os.kill(agent, signal.SIGKILL)
    _, said = dev.communicate(timeout=TIMEOUT_S)
    assert dev.returncode == 1
    assert said.startswith("roost: roost agent ended: ")
    assert "Traceback" not in said


@pytest.mark.parametrize("command", ["dev", "demo"])
def test_a_data_directory_that_cannot_be_made_is_said_in_a_sentence(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    directory = tmp_path / "file" / "roost"
    done = launching.run(command, "--data-dir", str(directory))
    assert done.returncode == 1
    assert command == "demo" or done.stdout == "", "the demo says first what is about to happen"
    assert done.stderr == f"roost: the data directory {directory} cannot be used: Not a directory\n"


def test_what_an_older_run_said_is_not_taken_for_this_ones_end(tmp_path: Path) -> None:
    older = "roost: cannot listen on 127.0.0.1:8778: Address already in use\n"
    log = tmp_path / "roost.log"
    log.write_text(f"{older}it was killed\n")
    assert str(_ended("roost agent", log, len(older))) == "roost agent ended: it was killed"


@pytest.fixture
def served() -> Iterator[Cluster]:
    with cluster() as made:
        made.serve("all")
        yield made


def test_status_says_which_host_a_build_waits_for(served: Cluster) -> None:
    """An agent that begins and does not end keeps the servers that were placed waiting."""
    cloud = EXAMPLE.read_text().replace("count: 40", "count: 2")
    file = served.directory / "two.yaml"
    file.write_text(cloud)
    served.run("load", str(file), "--api", served.url)
    served.agent("--fleet=all", "--fake-fail=vanish", wait=False)
    served.wait_for_hosts({f"r{rack}-h{host}" for rack in (1, 2, 3) for host in (1, 2, 3, 4)})
    served.run("load", str(file), "--servers", "--api", served.url)
    deadline_s = time.monotonic() + TIMEOUT_S
    while "to finish the launch" not in (text := ask(served.url, "status")):
        assert time.monotonic() < deadline_s, text
        time.sleep(0.2)
    lines = text.splitlines()
    assert lines[0] == "12 hosts: 12 up."
    assert "2 servers are being built or deleted:" in lines
    assert re.search(r"^web-1 +launch +\S+ +host r\d-h\d to finish the launch$", text, re.MULTILINE)
    assert "There is no server." not in ask(served.url, "servers")


def test_a_cloud_without_servers_says_so(served: Cluster) -> None:
    assert ask(served.url, "servers") == "There is no server.\n"
    assert ask(served.url, "status") == "0 hosts: 0 up.\n\nNo server is being built or deleted.\n"
