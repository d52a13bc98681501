"""What is kept with servers of their ports: rebuilt where it differs, and nothing is deleted for what it says."""

import pytest
from tests.conductor.test_pipeline import ports_of
from tests.conductor.world import BY, World
from tests.network.cloud import PROJECT

from roost.compute.model.server import NicAsked
from roost.compute.service import network_info
from roost.compute.service.interfaces import attach_interface
from roost.compute.service.network_info import NetworkInfoHealer, heal_network_info
from roost.compute.service.nics import ports_changed
from roost.network.model.ports import PortRequest
from roost.network.service.ports import create_port
from roost.platform.database import Database
from roost.seams.compute import PortsChange


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", reach=["rack1"])
    return made


async def write_info(world: World, info: str = "[]") -> None:
    """Lose what is kept, or have it say something else, for every server."""
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.server SET network_info = $1::jsonb", info)


async def infos(world: World) -> list[str]:
    async with world.database.connection() as connection:
        return [row[0] for row in await connection.fetch("SELECT network_info::text FROM compute.server ORDER BY id")]


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_what_was_emptied_is_rebuilt_from_the_ports(world: World, version: int) -> None:
    await world.set_version("r1-h1", version)
    network = await world.routed(rack1="10.1.0.0/28")
    users = await create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    servers = [*await world.boot(network.id, count=2), *await world.boot(network.id, port_id=users.id)]
    await world.run()
    assert await heal_network_info(world.compute, servers) == []
    before = await infos(world)
    await write_info(world)
    differing = await heal_network_info(world.compute, servers, dry_run=True)
    assert ([item.written for item in differing], await infos(world)) == ([False] * 3, ["[]"] * 3)
    healed = await heal_network_info(world.compute, servers)
    assert [item.written for item in healed] == [True] * 3
    assert await infos(world) == before
    assert await heal_network_info(world.compute, servers) == []
    await world.settled()


async def test_what_a_build_wrote_is_what_the_ports_say(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    users = await create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    await world.boot(network.id, count=2)
    await world.boot(network.id, port_id=users.id)
    await world.conduct()
    told_to_hosts = await infos(world)
    await world.run()
    assert await infos(world) == told_to_hosts  # nothing was to be written once more


async def test_a_round_goes_on_behind_the_last_one_and_begins_anew(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    await world.boot(network.id, count=5)
    await world.run()
    await write_info(world)
    healer = NetworkInfoHealer(world.compute, repairs_max=2)
    assert [len(await healer.heal_round()) for _ in range(3)] == [2, 2, 1]
    assert "[]" not in await infos(world)
    await write_info(world)
    assert len(await healer.heal_round()) == 2


async def test_what_differs_is_found_on_the_last_of_several_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_info, "PAGE", 2)
    network = await world.routed(rack1="10.1.0.0/28")
    *_, last = sorted(await world.boot(network.id, count=5))
    await world.run()
    assert await network_info.find_differing(world.compute) == []
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.server SET network_info = '[]' WHERE id = $1", last)
    assert [item.server_id for item in await network_info.find_differing(world.compute)] == [last]
    healed = await NetworkInfoHealer(world.compute, repairs_max=1000).heal_round()
    assert [(item.server_id, item.written) for item in healed] == [(last, True)]
    assert await network_info.find_differing(world.compute) == []


async def test_a_server_that_is_worked_on_is_left_alone(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    servers = await world.boot(network.id)
    await world.conduct()
    await write_info(world)
    assert await heal_network_info(world.compute, servers) == []


@pytest.mark.parametrize("info", ["[]", "made for the server"])
@pytest.mark.parametrize("version", [1, 3])
async def test_a_users_port_is_kept_whatever_the_network_info_says(world: World, info: str, version: int) -> None:
    await world.set_version("r1-h1", version)
    network = await world.routed(rack1="10.1.0.0/28")
    port = await create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    (server,) = await world.boot(port_id=port.id)
    await world.run()
    if info == "[]":
        await write_info(world)
    else:
        (kept,) = await infos(world)
        await write_info(world, kept.replace('"preserve_on_delete": true', '"preserve_on_delete": false'))
    await world.delete(server)
    await world.run()
    assert world.agent_network.deleted == []
    assert [one for one, _, _ in await ports_of(world)] == [port.id]
    await world.settled()


async def test_an_old_agent_deletes_what_was_made_for_a_nic_and_the_conductor_what_came_later(world: World) -> None:
    await world.set_version("r1-h1", 1)
    network = await world.routed(rack1="10.1.0.0/28")
    users = [await create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT)) for _ in "ab"]
    (server,) = await world.boot(network.id, port_id=users[0].id)
    await world.run()
    (made,) = {port_id for port_id, _, _ in await ports_of(world)} - {port.id for port in users}
    for nic in (NicAsked(network_id=network.id), NicAsked(port_id=users[1].id)):
        await attach_interface(world.compute, server, nic, BY, permissions=None)
    await world.delete(server)
    await world.run()
    assert (world.agent_network.deleted, sorted(world.agent_network.detached)) == (
        [made],
        sorted(port.id for port in users),
    )
    assert sorted(port_id for port_id, _, _ in await ports_of(world)) == sorted(port.id for port in users)
    await world.settled()


async def test_what_an_older_release_wrote_is_rebuilt_when_a_port_changes(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    servers = await world.boot(network.id)
    await world.run()
    before = await infos(world)
    async with world.database.connection() as connection:
        await connection.execute(
            "UPDATE compute.server SET network_info = (SELECT jsonb_agg(port - '{segment,binding,revision}'::text[])"
            " FROM jsonb_array_elements(network_info) AS port)"
        )
    assert await infos(world) != before
    await ports_changed(world.compute, [PortsChange(server) for server in servers])
    assert await infos(world) == before
