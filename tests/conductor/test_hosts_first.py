"""Placing as the specification of routed networks has it: the host first, addresses afterwards."""

import pytest
from tests.conductor.world import World

from roost.platform.database import Database
from roost.scheduling.settings import SchedulingSettings

HOSTS_FIRST = SchedulingSettings(ip_aware=False)
NOT_EVEN_REACHED = SchedulingSettings(ip_aware=False, query_placement_for_routed_network_aggregates=False)


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", reach=["rack1"])
    await made.hosts("r2-h1", reach=["rack2"])
    return made


@pytest.mark.parametrize("settings", [HOSTS_FIRST, NOT_EVEN_REACHED])
async def test_a_server_whose_host_has_no_address_is_tried_elsewhere(
    world: World, settings: SchedulingSettings
) -> None:
    world.conductor.scheduling = settings
    await world.hosts("r0-h1")  # reaches nothing
    network = await world.routed(rack1="10.1.0.0/30", rack2="10.2.0.0/28")
    await world.boot(network.id, count=8)
    await world.run()
    async with world.database.connection() as connection:
        hosts = [row[0] for row in await connection.fetch("SELECT host FROM compute.server WHERE status = 'ACTIVE'")]
    assert sorted(hosts) == ["r1-h1"] + 7 * ["r2-h1"]
    await world.settled()


async def test_when_no_host_has_an_address_the_server_says_so_and_has_nothing(world: World) -> None:
    world.conductor.scheduling = HOSTS_FIRST
    network = await world.routed(rack1="10.1.0.0/30", rack2="10.2.0.0/30")
    await world.boot(network.id, count=2)
    await world.run()
    (late,) = await world.boot(network.id)
    await world.run()
    assert (await world.statuses())[late] == "ERROR"
    assert "The addresses of network net ran out: rack1 0 of 1 free, rack2 0 of 1 free" in await world.fault(late)
    await world.delete(late)
    await world.run()
    await world.settled()
