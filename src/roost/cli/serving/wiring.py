"""What is built from what: with cloud_wiring.py the one place that knows every wing. Nothing is decided here."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from roost.cli.serving import access
from roost.cli.serving.openstack_metrics import collect_openstack, read_neutron_metrics, tell_neutron
from roost.cli.serving.roles import ProcessConfig, is_placement_alone
from roost.cli.settings import Settings, read_settings
from roost.placement import api as placement_api
from roost.placement.model import NEUTRON_CHANNEL
from roost.placement.service import audit as ledger_audit
from roost.placement.service import events
from roost.placement.service.figures import index_figures
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.refresh import KEEP_S, prune_changes
from roost.platform.auth import UNRESTRICTED, Policy
from roost.platform.database import Database
from roost.platform.drain import Drain
from roost.platform.env import Env
from roost.platform.health import Health
from roost.platform.health_routes import health_routes
from roost.platform.http import Api, json_response
from roost.platform.local_hosts import LocalHosts
from roost.platform.loopback import is_loopback
from roost.platform.metrics_routes import MetricsText, metrics_routes
from roost.platform.mounts import mount
from roost.platform.repeat import repeat
from roost.platform.request_ids import RequestIds
from roost.platform.request_log import RequestLog
from roost.platform.telemetry import Telemetry
from roost.platform.wakeup import Wakeups

if TYPE_CHECKING:
    from roost.cli.serving.cloud_wiring import CloudParts
    from roost.clients.neutron import HttpNeutron
    from roost.platform.keystone import Keystone

PRUNE_CHANGES_S = 60.0
METRICS, METRICS_OPENSTACK = "/metrics", "/metrics/openstack"

API = Api()
"""Roost's own paths."""


@dataclass(frozen=True)
class Parts:
    """Everything that a process may serve or work with; each service talks to its own schema of one database.

    cloud: None in a process of a placement service alone.
    """

    database: Database
    health: Health
    wakeups: Wakeups
    telemetry: Telemetry
    settings: Settings
    ledger: Ledger
    policy: Policy
    keystone: "Keystone | None"
    cloud: "CloudParts | None"
    seeing_policy: Policy = UNRESTRICTED
    drain: Drain = field(default_factory=Drain)
    neutron: "HttpNeutron | None" = None

    @classmethod
    async def wire(cls, database: Database, config: ProcessConfig) -> "Parts":
        """Build the parts that these services need, on one pool of connections."""
        settings = read_settings(config.config, placement_url=config.placement_url)
        # Who only conducts serves no callers, and is told how others know theirs by the configuration alone.
        conducts_only = config.services == ("conductor",)
        settings = settings.with_quotas(keystone=config.auth == "keystone" or (conducts_only and settings.has_keystone))
        if config.cells:
            settings = replace(settings, conductor=replace(settings.conductor, cells=config.cells))
        policy_of = partial(access.read_policy, settings=settings, auth=config.auth, policy=config.policy)
        ledger = Ledger(database, Env(), settings.placement)
        await sync_standard_names(ledger)
        wakeups, cloud = Wakeups(database, ()), None
        if not is_placement_alone(config.services):
            from roost.cli.serving.cloud_wiring import CloudParts
            from roost.compute.model.work import CHANNELS

            wakeups = Wakeups(database, CHANNELS)
            cloud = CloudParts.wire(ledger, wakeups, settings, *map(policy_of, ("network", "compute", "seeing")))
        keystone = None
        if config.auth == "keystone":
            from roost.platform.keystone import Keystone

            keystone = Keystone(settings.keystone)
        neutron = None
        if config.with_neutron and is_placement_alone(config.services):
            from roost.cli.serving.neutron import make_neutron

            ledger.neutron = neutron = make_neutron(settings)
            ledger.claim_grace_s = settings.neutron.claim_grace_s
            ledger.neutron_zones = settings.neutron.zone_by_segment
            ledger.wakeups = wakeups = Wakeups(database, (NEUTRON_CHANNEL,))
        return cls(
            database=database,
            health=Health(database),
            wakeups=wakeups,
            telemetry=Telemetry(
                config.name,
                Path(config.metrics_dir) if config.metrics_dir else None,
                (database.figures, partial(index_figures, ledger), *((keystone.figures,) if keystone else ())),
            ),
            settings=settings,
            ledger=ledger,
            policy=policy_of("placement", warns=config.role == "api" and config.number == 1),
            keystone=keystone,
            cloud=cloud,
            seeing_policy=policy_of("seeing") if cloud is None else UNRESTRICTED,
            neutron=neutron,
        )

    async def close(self) -> None:
        """Close what is open outside of the pool of connections."""
        self.health.close()
        if self.keystone:
            await self.keystone.close()
        if self.neutron:
            await self.neutron.close()
        if self.cloud:
            await self.cloud.close()


def main_listener(config: ProcessConfig, parts: Parts) -> ASGIApp:
    """Return the main listener as clients meet it."""
    return access.guarded(
        main_app(config, parts),
        keystone=parts.keystone,
        auth=config.auth,
        policy=config.policy,
        services=config.services,
        proxy=parts.settings.proxy,
        cors=parts.settings.cors,
        log=config.log,
    )


def main_app(config: ProcessConfig, parts: Parts) -> Starlette:
    """Return the main listener: each service below its name, and at the root too if it is alone."""
    apis: dict[str, Callable[[], list[Route]]] = {"placement": lambda: placement_api.routes(parts.ledger, parts.policy)}
    if parts.cloud is not None:
        apis |= parts.cloud.apis()
    served = [service for service in config.services if service in apis]
    tell: Callable[[], Awaitable[str | None]] | None = parts.cloud.tell_recovery if parts.cloud else None
    if parts.neutron:
        tell = partial(tell_neutron, parts.ledger)
    alone = is_placement_alone(config.services)
    health = health_routes(parts.health, parts.drain, tell, lambda: alone and parts.ledger.index.is_recent())
    open_metrics = (METRICS, METRICS_OPENSTACK) if config.auth == "none" else ()
    routes: list[BaseRoute] = [*health, *_metrics_routes(parts, open_metrics)]
    if "compute" in served:
        assert parts.cloud is not None
        routes += [_agent_announcement(config), mount("/roost", parts.cloud.seeing_routes())]
    elif alone:
        routes.append(mount("/roost", _event_routes(parts)))
    routes += [mount(f"/{service}", apis[service]()) for service in served]
    routes += apis[served[0]]() if len(served) == 1 else [API.not_found()]
    return _application(parts, routes)


def _event_routes(parts: Parts) -> list[Route]:
    """Return the operator's side of a ledger alone: what it refused and repaired."""
    from roost.seeing.api import event_routes
    from roost.seeing.service.events import EventSource

    return event_routes([EventSource(events.EVENTS, parts.database)], parts.seeing_policy)


def agent_app(parts: Parts) -> Starlette:
    """Return the listener of the agents, whose held polls would use up the main one's connections."""
    assert parts.cloud is not None
    agents = mount("/agent/v1", parts.cloud.agent_routes())
    health = health_routes(parts.health, parts.drain, parts.cloud.tell_recovery)
    return _application(parts, [*health, agents, API.not_found()])


def agent_listener(config: ProcessConfig, parts: Parts) -> ASGIApp:
    """Return the listener of the agents as they meet it."""
    assert parts.cloud is not None
    app: ASGIApp = agent_app(parts)
    app = LocalHosts(app) if config.auth == "none" else parts.cloud.agents_only(app)
    if config.log.requests:
        app = RequestLog(app, config.log, quiet=True)
    return RequestIds(app)


def metrics_listener(config: ProcessConfig, parts: Parts) -> ASGIApp:
    """Return the listener of the metrics; the cloud's want the token there too, since they name every project's."""
    app: ASGIApp = _application(parts, [*_metrics_routes(parts, (METRICS,)), API.not_found()])
    if is_loopback(config.metrics_host):
        app = LocalHosts(app)
    return RequestIds(RequestLog(app, config.log, quiet=True))


def _metrics_routes(parts: Parts, open_paths: Sequence[str]) -> list[Route]:
    addresses = parts.cloud.address_metrics if parts.cloud else None
    if parts.neutron:
        addresses = partial(read_neutron_metrics, parts.ledger)
    texts = {
        METRICS: MetricsText(lambda: parts.telemetry.collect()),
        METRICS_OPENSTACK: MetricsText(partial(collect_openstack, parts.ledger, addresses)),
    }
    return metrics_routes(texts, token=parts.settings.metrics.read_token(), open_paths=open_paths)


def _application(parts: Parts, routes: Sequence[BaseRoute]) -> Starlette:
    """Return a listener's application. Targets that are no path (`CONNECT host:port`) are answered 501."""
    application = Starlette(routes=routes)
    application.router.redirect_slashes = False
    application.router.default = API.no_path
    application.middleware_stack = application.router  # what Starlette puts around it catches what routes do not raise
    application.state.request_timeout_s = parts.settings.api.request_timeout_s
    return application


def background_tasks(config: ProcessConfig, parts: Parts) -> list[Coroutine[Any, Any, None]]:
    """Return what a process of this role does besides answering requests; none of these ever returns."""
    return [
        parts.wakeups.run(),
        parts.telemetry.run(),
        repeat(lambda: prune_changes(parts.database), "pruning the journal of changes", interval_s=PRUNE_CHANGES_S),
        *_index_refreshes(config, parts),
        *_refusals_kept(config, parts),
        *_ledger_audits(config, parts),
        *_neutron_polls(config, parts),
        *(parts.cloud.background_tasks(config.role) if parts.cloud else []),
    ]


def _index_refreshes(config: ProcessConfig, parts: Parts) -> list[Coroutine[Any, Any, None]]:
    """Return what keeps the index young in a process that answers Placement requests, for when the database goes."""
    if config.role != "api" or "placement" not in config.services or not parts.settings.placement.read_from_index_s:
        return []
    return [repeat(parts.ledger.index.fresh, "refreshing the index", interval_s=KEEP_S)]


def _refusals_kept(config: ProcessConfig, parts: Parts) -> list[Coroutine[Any, Any, None]]:
    """Return what writes the refusals of a process that answers requests."""
    if config.role != "api":
        return []
    noted = [parts.ledger.refusals] if "placement" in config.services else []
    if parts.cloud is not None and "compute" in config.services:
        noted.append(parts.cloud.compute.refusals)
    return [each.keep_always() for each in noted]


def _ledger_audits(config: ProcessConfig, parts: Parts) -> list[Coroutine[Any, Any, None]]:
    """Return the audits of a process that reconciles: of a placement service alone, its first worker does."""
    alone = is_placement_alone(config.services) and config.number == 1
    elsewhere = bool(parts.settings.placement_client.url) and "placement" not in config.services
    if elsewhere or (config.role not in ("conductor", "reconciler") and not alone):
        return []
    audit_s, kept = parts.settings.placement.audit_s, parts.settings.compute
    audit = partial(ledger_audit.reconcile, parts.ledger)
    days, rows = kept.keep_history_days, kept.keep_history_rows
    purge = partial(events.EVENTS.purge, parts.database, keep_days=days, keep_rows=rows)
    return [
        repeat(audit, "auditing the ledger", interval_s=audit_s),
        repeat(purge, "purging events of the ledger", interval_s=audit_s),
    ]


def _neutron_polls(config: ProcessConfig, parts: Parts) -> list[Coroutine[Any, Any, None]]:
    """Return the poller of Neutron, in the first worker of a server that was told to; one of all servers' polls."""
    if parts.neutron is None or config.number != 1:
        return []
    from roost.cli.serving.neutron import NeutronPoll, make_listener

    settings = parts.settings.neutron
    return [NeutronPoll(parts.ledger, parts.neutron, settings, make_listener(settings)).run()]


def _agent_announcement(config: ProcessConfig) -> Route:
    """Return the route that says where agents ask: at the client's name for this host, or where their listener is."""

    async def answer(request: Request) -> Response:
        host = config.agent_host
        if host in ("0.0.0.0", "::"):
            host = request.url.hostname or host
        scheme = "http" if config.tls is None else "https"
        return json_response({"url": f"{scheme}://{host}:{config.agent_port}/agent/v1"})

    return API.route("/agent/v1", {"GET": answer})
