"""A boot, a cold migration, a live migration and a delete each second, by a client that never tries anything twice."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import aiohttp

EACH_S = 1.0
ANSWER_S = 60.0
CALM_S = 300.0
"""A launch whose process was replaced may wait out its time on several hosts before it ends."""
SERVERS_MAX, SERVERS_MIN = 12, 6
CONFLICT = 409
"""What is asked of a server that is busy is refused: that is an answer."""

Json = dict[str, Any]


class Client:
    """One request, one connection. wrong: answers that nobody should have had; done: how many of each were accepted."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session, self.url = session, f"{url}/compute/v2.1"
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

    async def list_servers(self) -> list[Json]:
        """Return all servers, as they are now."""
        answer = await self.call("list", "GET", "/servers/detail")
        return answer["servers"] if answer else []

    async def act(self, server: Json, action: str, body: object = None) -> None:
        """Ask one thing of a server."""
        await self.call(action, "POST", f"/servers/{server['id']}/action", {action: body})


class Load:
    """Runs until it is told to stop; what has to be seen of it is `client`."""

    def __init__(self, url: str, *, flavor: str, network: str) -> None:
        self.url, self.flavor, self.network = url, flavor, network
        self.random = Random(17)
        self.stopping = threading.Event()
        self.client: Client

    async def run(self) -> None:
        """Load until `stopping`, then confirm what waits for its user, until nothing is at work any more."""
        connector, timeout = aiohttp.TCPConnector(force_close=True), aiohttp.ClientTimeout(total=ANSWER_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            self.client = Client(session, self.url)
            while not self.stopping.is_set():
                began_s = time.monotonic()
                await self._each_second(await self.client.list_servers())
                await asyncio.sleep(max(0.05, began_s + EACH_S - time.monotonic()))
            await self._calm_down()

    async def _each_second(self, servers: Sequence[Json]) -> None:
        await self._confirm(servers)
        idle = [one for one in servers if one["status"] == "ACTIVE" and not one["OS-EXT-STS:task_state"]]
        self.random.shuffle(idle)
        asks = []
        if len(servers) < SERVERS_MAX:
            nics = [{"uuid": self.network}]
            body = {"name": "loaded", "flavorRef": self.flavor, "networks": nics, "imageRef": ""}
            asks.append(self.client.call("boot", "POST", "/servers", {"server": body}))
        if idle:
            asks.append(self.client.act(idle.pop(), "migrate"))
        if idle:
            asks.append(self.client.act(idle.pop(), "os-migrateLive", {"host": None, "block_migration": False}))
        if idle and len(servers) > SERVERS_MIN:
            asks.append(self.client.call("delete", "DELETE", f"/servers/{idle.pop()['id']}"))
        await asyncio.gather(*asks)

    async def _confirm(self, servers: Sequence[Json]) -> None:
        moved = [one for one in servers if (one["status"], one["OS-EXT-STS:task_state"]) == ("VERIFY_RESIZE", None)]
        await asyncio.gather(*(self.client.act(one, "confirmResize") for one in moved))

    async def _calm_down(self) -> None:
        deadline_s = time.monotonic() + CALM_S
        while time.monotonic() < deadline_s:
            servers = await self.client.list_servers()
            await self._confirm(servers)
            if all(one["OS-EXT-STS:task_state"] is None and one["status"] != "VERIFY_RESIZE" for one in servers):
                return
            await asyncio.sleep(0.2)
        self.client.wrong.append(f"these never come to an end: {servers}")


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
