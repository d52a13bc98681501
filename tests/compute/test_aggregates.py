"""Host aggregates and their mirror on a real ledger."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.clients.local_compute import LocalCompute
from roost.compute.errors import HostAggregateExists
from roost.compute.rules.aggregates import decide_memberships
from roost.compute.service import Compute
from roost.compute.service import aggregates as service
from roost.compute.service import hosts as hosts_service
from roost.seams.agent import HostReport
from roost.seams.compute import HostAggregateState
from roost.seams.placement import ProviderState

A, B, C = (f"aaaaaaaa-0000-0000-0000-00000000000{number}" for number in (1, 2, 3))

some_aggregates = st.frozensets(st.sampled_from("abcd"))
some_memberships = st.dictionaries(st.sampled_from(["h1", "h2", "h3"]), some_aggregates)


@given(some_memberships, some_memberships, some_aggregates)
def test_only_managed_memberships_of_named_hosts_change(current: Any, wanted: Any, managed: frozenset[str]) -> None:
    change = decide_memberships(current, wanted, managed)
    after = {(aggregate, host) for host, all_of in current.items() for aggregate in all_of}
    assert not set(change.added) & after
    assert set(change.removed) <= after
    after = (after | set(change.added)) - set(change.removed)
    for host in ("h1", "h2", "h3"):
        now = {aggregate for aggregate, member in after if member == host}
        before = current.get(host, frozenset())
        assert now == ((before - managed) | (wanted[host] & managed) if host in wanted else before)


async def provider_aggregates(compute: Compute, host: str) -> set[str]:
    uuid = hosts_service.provider_uuid_of(host)
    members = await compute.placement.list_aggregate_providers([A, B, C])
    return {aggregate for aggregate, providers in members.items() if uuid in providers}


async def declare(compute: Compute, *names: str) -> None:
    reports = [HostReport(name=name, vcpus=1, ram_mb=1024, disk_gb=10) for name in names]
    await hosts_service.register_hosts(compute, reports, agent=None)


async def test_the_mirror_leaves_aggregates_of_others_alone(compute: Compute) -> None:
    client = LocalCompute(compute)
    await declare(compute, "h1", "h2")
    await compute.placement.ensure_providers(
        [ProviderState(uuid=hosts_service.provider_uuid_of("h1"), name="h1", placement_aggregates=frozenset([C]))]
    )
    await client.ensure_host_aggregates([HostAggregateState(A, "rack1"), HostAggregateState(B, "rack2")])
    await client.ensure_host_aggregates([HostAggregateState(A, "rack1")])
    managed = frozenset([A, B])
    wanted = {"h1": frozenset([A, B]), "h2": frozenset([B])}
    await client.set_segment_aggregates(wanted, managed=managed)
    assert await provider_aggregates(compute, "h1") == {A, B, C}
    assert await provider_aggregates(compute, "h2") == {B}
    await client.set_segment_aggregates({"h1": frozenset([B])}, managed=managed)
    assert await provider_aggregates(compute, "h1") == {B, C}
    assert await provider_aggregates(compute, "h2") == {B}
    await client.set_segment_aggregates({"h1": frozenset()}, managed=frozenset([A]))
    assert await provider_aggregates(compute, "h1") == {B, C}
    await client.delete_host_aggregates([B])
    assert await provider_aggregates(compute, "h1") == {C}
    assert [(one.name, one.hosts) for one in await service.list_host_aggregates(compute)] == [("rack1", ())]


async def test_a_repeated_call_mends_a_mirror_that_was_cut_off(compute: Compute) -> None:
    client = LocalCompute(compute)
    await declare(compute, "h1")
    await client.ensure_host_aggregates([HostAggregateState(A, "rack1")])
    await client.set_segment_aggregates({"h1": frozenset([A])}, managed=frozenset([A]))
    h1 = hosts_service.provider_uuid_of("h1")
    await compute.placement.ensure_providers([ProviderState(uuid=h1, name="h1", placement_aggregates=frozenset())])
    await client.set_segment_aggregates({"h1": frozenset([A])}, managed=frozenset([A]))
    assert await provider_aggregates(compute, "h1") == {A}
    async with compute.database.transaction() as tx:
        await tx.execute("DELETE FROM compute.host_aggregate")
    await client.delete_host_aggregates([A])
    assert await provider_aggregates(compute, "h1") == set()


async def test_of_two_at_once_the_mirror_shows_the_later(compute: Compute) -> None:
    await declare(compute, "h1")
    await service.ensure_host_aggregates(compute, [HostAggregateState(A, "rack1"), HostAggregateState(B, "rack2")])
    managed = frozenset([A, B])
    placement: Any = compute.placement
    real, overtaken = placement.set_placement_aggregates, False

    async def overtaking(state: Any, *, managed: frozenset[str]) -> None:
        nonlocal overtaken
        if not overtaken:
            overtaken = True
            await service.set_segment_aggregates(compute, {"h1": frozenset([B])}, managed=managed)
        await real(state, managed=managed)

    placement.set_placement_aggregates = overtaking
    await service.set_segment_aggregates(compute, {"h1": frozenset([A])}, managed=managed)
    assert await provider_aggregates(compute, "h1") == {B}


async def test_a_name_belongs_to_one_aggregate(compute: Compute) -> None:
    await service.ensure_host_aggregates(compute, [HostAggregateState(A, "rack1")])
    with pytest.raises(HostAggregateExists, match="rack1"):
        await service.ensure_host_aggregates(compute, [HostAggregateState(B, "rack1")])


async def test_a_hundred_hosts_take_as_many_statements_as_one(compute: Compute, statements: Any) -> None:
    names = [f"h{number}" for number in range(100)]
    await declare(compute, *names)
    await service.ensure_host_aggregates(compute, [HostAggregateState(A, "rack1"), HostAggregateState(B, "rack2")])
    counts = []
    for batch in (names[:1], names):
        with statements() as seen:
            wanted = {name: frozenset([A, B]) for name in batch}
            await service.set_segment_aggregates(compute, wanted, managed=frozenset([A, B]))
            counts.append(len([one for one in seen if one.startswith("compute.")]))
    assert counts[0] == counts[1] <= 6
