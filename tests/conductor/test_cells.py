"""Cells and their conductors: who carries on with whom, and what becomes of servers where nobody is left."""

from collections import Counter

import pytest
from msgspec.structs import replace
from tests.conductor.world import BY, World

from roost.compute.errors import ServerNotFound
from roost.compute.model.server import Server, ServerFilter
from roost.compute.model.work import LOCAL_CREDENTIALS, MoveKind
from roost.compute.service import actions, cells
from roost.compute.service import moves as move_service
from roost.compute.service import servers as server_service
from roost.compute.service.moves import MoveRequest
from roost.platform.database import Database

CONDUCTORS = {"cell1": "c0000000-0000-0000-0000-000000000001", "cell2": "c0000000-0000-0000-0000-000000000002"}


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("c1-h1", reach=["rack1"], cell="cell1")
    await made.hosts("c2-h1", reach=["rack2"], cell="cell2")
    return made


async def beat(world: World, *names: str) -> None:
    """Conductors of these cells are there."""
    for cell in names:
        await cells.beat(world.compute, CONDUCTORS[cell], [cell], LOCAL_CREDENTIALS)


async def lose(world: World, cell: str) -> None:
    """The conductors of a cell were last heard of long ago, and the listener of the agents has looked."""
    async with world.database.connection() as connection:
        await connection.execute(
            "UPDATE compute.conductor_heartbeat SET seen_at = now() - interval '1 hour' WHERE id = $1", CONDUCTORS[cell]
        )
    await world.look_for_silent()


async def conduct_as(world: World, cell: str) -> None:
    """A conductor of that cell does all that is due."""
    world.conductor.settings = replace(world.conductor.settings, cells=(cell,))
    await world.conduct()


async def a_server(world: World, server_id: str) -> Server:
    return await server_service.get_server(world.compute, server_id)


async def reason_of_wait(world: World, server_id: str, request_id: str) -> str:
    """What the action of that request says that it waits for."""
    action = await actions.get_action(world.compute, await a_server(world, server_id), request_id)
    waits = action.events[-1]
    assert (waits.name, waits.finished_at) == ("conductor_wait_for_cell", None)
    return str(waits.details)


async def work_of(world: World) -> list[tuple[str, str | None]]:
    """The stage of each server at work, and the host that it was placed on."""
    async with world.database.connection() as connection:
        return [tuple(row) for row in await connection.fetch("SELECT stage, placed ->> 'host' FROM compute.work")]


async def hosts_of(world: World) -> Counter[str | None]:
    async with world.database.connection() as connection:
        return Counter(row[0] for row in await connection.fetch("SELECT host FROM compute.server"))


async def test_a_cell_without_conductors_gets_no_servers_until_they_are_back(world: World) -> None:
    await beat(world, "cell1", "cell2")
    await lose(world, "cell2")
    network = await world.routed(rack1="10.1.0.0/28", rack2="10.2.0.0/28")
    await world.boot(network.id, count=5)
    await world.run()
    assert await hosts_of(world) == {"c1-h1": 5}
    assert await cells.count_silent_cells(world.compute) == {"cell2": 1}
    await lose(world, "cell1")
    (refused,) = await world.boot(network.id)
    await world.run()
    fault = await world.fault(refused)
    assert "2 in a cell whose conductors are gone" in fault
    assert "roost serve conductor --cell NAME" in fault
    await beat(world, "cell2")
    await world.boot(network.id, count=3)
    await world.run()
    assert (await hosts_of(world))["c2-h1"] == 3
    await world.settled()


async def test_before_any_conductor_has_said_that_it_is_there_none_is_missed(world: World) -> None:
    await world.look_for_silent()
    assert await cells.count_silent_cells(world.compute) == {}


async def test_a_conductor_of_every_cell_serves_all(world: World) -> None:
    await cells.beat(world.compute, CONDUCTORS["cell1"], [], LOCAL_CREDENTIALS)
    await beat(world, "cell2")
    await lose(world, "cell2")
    assert await cells.count_silent_cells(world.compute) == {}


async def test_a_server_waits_for_its_cell_with_the_reason_and_goes_on(world: World) -> None:
    await beat(world, "cell1", "cell2")
    network = await world.routed(rack2="10.2.0.0/28")
    (server_id,) = await world.boot(network.id)
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.server SET request_id = 'req-1'")
    await conduct_as(world, "cell1")  # which places it, and leaves it to cell2
    await lose(world, "cell2")
    assert "no conductor of cell cell2 is there" in await reason_of_wait(world, server_id, "req-1")
    await conduct_as(world, "cell1")
    assert (await world.statuses())[server_id] == "BUILD"
    await beat(world, "cell2")
    await conduct_as(world, "cell2")
    await world.run()
    assert await world.statuses() == {server_id: "ACTIVE"}
    action = await actions.get_action(world.compute, await a_server(world, server_id), "req-1")
    assert [event.name for event in action.events] == ["conductor_choose_order", "compute__do_build_and_run_instance"]
    await world.settled()


async def test_a_delete_waits_for_the_cell_of_its_unfinished_server_with_the_reason(world: World) -> None:
    await beat(world, "cell1", "cell2")
    network = await world.routed(rack2="10.2.0.0/28")
    (server_id,) = await world.boot(network.id)
    await conduct_as(world, "cell1")
    await lose(world, "cell2")
    await server_service.delete_server(world.compute, server_id, by=replace(BY, request_id="req-delete"))
    await conduct_as(world, "cell1")
    assert "no conductor of cell cell2 is there" in await reason_of_wait(world, server_id, "req-delete")
    await beat(world, "cell2")
    await conduct_as(world, "cell2")
    with pytest.raises(ServerNotFound):
        await a_server(world, server_id)
    await world.settled()


async def test_a_move_waits_for_the_cell_of_its_destination_with_the_reason(world: World) -> None:
    await beat(world, "cell1", "cell2")
    server_id = await move_to_cell2(world, request_id="req-move")
    await conduct_as(world, "cell1")  # which places it, and leaves it to cell2
    await lose(world, "cell2")
    assert "no conductor of cell cell2 is there" in await reason_of_wait(world, server_id, "req-move")
    await beat(world, "cell2")
    await conduct_as(world, "cell2")
    await world.run()
    action = await actions.get_action(world.compute, await a_server(world, server_id), "req-move")
    assert "conductor_wait_for_cell" not in [event.name for event in action.events]
    await confirm_on_cell2(world, server_id)


async def test_a_server_that_found_no_host_belongs_to_no_cell_and_is_listed_and_can_be_deleted(world: World) -> None:
    network = await world.routed(rack9="10.9.0.0/28")
    (server_id,) = await world.boot(network.id)
    await conduct_as(world, "cell1")
    (server,) = await server_service.list_servers(world.compute, ServerFilter())
    assert (server.id, server.status, server.host) == (server_id, "ERROR", None)
    await world.delete(server_id)
    await conduct_as(world, "cell2")
    with pytest.raises(ServerNotFound):
        await a_server(world, server_id)
    await world.settled()


async def move_to_cell2(world: World, *, request_id: str) -> str:
    """Ask for a move of a server from the one host of cell1 to c2-h2, the only other one that its network reaches."""
    network = await world.routed(rack1="10.1.0.0/28")
    (server_id,) = await world.boot(network.id)
    await world.run()
    await world.hosts("c2-h2", reach=["rack1"], cell="cell2")
    request = MoveRequest(kind=MoveKind.MIGRATE)
    await move_service.begin_move(world.compute, server_id, request, replace(BY, request_id=request_id))
    return server_id


async def confirm_on_cell2(world: World, server_id: str) -> None:
    """Confirm the move, which is over."""
    server = await a_server(world, server_id)
    assert (server.host, server.status) == ("c2-h2", "VERIFY_RESIZE")
    await world.end_move(server_id, revert=False)
    await world.run()
    assert await world.statuses() == {server_id: "ACTIVE"}
    await world.settled()


async def test_a_server_moves_across_cells_by_the_conductor_of_its_new_one(world: World) -> None:
    server_id = await move_to_cell2(world, request_id="req-move")
    stages_in_cell2: list[str] = []
    while work := await work_of(world):
        await conduct_as(world, "cell1")
        if (work_after := await work_of(world)) != work:
            assert work == [("hold", None)], "cell1 went on with a server that was placed in cell2"
        await conduct_as(world, "cell2")
        stages_in_cell2 += [stage for stage, host in work_after if host == "c2-h2"]
        await world.serve_hosts()
    assert set(stages_in_cell2) == {"stop", "launch"}
    await confirm_on_cell2(world, server_id)


async def test_a_flat_network_holds_a_server_to_its_cell(world: World) -> None:
    network = await world.cloud.flat(cell1="192.0.2.0/29", cell2="198.51.100.0/29")
    (server_id,) = await world.boot(network.id)
    await world.run()
    before = (await a_server(world, server_id)).host
    await world.move(server_id, MoveKind.MIGRATE)
    await world.run()
    server = await a_server(world, server_id)
    assert (server.host, server.status) == (before, "ACTIVE")
    ((action, *_), message) = await moves_of(world, server_id)
    assert action == "migrate"
    assert f"cell {'cell1' if before == 'c1-h1' else 'cell2'} of network" in message
    await world.settled()


async def moves_of(world: World, server_id: str) -> tuple[tuple[str, ...], str]:
    """The names of the server's actions, and why the last failed."""
    async with world.database.connection() as connection:
        rows = await connection.fetch("SELECT name, events::text FROM compute.action WHERE server_id = $1", server_id)
    return tuple(row[0] for row in rows), rows[-1][1]
