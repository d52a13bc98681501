"""Hosts on real PostgreSQL and a real ledger."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT, take_leases

from roost.compute.errors import HostNotFound
from roost.compute.service import Compute
from roost.compute.service import aggregates as aggregates_service
from roost.compute.service import hosts as service
from roost.platform.errors import DatabaseUnavailable
from roost.seams.agent import HostReport
from roost.seams.compute import HostAggregateState
from roost.seams.placement import ProviderState


def report_of(name: str, **other: Any) -> HostReport:
    sizes = {"vcpus": 4, "ram_mb": 4096, "disk_gb": 40, "physical_networks": ("rack1",)}
    return HostReport(name=name, **(sizes | other))


async def usage_of(compute: Compute, host: str) -> dict[str, tuple[int, int]]:
    uuid = service.provider_uuid_of(host)
    return (await compute.placement.list_usages([uuid])).get(uuid, {})


async def silent_for(compute: Compute, host: str, seconds: int) -> None:
    async with compute.database.transaction() as tx:
        await tx.execute(
            "UPDATE compute.host SET seen_at = now() - $2 * interval '1 second' WHERE name = $1", host, seconds
        )
        await tx.execute("UPDATE compute.agent SET seen_at = NULL, hosts_digest = NULL")


async def test_a_registered_host_has_a_provider_and_its_networks(compute: Compute, networks: Any) -> None:
    [host] = await service.register_hosts(compute, [report_of("h1")], agent=AGENT)
    assert not host.down
    assert await usage_of(compute, "h1") == {"VCPU": (4, 0), "MEMORY_MB": (4096, 0), "DISK_GB": (40, 0)}
    assert await networks.hosts() == {"h1": ("rack1",)}


async def test_an_agent_changes_no_declared_host_but_says_that_it_is_there(compute: Compute, networks: Any) -> None:
    [host] = await service.register_hosts(compute, [report_of("h1")], agent=None)
    assert host.down, "nobody has heard of it"
    [host] = await service.register_hosts(
        compute, [report_of("h1", vcpus=64, physical_networks=(), service_version=2)], agent=AGENT
    )
    assert (host.vcpus, host.physical_networks, host.declared) == (4, ("rack1",), True)
    assert (host.down, host.service_version) == (False, 2)
    assert (await usage_of(compute, "h1"))["VCPU"] == (4, 0)
    [host] = await service.register_hosts(compute, [report_of("h1", vcpus=8)], agent=None)
    assert (host.vcpus, host.service_version, host.down) == (8, 2, False)
    assert (await usage_of(compute, "h1"))["VCPU"] == (8, 0)


async def test_a_host_that_is_not_declared_follows_its_agent(compute: Compute, networks: Any) -> None:
    await service.register_hosts(compute, [report_of("h1")], agent=AGENT)
    await service.register_hosts(compute, [report_of("h1", vcpus=2, physical_networks=("b", "a", "b"))], agent=AGENT)
    assert (await usage_of(compute, "h1"))["VCPU"] == (2, 0)
    assert await networks.hosts() == {"h1": ("a", "b")}


async def test_what_a_crash_left_unpublished_is_published_later(compute: Compute, networks: Any) -> None:
    compute.placement.broken = DatabaseUnavailable("away")
    with pytest.raises(DatabaseUnavailable):
        await service.register_hosts(compute, [report_of("h1"), report_of("h2")], agent=None)
    assert await networks.hosts() == {}
    compute.placement.broken = None
    assert await service.publish_hosts(compute) == 2
    assert await networks.hosts() == {"h1": ("rack1",), "h2": ("rack1",)}
    assert await service.publish_hosts(compute) == 0


async def test_a_host_whose_provider_is_refused_holds_up_no_other(compute: Compute, networks: Any) -> None:
    await compute.placement.ensure_providers([ProviderState(uuid="00000000-0000-0000-0000-000000000001", name="taken")])
    names = ["a", "b", "taken", "z"]
    await service.register_hosts(compute, [report_of(name) for name in names], agent=None)
    assert sorted(await networks.hosts()) == ["a", "b", "z"]
    assert await service.publish_hosts(compute) == 1, "it is tried again"


async def test_a_publisher_that_was_overtaken_publishes_again(compute: Compute) -> None:
    await service.register_hosts(compute, [report_of("h1")], agent=None)
    overtaken = asyncio.Event()
    network: Any = compute.network
    real = network.set_hosts

    async def set_hosts(physical_networks_by_host: Any, *, cells_by_host: Any) -> None:
        if not overtaken.is_set():
            overtaken.set()
            await service.register_hosts(compute, [report_of("h1", vcpus=16)], agent=None)
            # What the slower of the two wrote last is the older state.
            [now] = await service.list_hosts(compute)
            await compute.placement.ensure_providers([service.provider_state(replace(now, vcpus=8), {})])
        await real(physical_networks_by_host)

    network.set_hosts = set_hosts
    await service.register_hosts(compute, [report_of("h1", vcpus=8)], agent=None)
    assert (await usage_of(compute, "h1"))["VCPU"] == (16, 0)
    assert await service.publish_hosts(compute) == 0


async def test_an_unchanged_report_costs_three_statements_at_any_size(compute: Compute, statements: Any) -> None:
    reports = [report_of(f"h{number}") for number in range(100)]
    await service.register_hosts(compute, [report_of("first")], agent=AGENT)
    counts = []
    for batch in (reports[:1], reports):
        with statements() as seen:
            await service.register_hosts(compute, batch, agent=AGENT)
            counts.append(len(seen))
    assert counts[0] == counts[1], "new hosts: as many statements for 1 as for 100"
    for batch in (reports[:1], reports):
        with statements() as seen:
            await service.register_hosts(compute, batch, agent=AGENT)
            assert seen == ["compute.find_agent", "compute.renew_leases", "compute.upsert_hosts"]


async def times_of_rows(compute: Compute) -> dict[str, Any]:
    """When each host was heard of on its own row."""
    async with compute.database.connection() as connection:
        return dict(await connection.fetch("SELECT name, seen_at FROM compute.host"))


async def test_a_heartbeat_is_written_only_when_the_last_one_is_old(compute: Compute) -> None:
    await service.register_hosts(compute, [report_of("h1"), report_of("h2")], agent=AGENT)
    await silent_for(compute, "h1", 3600)
    before = await times_of_rows(compute)
    await take_leases(compute, ["h1", "h2"], AGENT)
    after = await times_of_rows(compute)
    assert after["h1"] > before["h1"]
    assert after["h2"] == before["h2"]


async def test_an_operator_can_close_a_host_and_open_it_again(compute: Compute) -> None:
    await service.register_hosts(compute, [report_of("h1")], agent=AGENT)
    assert (await service.disable_host(compute, "h1")).disabled
    assert (await service.force_down(compute, "h1", True)).down
    assert not (await service.enable_host(compute, "h1")).disabled
    assert not (await service.force_down(compute, "h1", False)).down
    with pytest.raises(HostNotFound):
        await service.force_down(compute, "h2", True)


async def test_a_host_that_comes_after_its_aggregate_is_mirrored(compute: Compute) -> None:
    segment = "aaaaaaaa-0000-0000-0000-000000000001"
    await aggregates_service.ensure_host_aggregates(compute, [HostAggregateState(segment, "rack1")])
    await aggregates_service.set_segment_aggregates(compute, {"h1": frozenset([segment])}, managed=frozenset([segment]))
    await service.register_hosts(compute, [report_of("h1")], agent=AGENT)
    members = await compute.placement.list_aggregate_providers([segment])
    assert members[segment] == [service.provider_uuid_of("h1")]
