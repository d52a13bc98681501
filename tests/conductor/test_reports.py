"""Reports that come while a conductor looks, or come twice: work goes on when it can, and no earlier."""

from collections.abc import Awaitable, Callable

import pytest
from tests.conductor.world import World
from tests.next_call import before

from roost.compute.model.work import MoveKind
from roost.conductor.context import Lease
from roost.conductor.pipeline import run_once
from roost.platform.database import Database


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", reach=["rack1"])
    return made


async def begin_move(world: World) -> str:
    """Have a server on its way, which its source has stopped and its destination is asked for."""
    network = await world.routed(rack1="10.1.0.0/28")
    (server_id,) = await world.boot(network.id)
    await world.run()
    await world.move(server_id, MoveKind.MIGRATE)
    await world.conduct()
    await world.serve_hosts()
    await world.conduct()
    assert await stages(world) == [("launch", 0)]
    return server_id


async def stages(world: World) -> list[tuple[str, int]]:
    """The stage of each server at work, and how many attempts it has used up."""
    async with world.database.connection() as connection:
        return [tuple(row) for row in await connection.fetch("SELECT stage, failures FROM compute.work")]


async def deleting(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    (server_id,) = await world.boot(network.id)
    await world.run()
    await world.delete(server_id)


async def launching(world: World) -> None:
    """The host has begun, and the time of the launch is over."""
    await begin_move(world)
    (order,) = await world.orders()
    assert await world.report(order.server_id, order.host, order.attempt, "begun")
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.work SET run_at = now()")


async def confirming(world: World) -> None:
    server_id = await begin_move(world)
    await world.run()
    await world.end_move(server_id, revert=False)


@pytest.mark.parametrize("begin", [deleting, launching, confirming])
async def test_a_report_that_comes_while_a_conductor_looks_is_not_waited_for_any_longer(
    world: World, begin: Callable[[World], Awaitable[None]]
) -> None:
    await begin(world)

    async def report() -> None:
        assert await world.serve_hosts() == 1

    before(Lease, "advance", report)
    assert await run_once(world.conductor)
    await world.conduct()
    assert await stages(world) == []


async def test_what_the_source_says_again_does_not_end_the_wait_for_the_destination(world: World) -> None:
    server_id = await begin_move(world)
    ((_, source),) = world.guests
    assert await world.report(server_id, source, world.guests[server_id, source], "stopped")
    await world.conduct()
    assert await stages(world) == [("launch", 0)]
    await world.run()
    await world.end_move(server_id, revert=False)
    await world.run()
    assert await world.statuses() == {server_id: "ACTIVE"}
    await world.settled()
