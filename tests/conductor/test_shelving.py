"""Servers with a root disk on their host are shelved there, and are stopped servers to all that goes on around them."""

from typing import Any

import pytest
from tests.conductor.test_evacuations import evacuated
from tests.conductor.test_moves import booted, nics
from tests.conductor.world import World

from roost.compute.model.server import Server
from roost.compute.model.work import MoveKind
from roost.compute.service import hosts as host_service
from roost.compute.service import moves as move_service
from roost.compute.service import servers as server_service
from roost.platform.database import Database

HOSTS = ("h1", "h2")


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    made.disks_on.update(HOSTS)
    await made.hosts(*HOSTS, reach=["rack1"])
    return made


async def a_server(world: World) -> Any:
    return await booted(world, await world.routed(rack1="10.1.0.0/30"))


async def shelved(world: World) -> Any:
    before = await a_server(world)
    await world.move(before.id, MoveKind.SHELVE)
    await world.run()
    await is_shelved(world, before, on=before.host)
    return before


async def is_shelved(world: World, before: Server, *, on: str) -> None:
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.vm_state, after.task_state, after.host) == ("SHELVED", "shelved", None, on)
    assert nics(after) == nics(before)
    assert world.states[before.id, on] == "stopped"
    await world.settled()


async def unshelves(world: World, before: Server, *, on: str) -> None:
    launches = len(world.launches)
    await world.move(before.id, MoveKind.UNSHELVE)
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.host, nics(after)) == ("ACTIVE", on, nics(before))
    assert len(world.launches) == launches, "its guest is the one that was there"
    await world.settled()


def other(host: str) -> str:
    (there,) = set(HOSTS) - {host}
    return there


async def test_a_shelved_server_keeps_its_host_its_claim_and_its_address(world: World) -> None:
    before = await shelved(world)
    (other_id,) = await world.boot(before.spec.nics[0].network_id)
    await world.run()
    assert (await world.statuses())[other_id] == "ERROR", "the only address is the shelved server's"
    await world.delete(other_id)
    await world.run()
    await unshelves(world, before, on=before.host)


async def test_a_server_that_came_to_its_disk_meanwhile_stays_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R52."""
    before = await a_server(world)
    world.disks_on.remove(before.host)
    await world.hear(*HOSTS)

    async def move_meanwhile(*_arguments: object) -> None:
        monkeypatch.undo()
        await world.move(before.id, MoveKind.MIGRATE)
        await world.run()
        await world.end_move(before.id, revert=False)
        await world.run()

    monkeypatch.setattr(move_service, "wait_until_settled", move_meanwhile)
    await world.move(before.id, MoveKind.SHELVE)
    await world.run()
    await is_shelved(world, before, on=other(before.host))


@pytest.mark.parametrize("revert", [False, True])
async def test_an_administrator_migrates_a_shelved_server_and_it_stays_shelved(world: World, revert: bool) -> None:
    before = await shelved(world)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run()
    assert (await world.statuses())[before.id] == "VERIFY_RESIZE"
    await world.end_move(before.id, revert=revert)
    await world.run()
    there = before.host if revert else other(before.host)
    await is_shelved(world, before, on=there)
    await unshelves(world, before, on=there)


async def test_a_shelved_server_whose_destination_fails_stays_shelved_where_it_was(world: World) -> None:
    before = await shelved(world)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run(failing=[other(before.host)])
    await is_shelved(world, before, on=before.host)


async def test_a_shelved_server_is_evacuated_and_stays_shelved(world: World) -> None:
    before = await shelved(world)
    await host_service.force_down(world.compute, before.host, True)
    await evacuated(world, before, other(before.host))
    await is_shelved(world, before, on=other(before.host))
    await unshelves(world, before, on=other(before.host))


async def test_what_the_release_before_started_is_not_shelved_when_it_is_evacuated_stopped(world: World) -> None:
    before = await shelved(world)
    async with world.database.transaction() as tx:  # as it starts a server that is stopped
        await tx.execute("UPDATE compute.server SET power = 'running'")
    await host_service.force_down(world.compute, before.host, True)
    await world.move(before.id, MoveKind.EVACUATE, stopped=True)
    await world.run(silent=[before.host])
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.host) == ("SHUTOFF", other(before.host))


async def test_a_server_whose_host_dies_while_it_is_shelved_is_evacuated_as_it_was(world: World) -> None:
    before = await a_server(world)
    await world.move(before.id, MoveKind.SHELVE)
    await host_service.force_down(world.compute, before.host, True)
    world.running.clear()
    after = await evacuated(world, before, other(before.host))
    assert after.vm_state == "active"


async def test_a_shelved_server_on_a_silent_host_starts_once_the_host_is_back(world: World) -> None:
    before = await shelved(world)
    await world.fall_silent(before.host, for_s=3600)
    assert await world.look_for_silent() == [before.host]
    await world.move(before.id, MoveKind.UNSHELVE)
    await world.run(silent=[before.host])
    waiting = await server_service.get_server(world.compute, before.id)
    assert (waiting.status, waiting.task_state) == ("SHELVED", "unshelving")
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.host) == ("ACTIVE", before.host)
    await world.settled()


@pytest.mark.parametrize("asked", [False, True], ids=["shelved", "while it is shelved"])
async def test_a_shelved_server_that_is_deleted_leaves_nothing(world: World, asked: bool) -> None:
    if asked:
        before = await a_server(world)
        await world.move(before.id, MoveKind.SHELVE)
    else:
        before = await shelved(world)
    await world.delete(before.id)
    await world.run()
    assert await world.statuses() == {}
    assert world.guests == {}
    await world.settled()
