"""What happens to servers and hosts is there to be read when it is over, and only if it happened."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import REGISTRY
from tests.agent.cloud import AGENT
from tests.conductor.test_moves import booted
from tests.conductor.world import World

from roost.compute.model.work import MoveKind
from roost.compute.service import guests
from roost.compute.service import hosts as host_service
from roost.compute.service.events import EVENTS
from roost.compute.service.history import purge_history
from roost.platform.database import Database
from roost.platform.events import EventFilter, KeptEvent
from roost.seams.agent import GuestsBody

EVERY = EventFilter()


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("h1", "h2", reach=["rack1"])
    return made


async def events_of(world: World, only: EventFilter = EVERY) -> list[KeptEvent]:
    """The events, the first one first."""
    async with world.database.connection() as connection:
        return (await EVENTS.list(connection, only, before=None, limit=1000))[::-1]


async def kinds_of(world: World, server_id: str) -> list[tuple[str, str]]:
    events = await events_of(world, EventFilter(server_id=server_id))
    return [(event.kind, event.action) for event in events]


def refused_total(requirement: str, network: str, segment: str = "") -> float:
    labels = {"requirement": requirement, "network": network, "segment": segment}
    return REGISTRY.get_sample_value("roost_boots_refused_total", labels) or 0.0


async def test_a_refused_boot_is_told_with_its_funnel_after_the_server_is_gone(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    before = refused_total("addresses", network.name, "rack1")
    first, second = await world.boot(network.id, count=2)
    await world.run()
    statuses = await world.statuses()
    refused = next(server_id for server_id in (first, second) if statuses[server_id] == "ERROR")
    await world.delete(first, second)
    await world.run()
    (event,) = await events_of(world, EventFilter(kind="refusal"))
    assert (event.action, event.requirement, event.network, event.segment) == (
        "boot", "addresses", network.name, "rack1"
    )  # fmt: skip
    assert event.funnel[-1][1] == 0
    assert event.reason.startswith("No valid host was found: ")
    assert [subject.server_id for subject in event.subjects] == [refused]
    assert await events_of(world, EventFilter(segment="rack1")) == [event]
    assert await events_of(world, EventFilter(segment=event.segment_id)) == [event]
    assert refused_total("addresses", network.name, "rack1") == before + 1


async def test_a_boot_that_goes_well_writes_no_event_and_no_statement(
    world: World, statements: Callable[[], Any]
) -> None:
    with statements() as seen:
        await booted(world, await world.routed(rack1="10.1.0.0/29"))
    assert not [name for name in seen if "event" in name and "action" not in name and "add_events" not in name]
    assert await events_of(world) == []


async def test_a_batch_of_refused_boots_is_one_search_one_write_and_one_row(
    world: World, statements: Callable[[], Any]
) -> None:
    counts = []
    for count in (1, 64):
        network = await world.routed(rack2="10.2.0.0/29")  # no host reaches it
        await world.boot(network.id, count=count)
        with statements() as seen:
            await world.run()
        counts.append([sum(name == wanted for name in seen) for wanted in WRITES])
        event = (await events_of(world))[-1]
        assert (event.count, len(event.subjects), event.requirement) == (count, count, "network")
    assert counts == [[1, 1], [1, 1]]


WRITES = ("compute.write_events", "compute.list_event_subjects")


async def test_each_launch_that_fails_and_the_end_of_the_tries_are_told(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server_id,) = await world.boot(network.id)
    await world.run(failing=["h1"])
    assert [kind for kind, _ in await kinds_of(world, server_id)] in ([], ["retry"])
    (lost_id,) = await world.boot(network.id)
    await world.run(failing=["h1", "h2"])
    events = await events_of(world, EventFilter(server_id=lost_id))
    assert [event.kind for event in events][:1] == ["retry"]
    assert events[-1].kind in ("failure", "refusal")
    assert {event.host for event in events} <= {"h1", "h2"}


async def test_moves_are_told_with_where_from_and_where_to_and_whose_request(world: World) -> None:
    server = await booted(world, await world.routed(rack1="10.1.0.0/29"))
    await world.move(server.id, MoveKind.LIVE)
    await world.run()
    (event,) = await events_of(world)
    hosts = {server.host, event.host}
    assert (event.kind, event.action, event.reason, hosts) == ("move", "live-migration", "completed", {"h1", "h2"})
    assert event.source_host == server.host
    assert event.subjects[0].request_id == "req-1"
    assert await events_of(world, EventFilter(host=server.host, request_id="req-1")) == [event]
    await world.move(server.id, MoveKind.MIGRATE)
    await world.run()
    await world.end_move(server.id, revert=True)
    await world.run()
    assert [event.reason for event in await events_of(world)] == ["completed", "finished", "reverted"]


async def test_a_move_for_which_there_is_no_room_is_refused_and_taken_back(world: World) -> None:
    server = await booted(world, await world.routed(rack1="10.1.0.0/29"))
    (other,) = {"h1", "h2"} - {server.host}
    await host_service.disable_host(world.compute, other, reason="full of dust")
    await world.move(server.id, MoveKind.LIVE)
    await world.run()
    events = await events_of(world)
    assert [(event.kind, event.action) for event in events] == [
        ("host", "closed"), ("refusal", "live-migration"), ("move", "live-migration")
    ]  # fmt: skip
    assert "full of dust" in events[0].reason
    assert events[2].reason.startswith("error: No valid host was found")


async def test_a_fence_is_told_once_and_what_the_host_has_lost(world: World) -> None:
    server = await booted(world, await world.routed(rack1="10.1.0.0/29"))
    await host_service.force_down(world.compute, server.host, True)
    await host_service.force_down(world.compute, server.host, True)
    world.running.discard((server.id, server.host))
    await world.move(server.id, MoveKind.EVACUATE)
    await world.run(silent=[server.host])
    events = await events_of(world)
    assert [(event.kind, event.action) for event in events] == [
        ("host", "down"), ("fence", "guest"), ("move", "evacuation")
    ]  # fmt: skip
    assert events[1].host == server.host


async def test_a_guest_that_its_host_has_not_got_is_lost_and_found(world: World) -> None:
    server = await booted(world, await world.routed(rack1="10.1.0.0/29"))
    listed = GuestsBody(agent=AGENT, after="", until=None, as_of=await as_of(world), guests=())
    await guests.compare_guests(world.compute, listed)
    (event,) = await events_of(world)
    assert (event.kind, event.host, event.subjects[0].server_id) == ("loss", server.host, server.id)


async def as_of(world: World) -> float:
    async with world.database.connection() as connection:
        return float(await connection.fetchval("SELECT extract(epoch FROM now() + interval '1 hour')::float"))


async def test_hosts_that_fall_silent_and_come_back_are_told(world: World) -> None:
    await world.fall_silent("h1", for_s=3600)
    await world.look_for_silent()
    await world.hear("h1")
    events = await events_of(world, EventFilter(host="h1"))
    assert [event.action for event in events] == ["silent", "up"]


@pytest.mark.parametrize("stages", range(4))
async def test_a_refusal_is_told_exactly_if_it_was_decided(world: World, stages: int) -> None:
    network = await world.routed(rack2="10.2.0.0/29")
    (server_id,) = await world.boot(network.id)
    await world.die_after(stages)
    async with world.database.connection() as connection:
        stage = await connection.fetchval("SELECT stage FROM compute.work WHERE server_id = $1", server_id)
    decided = stage not in ("create_ports", "place")
    assert len(await events_of(world)) == decided
    await world.expire_leases()
    await world.run()
    assert await kinds_of(world, server_id) == [("refusal", "boot")]


async def test_events_are_kept_by_days_and_by_rows(world: World) -> None:
    for _ in range(3):
        await host_service.disable_host(world.compute, "h1")
        await host_service.enable_host(world.compute, "h1")
    assert len(await events_of(world)) == 6
    world.compute.settings = replace(world.compute.settings, keep_history_rows=4)
    assert await purge_history(world.compute) == 2
    assert [event.action for event in await events_of(world)] == ["closed", "open"] * 2
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.event SET at = at - interval '29 days' WHERE action = 'closed'")
    assert await purge_history(world.compute) == 0
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.event SET at = at - interval '2 days' WHERE action = 'closed'")
    assert await purge_history(world.compute) == 2
    assert [event.action for event in await events_of(world)] == ["open", "open"]
