"""Neutron's own tellings of segments, pools and ports beside rounds: what it makes and deletes, and what it repeats."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from tests.placement.neutron import Notifier
from tests.placement.neutron_cloud import Cloud
from tests.placement.nova import Segment, a_segment, clause
from tests.placement.providers import a_uuid

from roost.cli.serving.neutron import NeutronPoll
from roost.placement.model import NEUTRON_CHANNEL
from roost.placement.rules.drift import INVENTORY_UNLIKE_POOLS
from roost.placement.service import claims as claims_service
from roost.placement.service.ledger import Ledger
from roost.platform.database import Database
from roost.platform.settings import NeutronSettings
from roost.platform.wakeup import Wakeups
from roost.seams.neutron import NeutronUnavailable
from roost.seams.placement import IPV4_ADDRESS

Make = Callable[..., Awaitable[Cloud]]
TABLES = {
    "provider": "uuid, name, network_id", "inventory": "*", "provider_aggregate": "*", "provider_trait": "*",
    "consumer": "uuid", "allocation": "*", "neutron_figures": "figures",
}  # fmt: skip


@pytest.fixture
def make(database: Database) -> Make:
    return lambda *sizes: Cloud.make(database, *sizes)


async def dump(ledger: Ledger) -> dict[str, list[str]]:
    """Return all that the ledger holds but for generations and its journal."""
    async with ledger.database.connection() as connection:
        return {
            table: sorted(map(repr, await connection.fetch(f"SELECT {columns} FROM placement.{table}")))
            for table, columns in TABLES.items()
        }


async def a_new_segment(cloud: Cloud, addresses: int = 5) -> Segment:
    """A segment that Neutron is about to make, on two hosts that Nova has."""
    segment = a_segment(addresses, 2)
    await claims_service.ensure_providers(cloud.ledger, segment.host_states())
    return segment


async def inventory_of(cloud: Cloud, segment: Segment) -> tuple[int, int]:
    """Return total and reserved."""
    _, body = await cloud.nova.api.call("GET", f"/resource_providers/{segment.uuid}/inventories/{IPV4_ADDRESS}")
    return body["total"], body["reserved"]


async def test_a_segments_life_is_this_conversation_and_leaves_nothing(make: Make) -> None:
    """As captured; a network's deletion is told twice, by the plugin that Neutron loaded and by one that it made."""
    cloud = await make((9, 2))
    cloud.ledger.neutron = cloud.neutron
    segment = await a_new_segment(cloud)
    before, notifier, again = await dump(cloud.ledger), Notifier(cloud.nova), Notifier(cloud.nova)
    inventory = f"/inventories/{IPV4_ADDRESS}"
    cloud.neutron.add_network({segment.uuid: 5})
    assert await notifier.send(notifier.subnet(segment))
    await cloud.round()
    (server,) = await cloud.nova.boot(1, clause(segment))
    assert await cloud.nova.held(server) == {segment.uuid: 1}
    port = cloud.neutron.add_port(segment.uuid, owner="network:other")
    assert await notifier.send(notifier.change(segment, reserved=1))
    await cloud.round()
    assert await inventory_of(cloud, segment) == (6, 2)
    del cloud.neutron.ports[port]
    assert await notifier.send(notifier.change(segment, reserved=-1))
    await cloud.nova.delete(server)
    await cloud.round()
    assert await inventory_of(cloud, segment) == (6, 1)
    cloud.neutron.delete_network(segment.uuid)
    assert await notifier.send(notifier.delete(segment))
    assert await again.send(again.delete(segment))
    await cloud.round()
    added = [("GET", inventory, 200), ("GET", "", 200), ("PUT", inventory, 200)]
    assert notifier.sent == [
        *[("GET", inventory, 404), ("POST", "", 201), ("PUT", "/aggregates", 200)],
        *[("GET", "", 200), ("PUT", "/inventories", 200), *added, *added],
        *[("GET", "/aggregates", 200), ("DELETE", "", 204)],
    ]
    assert again.sent == [("GET", "/aggregates", 404), ("DELETE", "", 404)]
    assert await dump(cloud.ledger) == before


async def test_a_round_at_any_point_of_that_conversation_is_no_conflict(make: Make) -> None:
    """Before the n-th request, for each n; only where a round has just counted the same is the telling refused."""
    cloud = await make((9, 2))
    cloud.ledger.neutron = cloud.neutron
    before: Any = None
    conflicts = []
    for number in range(1, 13):
        segment, notifier, counter = await a_new_segment(cloud), Notifier(cloud.nova), iter(range(1, 99))

        async def round_at_number(number: int = number, counter: Any = counter) -> None:
            if next(counter) == number:
                await cloud.round()

        notifier.before_each = round_at_number
        before = await dump(cloud.ledger)
        cloud.neutron.add_network({segment.uuid: 5})
        assert await notifier.send(notifier.subnet(segment))
        assert await inventory_of(cloud, segment) == (6, 1)
        port = cloud.neutron.add_port(segment.uuid, owner="network:other")
        if not await notifier.send(notifier.change(segment, reserved=1)):
            conflicts.append(number)
        assert await inventory_of(cloud, segment) in {(6, 2), (6, 3)}
        del cloud.neutron.ports[port]
        cloud.neutron.delete_network(segment.uuid)
        assert await notifier.send(notifier.delete(segment))
        await cloud.round()
        assert await dump(cloud.ledger) == before
    assert conflicts == [8], "between its look at the generation and its write"


async def test_all_that_neutron_tells_twice_at_once_beside_a_poller_and_boots_comes_to_nothing_in_the_end(
    make: Make,
) -> None:
    """Networks come and go. What a round claims for a port that it read just before its end refuses a deletion."""
    cloud, random = await make((400, 4)), Random(7)
    cloud.ledger.neutron = cloud.neutron
    segments = [await a_new_segment(cloud, addresses=random.randrange(1, 6)) for _ in range(12)]
    before, refused = await dump(cloud.ledger), []
    poll = NeutronPoll(cloud.ledger, cloud.neutron, NeutronSettings(url="http://x", poll_s=0.01, full_s=0.01))
    poller = asyncio.create_task(poll.run())
    for segment in segments:
        notifiers = [Notifier(cloud.nova), Notifier(cloud.nova)]
        cloud.neutron.add_network({segment.uuid: segment.addresses})
        told = await asyncio.gather(*(notifier.send(notifier.subnet(segment)) for notifier in notifiers))
        assert any(told), "one of them has published it"
        booted = [server for _ in range(8) for server in await cloud.nova.boot(1, clause(segment))]
        assert len(booted) == segment.addresses, "neither one more nor one less"
        for server in booted:
            cloud.neutron.add_port(segment.uuid, server)
        for server in booted:
            cloud.neutron.delete_ports_of(server)
            await cloud.nova.delete(server)
        cloud.neutron.delete_network(segment.uuid)
        told = await asyncio.gather(*(notifier.send(notifier.delete(segment)) for notifier in notifiers))
        assert any(told)
        refused += [segment] * any(notifier.sent[-1] == ("DELETE", "", 409) for notifier in notifiers)
    poller.cancel()
    await asyncio.gather(poller, return_exceptions=True)
    await cloud.round()
    for segment in refused:  # an operator, say
        status, _ = await cloud.nova.api.call("DELETE", f"/resource_providers/{segment.uuid}")
        assert status in (204, 404), "the round has returned what was claimed"
    assert await dump(cloud.ledger) == before


async def test_what_the_notifier_counted_wrong_is_set_again(make: Make) -> None:
    cloud = await make((5, 2), (5, 2))
    again = cloud.notifier.subnet(cloud.segments[0])
    assert await cloud.notifier.send(again), "sent twice"
    (drift,) = (await cloud.round()).drifts
    assert (drift.kind, drift.says) == (INVENTORY_UNLIKE_POOLS, "total 12 of which 2 reserved, should be 6 and 1")
    await cloud.assert_agrees()


async def test_a_segment_whose_pools_neutron_tells_of_twice_has_them_once_before_a_round_comes(make: Make) -> None:
    """As seen of Neutron 29 after a network was deleted: with 5 addresses, a boot of many sent a sixth server there."""
    cloud = await make((9, 2))
    cloud.ledger.neutron = cloud.neutron
    new = await a_new_segment(cloud)
    assert await cloud.notifier.send(*[cloud.notifier.subnet(new)] * 2)
    assert await inventory_of(cloud, new) == (6, 1)
    cloud.neutron.add_network({new.uuid: 5})
    await cloud.round()
    assert (await cloud.round()).drifts == []
    assert len([server for _ in range(8) for server in await cloud.nova.boot(1, clause(new))]) == 5


async def test_the_notifier_never_frees_what_is_taken(make: Make) -> None:
    """Whether it counts a port of nobody before a round does or after it, and the port's end in the same way."""
    cloud = await make((5, 2))
    segment, notifier = cloud.segments[0], cloud.notifier
    one_more, one_less = notifier.change(segment, reserved=1), notifier.change(segment, reserved=-1)
    cloud.ledger.neutron = cloud.neutron
    port = cloud.neutron.add_port(segment.uuid, owner="network:other")
    assert await notifier.send(one_more)
    assert await inventory_of(cloud, segment) == (6, 2), "before the round"
    await cloud.round()
    assert await notifier.send(one_more)
    assert await inventory_of(cloud, segment) == (6, 3), "after it: counted twice, until the next"
    await cloud.round()
    del cloud.neutron.ports[port]
    assert await notifier.send(one_less)
    assert await inventory_of(cloud, segment) == (6, 2), "the round says when it is free"
    await cloud.round()
    assert await inventory_of(cloud, segment) == (6, 1)
    assert await notifier.send(one_less)
    assert await inventory_of(cloud, segment) == (6, 1), "the gateway's is never free"
    await cloud.assert_agrees()
    cloud.ledger.neutron = None
    assert await notifier.send(one_less)
    assert await inventory_of(cloud, segment) == (6, 0), "where nobody polls, it is the notifier's to say"


async def test_what_the_notifier_sends_begins_a_round_in_whichever_process_polls(
    make: Make, database: Database
) -> None:
    cloud = await make((5, 2))
    segment, notifier = cloud.segments[0], cloud.notifier
    ledger, elsewhere = cloud.ledger, Ledger(database)
    for each in (ledger, elsewhere):
        each.neutron, each.wakeups = cloud.neutron, Wakeups(database, (NEUTRON_CHANNEL,))
    assert ledger.wakeups is not None
    assert elsewhere.wakeups is not None
    poll = NeutronPoll(elsewhere, cloud.neutron, NeutronSettings(url="http://x", poll_s=3600, full_s=3600))

    async def becomes(reserved: int) -> None:
        async with asyncio.timeout(30):
            while await inventory_of(cloud, segment) != (6, reserved):
                await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(work) for work in (ledger.wakeups.run(), elsewhere.wakeups.run(), poll.run())]
        port = cloud.neutron.add_port(segment.uuid, owner="network:other")
        await notifier.send(notifier.change(segment, reserved=1))  # a round may come between: Neutron gives up
        await becomes(2)
        del cloud.neutron.ports[port]
        await notifier.send(notifier.change(segment, reserved=-1))
        await becomes(1)
        new = Segment(5, segment.hosts)
        await cloud.publish(new)
        assert len(await cloud.nova.boot(1, clause(new))) == 1, "its round has counted it"
        for task in running:
            task.cancel()


async def test_what_the_notifier_sends_begins_a_round_although_the_last_one_failed(
    make: Make, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = await make((5, 2))
    cloud.ledger.neutron, cloud.ledger.wakeups = cloud.neutron, Wakeups(database, (NEUTRON_CHANNEL,))
    poll = NeutronPoll(cloud.ledger, cloud.neutron, NeutronSettings(url="http://x", poll_s=3600, full_s=3600))
    asked = asyncio.Event()

    async def fail() -> None:
        asked.set()
        raise NeutronUnavailable("away")

    monkeypatch.setattr(cloud.neutron, "list_segments", fail)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(work) for work in (cloud.ledger.wakeups.run(), poll.run())]
        await asked.wait()
        monkeypatch.undo()
        new = Segment(5, cloud.segments[0].hosts)
        await cloud.publish(new)
        assert len(await cloud.nova.boot(1, clause(new))) == 1
        for task in running:
            task.cancel()


async def test_a_refused_deletion_is_not_tried_again_and_the_round_deletes_what_it_has_returned_the_claims_of(
    make: Make,
) -> None:
    cloud = await make((9, 2))
    cloud.ledger.neutron = cloud.neutron
    segment = await a_new_segment(cloud)
    await cloud.publish(segment)
    plugged = cloud.neutron.add_port(segment.uuid, a_uuid())
    await cloud.round()
    del cloud.neutron.ports[plugged]
    cloud.neutron.delete_network(segment.uuid)
    assert await cloud.notifier.send(cloud.notifier.delete(segment)), "Neutron only logs it"
    assert cloud.notifier.sent[-1] == ("DELETE", "", 409)
    await cloud.round()
    assert await cloud.nova.held(plugged) == {}
    assert await cloud.notifier.send(cloud.notifier.delete(segment)), "an operator, say"
    assert cloud.notifier.sent[-1] == ("DELETE", "", 404)
