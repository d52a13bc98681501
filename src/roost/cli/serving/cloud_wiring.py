"""What is built beyond the ledger: networks, compute, the conductor. A placement service alone imports none of it."""

import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from prometheus_client.metrics_core import Metric
from starlette.routing import Route
from starlette.types import ASGIApp

from roost.cli.network_access import conductor_network_api
from roost.cli.serving.address_metrics import read_address_metrics
from roost.cli.serving.host_metrics import read_host_metrics
from roost.cli.serving.notification_wiring import deliveries, outbox_of
from roost.cli.settings import Settings
from roost.clients.glance import GlanceImages
from roost.clients.local_compute import LocalCompute
from roost.clients.local_network import LocalNetwork
from roost.clients.local_placement import LocalPlacement
from roost.clients.network_api import NetworkApi
from roost.clients.placement import RemotePlacement
from roost.compute import api as compute_api
from roost.compute.api import agent as agent_api
from roost.compute.api.agent_access import AgentAuthentication
from roost.compute.old_agents.rules.orders import VERSION_EARLY
from roost.compute.service import Compute
from roost.compute.service import audit as compute_audit
from roost.compute.service.agent_tokens import AgentTokens
from roost.compute.service.events import EVENTS as COMPUTE_EVENTS
from roost.compute.service.history import purge_history
from roost.compute.service.hosts import publish_hosts
from roost.compute.service.idle_hosts import look as look_at_idle_hosts
from roost.compute.service.moves import confirm_due
from roost.compute.service.network_info import NetworkInfoHealer
from roost.compute.service.recovery import look as look_at_recovery
from roost.compute.service.recovery import tell_recovery, unless_recovering
from roost.compute.service.silence import SilenceWatch
from roost.compute.service.unknown_guests import hold_round
from roost.conductor import old_agents, pipeline
from roost.conductor.context import Conductor
from roost.conductor.credentials import CredentialsWatch, Presence
from roost.conductor.reconcile import reconcile_once as reconcile_claims
from roost.network import api as network_api
from roost.network.service import Networks
from roost.network.service import audit as network_audit
from roost.network.service.audit import EVENTS as NETWORK_EVENTS
from roost.network.service.reconciler import reconcile_once as reconcile_network
from roost.network.settings import NetworkSettings
from roost.placement.service.events import EVENTS as PLACEMENT_EVENTS
from roost.placement.service.ledger import Ledger
from roost.platform.auth import UNRESTRICTED, Policy
from roost.platform.repeat import repeat
from roost.platform.settings import NotificationSettings
from roost.platform.wakeup import Wakeups
from roost.seams.audit import AuditedPlacement
from roost.seeing import api as seeing_api
from roost.seeing.service.context import Seeing
from roost.seeing.service.drain_rounds import work_on_drains
from roost.seeing.service.drains import purge_drains
from roost.seeing.service.events import EventSource

PUBLISH_HOSTS_S = 5.0
DRAINS_S = 1.0


def agents_have_ports(settings: Settings) -> bool:
    """Return whether agents may have to make or bind ports: old ones are let in, or conductors may lose credentials."""
    return settings.compute.service_version_min < VERSION_EARLY or bool(settings.network.url)


@dataclass(frozen=True)
class CloudParts:
    """The parts that place servers where their network has room."""

    networks: Networks
    compute: Compute
    conductor: Conductor
    network_policy: Policy
    compute_policy: Policy
    seeing_policy: Policy = UNRESTRICTED
    ledger: Ledger | None = None
    images: GlanceImages | None = None
    elsewhere: RemotePlacement | None = None
    network_api: NetworkApi | None = None
    watch: CredentialsWatch = field(default_factory=CredentialsWatch)
    network_settings: NetworkSettings = field(default_factory=NetworkSettings)
    notifications: NotificationSettings = field(default_factory=NotificationSettings)

    @classmethod
    def wire(
        cls,
        ledger: Ledger,
        wakeups: Wakeups,
        settings: Settings,
        network_policy: Policy,
        compute_policy: Policy = UNRESTRICTED,
        seeing_policy: Policy = UNRESTRICTED,
    ) -> "CloudParts":
        """Build them on the ledger's pool of connections; network and compute know each other, through their seams."""
        database, env = ledger.database, ledger.env
        elsewhere = RemotePlacement.connect(settings.placement_client) if settings.placement_client.url else None
        placement: AuditedPlacement = elsewhere or LocalPlacement(ledger)
        images = GlanceImages(settings.compute.image_url) if settings.compute.image_url else None
        outboxes = partial(outbox_of, settings.notifications)
        compute = Compute(
            database,
            env,
            placement,
            wakeups=wakeups,
            images=images,
            settings=settings.compute,
            outbox=outboxes("compute"),
            state_changes=settings.notifications.notify_on_state_change,
        )
        networks = Networks(
            database, env, placement, LocalCompute(compute), settings=settings.network, outbox=outboxes("network")
        )
        compute.network = network = LocalNetwork(networks)
        api = conductor_network_api(settings.network, os.environ)
        watch = CredentialsWatch(api.check if api else None)
        conductor = Conductor(
            compute, placement, network, network, env, wakeups, settings.conductor, settings.scheduling, watch.current
        )
        if agents_have_ports(settings):
            old_agents.let_in(conductor)
        return cls(
            networks,
            compute,
            conductor,
            network_policy,
            compute_policy,
            seeing_policy,
            None if elsewhere else ledger,
            images=images,
            elsewhere=elsewhere,
            network_api=api,
            watch=watch,
            network_settings=settings.network,
            notifications=settings.notifications,
        )

    async def close(self) -> None:
        """Close the connections to other services."""
        if self.images:
            await self.images.close()
        if self.elsewhere:
            await self.elsewhere.close()
        if self.network_api:
            await self.network_api.close()

    def apis(self) -> dict[str, Callable[[], list[Route]]]:
        """Return the routes of each service, for the main listener."""
        return {
            "network": lambda: network_api.routes(self.networks, self.network_policy),
            "compute": lambda: compute_api.routes(self.compute, self.compute_policy),
        }

    @property
    def seeing(self) -> Seeing:
        """Return the operator's side."""
        conductor = self.conductor
        tables = (COMPUTE_EVENTS, NETWORK_EVENTS, PLACEMENT_EVENTS)
        sources = tuple(EventSource(table, self.compute.database) for table in tables)
        return Seeing(self.compute, self.networks, conductor.env, conductor.scheduling, self.ledger, sources)

    def seeing_routes(self) -> list[Route]:
        """Return the routes of the operator's side."""
        return seeing_api.routes(self.seeing, self.seeing_policy)

    async def address_metrics(self) -> list[Metric]:
        """Return what openstack-exporter says of addresses, and what hosts promise."""
        return [*await read_address_metrics(self.networks), *await read_host_metrics(self.compute)]

    async def tell_recovery(self) -> str | None:
        """Return what records that went back in time wait for, if they did."""
        return await tell_recovery(self.compute)

    def agent_routes(self) -> list[Route]:
        """Return the routes of the listener of the agents."""
        return agent_api.routes(self.compute)

    def agents_only(self, app: ASGIApp) -> ASGIApp:
        """Return the listener of the agents behind their tokens."""
        return AgentAuthentication(app, AgentTokens(self.compute.database))

    async def _conduct(self) -> None:
        """Try the credentials before the first server is carried on with: its order depends on them."""
        await self.watch.look()
        await pipeline.run(self.conductor)

    async def _purge_network_events(self) -> None:
        kept = self.compute.settings
        database, days, rows = self.networks.database, kept.keep_history_days, kept.keep_history_rows
        await NETWORK_EVENTS.purge(database, keep_days=days, keep_rows=rows)

    def background_tasks(self, role: str) -> list[Coroutine[Any, Any, None]]:
        """Return what a process of this role does besides answering requests; none of these ever returns."""
        compute, networks, conductor = self.compute, self.networks, self.conductor
        if role == "agent-api":
            look_s = compute.settings.look_s
            return [
                repeat(SilenceWatch(compute).look, "looking for silent hosts", interval_s=look_s),
                repeat(partial(look_at_idle_hosts, compute), "looking for idle hosts", interval_s=look_s),
                repeat(partial(look_at_recovery, compute), "looking whether hosts listed guests", interval_s=look_s),
            ]
        work: list[Coroutine[Any, Any, None]] = []
        if role == "conductor":
            audit = unless_recovering(compute, partial(compute_audit.AUDIT.reconcile, compute))
            claims = unless_recovering(compute, partial(reconcile_claims, conductor))
            drains = unless_recovering(
                compute, partial(work_on_drains, self.seeing, lease_s=conductor.settings.lease_s)
            )
            reconcile_s, audit_s = conductor.settings.reconcile_s, conductor.settings.audit_s
            healer = NetworkInfoHealer(compute, repairs_max=conductor.settings.repairs_max)
            beat_s, check_s = compute.settings.heard_again_s, self.network_settings.credentials_check_s
            work += [
                self._conduct(),
                repeat(Presence(conductor, self.watch).beat, "saying that a conductor is there", interval_s=beat_s),
                repeat(self.watch.look, "trying network credentials", interval_s=check_s),
                repeat(healer.heal_round, "rebuilding network info", interval_s=audit_s),
                repeat(claims, "returning leaked claims", interval_s=reconcile_s),
                repeat(audit, "auditing servers and hosts", interval_s=audit_s),
                repeat(partial(purge_history, compute), "purging history", interval_s=audit_s),
                repeat(partial(purge_drains, self.seeing), "purging drains", interval_s=audit_s),
                repeat(partial(publish_hosts, compute), "publishing hosts", interval_s=PUBLISH_HOSTS_S),
                repeat(partial(hold_round, compute), "holding addresses of unknown guests", interval_s=PUBLISH_HOSTS_S),
                repeat(drains, "draining hosts", interval_s=DRAINS_S),
            ]
            if window_s := compute.settings.resize_confirm_window:
                confirm = unless_recovering(compute, partial(confirm_due, compute))
                work.append(repeat(confirm, "confirming moves", interval_s=max(1.0, window_s / 10)))
            work += deliveries(self.notifications, compute.outbox, compute.database, compute.env)
        if role in ("conductor", "reconciler"):
            audit_networks = unless_recovering(compute, partial(network_audit.AUDIT.reconcile, networks))
            releases = unless_recovering(compute, partial(reconcile_network, networks))
            reconcile_s, audit_s = networks.settings.reconcile_s, networks.settings.audit_s
            work += [
                repeat(releases, "reconciling networks and ports", interval_s=reconcile_s),
                repeat(audit_networks, "auditing networks and ports", interval_s=audit_s),
                repeat(self._purge_network_events, "purging events of networks", interval_s=audit_s),
                *deliveries(self.notifications, networks.outbox, networks.database, networks.env),
            ]
        return work
