"""A client of the Placement API for tests of real processes: it tells what was answered, and judges nothing."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import aiohttp

CALL_TIMEOUT_S = 60.0
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
CUT = 0
"""The status of a request whose connection was cut: nobody knows whether it was done."""


class Answer(NamedTuple):
    """What a request was answered; body is None for none."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def code(self) -> str:
        """The error's code for programs."""
        return str(self.body["errors"][0].get("code", "")) if self.status >= 400 else ""

    @property
    def detail(self) -> str:
        """The error's sentence for people."""
        return str(self.body["errors"][0]["detail"]) if self.status >= 400 else ""


class PlacementClient:
    """Requests to one Roost; many at once, each on a connection of its own where there are workers to reach."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = f"{url}/placement"

    @classmethod
    @asynccontextmanager
    async def connect(cls, url: str, *, reuse: bool = True) -> AsyncIterator["PlacementClient"]:
        """For as long as the block runs. reuse: keep connections, and with them the workers that answer."""
        connector = aiohttp.TCPConnector(limit=0, force_close=not reuse)
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            yield cls(session, url)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        version: str | None = "1.39",
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Answer:
        """One request."""
        if version is not None:
            headers = {**headers, "OpenStack-API-Version": f"placement {version}"}
        try:
            async with self._session.request(method, self.url + path, json=body, headers=headers) as response:
                said = await response.json(content_type=None) if await response.read() else None
                return Answer(response.status, said, response.headers)
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            return Answer(CUT, {"errors": [{"detail": repr(error)}]}, {})

    async def do(self, method: str, path: str, body: Any = None) -> Any:
        """One request that must succeed; its body."""
        answer = await self.call(method, path, body)
        assert 200 <= answer.status < 300, (method, path, answer)
        return answer.body

    async def provider(self, name: str, parent: str | None = None, **totals: int) -> str:
        """Make a provider with inventories; its UUID."""
        made = a_uuid()
        body: dict[str, Any] = {"uuid": made, "name": name}
        if parent is not None:
            body["parent_provider_uuid"] = parent
        await self.do("POST", "/resource_providers", body)
        if totals:
            await self.do("PUT", f"/resource_providers/{made}/inventories", inventories(0, **totals))
        return made

    async def everything(self) -> dict[str, Any]:
        """All that a worker says of every provider, by UUID."""
        shown = {}
        for provider in (await self.do("GET", "/resource_providers"))["resource_providers"]:
            parts = ("inventories", "usages", "traits", "aggregates")
            answers = [await self.do("GET", f"/resource_providers/{provider['uuid']}/{part}") for part in parts]
            for answer in answers:
                for names in answer.keys() & {"traits", "aggregates"}:
                    answer[names].sort()
            shown[provider["uuid"]] = ({key: provider[key] for key in provider if key != "links"}, answers)
        return shown

    async def used(self, provider: str) -> dict[str, int]:
        """Resource class -> what is in use of a provider."""
        usages: dict[str, int] = (await self.do("GET", f"/resource_providers/{provider}/usages"))["usages"]
        return usages


def a_uuid() -> str:
    """A new one."""
    return str(uuid.uuid4())


def inventories(generation: int, **totals: int) -> dict[str, Any]:
    """The body that gives a provider inventories."""
    return {
        "resource_provider_generation": generation,
        "inventories": {name: {"total": total, "max_unit": max(total, 1)} for name, total in totals.items()},
    }


def claim(allocations: Mapping[str, Mapping[str, int]], generation: int | None = None, project: str = "p") -> Any:
    """What a consumer is to hold, as PUT /allocations wants it."""
    return {
        "allocations": {provider: {"resources": dict(held)} for provider, held in allocations.items()},
        "project_id": project,
        "user_id": "u",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }


async def at_once(*work: Any) -> list[Any]:
    """All of it at the same time; results in order."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
    return [task.result() for task in tasks]
