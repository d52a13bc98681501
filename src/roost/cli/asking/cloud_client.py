"""The HTTP APIs of a running Roost, as the commands use them: nothing but what any client could call."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import aiohttp

from roost.cli.keystone import Access, get_token
from roost.cli.printing import print_note
from roost.cli.remote_errors import detail_of
from roost.platform.errors import RoostError
from roost.platform.http_sessions import HttpSession, Reply, Unanswered
from roost.platform.tls import client_context

CALLS_MAX = 16
"""Requests in flight at once."""
CALL_TIMEOUT_S = 60.0
WAIT_TOLD_S = 5.0
PAGE = 1000
HEADERS = {"OpenStack-API-Version": "compute 2.41, placement 1.39"}

SERVICES_ASKED = ("compute", "network")
ADVICE: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientConnectorCertificateError, ": --ca-file names whom to trust"),
    (aiohttp.ClientConnectorSSLError, ""),
    (aiohttp.ClientConnectorError, ": does `roost serve` run there?"),
)

NOBODY = Access()

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

    def __init__(self, session: HttpSession, url: str) -> None:
        self._session = session
        self.url = url.rstrip("/")
        self._agent_url: str | None = None
        self._is_wait_told = False

    @classmethod
    @asynccontextmanager
    async def connect(cls, url: str, access: Access = NOBODY) -> AsyncIterator["CloudClient"]:
        """Yield a client for as long as the block runs. Raises BadRequest for certificates that cannot be used."""
        session = HttpSession(
            timeout_s=CALL_TIMEOUT_S,
            connections_max=CALLS_MAX,
            tls=client_context(access.ca_file, access.cert, access.key),
            token=access.token or "",
            make_token=None if access.credentials is None else partial(get_token, credentials=access.credentials),
            asks_late=True,
        )
        async with aclosing(session):
            yield cls(session, url)

    async def call(self, method: str, path: str, body: Any = None) -> Json:
        """Send one request below the main listener, or at a full URL; an empty answer is an empty dict.

        A token is had from Keystone when the API asks for one, and again when it is not valid any more.
        """
        reply = await self._send(method, path, body)
        if (status := reply.status) >= 300:
            advice = "; give --token or the OS_… variables" if status == 401 and not self._session.token else ""
            text = f"{method} {self._at(path)} was answered {status}: {detail_of(reply.body)}{advice}"
            if status == 404 and (api := await self._find_missing_api(path)):
                text = f"{self.url} serves no {api} API: --api names a Roost that does, as `roost serve all`"
            raise CloudRefused(text, status=status)
        try:
            return reply.read(dict[str, Any]) if reply.body else {}
        except Unanswered as error:
            raise CloudRefused(f"{method} {self._at(path)} was not answered as Roost does: {error}") from error

    async def _find_missing_api(self, path: str) -> str | None:
        """Return the name of the API that `path` is of if it is not served here at all."""
        service = path.split("/")[1]
        if service not in SERVICES_ASKED or (await self._send("GET", f"/{service}")).status != 404:
            return None
        return service.capitalize()

    async def _send(self, method: str, path: str, body: Any = None) -> Reply:
        url = self._at(path)
        telling = asyncio.get_running_loop().call_later(WAIT_TOLD_S, self._tell_of_wait)
        try:
            return await self._session.ask(method, url, body, headers=HEADERS)
        except Unanswered as error:
            advice = next((text for kind, text in ADVICE if isinstance(error.__cause__, kind)), "")
            raise CloudRefused(f"{method} {url} failed: {error}{advice}") from error
        finally:
            telling.cancel()

    def _tell_of_wait(self) -> None:
        """Say at a terminal, once, that an answer takes long."""
        if not self._is_wait_told and sys.stderr.isatty():
            print_note(f"{self.url} has not answered for {WAIT_TOLD_S:.0f} s; Ctrl-C ends the wait.")
        self._is_wait_told = True

    def _at(self, path: str) -> str:
        return path if path.startswith("http") else self.url + path

    async def list_all(self, path: str, key: str) -> list[Json]:
        """Return a collection of the Network API, whole."""
        listed: list[Json] = (await self.call("GET", path))[key]
        return listed

    async def list_flavors(self) -> list[Json]:
        """Return every flavor."""
        return await self._pages("/compute/v2.1/flavors/detail", "flavors", "&is_public=None")

    async def list_servers(self) -> list[Json]:
        """Return every server, with all that the API says of it."""
        return await self._pages("/compute/v2.1/servers/detail", "servers", "&all_tenants=1")

    async def list_hosts_up(self) -> set[str]:
        """Return the names of the hosts that are up: their agents polled lately, and no operator forced them down."""
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
        """Return where agents ask."""
        if self._agent_url is None:
            self._agent_url = str((await self.call("GET", "/agent/v1"))["url"])
        return self._agent_url

    async def boot(self, name: str, flavor_id: str, networks: Iterable[Mapping[str, str]]) -> str:
        """Ask for a server; returns its id at once, long before it runs. networks: as the Compute API has them."""
        server = {"name": name, "flavorRef": flavor_id, "imageRef": "", "networks": list(map(dict, networks))}
        return str((await self.call("POST", "/compute/v2.1/servers", {"server": server}))["server"]["id"])


async def in_parallel(work: Callable[[Item], Awaitable[Result]], items: Iterable[Item]) -> list[Result]:
    """Work on all items, CALLS_MAX at a time; results in order. The first failure is raised, the rest cancelled."""
    places = asyncio.Semaphore(CALLS_MAX)

    async def work_in_turn(item: Item) -> Result:
        async with places:
            return await work(item)

    tasks: list[asyncio.Task[Result]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work_in_turn(item)) for item in items]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
