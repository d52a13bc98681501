"""A load on all three APIs, by a client that never tries anything twice.

Each second a boot, a cold migration, a live migration and a delete, a port that is made and one that is deleted, a list
of each, and a search for candidates.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aiohttp

from roost.conductor.settings import ConductorSettings

EACH_S = 1.0
ANSWER_S = 60.0
BUSY_FACTOR = 2.0
CONDUCTOR = ConductorSettings()
CALM_S = CONDUCTOR.max_attempts * CONDUCTOR.begin_timeout_s * BUSY_FACTOR
"""What is begun is over by then, once all agents are there again. The one wait that bounds it is for hosts that do not
begin (`conductor/launches.py`): so many of `begin_timeout_s`. Whatever else a move waits for wakes it."""
SERVERS_MAX, SERVERS_MIN = 12, 6
PORTS_MAX, PORTS_MIN = 6, 3
SERVERS, PORTS = "/compute/v2.1/servers", "/network/v2.0/ports"
CANDIDATES = "/placement/allocation_candidates?resources=VCPU:1,MEMORY_MB:512"
VERSIONS = {"OpenStack-API-Version": "placement 1.39"}
CONFLICT = 409
"""What is asked of a server that is busy is refused: that is an answer."""

Json = dict[str, Any]


@dataclass
class Resources:
    """The ids of what was made, and of what was deleted, as far as that was answered 2xx."""

    accepted: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)

    @property
    def remaining(self) -> set[str]:
        """Return the ids of what has to be there."""
        return self.accepted - self.deleted


class Client:
    """One request, one connection. wrong: answers that nobody should have had; done: how many of each were accepted."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session, self.url = session, url
        self.wrong: list[str] = []
        self.done: Counter[str] = Counter()

    async def call(self, what: str, method: str, path: str, body: object = None) -> Json | None:
        """Return the answer, None for a refusal."""
        began_s = time.monotonic()
        try:
            async with self.session.request(method, self.url + path, json=body) as response:
                text = await response.text()
                if response.status < 300:
                    self.done[what] += 1
                    return dict(await response.json()) if text else {}
                if response.status != CONFLICT:
                    self.wrong.append(f"{what}: {response.status} {text}")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.wrong.append(f"{what} after {time.monotonic() - began_s:.1f} s: {error!r}")
        return None

    async def make(self, resources: Resources, kind: str, path: str, body: Json) -> None:
        """Make a resource of that kind, and note its id."""
        if answer := await self.call(f"make {kind}", "POST", path, {kind: body}):
            resources.accepted.add(answer[kind]["id"])

    async def delete(self, resources: Resources, kind: str, path: str, resource_id: str) -> None:
        """Delete a resource, and note that."""
        if await self.call(f"delete {kind}", "DELETE", f"{path}/{resource_id}") is not None:
            resources.deleted.add(resource_id)

    async def list_servers(self) -> list[Json]:
        """Return all servers, as they are now."""
        answer = await self.call("list servers", "GET", f"{SERVERS}/detail")
        return answer["servers"] if answer else []

    async def act(self, server: Json, action: str, body: object = None) -> None:
        """Ask one thing of a server."""
        await self.call(action, "POST", f"{SERVERS}/{server['id']}/action", {action: body})

    async def find_candidates(self) -> None:
        """Search for hosts with room, of which there are always some."""
        answer = await self.call("candidates", "GET", CANDIDATES)
        if answer is not None and not answer["allocation_requests"]:
            self.wrong.append("there are no candidates")


class Load:
    """Runs until it is told to stop; what has to be seen of it is `client`, `servers`, `ports` and `longest_s`.

    longest_s: by the task of a server, for how long one was seen at it, to the second.
    """

    def __init__(self, url: str, *, flavor: str, network: str) -> None:
        self.url, self.flavor, self.network = url, flavor, network
        self.random = Random(17)
        self.stopping = threading.Event()
        self.client: Client
        self.servers, self.ports = Resources(), Resources()
        self.longest_s: dict[str, float] = {}
        self._since_s: dict[tuple[str, str], float] = {}

    async def run(self) -> None:
        """Load until `stopping`, then confirm what waits for its user, until nothing is at work any more."""
        connector, timeout = aiohttp.TCPConnector(force_close=True), aiohttp.ClientTimeout(total=ANSWER_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=VERSIONS) as session:
            self.client = Client(session, self.url)
            while not self.stopping.is_set():
                began_s = time.monotonic()
                servers = await self._list()
                await asyncio.gather(self._load_compute(servers), self._load_network(), self.client.find_candidates())
                await asyncio.sleep(max(0.05, began_s + EACH_S - time.monotonic()))
            await self._calm_down()

    async def _list(self) -> list[Json]:
        """Return all servers, and note how long each has been at its task."""
        servers, now_s = await self.client.list_servers(), time.monotonic()
        tasks = [(one["id"], task) for one in servers if (task := one["OS-EXT-STS:task_state"])]
        self._since_s = {key: self._since_s.get(key, now_s) for key in tasks}
        for (_, task), since_s in self._since_s.items():
            self.longest_s[task] = max(self.longest_s.get(task, 0.0), round(now_s - since_s, 1))
        return servers

    async def _load_compute(self, servers: Sequence[Json]) -> None:
        await self._confirm(servers)
        idle = [one for one in servers if one["status"] == "ACTIVE" and not one["OS-EXT-STS:task_state"]]
        self.random.shuffle(idle)
        asks = []
        if len(servers) < SERVERS_MAX:
            nics = [{"uuid": self.network}]
            body = {"name": "loaded", "flavorRef": self.flavor, "networks": nics, "imageRef": ""}
            asks.append(self.client.make(self.servers, "server", SERVERS, body))
        if idle:
            asks.append(self.client.act(idle.pop(), "migrate"))
        if idle:
            asks.append(self.client.act(idle.pop(), "os-migrateLive", {"host": None, "block_migration": False}))
        if idle and len(servers) > SERVERS_MIN:
            asks.append(self.client.delete(self.servers, "server", SERVERS, idle.pop()["id"]))
        await asyncio.gather(*asks)

    async def _load_network(self) -> None:
        remaining = sorted(self.ports.remaining)
        asks: list[Awaitable[object]] = [self.client.call("list ports", "GET", PORTS)]
        if len(remaining) < PORTS_MAX:
            body = {"network_id": self.network, "name": "loaded"}
            asks.append(self.client.make(self.ports, "port", PORTS, body))
        if len(remaining) > PORTS_MIN:
            asks.append(self.client.delete(self.ports, "port", PORTS, self.random.choice(remaining)))
        await asyncio.gather(*asks)

    async def _confirm(self, servers: Sequence[Json]) -> None:
        moved = [one for one in servers if (one["status"], one["OS-EXT-STS:task_state"]) == ("VERIFY_RESIZE", None)]
        await asyncio.gather(*(self.client.act(one, "confirmResize") for one in moved))

    async def _calm_down(self) -> None:
        deadline_s = time.monotonic() + CALM_S
        while time.monotonic() < deadline_s:
            servers = await self._list()
            await self._confirm(servers)
            if all(one["OS-EXT-STS:task_state"] is None and one["status"] != "VERIFY_RESIZE" for one in servers):
                return
            await asyncio.sleep(0.2)
        self.client.wrong.append(f"not over after {CALM_S:g} s: {servers}")


@contextmanager
def under_load(url: str, *, flavor: str, network: str) -> Iterator[Load]:
    """Have the load while the block runs, in a thread of its own; at its end everything that was begun is over."""
    load = Load(url, flavor=flavor, network=network)
    thread = threading.Thread(target=asyncio.run, args=(load.run(),))
    thread.start()
    try:
        yield load
    finally:
        load.stopping.set()
        thread.join()
