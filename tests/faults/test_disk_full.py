"""The file system under the data directory is full: everybody is told to come back, until there is room."""

import json
import os
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
from tests.cluster import QUICK, REQUEST_LINE, ROOST, Cluster, cluster

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")

SIZE_MB = 300
APIS = ("placement", "network", "compute", "agent")
WRITES_MAX = 300
REFUSALS = 50
AGAIN_MAX_S = 5.0
"""Four writes, on a machine that does other things as well; the first is refused or done at once."""
LINES_MAX = 3
"""Of one process in less than a minute: what it was doing, by kind, however often."""
MOUNT = f"""
mount -t tmpfs -o size={SIZE_MB}m,mode=0711 tmpfs "$1" && shift && exec "$@"
"""
"""The mount is in a namespace of these processes, and goes with them."""

AGENT = {"id": "a0000000-0000-0000-0000-00000000000a"}


class SmallDisk(NamedTuple):
    """A Roost whose data directory is on a small file system. root: that, as seen from outside of its namespace."""

    url: str
    agent_url: str
    root: Path
    log: Path

    def fill(self) -> None:
        """Leave not one byte."""
        with (self.root / "filler").open("wb", buffering=0) as filler:
            for size in (1 << 20, 1 << 12):
                try:
                    while True:
                        filler.write(bytes(size))
                except OSError:
                    continue

    def make_room(self) -> None:
        """As before."""
        (self.root / "filler").unlink()


@contextmanager
def small_disk(made: Cluster) -> Iterator[SmallDisk]:
    """Everything, on it. Times are those of all faults' tests."""
    mount = made.directory / "small"
    mount.mkdir()
    log = made.directory / "serve.log"
    words = ["serve", "--json", "--workers=1", f"--data-dir={mount}/data", "--listen=127.0.0.1:0", "--until-stdin-ends"]
    with log.open("w") as said:
        process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", MOUNT, "sh", str(mount), *ROOST, *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), **QUICK},
        )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        line = process.stdout.readline()
        assert line, log.read_text()
        url = json.loads(line)["url"]
        with urllib.request.urlopen(f"{url}/agent/v1", timeout=10) as answer:
            agent_url = json.load(answer)["url"]
        yield SmallDisk(url, agent_url, Path(f"/proc/{process.pid}/root{mount}"), log)
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


class Writers:
    """One for each API: each of its writes needs more room than the pages have that are there."""

    def __init__(self, disk: SmallDisk, session: aiohttp.ClientSession) -> None:
        self._disk = disk
        self._session = session
        self._number = 0
        self.refusals = 0

    async def write(self, api: str) -> int:
        """One request; its status."""
        self._number += 1
        name = f"{self._number}-".ljust(200, "x")
        host = {"vcpus": 1, "ram_mb": 1, "disk_gb": 1}
        url, method, body = {
            "placement": (f"{self._disk.url}/placement/resource_providers", "POST", {"name": name}),
            "network": (f"{self._disk.url}/network/v2.0/networks", "POST", {"networks": [{"name": name}] * 100}),
            "compute": (
                f"{self._disk.url}/compute/v2.1/flavors",
                "POST",
                {"flavor": {"name": name, "vcpus": 1, "ram": 1, "disk": 1}},
            ),
            "agent": (
                f"{self._disk.agent_url}/hosts",
                "PUT",
                {"agent": AGENT, "hosts": [{"name": f"{number}-{name[:40]}", **host} for number in range(100)]},
            ),
        }[api]
        async with self._session.request(method, url, json=body) as answer:
            text = await answer.text()
            if answer.status == 503:
                self.refusals += 1
                assert int(answer.headers["Retry-After"]) >= 1
            else:
                assert answer.status in (200, 201), text
            return answer.status

    async def health(self) -> tuple[int, str]:
        """The status of /healthz, and its body."""
        async with self._session.get(f"{self._disk.url}/healthz") as answer:
            return answer.status, await answer.text()


async def test_a_full_data_directory_is_a_503_on_every_api_and_is_over_with_the_first_room() -> None:
    with cluster() as made, small_disk(made) as disk:
        async with aiohttp.ClientSession() as session:
            writers = Writers(disk, session)
            assert [await writers.write(api) for api in APIS] == [201, 201, 200, 200]
            disk.fill()
            for api in APIS:
                for _ in range(WRITES_MAX):
                    if await writers.write(api) == 503:
                        break
                else:
                    raise AssertionError(f"{api}: there still was room")
            while writers.refusals < REFUSALS:
                await writers.write("network")
            assert (await writers.health())[0] == 503
            disk.make_room()
            room_at_s = time.monotonic()
            assert [await writers.write(api) for api in ("network", "agent", "compute", "placement")] == [
                201,
                200,
                200,
                201,
            ]
            assert time.monotonic() - room_at_s < AGAIN_MAX_S
            assert (await writers.health())[0] == 200
        lines = [json.loads(line) for line in disk.log.read_text().splitlines() if REQUEST_LINE not in line]
        assert not [line for line in lines if line["level"] in ("error", "critical") or "exception" in line], lines
        said = Counter(line["process"] for line in lines if "No space left" in line.get("reason", ""))
        assert said["api-1"] >= 1, lines
        assert max(said.values()) <= LINES_MAX, lines
