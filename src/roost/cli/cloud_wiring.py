"""What is built beyond the ledger: networks, compute, the conductor. A placement service alone imports none of it."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from starlette.routing import Route
from starlette.types import ASGIApp

from roost.cli.settings import Settings
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
        compute = Compute(database, env, placement, wakeups=wakeups, settings=settings.compute)
        networks = Networks(database, env, placement, LocalCompute(compute), settings=settings.network)
        compute.network = network = LocalNetwork(networks)
        conductor = Conductor(compute, placement, network, env, wakeups, settings.conductor, settings.scheduling)
        return cls(networks, compute, conductor, network_policy, compute_policy)

    def apis(self) -> dict[str, Callable[[], list[Route]]]:
        """Service -> its routes, for the main listener."""
        return {
            "network": lambda: network_api.routes(self.networks, self.network_policy),
            "compute": lambda: compute_api.routes(self.compute, self.compute_policy),
        }

    def agent_routes(self) -> list[Route]:
        """For the listener of the agents."""
        return agent_api.routes(self.compute)

    def agents_only(self, app: ASGIApp) -> ASGIApp:
        """The listener of the agents, behind their tokens."""
        return AgentAuthentication(app, AgentTokens(self.compute.database))

    def background_tasks(self, role: str) -> list[Coroutine[Any, Any, None]]:
        """What a process of this role does besides answering requests; none of these ever returns."""
        work: list[Coroutine[Any, Any, None]] = []
        if role == "agent-api":
            watch = SilenceWatch(self.compute)
            work.append(repeat(watch.look, "looking for silent hosts", interval_s=self.compute.settings.look_s))
        if role == "conductor":
            work += [
                pipeline.run(self.conductor),
                repeat(
                    lambda: reconcile_claims(self.conductor),
                    "returning claims of servers that are gone",
                    interval_s=self.conductor.settings.reconcile_s,
                ),
                repeat(
                    lambda: compute_audit.AUDIT.reconcile(self.compute),
                    "auditing servers and hosts",
                    interval_s=self.conductor.settings.audit_s,
                ),
                repeat(lambda: publish_hosts(self.compute), "publishing hosts", interval_s=PUBLISH_HOSTS_S),
            ]
        if role in ("conductor", "reconciler"):
            settings = self.networks.settings
            work += [
                repeat(
                    lambda: reconcile_network(self.networks),
                    "reconciling networks and ports",
                    interval_s=settings.reconcile_s,
                ),
                repeat(
                    lambda: network_audit.AUDIT.reconcile(self.networks),
                    "auditing networks and ports",
                    interval_s=settings.audit_s,
                ),
            ]
        return work
