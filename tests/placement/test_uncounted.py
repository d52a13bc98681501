"""Networks that no round with Neutron has counted yet: nothing is admitted onto them, and one round opens them."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.placement.calls import Api
from tests.placement.neutron_cloud import Cloud
from tests.placement.nova import Nova, Segment, clause
from tests.placement.providers import a_uuid

from roost.placement.service import reads
from roost.placement.service.ledger import Ledger
from roost.platform.database import Database
from roost.seams.placement import CandidateQuery, RequestGroup, Requirement

Make = Callable[[], Awaitable[tuple[Cloud, Segment]]]


@pytest.fixture
def make(database: Database, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A cloud beside a Neutron, and a segment of a network that was made since the last round; nobody waits for it."""
    monkeypatch.setattr(reads, "COUNTED_WITHIN_S", 0.0)

    async def made() -> tuple[Cloud, Segment]:
        cloud = await Cloud.make(database, (5, 2))
        cloud.ledger.neutron = cloud.neutron
        new = Segment(5, cloud.segments[0].hosts)
        await cloud.publish(new)
        return cloud, new

    return made


async def test_nothing_is_admitted_onto_a_network_before_it_is_counted(make: Make) -> None:
    cloud, new = await make()
    for _ in range(5):  # Neutron's notifier does not tell of these, so its own count says that five are free
        cloud.neutron.add_port(new.uuid, a_uuid())
    assert await cloud.nova.boot(1, clause(new)) == []
    assert len(await cloud.boot(1)) == 1, "networks that were counted are open"
    await cloud.round()
    assert await cloud.nova.boot(1, clause(new)) == [], "it is full"


async def test_a_refusal_says_that_the_network_was_not_counted(make: Make) -> None:
    cloud, new = await make()
    group = RequestGroup(suffix="", resources={"VCPU": 1}, member_of=(frozenset({new.aggregate}),))
    *_, addresses, counted = (await reads.explain_candidates(cloud.ledger, CandidateQuery(groups=(group,)))).steps
    assert (addresses.requirement, addresses.hosts_left) == (Requirement.ADDRESSES, 2)
    assert (counted.requirement, counted.hosts_left) == (Requirement.COUNTED, 0)
    assert counted.describe() == "1 IPV4_ADDRESS on segments that a round with Neutron has counted"


async def test_a_boot_onto_a_new_network_waits_for_the_round_that_counts_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, new = await make()
    monkeypatch.setattr(reads, "COUNTED_WITHIN_S", 60.0)
    booting = asyncio.create_task(cloud.nova.boot(1, clause(new)))
    await asyncio.sleep(2 * reads.COUNTED_RECHECK_S)
    assert not booting.done()
    await cloud.round()
    assert len(await booting) == 1


async def test_a_boot_waits_for_a_new_segment_beside_others(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud, new = await make()
    monkeypatch.setattr(reads, "COUNTED_WITHIN_S", 60.0)
    booting = asyncio.create_task(cloud.nova.boot(1, clause(*cloud.segments, new)))
    await asyncio.sleep(2 * reads.COUNTED_RECHECK_S)
    assert not booting.done()
    await cloud.round()
    assert len(await booting) == 1


async def test_one_boot_waits_for_a_segment_beside_others_that_is_never_counted(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, new = await make()
    both = clause(*cloud.segments, new)
    assert len(await cloud.nova.boot(1, both)) == 1
    monkeypatch.setattr(reads, "COUNTED_WITHIN_S", 60.0)
    async with asyncio.timeout(30):
        assert len(await cloud.nova.boot(1, both)) == 1


async def test_what_was_counted_is_remembered_by_who_starts_while_neutron_is_away(make: Make) -> None:
    cloud, new = await make()
    ledger, settings = cloud.ledger, cloud.ledger.settings
    cloud.neutron.is_down = True
    started = Ledger(ledger.database, settings=settings, standard_ids=ledger.standard_ids, neutron=cloud.neutron)
    nova = Nova(Api(started))
    assert len(await nova.boot(1, clause(*cloud.segments))) == 1
    assert await nova.boot(1, clause(new)) == []
