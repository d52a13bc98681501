"""The HTTP APIs of a running Roost, as `load` and `demo` use them: nothing but what any client could call."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp

from roost.platform.errors import RoostError

CALLS_MAX = 16
"""Requests in flight at once."""
CALL_TIMEOUT_S = 60.0
PAGE = 1000
HEADERS = {"OpenStack-API-Version": "compute 2.41, placement 1.39"}

Item = TypeVar("Item")
Result = TypeVar("Result")
Json = dict[str, Any]


class CloudRefused(RoostError):
    """The API refused a request, or could not be reached."""

    def __init__(self, text: str, *, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class CloudClient:
    """One Roost at `url`. Every call raises CloudRefused, which says what was asked and what was answered."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url.rstrip("/")
        self._agent_url: str | None = None

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, url: str, *, token: str | None = None, tls: ssl.SSLContext | None = None
    ) -> AsyncIterator["CloudClient"]:
        """A client for as long as the block runs. token: X-Auth-Token. tls: None to trust whom the machine trusts."""
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S)
        connector = aiohttp.TCPConnector(limit=CALLS_MAX, ssl=tls or True)
        headers = HEADERS if token is None else {**HEADERS, "X-Auth-Token": token}
        async with aiohttp.ClientSession(timeout=timeout, connector=connector, headers=headers) as session:
            yield cls(session, url)

    async def call(self, method: str, path: str, body: Any = None) -> Json:
        """One request below the main listener, or at a full URL; an empty answer is an empty dict."""
        url = path if path.startswith("http") else self.url + path
        try:
            async with self._session.request(method, url, json=body) as response:
                answer = await response.json(content_type=None) if await response.read() else {}
                if response.status >= 400:
                    text = f"{method} {url} was answered {response.status}: {_detail(answer)}"
                    raise CloudRefused(text, status=response.status)
        except aiohttp.ClientConnectorCertificateError as error:
            raise CloudRefused(f"{method} {url} failed: {error}: --cafile names whom to trust") from error
        except aiohttp.ClientConnectorError as error:
            raise CloudRefused(f"{method} {url} failed: {error}: does `roost serve` run there?") from error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise CloudRefused(f"{method} {url} failed: {error or type(error).__name__}") from error
        return answer if isinstance(answer, dict) else {}

    async def list_all(self, path: str, key: str) -> list[Json]:
        """A collection of the Network API, whole."""
        listed: list[Json] = (await self.call("GET", path))[key]
        return listed

    async def list_flavors(self) -> list[Json]:
        """Every flavor."""
        return await self._pages("/compute/v2.1/flavors/detail", "flavors", "&is_public=None")

    async def list_servers(self) -> list[Json]:
        """Every server, with all that the API says of it."""
        return await self._pages("/compute/v2.1/servers/detail", "servers", "&all_tenants=1")

    async def list_hosts_up(self) -> set[str]:
        """The names of the hosts that were heard of lately, and that nobody forced down."""
        services: list[Json] = (await self.call("GET", "/compute/v2.1/os-services?binary=nova-compute"))["services"]
        return {service["host"] for service in services if service["state"] == "up"}

    async def _pages(self, path: str, key: str, more: str = "") -> list[Json]:
        listed: list[Json] = []
        marker = ""
        while True:
            page: list[Json] = (await self.call("GET", f"{path}?limit={PAGE}{more}{marker}"))[key]
            listed += page
            if len(page) < PAGE:
                return listed
            marker = f"&marker={page[-1]['id']}"

    async def agent_url(self) -> str:
        """Where agents ask."""
        if self._agent_url is None:
            self._agent_url = str((await self.call("GET", "/agent/v1"))["url"])
        return self._agent_url

    async def boot(self, name: str, flavor_id: str, networks: Iterable[Mapping[str, str]]) -> str:
        """Ask for a server; returns its id at once, long before it runs. networks: as the Compute API has them."""
        server = {"name": name, "flavorRef": flavor_id, "imageRef": "", "networks": [dict(one) for one in networks]}
        return str((await self.call("POST", "/compute/v2.1/servers", {"server": server}))["server"]["id"])


async def in_parallel(work: Callable[[Item], Awaitable[Result]], items: Iterable[Item]) -> list[Result]:
    """Work on all items, CALLS_MAX at a time; results in order. The first failure is raised, the rest cancelled."""
    places = asyncio.Semaphore(CALLS_MAX)

    async def one(item: Item) -> Result:
        async with places:
            return await work(item)

    tasks: list[asyncio.Task[Result]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _detail(answer: Any) -> str:
    """The sentence in an error body, whichever API's it is."""
    if isinstance(answer, dict):
        if isinstance(answer.get("detail"), str):
            return str(answer["detail"])
        errors = answer.get("errors")
        if isinstance(errors, list) and errors:
            return str(errors[0].get("detail", errors[0]))
        for inner in answer.values():
            if isinstance(inner, dict) and isinstance(inner.get("message"), str):
                return str(inner["message"])
    return str(answer)[:500]
