"""`roost demo` and `roost load` as a person runs them: every process real, nothing but the command line and HTTP."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import launching
from tests.cli.terminal import LINES, shown_in_a_terminal
from tests.cluster import Cluster, _template, cluster

from roost.cli.asking.cloudfile import parse_cloud
from roost.cli.asking.four_records import read_funnel
from roost.cli.asking.loading import server_names

ROOST = [sys.executable, "-m", "roost.cli.main"]
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "COLUMNS": "120"}
RACKS = {"r1": "rack1", "r2": "rack2", "r3": "rack3"}


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return launching.run(*arguments, environment={**ENVIRONMENT, **environment})


def test_the_demo_tells_the_whole_story_in_one_object() -> None:
    """From nothing: with a PostgreSQL that it makes itself."""
    done = run("demo", str(ROOT / "examples" / "three-racks.yaml"), "--json")
    assert done.returncode == 0, done.stderr
    story = json.loads(done.stdout)
    assert [(one["name"], one["hosts"], one["addresses_used"]) for one in story["segments"]] == [
        ("rack1", 4, 13),
        ("rack2", 4, 13),
        ("rack3", 4, 5),
    ]
    records = story["books"]
    assert records["agree"]
    assert records["differences"] == []
    assert [records[name] for name in ("ledger", "addresses", "ports", "servers")] == [31, 31, 31, 31]
    refused = story["refused"]
    for words in ("12 hosts considered", "ran out", "rack1 0 of 13 free", "rack3 0 of 5 free"):
        assert words in refused["reason"]
    assert refused["funnel"][:3] == [["considered", 12], ["enabled", 12], ["reach network public", 12]]
    assert refused["funnel"][-1] == ["with a free address on network public", 0]
    active = [server for server in story["servers"] if server["status"] == "ACTIVE"]
    assert len(active) == len({address for server in active for address in server["addresses"]}) == 31
    [failed] = [server for server in story["servers"] if server["status"] != "ACTIVE"]
    assert (failed["name"], failed["status"], failed["fault"]) == (refused["name"], "ERROR", refused["reason"])
    [with_port] = [server for server in active if server["name"] == "web-with-port"]
    assert with_port["host"].startswith("r3-")


@pytest.fixture(scope="module")
def watched_story(reachable_dir: Path) -> list[tuple[str, bool]]:
    """Each line that a program reads which runs the demo, and whether the hosts of the demo ran by then."""
    directory = reachable_dir / "demo"
    directory.mkdir(mode=0o711)
    environment = {**ENVIRONMENT, "TMPDIR": str(directory), "ROOST_PG_TEMPLATE": _template()}
    with subprocess.Popen([*ROOST, "demo"], stdout=subprocess.PIPE, text=True, env=environment) as demo:
        assert demo.stdout is not None
        lines = [(line, bool(list(directory.glob("*/agent")))) for line in demo.stdout]
        assert demo.wait(30) == 0
    assert list(directory.iterdir()) == []
    return lines


@pytest.fixture(scope="module")
def piped_story(watched_story: list[tuple[str, bool]]) -> str:
    """What a program reads that runs the demo."""
    return "".join(line for line, _ in watched_story)


def test_the_demo_speaks_before_it_starts_anything_and_ends_before_it_tidies_up(
    watched_story: list[tuple[str, bool]],
) -> None:
    (first, hosts_at_first), (last, hosts_at_last) = watched_story[0], watched_story[-1]
    assert (first, hosts_at_first) == (
        "Roost starts with 12 hosts that pretend, network public, 3 segments: some 5 s.\n",
        False,
    )
    assert last.startswith("Next: roost dev ")
    assert hosts_at_last


def test_the_demo_is_readable(piped_story: str) -> None:
    for words in ("rack1", "used", "free", "is refused", "boots into", "lands on r3-h", "The four records agree"):
        assert words in piped_story


def test_a_terminal_shows_the_whole_story(piped_story: str) -> None:
    """Progress bars come and go on the same screen and take no line of the story with them, which is narrower here.

    It fits on the screen with the prompt below it: nobody scrolls to read its beginning.
    """
    environment = {**ENVIRONMENT, "ROOST_PG_TEMPLATE": _template()}
    status, lines = shown_in_a_terminal([*ROOST, "demo"], columns=80, environment=environment)
    screen = "\n".join(lines)
    assert status == 0, screen
    assert words_of(screen) == words_of(piped_story), screen
    rows = [line for line in piped_story.splitlines() if re.search(r"\S  +\d", line)]
    assert len(rows) == 3
    assert [line for line in lines if re.search(r"\S  +\d", line)] == rows
    assert len(lines) <= LINES, screen


def test_the_readme_shows_the_demo_as_it_is(piped_story: str) -> None:
    readme = (ROOT / "README.md").read_text()
    [shown] = [
        block for block in re.findall(r"^```\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL) if "Told in" in block
    ]
    assert words_of(shown) == words_of(piped_story)
    wrapped = [line for line in piped_story.splitlines() if re.search(r"\S  +\d", line)]
    assert [line for line in shown.splitlines() if re.search(r"\S  +\d", line)] == wrapped


def words_of(story: str) -> list[str]:
    """The words of a story, however its lines are broken, without what differs from run to run."""
    for varying, same in (
        (r"\d+\.\d s", "N s"),
        (r"r\d-h\d", "HOST"),
        (r"web-\d+", "SERVER"),
        (r"203[.\d]+\b", "ADDRESS"),
    ):
        story = re.sub(varying, same, story)
    return story.split()


CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, segmentation_id: 101, subnets: [{cidr: 203.0.113.0/28}]}
  - name: backend
    physical_network: backend
    subnets: [{cidr: 10.0.0.0/24, gateway: 10.0.0.254, pools: [{start: 10.0.0.10, end: 10.0.0.19}]}]
hosts:
  - {name: 'r1-h[1-4]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1, backend]}
servers:
  - {name: web, count: 3, flavor: small, networks: [public, backend]}
"""
WHOLE = {"flavors": 1, "networks": 2, "segments": 1, "subnets": 2, "hosts": 4, "servers": 3}
NOTHING = dict.fromkeys(WHOLE, 0)


@pytest.fixture
def served() -> Iterator[Cluster]:
    with cluster() as made:
        made.serve("all")
        made.agent(wait=False)  # without one, whoever boots servers waits for their hosts for as long as it is told to
        yield made


def test_a_second_load_creates_nothing_and_says_so(served: Cluster) -> None:
    file = served.directory / "cloud.yaml"
    file.write_text(CLOUD)
    arguments = ("load", str(file), "--api", served.url, "--servers")
    assert json.loads(served.run(*arguments, "--json")) == {"created": WHOLE, "found": NOTHING}
    assert json.loads(served.run(*arguments, "--json")) == {"created": NOTHING, "found": WHOLE}
    assert served.run(*arguments) == (
        "Nothing to create: 1 flavor, 2 networks, 1 segment, 2 subnets, 4 hosts, 3 servers are there already.\n"
    )


def test_an_api_that_is_not_there_is_said_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text(CLOUD)
    done = run("load", str(file), "--api", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr == (
        "roost: GET http://127.0.0.1:1/compute/v2.1/flavors/detail?limit=1000&is_public=None failed: "
        "Connection refused: does `roost serve` run there?\n"
    )


def test_a_wrong_cloud_file_ends_the_demo_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text(CLOUD.replace("flavor: small", "flavor: big"))
    done = run("demo", str(file), "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 1
    assert done.stderr.startswith(f"{file}:")
    assert "servers[0].flavor: expected a flavor of this file (small), got 'big'" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_cloud_of_hosts_alone_is_refused_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text("hosts: [{name: h1, vcpus: 1, ram_mb: 1024, disk_gb: 10}]")
    done = run("demo", str(file), "--data-dir", str(tmp_path / "data"))
    said = "the cloud file has neither servers, nor a flavor and a network to make some of"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"roost: {said}\n")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", [("demo", "--real"), ("dev", "--driver", "qemu")])
def test_what_a_machine_lacks_for_real_guests_is_said_before_anything_starts(
    command: tuple[str, ...], data_dir: Path
) -> None:
    """Where programs are looked for beside PATH, there is no QEMU."""
    done = run(*command, "--data-dir", str(data_dir / "data"), PATH="/nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("roost: ")
    assert re.search(r"There is no qemu-system-x86_64, .*: apt install --no-install-recommends .*qemu-", done.stderr)
    assert list(data_dir.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("demo", "FILE", "--real"), "--real: expected no cloud file, its story is of three racks of its own"),
        (("dev", "--driver", "kvm"), "--driver kvm: expected fake or qemu"),
    ],
)
def test_options_of_real_hosts_that_say_nothing_are_wrong_usage(command: tuple[str, ...], sentence: str) -> None:
    done = run(*command)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in " ".join(done.stderr.split())


def test_one_server_has_the_name_alone_and_several_are_numbered() -> None:
    servers = parse_cloud(CLOUD, name="c")[0].servers[0]
    assert server_names(servers) == ["web-1", "web-2", "web-3"]
    assert read_funnel("host: a\nhosts: 12 hosts left\nup: 1 host left\nVCPU: 0 hosts left") == (
        ("hosts", 12),
        ("up", 1),
        ("VCPU", 0),
    )


def test_a_demo_that_is_stopped_leaves_nothing_behind(data_dir: Path) -> None:
    environment = {**ENVIRONMENT, "TMPDIR": str(data_dir), "ROOST_PG_TEMPLATE": _template()}
    with subprocess.Popen([*ROOST, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as demo:
        assert demo.stdout is not None
        while not demo.stdout.readline().startswith(b"1. "):
            assert demo.poll() is None
        assert list(data_dir.iterdir())
        demo.terminate()
        assert demo.wait(30) == 130
        assert demo.stderr is not None
        assert b"Stopping: this takes some seconds.\n" in demo.stderr.read()
    assert list(data_dir.iterdir()) == []
