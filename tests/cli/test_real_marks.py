"""What a run of real hosts leaves behind when it is killed is removed by the next; what lives is left alone."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests import launching
from tests.agent.qemu.site import PATH, call, find_lack, skip_for

from roost.cli.asking.real_marks import Mark, marked, remove_leftovers
from roost.cli.asking.real_network import NAMESPACES

ROOT = Path(__file__).parents[2]
RUN = """
import sys, time
from pathlib import Path
from roost.cli.asking.real_marks import Mark, marked
folder, prefix, own = sys.argv[1:]
with marked(prefix, Mark(hosts=f"{own}/hosts", log=f"{own}/log", temporary=own), folder=Path(folder)):
    print("marked", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def prefixes() -> Iterator[list[str]]:
    """Give the prefixes of a dead run and of one that lives; their namespaces are deleted."""
    names = [f"rm{os.getpid()}{kind}" for kind in ("dead", "alive")]
    yield names
    for name in names:
        for path in NAMESPACES.glob(f"{name}-*"):
            call("ip", "netns", "delete", path.name, check=False)


def add_host(prefix: str, own: Path) -> subprocess.Popen[bytes]:
    """Make a namespace in which something runs."""
    (own / "hosts" / "h1").mkdir(parents=True)
    call("ip", "netns", "add", f"{prefix}-h1")
    return subprocess.Popen(["ip", "netns", "exec", f"{prefix}-h1", "sleep", "600"], env={"PATH": PATH})


@pytest.mark.real
@pytest.mark.timeout(60)
def test_what_a_killed_run_left_goes_and_what_lives_stays(tmp_path: Path, prefixes: list[str]) -> None:
    if lack := find_lack():
        skip_for(lack)
    (dead, alive), marks = prefixes, tmp_path / "marks"
    folders = [tmp_path / name for name in ("dead", "alive")]
    sleepers = [add_host(*names) for names in zip(prefixes, folders, strict=True)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", RUN, str(marks), dead, str(folders[0])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"marked\n"
        assert asyncio.run(remove_leftovers(folder=marks)) == [], "both live"
        run.kill()
    own = Mark(hosts=str(folders[1] / "hosts"), log=str(folders[1] / "log"), temporary=None)
    with marked(alive, own, folder=marks):
        assert asyncio.run(remove_leftovers(folder=marks)) == [dead]
        assert [path.exists() for path in folders] == [False, True]
        assert [(NAMESPACES / f"{prefix}-h1").exists() for prefix in prefixes] == [False, True]
        assert sleepers[0].wait(5) == -9
        assert sleepers[1].poll() is None
        assert asyncio.run(remove_leftovers(folder=marks)) == []
        sleepers[1].kill()
        sleepers[1].wait()
        call("ip", "netns", "delete", f"{alive}-h1")
    assert list(marks.iterdir()) == []


@pytest.mark.parametrize("left", [True, False])
def test_a_run_is_marked_as_long_as_its_namespaces_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: bool
) -> None:
    namespaces, marks = tmp_path / "netns", tmp_path / "marks"
    namespaces.mkdir()
    monkeypatch.setattr("roost.cli.asking.real_marks.NAMESPACES", namespaces)
    mark = Mark(hosts="/h", log="/l", temporary=None)
    if left:
        (namespaces / "p-h1").touch()
    with pytest.raises(OSError, match="no"), marked("p", mark, folder=marks):
        raise OSError("no")
    kept = [msgspec.json.decode(path.read_bytes(), type=Mark) for path in marks.iterdir()]
    assert kept == ([mark] if left else [])


CLOUD = """
networks: [{name: n, physical_network: rack1, network_type: TYPE, subnets: [{cidr: 10.0.0.0/24}]}]
hosts: [{name: 'h[1-COUNT]', vcpus: 1, ram_mb: 1024, disk_gb: 10, physical_networks: [rack1]}]
"""


@pytest.mark.parametrize(
    ("network_type", "count", "sentence"),
    [
        ("vxlan", 1, "network n is of type vxlan: real hosts on one machine have flat segments alone"),
        ("flat", 25, "one machine plays at most 24 real hosts: the cloud file has 25"),
    ],
)
def test_what_one_machine_does_not_play_is_said_before_anything_starts(
    tmp_path: Path, network_type: str, count: int, sentence: str
) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text(CLOUD.replace("TYPE", network_type).replace("COUNT", str(count)))
    done = launching.run("dev", str(file), "--driver", "qemu", "--data-dir", str(tmp_path / "data"))
    assert (done.returncode, done.stderr) == (1, f"roost: {sentence}\n")
    assert not (tmp_path / "data").exists()
