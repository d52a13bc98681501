"""`roost demo --real` and `roost dev --driver qemu`, whole: real guests on hosts that are namespaces.

Of three, the one that stops a demo is short: the others take one to two minutes.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agent.qemu.site import find_lack, find_lack_of_image, skip_for
from tests.cluster import _template

from roost.cli.asking.real_marks import MARKS

ROOST = [sys.executable, "-m", "roost.cli.main"]
SRC = Path(__file__).parents[2] / "src"
TIMEOUT_S = 180.0
NAMESPACES = Path("/run/netns")

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def works_here() -> None:
    """Skip with the name of what lacks. Where continuous integration could have had it, that is a failure."""
    if lack := find_lack() or asyncio.run(find_lack_of_image()):
        skip_for(lack)


@pytest.fixture
def environment() -> dict[str, str]:
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(SRC), "ROOST_PG_TEMPLATE": _template()}


@pytest.fixture
def left_behind() -> Iterator[list[str]]:
    """Namespaces of the commands that a test runs, by their process: they are to be gone at its end."""
    prefixes: list[str] = []
    yield prefixes
    assert [name for prefix in prefixes for name in _namespaces(prefix)] == []


def _namespaces(prefix: str) -> list[str]:
    return [path.name for path in NAMESPACES.glob(f"{prefix}-*")]


def _guests(directory: str) -> list[str]:
    """The command lines of the QEMUs and dnsmasqs that have files there."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if directory in words and words.startswith(("qemu-system", "dnsmasq", "setpriv")):
            lines.append(words)
    return lines


@pytest.mark.long
def test_the_real_demo_keeps_every_promise_also_where_another_was_killed(
    environment: dict[str, str], left_behind: list[str], data_dir: Path
) -> None:
    with demo_with_guests(environment, left_behind, data_dir) as killed:
        killed.kill()
    assert len(_namespaces(f"roost-{killed.pid}")) == 5
    assert _guests(str(data_dir))
    with subprocess.Popen(
        [*ROOST, "demo", "--real", "--json", "--data-dir", str(data_dir)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
    ) as demo:  # fmt: skip
        left_behind.append(f"roost-{demo.pid}")
        out, said = demo.communicate(timeout=TIMEOUT_S)
    assert demo.returncode == 0, (out, said)
    story = json.loads(out)
    assert story["broken"] == []
    assert story["hosts"] == ["r1-h1", "r1-h2", "r2-h1", "r3-h1"]
    assert (story["pinged"]["pairs"], story["pinged"]["answered"]) == (20, 20)
    assert "rack1 0 of 2 free, rack2 0 of 2 free, rack3 0 of 1 free" in story["refused"]["reason"]
    spoofed = story["spoofed"]
    assert (spoofed["other_address"], spoofed["other_mac"]) == (0, 0)
    assert spoofed["as_itself"] > 0
    moved, evacuated = story["moved"], story["evacuated"]
    assert {moved["source"], moved["target"]} == {"r1-h1", "r1-h2"}
    assert moved["lost"] is None
    assert evacuated["host"] == moved["target"]
    assert moved["server"] in evacuated["servers"]
    assert evacuated["back"] == evacuated["servers"]
    assert evacuated["targets"] == [moved["source"]]
    assert story["books"]["agree"]
    assert story["nics"] == {"addresses": 39, "answered": 5, "problems": []}
    assert story["seconds"] < TIMEOUT_S


@pytest.mark.long
def test_dev_plays_real_hosts_and_ctrl_c_leaves_none(
    environment: dict[str, str], left_behind: list[str], data_dir: Path
) -> None:
    command = [*ROOST, "dev", "--driver", "qemu", "--servers", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=hear_ctrl_c
    ) as dev:
        prefix = f"roost-{dev.pid}"
        left_behind.append(prefix)
        assert dev.stdout is not None
        lines = [dev.stdout.readline() for _ in range(4)]
        assert lines[2] == "4 hosts are up.\n"
        assert lines[3] == f"The router is a network namespace: ip netns exec {prefix}-fabric ping ADDRESS\n"
        ping = ["ip", "netns", "exec", f"{prefix}-fabric", "ping", "-c", "1", "-W", "1", "203.0.113.34"]
        deadline_s = time.monotonic() + TIMEOUT_S
        while subprocess.run(ping, capture_output=True, env=environment).returncode != 0:
            assert time.monotonic() < deadline_s
        assert _guests(str(data_dir))
        dev.send_signal(signal.SIGINT)
        dev.communicate(timeout=60)
        assert dev.returncode == 0
    assert _guests(str(data_dir)) == []


def hear_ctrl_c() -> None:
    """Undo what a shell does to its background jobs."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def demo_with_guests(
    environment: dict[str, str], left_behind: list[str], data_dir: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a demo until some of its guests are there."""
    with subprocess.Popen(
        [*ROOST, "demo", "--real", "--data-dir", str(data_dir)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, preexec_fn=hear_ctrl_c,
    ) as demo:  # fmt: skip
        left_behind.append(f"roost-{demo.pid}")
        assert demo.stdout is not None
        deadline_s = time.monotonic() + TIMEOUT_S
        while not (line := demo.stdout.readline()).startswith(b"Roost starts with 4 hosts"):
            assert line, demo.communicate()
        while not _guests(str(data_dir)):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        yield demo


def test_a_real_demo_that_is_stopped_leaves_nothing_behind(
    environment: dict[str, str], left_behind: list[str], data_dir: Path
) -> None:
    with demo_with_guests(environment, left_behind, data_dir) as demo:
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 130
    assert _guests(str(data_dir)) == []
    assert not (MARKS / f"roost-{demo.pid}.json").exists()
