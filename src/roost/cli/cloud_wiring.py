"""What is built beyond the ledger: networks, compute, the conductor. A placement service alone imports none of it."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from prometheus_client.metrics_core import Metric
from starlette.routing import Route
from starlette.types import ASGIApp

from roost.cli.address_metrics import read_address_metrics
from roost.cli.settings import Settings
from roost.clients.glance import GlanceImages
from roost.clients.local_compute import LocalCompute
from roost.clients.local_network import LocalNetwork
from roost.clients.local_placement import LocalPlacement
from roost.compute import api as compute_api
from roost.compute.api import agent as agent_api
from roost.compute.api.agent_access import AgentAuthentication
from roost.compute.service import Compute
from roost.compute.service import audit as compute_audit
from roost.compute.service.agent_tokens import AgentTokens
from roost.compute.service.hosts import publish_hosts
from roost.compute.service.moves import confirm_due
from roost.compute.service.silence import SilenceWatch
from roost.conductor import pipeline
from roost.conductor.context import Conductor
from roost.conductor.reconcile import reconcile_once as reconcile_claims
from roost.network import api as network_api
from roost.network.service import Networks
from roost.network.service import audit as network_audit
from roost.network.service.reconciler import reconcile_once as reconcile_network
from roost.placement.service.ledger import Ledger
from roost.platform.auth import Policy, Unrestricted
from roost.platform.repeat import repeat
from roost.platform.wakeup import Wakeups

PUBLISH_HOSTS_S = 5.0
UNRESTRICTED = Unrestricted()


@dataclass(frozen=True)
class CloudParts:
    """The parts that place servers where their network has room."""

    networks: Networks
    compute: Compute
    conductor: Conductor
    network_policy: Policy
    compute_policy: Policy
    images: GlanceImages | None = None

    @classmethod
    def wire(
        cls,
        ledger: Ledger,
        wakeups: Wakeups,
        settings: Settings,
        network_policy: Policy,
        compute_policy: Policy = UNRESTRICTED,
    ) -> "CloudParts":
        """Build them on the ledger's pool of connections; network and compute know each other, through their seams."""
        database, env, placement = ledger.database, ledger.env, LocalPlacement(ledger)
        images = GlanceImages(settings.compute.image_url) if settings.compute.image_url else None
        compute = Compute(database, env, placement, wakeups=wakeups, images=images, settings=settings.compute)
        networks = Networks(database, env, placement, LocalCompute(compute), settings=settings.network)
        compute.network = network = LocalNetwork(networks)
        conductor = Conductor(
            compute, placement, network, network, env, wakeups, settings.conductor, settings.scheduling
        )
        return cls(networks, compute, conductor, network_policy, compute_policy, images)

    async def close(self) -> None:
        """Close the connections to other services."""
        if self.images:
            await self.images.close()

    def apis(self) -> dict[str, Callable[[], list[Route]]]:
        """Return the routes of each service, for the main listener."""
        return {
            "network": lambda: network_api.routes(self.networks, self.network_policy),
            "compute": lambda: compute_api.routes(self.compute, self.compute_policy),
        }

    async def address_metrics(self) -> list[Metric]:
        """Return what openstack-exporter says of addresses."""
        return await read_address_metrics(self.networks)

    def agent_routes(self) -> list[Route]:
        """Return the routes of the listener of the agents."""
        return agent_api.routes(self.compute)

    def agents_only(self, app: ASGIApp) -> ASGIApp:
        """Return the listener of the agents behind their tokens."""
        return AgentAuthentication(app, AgentTokens(self.compute.database))

    def background_tasks(self, role: str) -> list[Coroutine[Any, Any, None]]:
        """Return what a process of this role does besides answering requests; none of these ever returns."""
        compute, networks, conductor = self.compute, self.networks, self.conductor
        if role == "agent-api":
            return [repeat(SilenceWatch(compute).look, "looking for silent hosts", interval_s=compute.settings.look_s)]
        work: list[Coroutine[Any, Any, None]] = []
        if role == "conductor":
            audit = partial(compute_audit.AUDIT.reconcile, compute)
            reconcile_s, audit_s = conductor.settings.reconcile_s, conductor.settings.audit_s
            work += [
                pipeline.run(conductor),
                repeat(partial(reconcile_claims, conductor), "returning leaked claims", interval_s=reconcile_s),
                repeat(audit, "auditing servers and hosts", interval_s=audit_s),
                repeat(partial(publish_hosts, compute), "publishing hosts", interval_s=PUBLISH_HOSTS_S),
            ]
            if window_s := compute.settings.resize_confirm_window:
                confirm = partial(confirm_due, compute)
                work.append(repeat(confirm, "confirming moves", interval_s=max(1.0, window_s / 10)))
        if role in ("conductor", "reconciler"):
            audit_networks = partial(network_audit.AUDIT.reconcile, networks)
            reconcile_s, audit_s = networks.settings.reconcile_s, networks.settings.audit_s
            work += [
                repeat(partial(reconcile_network, networks), "reconciling networks and ports", interval_s=reconcile_s),
                repeat(audit_networks, "auditing networks and ports", interval_s=audit_s),
            ]
        return work
