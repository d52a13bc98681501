"""`roost-manage status upgrade-check`: what the next release will require, and in which order servers are built.

Exit status 0: ready; 1: a warning; 2: a failure; 255: the check itself failed. Source: Nova, nova-status.
"""

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console

from roost.cli.managing.audit import open_records
from roost.cli.managing.check_report import FAILURE, READY, WARNING, CheckResult, print_checks
from roost.cli.managing.ledger_target import LedgerTarget, TargetRefused
from roost.cli.managing.old_agents import (
    HOSTS_SHOWN,
    AgentFacts,
    check_order,
    check_promise,
    find_credentials,
    read_agents,
)
from roost.cli.settings import read_settings
from roost.clients.placement import find_credentials_fault
from roost.compute.model.work import Heartbeat
from roost.compute.service import Compute
from roost.compute.service.cells import count_silent_cells, list_heartbeats
from roost.compute.service.hosts import list_hosts_below
from roost.compute.service.network_info import find_differing
from roost.compute.service.quotas import QUOTAS as COMPUTE_QUOTAS
from roost.network.service import Networks
from roost.network.service.quotas import QUOTAS as NETWORK_QUOTAS
from roost.network.settings import NetworkSettings
from roost.platform.grouping import grouped
from roost.platform.quotas import QuotaUsage

PROJECTS_SHOWN = 20
NEXT_RELEASE = "2.0"


class Facts(Struct, frozen=True, kw_only=True):
    """What the checks are about.

    agents: what decides in which order servers are built. hosts_closed: some of the live hosts whose agents are below
    version_min. conductors: those that are there. silent_cells: cell -> how many hosts. info_differs: how many servers
    have network info that is not their ports, of the first page. over_quota: what projects have more of than they may.
    placement_fault: why the Placement service that is used instead of the ledger does not let Roost in; elsewhere:
    there is one.
    """

    agents: AgentFacts
    hosts_closed: tuple[str, ...]
    version_min: int
    conductors: tuple[Heartbeat, ...]
    silent_cells: dict[str, int]
    info_differs: int
    settings: NetworkSettings
    over_quota: tuple[QuotaUsage, ...] = ()
    elsewhere: bool = False
    placement_fault: str | None = None
    placement_required: bool = False


async def upgrade_check(target: LedgerTarget, console: Console, *, as_json: bool) -> int:
    """Make all checks and print them; return the exit status. Raises TargetRefused."""
    settings = read_settings(target.config)
    async with open_records(target) as records:
        if records.cloud is None:
            raise TargetRefused("there are no servers in the database")
        facts = await _read(records.cloud.compute, records.cloud.networks, settings.network)
        if records.cloud.elsewhere is not None:
            fault = await find_credentials_fault(records.cloud.elsewhere)
            required = settings.placement.credentials == "require"
            facts = replace(facts, elsewhere=True, placement_fault=fault, placement_required=required)
        checks = list_checks(facts)
    return print_checks(console, checks, as_json=as_json)


def list_checks(facts: Facts) -> list[CheckResult]:
    """Return the checks, in the order in which an upgrade meets them."""
    return [
        check_order(facts.agents, facts.conductors),
        _agents(facts),
        check_promise(facts.agents, facts.conductors),
        _credentials_check(facts),
        _placement_check(facts),
        _cells(facts),
        _network_info(facts),
        _quotas(facts),
    ]


async def _read(compute: Compute, networks: Networks, settings: NetworkSettings) -> Facts:
    silent_after_s, version_min = compute.settings.host_down_after_s, compute.settings.service_version_min
    return Facts(
        agents=await read_agents(compute),
        hosts_closed=tuple(await list_hosts_below(compute, version_min, limit=HOSTS_SHOWN + 1)),
        version_min=version_min,
        conductors=tuple(beat for beat in await list_heartbeats(compute) if beat.silent_s < silent_after_s),
        silent_cells=await count_silent_cells(compute),
        info_differs=len(await find_differing(compute)),
        over_quota=(*await COMPUTE_QUOTAS.list_over(compute), *await NETWORK_QUOTAS.list_over(networks)),
        settings=settings,
    )


def _agents(facts: Facts) -> CheckResult:
    name = "agents are new enough"
    if not facts.hosts_closed:
        details = f"No live host has an agent of a service version below {facts.version_min}."
        return CheckResult(name=name, result=READY, details=details)
    names = [*facts.hosts_closed[:HOSTS_SHOWN], *(["..."] if len(facts.hosts_closed) > HOSTS_SHOWN else [])]
    details = (
        f"Closed, since their agents are of a service version below {facts.version_min}: {', '.join(names)}. Start "
        "newer agents there, or lower [compute] service_version_min for as long as the fleet is upgraded."
    )
    return CheckResult(name=name, result=WARNING, details=details)


def _credentials_check(facts: Facts) -> CheckResult:
    name = "network credentials"
    if not facts.conductors:
        return CheckResult(name=name, result=WARNING, details="No conductor is there that could say: start one.")
    credentials = find_credentials(facts.conductors)
    if credentials.usable:
        return CheckResult(name=name, result=READY, details=f"Every conductor has them. {_announced(facts)}".strip())
    details = f"A conductor has none: {credentials.reason}. {_announced(facts)}"
    return CheckResult(name=name, result=WARNING, details=details.strip())


def _placement_check(facts: Facts) -> CheckResult:
    name = "placement credentials"
    if not facts.elsewhere:
        return CheckResult(
            name=name, result=READY, details="Servers are placed by Roost's own ledger, which needs none."
        )
    announced = (
        f'Release {NEXT_RELEASE} does not start without them; [placement] credentials = "require" does so today.'
    )
    if facts.placement_fault is None:
        details = "The Placement service lets Roost in, or is away at the moment."
        return CheckResult(
            name=name, result=READY, details=details if facts.placement_required else f"{details} {announced}"
        )
    if facts.placement_required:
        details = f"{facts.placement_fault}: nothing can be placed, and no start succeeds."
        return CheckResult(name=name, result=FAILURE, details=details)
    details = f"{facts.placement_fault}: nothing can be placed. {announced}"
    return CheckResult(name=name, result=WARNING, details=details)


def _announced(facts: Facts) -> str:
    if facts.settings.credentials == "require":
        return ""
    return (
        f'Release {NEXT_RELEASE} does not start a conductor without them; [network] credentials = "require" does '
        "so today."
    )


def _cells(facts: Facts) -> CheckResult:
    if not facts.silent_cells:
        return CheckResult(name="cells", result=READY, details="Every cell has a conductor.")
    cells = ", ".join(f"{cell} ({count} hosts)" for cell, count in facts.silent_cells.items())
    details = f"No conductor of {cells} is there: servers there wait, and get no new neighbours."
    return CheckResult(name="cells", result=FAILURE, details=details)


def _network_info(facts: Facts) -> CheckResult:
    if not facts.info_differs:
        details = "What is kept with servers of their ports is what the ports are."
        return CheckResult(name="network info", result=READY, details=details)
    details = f"{facts.info_differs} servers or more have another than their ports: roost-manage heal_network_info"
    return CheckResult(name="network info", result=WARNING, details=details)


def _quotas(facts: Facts) -> CheckResult:
    name = "quotas"
    if not facts.over_quota:
        return CheckResult(name=name, result=READY, details="No project has more than its quotas.")
    by_project = grouped(
        (usage.project_id, f"{usage.resource} {usage.used} of {usage.maximum}") for usage in facts.over_quota
    )
    names = [f"{project_id} ({', '.join(parts)})" for project_id, parts in by_project.items()]
    shown = "; ".join([*names[:PROJECTS_SHOWN], *(["..."] if len(names) > PROJECTS_SHOWN else [])])
    details = (
        f"More than their quotas have: {shown}. What is there stays, nothing is added: give these projects quotas of "
        "their own (openstack quota set), or set [compute] and [network] quota_* to -1."
    )
    return CheckResult(name=name, result=WARNING, details=details)
