"""Servers of a host that is forced down are evacuated, whatever they were and whatever was being done to them."""

from typing import Any

import pytest
from tests.conductor.test_moves import booted
from tests.conductor.test_readdress import server_of
from tests.conductor.world import BY, World

from roost.compute.model.server import ActionFilter, ServerUpdate
from roost.compute.model.work import MoveKind
from roost.compute.rules import actions as rules
from roost.compute.rules.actions import ActionRule
from roost.compute.service import hosts as host_service
from roost.compute.service.actions import change_power, get_action, list_actions, rebuild, reset_state
from roost.platform.database import Database

HOSTS = ("h1", "h2")
STATES: dict[str, tuple[ActionRule, ...]] = {
    "active": (), "stopped": (rules.STOP,), "paused": (rules.PAUSE,), "suspended": (rules.SUSPEND,), "error": (),
}  # fmt: skip
UNDER_WAY: dict[str, tuple[tuple[ActionRule, ...], ActionRule]] = {
    "stop": ((), rules.STOP), "start": ((rules.STOP,), rules.START), "pause": ((), rules.PAUSE),
    "unpause": ((rules.PAUSE,), rules.UNPAUSE), "suspend": ((), rules.SUSPEND),
    "resume": ((rules.SUSPEND,), rules.RESUME), "reboot": ((), rules.REBOOT_SOFT),
    "hard reboot": ((), rules.REBOOT_HARD), "rebuild": ((), rules.REBUILD),
}  # fmt: skip


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts(*HOSTS, reach=["rack1"])
    return made


async def a_server(world: World) -> Any:
    return await booted(world, await world.routed(rack1="10.1.0.0/29"))


async def lose_host(world: World, server: Any) -> str:
    """The server's host is forced down; return the other one."""
    await host_service.force_down(world.compute, server.host, True)
    world.running.clear()
    (host,) = set(HOSTS) - {server.host}
    return host


async def evacuated(world: World, before: Any, host: str) -> Any:
    await world.move(before.id, MoveKind.EVACUATE)
    await world.run(silent=[before.host])
    after = await server_of(world, before.id)
    assert (after.host, after.task_state, after.ports) == (host, None, before.ports)
    await host_service.force_down(world.compute, before.host, False)
    await world.run()
    await world.settled()
    return after


@pytest.mark.parametrize("state", STATES)
async def test_a_server_in_each_state_is_evacuated_and_what_was_in_memory_comes_up_stopped(
    world: World, state: str
) -> None:
    before = await a_server(world)
    for rule in STATES[state]:
        await change_power(world.compute, before.id, rule, BY)
        await world.run()
    if state == "error":
        await reset_state(world.compute, before.id, BY, active=False)
    assert (await server_of(world, before.id)).vm_state == state
    after = await evacuated(world, before, await lose_host(world, before))
    assert after.vm_state == ("active" if state in ("active", "error") else "stopped")


@pytest.mark.parametrize("name", UNDER_WAY)
async def test_a_server_with_each_action_under_way_is_evacuated_and_the_action_says_why_it_ended(
    world: World, name: str
) -> None:
    before = await a_server(world)
    earlier, rule = UNDER_WAY[name]
    for done in earlier:
        await change_power(world.compute, before.id, done, BY)
        await world.run()
    if rule is rules.REBUILD:
        await rebuild(world.compute, before.id, ServerUpdate(image_ref=""), BY)
    else:
        await change_power(world.compute, before.id, rule, BY)
    host = await lose_host(world, before)
    assert (await server_of(world, before.id)).task_state is not None
    after = await evacuated(world, before, host)
    assert after.status in ("ACTIVE", "SHUTOFF")
    actions = await list_actions(world.compute, after, ActionFilter(), marker=None, limit=10)
    (ended,) = [action for action in actions if action.name == rule.name][:1]
    (event,) = ended.events
    assert event.result == "Error"
    assert f"host {before.host}, which is down, did not do it: the server is evacuated" in str(event.details)


async def test_an_error_that_roost_wrote_for_a_silent_host_ends_when_the_host_shows_the_guest(world: World) -> None:
    """A migration is taken back to a source that did nothing of what it was asked for, and then is heard of again."""
    before = await a_server(world)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.conduct()
    await world.fall_silent(before.host, for_s=60)
    await world.look_for_silent()
    for _ in range(3):
        await world.expire_leases()
        await world.conduct()
    lost = await server_of(world, before.id)
    assert lost.status == "ERROR"
    assert f"host {before.host} is down, and does not start it again" in lost.fault.message
    await world.hear(before.host)
    await world.run()
    after = await server_of(world, before.id)
    assert (after.status, after.host, after.fault, after.ports) == ("ACTIVE", before.host, None, before.ports)
    actions = await list_actions(world.compute, after, ActionFilter(), marker=None, limit=10)
    assert actions[0].name == "find_guest"
    assert (await get_action(world.compute, after, actions[0].request_id)).events[0].result == "Success"
    await world.settled()


async def test_an_error_that_somebody_else_wrote_stays_though_the_guest_is_seen(world: World) -> None:
    before = await a_server(world)
    await reset_state(world.compute, before.id, BY, active=False)
    await world.report(before.id, before.host, 1, "running")
    assert (await server_of(world, before.id)).status == "ERROR"
    async with world.database.connection() as connection:
        await connection.execute(
            "UPDATE compute.server SET fault = jsonb_build_object('message', 'its guest is gone from host ' || host)"
        )
    await world.report(before.id, before.host, 1, "running")
    assert (await server_of(world, before.id)).status == "ACTIVE", "the release before wrote that sentence, and no kind"
