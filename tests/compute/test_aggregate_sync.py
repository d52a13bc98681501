"""`sync_placement_aggregates`: what is missing is added, what is stale is removed when asked, and nothing else changes.

Facts of upstream's nova/tests/functional/test_nova_manage.py, TestNovaManagePlacementSyncAggregates.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.agent.cloud import AGENT

from roost.compute.rules.aggregate_sync import (
    HostChange,
    HostProblem,
    MirrorState,
    SyncReport,
    SyncStatus,
    list_changes,
)
from roost.compute.service import Compute, aggregate_sync
from roost.compute.service import hosts as hosts_service
from roost.compute.service import operator_aggregates as aggregates
from roost.compute.service.aggregate_sync import sync_aggregates
from roost.platform.errors import BadRequest, Conflict, DatabaseUnavailable
from roost.seams.agent import HostReport
from roost.seams.placement import ProviderState

OTHERS = "cccccccc-0000-0000-0000-000000000001"
HOSTS = ("h1", "h2", "h3")


@pytest.mark.parametrize(
    ("wanted", "found", "prune", "changes"),
    [
        ({}, {}, True, []), ({"p1": "A"}, {"p1": "A"}, True, []),
        ({"p1": "AB"}, {"p1": "B"}, False, [HostChange("h1", ("a",), ())]),
        ({"p1": "A"}, {"p1": "B"}, False, [HostChange("h1", ("a",), ())]),
        ({"p1": "A"}, {"p1": "B"}, True, [HostChange("h1", ("a",), ("b",))]),
        ({}, {"p2": "B"}, False, []), ({}, {"p2": "B"}, True, [HostChange("h2", (), ("b",))]),
        ({}, {"p9": "B"}, True, []),
    ],
)  # fmt: skip
def test_what_differs_by_host(wanted: Any, found: Any, prune: bool, changes: list[HostChange]) -> None:
    state = MirrorState(
        names={"A": "a", "B": "b"}, former=frozenset(), hosts_by_provider={"p1": "h1", "p2": "h2"},
        aggregates_wanted={key: frozenset(uuids) for key, uuids in wanted.items()},
        aggregates_present={key: frozenset(uuids) for key, uuids in found.items()}, unknown_hosts=(),
    )  # fmt: skip
    assert list(list_changes(state, (), prune=prune)) == changes
    assert list_changes(state, ("h3",), prune=prune) == ()


@pytest.mark.parametrize(
    ("report", "status"),
    [
        (SyncReport(), 0), (SyncReport(changes=(HostChange("h1"),)), 0), (SyncReport(stale=3), 0),
        (SyncReport(changes=(HostChange("h1"),), dry_run=True), 7), (SyncReport(dry_run=True), 0),
        (SyncReport(failure="no answer"), 2),
        (SyncReport(problems=(HostProblem("h1", SyncStatus.HOST_REFUSED, ""),)), 3),
        (SyncReport(problems=tuple(HostProblem("h", one, "") for one in (SyncStatus(5), SyncStatus(6)))), 6),
    ],
)  # fmt: skip
def test_the_exit_status_is_upstreams(report: SyncReport, status: int) -> None:
    assert report.status == status


class Told:
    """What placement was told of hosts' aggregates; some hosts are refused, or nothing is heard."""

    def __init__(self, compute: Compute, monkeypatch: pytest.MonkeyPatch) -> None:
        self.providers: list[str] = []
        self.refused: set[str] = set()
        self.broken: Exception | None = None
        real = compute.placement.set_placement_aggregates

        async def told(state: Any, *, managed: frozenset[str]) -> None:
            if self.broken is not None:
                raise self.broken
            if self.refused & set(state):
                raise Conflict("a generation conflict")
            self.providers += sorted(state)
            await real(state, managed=managed)

        monkeypatch.setattr(compute.placement, "set_placement_aggregates", told)


@pytest.fixture
async def told(compute: Compute, monkeypatch: pytest.MonkeyPatch) -> Told:
    reports = [HostReport(name=name, vcpus=4, ram_mb=4096, disk_gb=40) for name in HOSTS]
    await hosts_service.register_hosts(compute, reports, agent=AGENT)
    return Told(compute, monkeypatch)


async def group(compute: Compute, name: str, *hosts: str) -> str:
    made = await aggregates.create_aggregate(compute, name, None)
    for host in hosts:
        await aggregates.add_host(compute, made.id, host)
    return made.uuid


async def forget(compute: Compute, host: str, *instead: str) -> None:
    """Placement has the host's provider in other aggregates than it was told."""
    uuid = hosts_service.provider_uuid_of(host)
    await compute.placement.ensure_providers(
        [ProviderState(uuid=uuid, name=host, placement_aggregates=frozenset(instead))]
    )


async def mirrored(compute: Compute, host: str) -> set[str]:
    uuid = hosts_service.provider_uuid_of(host)
    return set((await compute.placement.get_providers([uuid]))[uuid].placement_aggregates or ())


def provider_of(*hosts: str) -> list[str]:
    return sorted(hosts_service.provider_uuid_of(host) for host in hosts)


async def test_missing_memberships_are_added_and_a_second_run_writes_nothing(compute: Compute, told: Told) -> None:
    gpu, ssd = await group(compute, "gpu", "h1", "h2"), await group(compute, "ssd", "h1")
    await forget(compute, "h1", OTHERS)
    told.providers.clear()
    dry = await sync_aggregates(compute, dry_run=True)
    assert (dry.status, dry.changes, told.providers) == (7, (HostChange("h1", ("gpu", "ssd")),), [])
    assert (await sync_aggregates(compute)).status == 0
    assert await mirrored(compute, "h1") == {gpu, ssd, OTHERS}
    assert told.providers == provider_of("h1")
    again = await sync_aggregates(compute, prune=True)
    assert (again.status, again.changes, told.providers) == (0, (), provider_of("h1"))


async def test_only_prune_removes_and_only_what_is_roosts(compute: Compute, told: Told) -> None:
    gpu, ssd, old = await group(compute, "gpu", "h1"), await group(compute, "ssd"), await group(compute, "old")
    (number,) = [one.id for one in await aggregates_list(compute) if one.uuid == old]
    await aggregates.delete_aggregate(compute, number)
    await forget(compute, "h1", gpu, ssd, old, OTHERS)
    stray = ProviderState(
        uuid="dddddddd-0000-0000-0000-000000000001", name="stray", placement_aggregates=frozenset([old, OTHERS])
    )
    await compute.placement.ensure_providers([stray])
    report = await sync_aggregates(compute)
    assert (report.status, report.changes, report.stale) == (0, (), 2)
    pruned = await sync_aggregates(compute, prune=True)
    assert (pruned.changes, pruned.others) == ((HostChange("h1", (), ("old (deleted)", "ssd")),), 1)
    assert await mirrored(compute, "h1") == {gpu, OTHERS}
    (left,) = (await compute.placement.get_providers([stray.uuid])).values()
    assert left.placement_aggregates == {OTHERS}
    assert (await sync_aggregates(compute, prune=True)).changes == ()


async def aggregates_list(compute: Compute) -> Sequence[Any]:
    from roost.compute.service.aggregates import list_host_aggregates

    return await list_host_aggregates(compute)


async def test_hosts_and_aggregates_limit_it(compute: Compute, told: Told) -> None:
    gpu, ssd = await group(compute, "gpu", *HOSTS), await group(compute, "ssd", *HOSTS)
    for host in HOSTS:
        await forget(compute, host)
    await sync_aggregates(compute, hosts=["h1"], aggregates=["gpu"])
    await sync_aggregates(compute, hosts=["h2"])
    await sync_aggregates(compute, aggregates=[ssd])
    assert [await mirrored(compute, host) for host in HOSTS] == [{gpu, ssd}, {gpu, ssd}, {ssd}]
    for options in ({"hosts": ["h9"]}, {"aggregates": ["none"]}):
        with pytest.raises(BadRequest, match="there is no such"):
            await sync_aggregates(compute, **options)


async def test_problems_of_single_hosts_are_collected_and_hold_up_no_other(compute: Compute, told: Told) -> None:
    gpu = await group(compute, "gpu", *HOSTS)
    async with compute.database.transaction() as tx:
        await tx.execute("INSERT INTO compute.host_aggregate_host VALUES ($1, 'gone')", gpu)
    await forget(compute, "h1")
    await forget(compute, "h2")
    await compute.placement.delete_providers(provider_of("h3"))
    told.refused = set(provider_of("h2"))
    report = await sync_aggregates(compute)
    assert {problem.host: problem.status for problem in report.problems} == {
        "gone": SyncStatus.HOST_UNKNOWN, "h2": SyncStatus.HOST_REFUSED, "h3": SyncStatus.PROVIDER_MISSING
    }  # fmt: skip
    assert report.status == 6
    assert await mirrored(compute, "h1") == {gpu}


async def test_a_placement_that_does_not_answer_ends_the_run(compute: Compute, told: Told) -> None:
    await group(compute, "gpu", *HOSTS)
    await forget(compute, "h1")
    told.broken = DatabaseUnavailable("no answer")
    report = await sync_aggregates(compute)
    assert (report.status, report.failure) == (2, "no answer")


async def test_progress_is_told_and_batches_are_small(
    compute: Compute, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregate_sync, "HOSTS_BATCH", 2)
    await group(compute, "gpu", *HOSTS)
    for host in HOSTS:
        await forget(compute, host)
    seen: list[tuple[str, int, int]] = []
    await sync_aggregates(compute, progress=lambda *step: seen.append(step))
    assert [step for step in seen if step[0] == "hosts written"] == [("hosts written", 2, 3), ("hosts written", 3, 3)]
