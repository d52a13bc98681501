"""Hosts whose agents are too old are closed, have no say in the order of builds, and are named."""

import pytest
import structlog
from msgspec.structs import replace
from tests.agent.cloud import AGENT

from roost.compute.old_agents.service.orders import count_agent_versions
from roost.compute.rules.drift import HOST_OLD
from roost.compute.service import Compute, audit
from roost.compute.service import hosts as service
from roost.compute.service.leases import LeaseRequest, renew_leases
from roost.compute.service.silence import SilenceWatch
from roost.compute.settings import ComputeSettings
from roost.platform.drift import Repairs
from roost.seams.agent import AgentIdentity, HostReport
from roost.seams.placement import DISABLED


async def register(compute: Compute, version: int, *names: str) -> AgentIdentity:
    """Have an agent of that service version on the hosts."""
    agent = replace(AGENT, id=f"{version:08}-0000-4000-8000-000000000000", service_version=version)
    reports = [HostReport(name=name, vcpus=4, ram_mb=4096, disk_gb=40, service_version=version) for name in names]
    await service.register_hosts(compute, reports, agent=agent)
    return agent


async def closed(compute: Compute) -> set[str]:
    """Return the hosts that the ledger gives no server."""
    hosts = await service.list_hosts(compute, None)
    providers = await compute.placement.get_providers([host.provider_uuid for host in hosts])
    return {host.name for host in hosts if DISABLED in (providers[host.provider_uuid].traits or ())}


@pytest.mark.parametrize(
    ("version_min", "hosts_closed", "versions"),
    [
        (3, {"v1", "v2"}, {0: 1, 3: 1, 5: 1}),
        (1, set(), {0: 1, 1: 1, 2: 1, 3: 1, 5: 1}),
        (4, {"v1", "v2", "v3"}, {0: 1, 5: 1}),
    ],
)
async def test_a_new_host_below_the_least_version_is_closed_and_does_not_count(
    compute: Compute, version_min: int, hosts_closed: set[str], versions: dict[int, int]
) -> None:
    compute.settings = ComputeSettings(service_version_min=version_min)
    for version in (0, 1, 2, 3, 5):
        await register(compute, version, f"v{version}")
    assert await closed(compute) == hosts_closed
    assert await count_agent_versions(compute) == versions


async def test_a_disabled_host_has_no_say(compute: Compute) -> None:
    compute.settings = ComputeSettings(service_version_min=1)
    await register(compute, 1, "v1")
    await register(compute, 5, "v5")
    await service.disable_host(compute, "v1")
    assert await count_agent_versions(compute) == {5: 1}


async def test_a_setting_and_an_agent_that_change_close_and_open_hosts(compute: Compute) -> None:
    await register(compute, 3, "h1", "h2")
    watch = SilenceWatch(compute)
    await watch.look()
    assert await closed(compute) == set()
    compute.settings = ComputeSettings(service_version_min=4)
    await watch.look()
    assert await closed(compute) == {"h1", "h2"}
    agent = replace(AGENT, id=f"{3:08}-0000-4000-8000-000000000000", service_version=5)
    await renew_leases(compute, [LeaseRequest(("h1", "h2"), agent)])
    await watch.look()
    assert await closed(compute) == set()


async def test_an_agent_that_is_older_than_before_is_an_error_in_the_log(compute: Compute) -> None:
    agent = await register(compute, 5, "h1", "h2")
    with structlog.testing.capture_logs() as lines:
        await renew_leases(compute, [LeaseRequest(("h1", "h2"), replace(agent, service_version=1))])
        await SilenceWatch(compute).look()
    errors = [(line["event"], line["host"]) for line in lines if line["log_level"] == "error"]
    assert errors == [("a host's agent is older than the one before", host) for host in ("h1", "h2")]
    closed = [(line["host"], line["reason"]) for line in lines if line.get("action") == "closed"]
    assert closed == [(host, "its agent is of a service version below 3") for host in ("h1", "h2")]


async def test_an_audit_names_a_host_that_is_closed_for_its_agent(compute: Compute) -> None:
    await register(compute, 1, "v1")
    await register(compute, 5, "v5")
    found = await audit.AUDIT.run(compute, repairs=Repairs.NONE)
    assert [(drift.kind, drift.key, drift.says) for drift in found] == [
        (HOST_OLD, "v1", "its agent is of service version 1")
    ]
