"""Moves whose server loses its guest on the destination before they end: the way back stays open."""

from typing import Any

import pytest
from tests.conductor.test_moves import booted
from tests.conductor.test_readdress import server_of
from tests.conductor.world import World

from roost.compute.errors import ActionRefused
from roost.compute.model.work import MoveKind
from roost.compute.service.moves import confirm_due
from roost.compute.settings import ComputeSettings
from roost.platform.database import Database


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", reach=["rack1"])
    return made


async def moved(world: World, kind: MoveKind) -> Any:
    """Return the server as it was before its guest runs on the other host."""
    network = await world.routed(rack1="10.1.0.0/29")
    before = await booted(world, network)
    await world.move(before.id, kind)
    return before


async def lose_guest(world: World, server_id: str) -> None:
    """The server's destination says that its guest is gone."""
    ((_, host),) = {key for key in world.running if key[0] == server_id}
    attempt = world.guests[server_id, host]
    world._note(server_id, host, attempt, "absent")
    assert await world.report(server_id, host, attempt, "absent")


async def test_a_resized_server_without_its_guest_goes_back_and_is_not_confirmed(world: World) -> None:
    world.compute.settings = ComputeSettings(resize_confirm_window=0.01)
    before = await moved(world, MoveKind.MIGRATE)
    await world.run()
    await lose_guest(world, before.id)
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.move SET updated_at = now() - interval '1 s'")
    assert await confirm_due(world.compute) == []
    with pytest.raises(ActionRefused, match="its guest is gone from its host, revertResize brings it back"):
        await world.end_move(before.id, revert=False)
    await world.end_move(before.id, revert=True)
    await world.run()
    after = await server_of(world, before.id)
    assert (after.status, after.host, after.ports) == ("ACTIVE", before.host, before.ports)
    await world.settled()


async def test_a_server_whose_guest_is_lost_while_its_move_is_confirmed_is_in_error(world: World) -> None:
    before = await moved(world, MoveKind.MIGRATE)
    await world.run()
    await world.end_move(before.id, revert=False)
    await world.conduct()  # the source is asked to let go
    await lose_guest(world, before.id)
    await world.expire_leases()
    await world.run()
    await _assert_lost(world, before.id)


async def test_a_server_whose_guest_is_lost_before_its_move_settles_is_in_error(world: World) -> None:
    before = await moved(world, MoveKind.LIVE)
    while (before.id, before.host) in world.running or not world.running:
        await world.conduct()
        await world.serve_hosts()
    await world.conduct()  # the source is asked to let go
    await lose_guest(world, before.id)
    await world.expire_leases()
    await world.run()
    await _assert_lost(world, before.id)


async def _assert_lost(world: World, server_id: str) -> None:
    after = await server_of(world, server_id)
    assert (after.status, after.task_state) == ("ERROR", None)
    assert after.fault.message == f"its guest is gone from host {after.host}"
