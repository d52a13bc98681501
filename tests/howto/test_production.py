"""docs/howto/production.md: its HAProxy, its nodes; each is restarted in turn while requests come, and none fails."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import asyncpg
import pytest
from tests.cluster import Cluster, Process, cluster
from tests.howto.rehearsal import BLOCK, FILE_NAME
from tests.ports import free_port

DOCUMENT = Path(__file__).parents[2] / "docs" / "howto" / "production.md"
RATE = float(os.environ.get("ROOST_ROLLING_RATE", "200"))
"""Requests a second."""
REACHED_MIN = 0.6
"""Of the rate: the machine is shared, and also runs all nodes, HAProxy and PostgreSQL."""
NODES = ("10.0.0.11", "10.0.0.12", "10.0.0.13")
LIMIT_S = 60.0
pytestmark = pytest.mark.timeout(300)


def haproxy() -> str:
    """Where HAProxy is; in CI it must be there."""
    found = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if found is None:
        if os.environ.get("CI"):
            raise AssertionError("haproxy is missing: .ci/run installs it")
        pytest.skip("haproxy is not installed")
    return found


def files_of(document: Path) -> dict[str, str]:
    """The files that the document prints, by name."""
    blocks = (text for _, text in BLOCK.findall(document.read_text()))
    return {match[1]: text for text in blocks if (match := FILE_NAME.match(text))}


@contextmanager
def balancer(made: Cluster, address: str, nodes: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """The document's HAProxy at `address`, before these nodes."""
    text = files_of(DOCUMENT)["haproxy.cfg"].replace("10.0.0.10:8778", address)
    for there, here in zip(NODES, nodes, strict=True):
        assert f"{there}:8778" in text
        text = text.replace(f"{there}:8778", here)
    file = made.directory / "haproxy.cfg"
    file.write_text(text)
    with (made.directory / "haproxy.log").open("w") as log:
        process = subprocess.Popen([haproxy(), "-db", "-f", str(file)], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


class Load:
    """Requests at a rate, each on whichever connection is free. failed: what was not answered as it should be."""

    def __init__(self, session: aiohttp.ClientSession, url: str, host: str) -> None:
        self.session, self.url, self.host = session, url, host
        self.statuses: Counter[int] = Counter()
        self.failed: list[str] = []
        self.taken: list[str] = []
        self.ending = False
        self.seconds = 0.0

    async def run(self) -> None:
        """Send until `ending`; every second request is a claim."""
        begun_s, sent = time.monotonic(), 0
        async with asyncio.TaskGroup() as group:
            while not self.ending:
                if sent < (time.monotonic() - begun_s) * RATE:
                    group.create_task(self.claim() if sent % 2 else self.look())
                    sent += 1
                else:
                    await asyncio.sleep(0.5 / RATE)
        self.seconds = time.monotonic() - begun_s  # the last answer is there

    async def look(self) -> None:
        await self.send("GET", "/allocation_candidates?resources=VCPU:1&limit=10", None, expected=200)

    async def claim(self) -> None:
        consumer = str(uuid.uuid4())
        body = {
            "allocations": {self.host: {"resources": {"VCPU": 1}}},
            "project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE",
        }  # fmt: skip
        if await self.send("PUT", f"/allocations/{consumer}", body, expected=204):
            self.taken.append(consumer)

    async def send(self, method: str, path: str, body: object, *, expected: int) -> bool:
        headers = {"OpenStack-API-Version": "placement 1.39"}
        try:
            async with self.session.request(method, self.url + path, json=body, headers=headers) as answer:
                text = await answer.text()
                self.statuses[answer.status] += 1
                if answer.status != expected:
                    self.failed.append(f"{method} {path}: {answer.status} {text[:300]}")
                return answer.status == expected
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.failed.append(f"{method} {path}: {error!r}")
            return False


def start_node(made: Cluster, dsn: str, address: str) -> Process:
    """A node as the document has it, but for where it logs and a shorter drain; it answers when this returns."""
    text = files_of(DOCUMENT)["roost.toml"].replace("/var/log/roost/", f"{made.directory}/")
    file = made.directory / "roost.toml"
    file.write_text(text)
    options = ("--config", str(file), "--listen", address, "--json")
    environment = {"ROOST_DATABASE": dsn, "ROOST_LISTENERS_DRAIN_S": "2"}
    process = made.spawn("serve", "placement", *options, environment=environment)
    assert process.stdout is not None
    assert process.stdout.readline(), made.logs()
    return process


def status_of(url: str) -> int:
    """The status of a GET; 0 if nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def wait_for(url: str, status: int) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while (found := status_of(url)) != status:
        assert time.monotonic() < deadline_s, f"{url} answers {found}, not {status}"
        time.sleep(0.05)  # another process is at work; nothing here can move its clock


def restart(made: Cluster, dsn: str, address: str, process: Process) -> Process:
    """As `systemctl restart` does it: while it drains, readyz says so and requests are served."""
    process.send_signal(signal.SIGTERM)
    wait_for(f"http://{address}/readyz", 503)
    assert status_of(f"http://{address}/healthz") == 200
    assert status_of(f"http://{address}/resource_providers") == 200
    assert process.wait(LIMIT_S) == 0, made.logs()
    assert process.stdout is not None
    process.stdout.close()
    made.processes.remove(process)
    return start_node(made, dsn, address)


async def test_each_node_is_restarted_in_turn_and_no_request_fails(dsn: str) -> None:
    addresses = [f"127.0.0.1:{free_port()}" for _ in NODES]
    front = f"127.0.0.1:{free_port()}"
    with cluster({}) as made:
        nodes = [start_node(made, dsn, address) for address in addresses]
        with balancer(made, front, addresses):
            await asyncio.to_thread(wait_for, f"http://{front}/readyz", 200)
            assert status_of(f"http://{front}/metrics") == 404
            for index in range(len(NODES)):  # all of them take part before the first one goes
                await asyncio.to_thread(wait_for, f"http://{addresses[index]}/readyz", 200)
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=LIMIT_S)) as session:
                load = await begin_load(session, f"http://{front}")
                try:
                    running = asyncio.create_task(load.run())
                    for index, address in enumerate(addresses):
                        nodes[index] = await asyncio.to_thread(restart, made, dsn, address, nodes[index])
                        await asyncio.sleep(2)  # as the document has it
                finally:
                    load.ending = True
                    await running
        assert load.failed == [], f"{len(load.failed)} of {load.statuses.total()}: {load.failed[:5]}"
        rate = load.statuses.total() / load.seconds
        assert rate >= REACHED_MIN * RATE, f"{rate:.0f} requests a second"
        assert_log_is_whole((made.directory / "roost.log").read_text(), load)
    sys.stderr.write(f"{load.statuses.total()} requests, {rate:.0f} a second, {dict(load.statuses)}, 0 failed\n")
    await assert_all_are_kept(dsn, load.taken)


def assert_log_is_whole(text: str, load: Load) -> None:
    """The log file of all nodes has one line for each request, as oslo.log writes it."""
    claims = re.findall(
        r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \d+ (?:INFO|WARNING) roost\.api-\d "
        r"\[None req-[0-9a-f-]{36} - - - - - -\] 127\.0\.0\.1 \"PUT /allocations/([0-9a-f-]{36})\" status: 204 "
        r"len: 0 microversion: 1\.39 time: \d+\.\d{6}(?: slow: True(?: \w+_ms: [\d.]+)*)?$",
        text,
        re.MULTILINE,
    )
    assert sorted(claims) == sorted(load.taken)
    assert " ERROR " not in text


async def begin_load(session: aiohttp.ClientSession, url: str) -> Load:
    host = str(uuid.uuid4())
    load = Load(session, url, host)
    inventories = {"VCPU": {"total": 1_000_000, "max_unit": 1_000_000}}
    body = {"resource_provider_generation": 0, "inventories": inventories}
    assert await load.send("POST", "/resource_providers", {"uuid": host, "name": "h1"}, expected=200), load.failed
    assert await load.send("PUT", f"/resource_providers/{host}/inventories", body, expected=200), load.failed
    return load


async def assert_all_are_kept(dsn: str, consumers: list[str]) -> None:
    connection = await asyncpg.connect(dsn)
    kept = {str(row[0]) for row in await connection.fetch("SELECT uuid FROM placement.consumer")}
    await connection.close()
    assert [consumer for consumer in consumers if consumer not in kept] == []
    assert consumers


def test_haproxy_takes_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "haproxy.cfg"
    text = files_of(DOCUMENT)["haproxy.cfg"]
    for address in ("10.0.0.10", *NODES):
        text = text.replace(address, "127.0.0.1")
    file.write_text(text)
    done = subprocess.run([haproxy(), "-c", "-f", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
