"""More connections than anybody needs, on real listeners: idle, half-sent, slow, from one address, and agents'.

The real thing is 10,000 agents, each with a host and a connection of its own, on two processes. It needs 11,000 open
files and two minutes: `ROOST_AGENT_CONNECTIONS=10000 python -m pytest --log-cli-level=info -k agents FILE`.
"""

import asyncio
import json
import logging
import os
import random
import re
import resource
import socket
import urllib.request
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.cluster import Cluster, cluster, until
from tests.faults.healthy_client import healthy_client
from tests.processes import names_of

IDLE_TIMEOUT_S, BODY_TIMEOUT_S = 6, 6
HEALTHY_MAX_S = 0.05
HEALTH_MAX_S = 1.0
SLOW = {
    "ROOST_LISTENERS_IDLE_TIMEOUT_S": str(IDLE_TIMEOUT_S),
    "ROOST_LISTENERS_BODY_TIMEOUT_S": str(BODY_TIMEOUT_S),
}
AGENTS = int(os.environ.get("ROOST_AGENT_CONNECTIONS", "2500"))
LIMIT_REACHED = "a limit of connections is reached"

log = logging.getLogger(__name__)

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", autouse=True)
def _files() -> Iterator[None]:
    """As many open files as this program may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def roost() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@asynccontextmanager
async def connected(url: str, count: int, *, address: str = "127.0.0.1") -> AsyncIterator[list[Stream]]:
    """So many connections to a listener, closed at the end."""
    where = urlsplit(url)
    assert where.hostname is not None
    assert where.port is not None
    streams: list[Stream] = []
    try:
        for start in range(0, count, 200):
            streams += await asyncio.gather(
                *(
                    asyncio.open_connection(where.hostname, where.port, local_addr=(address, 0))
                    for _ in range(min(200, count - start))
                )
            )
        yield streams
    finally:
        for _, writer in streams:
            writer.transport.abort()


async def is_closed(stream: Stream, *, within_s: float) -> bool:
    """Whether the server ends it; what it says before does not matter."""
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(within_s):
            while await stream[0].read(65536):
                pass
    return stream[0].at_eof() or stream[0].exception() is not None


async def call(url: str, path: str = "/healthz", body: Any = None, timeout_s: float = 60) -> tuple[int, Any]:
    """One request on a connection of its own; status and answer."""
    where = urlsplit(url)
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            return await ask((reader, writer), where.path + path, body)
        finally:
            writer.close()


async def ask(stream: Stream, path: str, body: Any = None) -> tuple[int, Any]:
    """One request on a connection that stays."""
    reader, writer = stream
    content = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    answer_head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", answer_head)
    text = await reader.readexactly(int(length[1]) if length else 0)
    return int(answer_head.split()[1]), json.loads(text) if text.startswith((b"{", b"[")) else text


async def drip(streams: list[Stream]) -> None:
    """A byte of each body every two seconds, now of this one, now of that."""
    while True:
        for number, (_, writer) in enumerate(streams):
            writer.write(b" ")
            if number % 15 == 0:
                await asyncio.sleep(30 / len(streams))


async def begin(streams: list[Stream], said: bytes) -> None:
    """Say this on each of them, a thousand of them a second."""
    for number, (_, writer) in enumerate(streams):
        writer.write(said)
        if number % 20 == 0:
            await asyncio.sleep(0.02)


HALF_HEAD = b"POST /placement/resource_providers HTTP/1.1\r\nHost: localhost\r\nX-Half: "
HALF_BODY = (
    b"POST /placement/resource_providers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n{"
)


async def test_5_000_connections_that_say_little_are_closed_in_time_and_slow_nobody_down(roost: Cluster) -> None:
    """With 1,024 of them every other client, /healthz too, waited for as long as they stayed."""
    roost.serve("placement", environment=SLOW)
    with healthy_client(roost.url, "/placement/") as end:
        await asyncio.sleep(2)
        alone = end()
    async with connected(roost.url, 5000) as streams:
        half, slow = streams[2000:3500], streams[3500:]
        with healthy_client(roost.url, "/placement/") as end:
            await begin(half, HALF_HEAD)
            await begin(slow, HALF_BODY)
            dripping = asyncio.create_task(drip(slow))
            for stream in streams:
                assert await is_closed(stream, within_s=IDLE_TIMEOUT_S + BODY_TIMEOUT_S)
            waits = end()
        dripping.cancel()
    log.info("alone: %s; beside 5,000 idle, half-sent and slow connections: %s", alone, waits)
    assert waits.refused == []
    assert waits.median_s < HEALTHY_MAX_S
    assert waits.p99_s < HEALTH_MAX_S, "as long as the connections stayed, before"
    assert max(waits.health_s) < HEALTH_MAX_S
    assert LIMIT_REACHED not in roost.logs()


async def test_a_body_that_takes_too_long_is_answered_408(roost: Cluster) -> None:
    roost.serve("placement", environment=SLOW | {"ROOST_LISTENERS_BODY_TIMEOUT_S": "1"})
    async with connected(roost.url, 1) as [(reader, writer)]:
        writer.write(HALF_BODY)
        async with asyncio.timeout(30):
            answer = await reader.read()  # to the end: the connection is closed as well
    assert b" 408 " in answer.splitlines()[0]
    assert b"the body did not come to its end within 1 s" in answer


async def test_at_the_limit_the_longest_idle_give_way_and_no_poll_is_cut(roost: Cluster) -> None:
    """A flood of idle connections, four times the limit."""
    roost.serve("all", environment={"ROOST_LISTENERS_CONNECTIONS_MAX": "500"})
    agents_url = (await call(roost.url, "/agent/v1"))[1]["url"]
    listener_url = agents_url.removesuffix("/agent/v1")
    await declare(roost.url, ["h1"])
    async with connected(listener_url, 1) as [agent]:
        body = {"agent": {"id": str(uuid.uuid4())}, "hosts": ["h1"], "wait_s": 8}
        poll = asyncio.create_task(ask(agent, "/agent/v1/poll", body))
        assert await call(listener_url) == (200, {"status": "ok"})  # the poll was sent before, and is held by now
        with healthy_client(listener_url) as end:
            async with connected(listener_url, 2000) as streams:
                assert await is_closed(streams[0], within_s=20)
                status, answer = await poll
                assert (status, answer["orders"]) == (200, [])
                assert sum(stream[0].at_eof() for stream in streams) >= 1500
            waits = end()
    log.info("2,000 idle connections, 500 allowed: %s", waits)
    assert waits.refused == []
    assert max(waits.health_s) < HEALTH_MAX_S
    assert roost.logs().count(LIMIT_REACHED) == 1


async def test_an_address_has_its_limit_and_others_go_on(roost: Cluster) -> None:
    roost.serve("placement", environment={"ROOST_LISTENERS_CONNECTIONS_PER_ADDRESS_MAX": "20"})
    async with connected(roost.url, 200, address="127.0.0.2") as streams:
        async with connected(roost.url, 5) as others:

            async def few() -> bool:
                return sum(not stream[0].at_eof() for stream in streams) == 20

            await until(few)
            assert [await ask(stream, "/healthz") for stream in others] == [(200, {"status": "ok"})] * 5
    assert roost.logs().count(LIMIT_REACHED) == 1


async def test_who_does_not_take_the_answer_is_cut_off(roost: Cluster) -> None:
    roost.serve("placement", environment={"ROOST_LISTENERS_ANSWER_TIMEOUT_S": "2"})
    where = urlsplit(roost.url)
    (pid,) = processes(roost, "api")
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((where.hostname, where.port))
        deaf.settimeout(1)
        with suppress(TimeoutError):  # asks until the server takes no more: its answers wait to be taken
            while True:
                deaf.sendall(b"GET /placement/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        assert connections_of(pid, where.port) == 1

        async def none() -> bool:
            return connections_of(pid, where.port) == 0

        await until(none)


async def test_every_one_of_thousands_of_agents_is_served(roost: Cluster) -> None:
    """Exactly 1,024 were, each with a connection of its own; the others stayed `down`."""
    wait_s = 20 if AGENTS > 5000 else 10
    # Connecting all of them may take longer than a connection may say nothing.
    roost.serve("all", environment={"ROOST_LISTENERS_IDLE_TIMEOUT_S": "120"}, **{"agent-workers": 2})
    agents_url = (await call(roost.url, "/agent/v1"))[1]["url"]
    listener_url = agents_url.removesuffix("/agent/v1")
    hosts = [f"h{number}" for number in range(AGENTS)]
    await declare(roost.url, hosts)
    before_mb = memory_mb(roost)

    async def poll_often(stream: Stream, host: str) -> list[tuple[int, Any]]:
        await asyncio.sleep(random.uniform(0, wait_s))  # as agents do, which were not all started at once
        body = {"agent": {"id": str(uuid.uuid4())}, "hosts": [host], "wait_s": wait_s}
        return [await ask(stream, "/agent/v1/poll", body) for _ in range(2)]

    async with connected(listener_url, AGENTS) as streams:
        polls = [asyncio.create_task(poll_often(stream, host)) for stream, host in zip(streams, hosts, strict=True)]
        with healthy_client(listener_url) as end:
            await asyncio.sleep(wait_s)  # all poll by now, and all have answers to come
            held_mb = memory_mb(roost)
            async with asyncio.timeout(180):
                answers = await asyncio.gather(*polls)
            waits = end()
    each_kb = (held_mb - before_mb) * 1024 / AGENTS
    log.info("%s agents: %s; memory %.0f MB and %.1f kB for each connection", AGENTS, waits, before_mb, each_kb)
    assert [(status, body["orders"]) for both in answers for status, body in both] == [(200, [])] * 2 * AGENTS
    assert waits.refused == []
    assert max(waits.health_s) < HEALTH_MAX_S


def processes(roost: Cluster, role: str) -> list[int]:
    """The server's processes of one role."""
    return [pid for pid, name in names_of(roost.processes[0].pid).items() if name.startswith(f"{role}-")]


def memory_mb(roost: Cluster) -> float:
    """What the agents' listeners have in memory together."""
    pages = (int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in processes(roost, "agent-api"))
    return sum(pages) * resource.getpagesize() / 1024**2


def connections_of(pid: int, port: int) -> int:
    """Established connections to a port, by the kernel's table of a process."""
    lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "01" for line in lines)


async def declare(url: str, hosts: list[str]) -> None:
    """Have these hosts, in sets."""
    for start in range(0, len(hosts), 1000):
        body = {"hosts": [{"name": name, "vcpus": 8, "ram_mb": 8192, "disk_gb": 80} for name in hosts[start:][:1000]]}
        content, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{url}/compute/hosts", content, headers, method="PUT")
        with await asyncio.to_thread(urllib.request.urlopen, request, timeout=120) as response:
            assert response.status == 200
