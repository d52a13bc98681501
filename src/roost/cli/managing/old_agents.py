"""What `status upgrade-check` says of the orders in which servers are built; release 2.0 has one order."""

from collections.abc import Sequence

from msgspec import Struct

from roost.cli.managing.check_report import READY, WARNING, CheckResult
from roost.compute.model.work import BuildOrder, Credentials, Heartbeat
from roost.compute.old_agents.rules.orders import (
    LATE,
    VERSION_BINDS,
    VERSION_EARLY,
    count_hosts_below,
    older_agents,
    order_of,
)
from roost.compute.old_agents.service.orders import count_agent_versions
from roost.compute.service import Compute
from roost.compute.service.hosts import list_hosts_below

HOSTS_SHOWN = 10


class AgentFacts(Struct, frozen=True, kw_only=True):
    """Which agents live.

    hosts_by_version: service version -> how many hosts. hosts_below: by service version, hosts with an agent below it,
    some of them: the versions that orders need.
    """

    hosts_by_version: dict[int, int]
    hosts_below: dict[int, tuple[str, ...]] = {}


async def read_agents(compute: Compute) -> AgentFacts:
    """Return which agents live."""
    version_min = compute.settings.service_version_min
    return AgentFacts(
        hosts_by_version=await count_agent_versions(compute),
        hosts_below={
            version: tuple(await list_hosts_below(compute, version, version_min=version_min, limit=HOSTS_SHOWN))
            for version in (VERSION_BINDS, VERSION_EARLY)
        },
    )


def find_credentials(conductors: Sequence[Heartbeat]) -> Credentials:
    """Return the worst of what the conductors found."""
    refused = [conductor.credentials for conductor in conductors if not conductor.credentials.usable]
    return refused[0] if refused else Credentials(True)


def check_order(agents: AgentFacts, conductors: Sequence[Heartbeat]) -> CheckResult:
    """Return in which order servers are built."""
    order = _order_of(agents, conductors)
    details = f"Servers are built in the order {order.sentence()}."
    if older := _older(agents, VERSION_EARLY):
        details += f" To be replaced: {older}."
    return CheckResult(name="order of builds", result=READY if order.name == "early" else WARNING, details=details)


def check_promise(agents: AgentFacts, conductors: Sequence[Heartbeat]) -> CheckResult:
    """Return whether an address is claimed before a host is asked, and who is the reason where it is not."""
    if _order_of(agents, conductors).name != LATE.name:
        details = "An address is claimed before a host is asked to build."
        return CheckResult(name="addresses are claimed first", result=READY, details=details)
    refused = [conductor for conductor in conductors if not conductor.credentials.usable]
    credentials = f"network credentials are missing on {len(refused)} of {len(conductors)} conductors"
    causes = [cause for cause in (refused and credentials, _older(agents, VERSION_BINDS)) if cause]
    details = (
        "Hosts on full segments are left out, but the address is claimed only when the host's agent binds the port: "
        "of two servers that race for the last one, one is tried elsewhere. That is so on every host, since "
        f"{', and '.join(causes)}."
    )
    return CheckResult(name="addresses are claimed first", result=WARNING, details=details)


def _order_of(agents: AgentFacts, conductors: Sequence[Heartbeat]) -> BuildOrder:
    return order_of(agents.hosts_by_version, find_credentials(conductors))


def _older(agents: AgentFacts, below: int) -> str:
    """Return how many live hosts have an agent below a service version, and which; "" for none."""
    names, count = agents.hosts_below.get(below, ()), count_hosts_below(agents.hosts_by_version, below)
    shown = ", ".join([*names, "..."] if count > len(names) else names)
    return f"{older_agents(count, below=below)} ({shown})" if count else ""
