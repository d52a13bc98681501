"""A compute service on an empty database, with the real ledger and the real network service."""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any, cast

import asyncpg
import msgspec
import pytest
from starlette.applications import Starlette
from tests.described import Described
from tests.placements import open_placement

from roost.clients.local_compute import LocalCompute
from roost.clients.local_network import LocalNetwork
from roost.compute.api import operations, routes, rules
from roost.compute.api.openapi import ABOUT
from roost.compute.service import DEFAULT_PROJECT, Compute
from roost.network.service import Networks
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.auth import CALLER_KEY, Caller
from roost.platform.database import Database
from roost.platform.env import Env
from roost.platform.mounts import mount
from roost.platform.openapi import describe
from roost.platform.policy import OsloPolicy
from roost.seams.audit import AuditedPlacement

NOTHING: Any = None
HIGHEST = "2.96"

check_described = Described(lambda: describe(ABOUT, operations(NOTHING), server="/compute")).check


class NetworkRows:
    """What the network service has been told, and networks put straight into its tables, with ids that tests know."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, network_id: str) -> None:
        async with self._database.transaction() as tx:
            await tx.execute(
                "INSERT INTO network.network (id, name, project_id) VALUES ($1, 'a', $2)", network_id, DEFAULT_PROJECT
            )
            await tx.execute(
                "INSERT INTO network.subnet (id, network_id, project_id, ip_version, cidr) VALUES ($1, $1, $3, 4, $2)",
                network_id, "10.0.0.0/24", DEFAULT_PROJECT,
            )  # fmt: skip

    async def clear(self) -> None:
        async with self._database.transaction() as tx:
            await tx.execute("DELETE FROM network.subnet")
            await tx.execute("DELETE FROM network.network")

    async def hosts(self) -> dict[str, tuple[str, ...]]:
        async with self._database.connection() as connection:
            rows = await connection.fetch("SELECT name, physical_networks FROM network.host")
        return {row["name"]: tuple(row["physical_networks"]) for row in rows}


class Ledgers:
    """The ledger, with `broken` set away."""

    broken: Exception | None = None

    def __init__(self, placement: AuditedPlacement) -> None:
        self._placement = placement

    def __getattr__(self, name: str) -> Any:
        return getattr(self._placement, name)

    async def ensure_providers(self, states: Sequence[Any]) -> None:
        if self.broken:
            raise self.broken
        await self._placement.ensure_providers(states)


@pytest.fixture
async def compute(database: Database) -> Compute:
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    placement = cast("AuditedPlacement", Ledgers(await open_placement(ledger)))
    made = Compute(database=database, env=Env(), placement=placement)
    made.network = LocalNetwork(Networks(database=database, env=Env(), placement=placement, compute=LocalCompute(made)))
    return made


@pytest.fixture
def networks(database: Database) -> NetworkRows:
    return NetworkRows(database)


class Answer(msgspec.Struct):
    """What the API answered."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return msgspec.json.decode(self.raw)


Call = Callable[..., Any]


@pytest.fixture
def callers() -> list[Caller]:
    """Who calls: the last, or the operator."""
    return []


@pytest.fixture
def as_caller(callers: list[Caller]) -> Callable[[Caller], None]:
    """`as_caller(Caller(...))`: as authentication says it of the calls that follow."""
    return callers.append


@pytest.fixture
def call(compute: Compute, callers: list[Caller]) -> Call:
    """`await call("GET", "/v2.1/servers", body, version="2.41", token="t")` on the API, without a socket."""
    app = Starlette(routes=[mount("/compute", routes(compute, OsloPolicy(rules())))])

    async def answer(
        method: str, target: str, body: Any = None, *, version: str | None = None, token: str | None = None
    ) -> Answer:
        path, _, query = target.partition("?")
        headers = [(b"host", b"cloud:8778"), (b"content-type", b"application/json")]
        if version is not None:
            headers.append((b"openstack-api-version", f"compute {version}".encode()))
        if token is not None:
            headers.append((b"x-auth-token", token.encode()))
        sent: list[dict[str, Any]] = []
        content = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": f"/compute{path}", "raw_path": f"/compute{path}".encode(errors="surrogateescape"),
            "query_string": query.encode(),
            "root_path": "", "headers": headers, "server": ("cloud", 8778), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        if callers:
            scope[CALLER_KEY] = callers[-1]
        await app(scope, receive, send)
        answer = Answer(
            sent[0]["status"],
            {name.decode(): value.decode() for name, value in sent[0]["headers"]},
            b"".join(message.get("body", b"") for message in sent[1:]),
        )
        if version == HIGHEST:
            check_described(method, path, answer.status, answer.body if answer.raw else None)
        return answer

    return answer


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """`with statements() as seen:` notes the first line of every statement that carries a name of ours."""
    seen: list[str] = []
    connection_type = asyncpg.connection.Connection
    for method in ("fetch", "fetchrow", "fetchval", "execute", "executemany"):
        real = getattr(connection_type, method)

        def noting(real: Any) -> Any:
            async def run(self: Any, query: str, *arguments: Any, **options: Any) -> Any:
                if query.startswith("-- "):
                    seen.append(query.splitlines()[0].removeprefix("-- "))
                return await real(self, query, *arguments, **options)

            return run

        monkeypatch.setattr(connection_type, method, noting(real))

    @contextmanager
    def watch() -> Any:
        seen.clear()
        yield seen

    return watch
