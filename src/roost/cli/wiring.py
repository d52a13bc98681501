"""What is built from what: the one place that knows every wing. Nothing is decided here."""

from collections.abc import Awaitable
from dataclasses import dataclass

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from roost.platform.database import Database
from roost.platform.env import Env
from roost.platform.errors import DatabaseUnavailable
from roost.platform.http import Api, json_response
from roost.platform.telemetry import metrics_route
from roost.platform.wakeup import Wakeups

SERVICES = ("placement", "network", "compute", "conductor")
RECONCILE_INTERVAL_S = 10.0

API = Api()
"""Roost's own paths."""


class ProcessConfig(Struct, frozen=True, kw_only=True):
    """What the supervisor tells a child.

    role: api, agent-api or conductor. services: those that this supervisor runs. pool_size: database connections.
    host, port: the main listener; agent_host, agent_port: where agents ask.
    """

    role: str
    number: int
    services: tuple[str, ...]
    dsn: str
    pool_size: int
    host: str
    port: int
    agent_host: str
    agent_port: int


@dataclass(frozen=True)
class Parts:
    """Everything that a process may serve or work with; each talks to its own schema of one database."""

    database: Database
    wakeups: Wakeups
    env: Env

    @classmethod
    def wire(cls, database: Database) -> "Parts":
        """Build the parts on one pool of connections."""
        return cls(database=database, wakeups=Wakeups(database), env=Env())


def main_app(config: ProcessConfig, parts: Parts) -> Starlette:
    """The main listener: each service below its name, and at the root too if it is alone."""
    routes: list[BaseRoute] = [_healthz(parts), metrics_route()]
    if "compute" in config.services:
        routes.append(_agent_announcement(config))
    return Starlette(routes=[*routes, API.not_found()])


def agent_app(parts: Parts) -> Starlette:
    """The listener of the agents, whose held polls would use up the main one's connections."""
    return Starlette(routes=[_healthz(parts), metrics_route(), API.not_found()])


def background_tasks(config: ProcessConfig, parts: Parts) -> list[Awaitable[None]]:
    """What a process of this role does besides answering requests; none of these ever returns."""
    return [parts.wakeups.run()]


def _healthz(parts: Parts) -> Route:
    async def answer(_request: Request) -> Response:
        try:
            async with parts.database.connection() as connection:
                await connection.execute("SELECT 1")
        except DatabaseUnavailable as error:
            return json_response({"status": "unavailable", "reason": str(error)}, 503, {"Retry-After": "1"})
        return json_response({"status": "ok"})

    return Route("/healthz", answer)


def _agent_announcement(config: ProcessConfig) -> Route:
    """Where agents ask: the name by which the client came, unless the agents' listener has an address of its own."""

    async def answer(request: Request) -> Response:
        host = config.agent_host
        if host in ("0.0.0.0", "::"):
            host = request.url.hostname or host
        return json_response({"url": f"http://{host}:{config.agent_port}/agent/v1"})

    return Route("/agent/v1", answer)
