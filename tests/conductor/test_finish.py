"""What is given back when a build ends, to whom, and when."""

import pytest
from tests.conductor.world import World
from tests.network.cloud import PROJECT

from roost.conductor.pipeline import run_once
from roost.conductor.reconcile import reconcile_once
from roost.conductor.settings import ConductorSettings
from roost.network.model.networks import Network
from roost.network.model.ports import Port, PortRequest
from roost.network.service import ports
from roost.platform.database import Database


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", reach=["rack1"])
    return made


async def users_port(world: World, network: Network) -> Port:
    return await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT, name="mine"))


async def holding(world: World, *uuids: str) -> set[str]:
    return set(await world.conductor.placement.get_consumers(uuids))


@pytest.mark.parametrize("attempts", [1, 3])
async def test_a_users_port_comes_back_from_a_failed_build_as_it_went(world: World, attempts: int) -> None:
    """With its address, or after its server tried to leave the segment."""
    world.conductor.settings = ConductorSettings(max_attempts=attempts)
    network = await world.routed(rack1="10.1.0.0/29")
    port = await users_port(world, network)
    (server,) = await world.boot(port_id=port.id)
    await world.run(failing=["r1-h1"])
    assert await world.statuses() == {server: "ERROR"}
    after = await ports.get_port(world.networks, port.id)
    assert (after.device_id, after.host, after.addresses, after.reserved_from) == ("", None, (), None)
    assert await holding(world, server, port.id) == set()
    await world.settled()


async def test_a_users_port_comes_back_from_a_build_deleted_half_way_as_it_went(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    port = await users_port(world, network)
    (server,) = await world.boot(port_id=port.id)
    await world.conduct()
    assert (await ports.get_port(world.networks, port.id)).addresses
    await world.delete(server)
    await world.run()
    after = await ports.get_port(world.networks, port.id)
    assert (after.device_id, after.host, after.addresses, after.reserved_from) == ("", None, (), None)
    assert await holding(world, server, port.id) == set()
    await world.settled()


@pytest.mark.parametrize("settled", [True, False])
async def test_a_users_port_keeps_the_address_that_its_server_ran_with(world: World, settled: bool) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    port = await users_port(world, network)
    (server,) = await world.boot(port_id=port.id)
    await world.conduct()
    await world.serve_hosts()
    assert await world.statuses() == {server: "ACTIVE"}
    if settled:
        await world.conduct()
    held = [address.address for address in (await ports.get_port(world.networks, port.id)).addresses]
    assert held
    await world.delete(server)
    await world.run()
    after = await ports.get_port(world.networks, port.id)
    assert (after.device_id, after.host, [address.address for address in after.addresses]) == ("", None, held)
    assert await holding(world, server, port.id) == {port.id}
    await world.settled()


@pytest.mark.parametrize("state", ["begun", "running"])
async def test_a_deleted_server_keeps_all_it_has_until_its_host_has_let_go(world: World, state: str) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.conduct()
    assert await world.report(server, "r1-h1", 1, "begun")
    if state == "running":
        assert await world.report(server, "r1-h1", 1, "running")
        await world.conduct()
    await world.delete(server)
    await world.conduct()
    assert list(await world.statuses()) == [server]
    (port,) = await world.conductor.placement.list_consumers("PORT", after="", limit=10)
    assert await holding(world, server, port) == {server, port}
    assert (await ports.get_port(world.networks, port)).addresses
    assert await world.report(server, "r1-h1", 1, "absent")
    await world.conduct()
    assert await world.statuses() == {}
    assert await holding(world, server, port) == set()
    await world.settled()


async def test_a_failed_server_holds_nothing_before_any_reconciler_looks(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.run(failing=["r1-h1"])
    assert await world.statuses() == {server: "ERROR"}
    for consumer_type in ("INSTANCE", "PORT"):
        assert await world.conductor.placement.list_consumers(consumer_type, after="", limit=10) == []
    assert await reconcile_once(world.conductor) == []
    await world.settled()


async def test_a_claim_of_a_build_at_work_is_not_taken_for_a_stray_one(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await run_once(world.conductor)
    assert await reconcile_once(world.conductor) == []
    assert await holding(world, server) == {server}
