"""What is built from what: the one place that knows every wing. Nothing is decided here."""

import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from roost.cli import access
from roost.clients.local_compute import LocalCompute
from roost.clients.local_network import LocalNetwork
from roost.clients.local_placement import LocalPlacement
from roost.compute import api as compute_api
from roost.compute.api import agent as agent_api
from roost.compute.service import Compute
from roost.compute.service.hosts import publish_hosts
from roost.conductor import pipeline
from roost.conductor.context import Conductor, ConductorSettings
from roost.conductor.reconcile import reconcile_once as reconcile_claims
from roost.network import api as network_api
from roost.network.reconciler import reconcile_once as reconcile_network
from roost.network.service import Networks, NetworkSettings
from roost.placement import api as placement_api
from roost.placement.refresh import prune_changes
from roost.placement.service_ledger import Ledger, sync_standard_names
from roost.placement.settings import PlacementSettings
from roost.platform.auth import Policy
from roost.platform.config import load_section
from roost.platform.cors import CorsSettings
from roost.platform.database import Database
from roost.platform.env import Env
from roost.platform.errors import DatabaseUnavailable
from roost.platform.http import Api, json_response, mount
from roost.platform.keystone import Keystone, KeystoneSettings
from roost.platform.repeat import repeat
from roost.platform.telemetry import metrics_route
from roost.platform.wakeup import Wakeups

SERVICES = ("placement", "network", "compute", "conductor")
PUBLISH_HOSTS_S = 5.0
PRUNE_CHANGES_S = 60.0

API = Api()
"""Roost's own paths."""


class ProcessConfig(Struct, frozen=True, kw_only=True):
    """What the supervisor tells a child.

    role: api, agent-api, conductor or reconciler. services: those that this supervisor runs. pool_size: database
    connections. host, port: the main listener; agent_host, agent_port: where agents ask. config: the roost.toml.
    auth, policy: access.py.
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
    config: str | None = None
    auth: str = "none"
    policy: str | None = None


class Settings(Struct, frozen=True, kw_only=True):
    """Every section of roost.toml; docs/reference/configuration.md."""

    placement: PlacementSettings
    network: NetworkSettings
    conductor: ConductorSettings
    keystone: KeystoneSettings
    cors: CorsSettings


def read_settings(file: Path | str | None) -> Settings:
    """The configuration from `file` and the environment. Raises BadRequest, which names the option."""
    path = None if file is None else Path(file)
    return Settings(
        placement=load_section(PlacementSettings, "placement", file=path, environment=os.environ),
        network=load_section(NetworkSettings, "network", file=path, environment=os.environ),
        conductor=load_section(ConductorSettings, "conductor", file=path, environment=os.environ),
        keystone=load_section(KeystoneSettings, "keystone", file=path, environment=os.environ),
        cors=load_section(CorsSettings, "cors", file=path, environment=os.environ),
    )


def read_policy(settings: Settings, *, auth: str, policy: str | None, config: Path | str | None) -> Policy:
    """The rules of the Placement API. Raises BadRequest, which names the file and what is wrong with it."""
    folder = Path(config).absolute().parent if config else Path.cwd()
    return access.placement_policy(auth, policy, settings.placement, folder=folder)


@dataclass(frozen=True)
class Parts:
    """Everything that a process may serve or work with; each talks to its own schema of one database."""

    database: Database
    wakeups: Wakeups
    settings: Settings
    ledger: Ledger
    networks: Networks
    compute: Compute
    conductor: Conductor
    policy: Policy
    keystone: Keystone | None

    @classmethod
    async def wire(cls, database: Database, config: ProcessConfig) -> "Parts":
        """Build the parts on one pool of connections; network and compute know each other, through their seams."""
        settings = read_settings(config.config)
        env, wakeups = Env(), Wakeups(database)
        ledger = Ledger(database, env, settings.placement)
        await sync_standard_names(ledger)
        placement = LocalPlacement(ledger)
        compute = Compute(database, env, placement, wakeups=wakeups)
        networks = Networks(database, env, placement, LocalCompute(compute), settings=settings.network)
        compute.network = LocalNetwork(networks)
        conductor = Conductor(compute, placement, compute.network, env, wakeups, settings.conductor)
        return cls(
            database=database,
            wakeups=wakeups,
            settings=settings,
            ledger=ledger,
            networks=networks,
            compute=compute,
            conductor=conductor,
            policy=read_policy(settings, auth=config.auth, policy=config.policy, config=config.config),
            keystone=Keystone(settings.keystone) if config.auth == "keystone" else None,
        )

    async def close(self) -> None:
        """Let go of what is held outside of the database."""
        if self.keystone:
            await self.keystone.close()


def main_listener(config: ProcessConfig, parts: Parts) -> ASGIApp:
    """The main listener as clients meet it."""
    return access.guarded(
        main_app(config, parts),
        keystone=parts.keystone,
        auth=config.auth,
        policy=config.policy,
        services=config.services,
        cors=parts.settings.cors,
    )


def main_app(config: ProcessConfig, parts: Parts) -> Starlette:
    """The main listener: each service below its name, and at the root too if it is alone."""
    apis: dict[str, Callable[[], list[Route]]] = {
        "placement": lambda: placement_api.routes(parts.ledger, parts.policy),
        "network": lambda: network_api.routes(parts.networks),
        "compute": lambda: compute_api.routes(parts.compute),
    }
    served = [service for service in config.services if service in apis]
    routes: list[BaseRoute] = [_healthz(parts), metrics_route()]
    if "compute" in served:
        routes.append(_agent_announcement(config))
    routes += [mount(f"/{service}", apis[service]()) for service in served]
    routes += apis[served[0]]() if len(served) == 1 else [API.not_found()]
    return Starlette(routes=routes)


def agent_app(parts: Parts) -> Starlette:
    """The listener of the agents, whose held polls would use up the main one's connections."""
    agents = mount("/agent/v1", agent_api.routes(parts.compute))
    return Starlette(routes=[_healthz(parts), metrics_route(), agents, API.not_found()])


def background_tasks(config: ProcessConfig, parts: Parts) -> list[Coroutine[Any, Any, None]]:
    """What a process of this role does besides answering requests; none of these ever returns."""
    work: list[Coroutine[Any, Any, None]] = [
        parts.wakeups.run(),
        repeat(lambda: prune_changes(parts.database), "pruning the journal of changes", interval_s=PRUNE_CHANGES_S),
    ]
    if config.role == "conductor":
        work += [
            pipeline.run(parts.conductor),
            repeat(
                lambda: reconcile_claims(parts.conductor),
                "returning claims of servers that are gone",
                interval_s=parts.settings.conductor.reconcile_s,
            ),
            repeat(lambda: publish_hosts(parts.compute), "publishing hosts", interval_s=PUBLISH_HOSTS_S),
        ]
    if config.role in ("conductor", "reconciler"):
        work.append(
            repeat(
                lambda: reconcile_network(parts.networks),
                "reconciling networks and ports",
                interval_s=parts.settings.network.reconcile_s,
            )
        )
    return work


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
