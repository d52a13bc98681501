"""What others do between two steps of a stage: hosts that report, conductors that were taken for dead."""

import pytest
from tests.conductor.world import World

from roost.conductor import finish
from roost.platform.database import Database


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", reach=["rack1"])
    await made.hosts("r2-h1", "r2-h2", reach=["rack2"])
    return made


async def test_a_guest_that_runs_just_when_its_launch_times_out_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.conduct()
    look = finish.list_begun

    async def look_and_then_the_host_reports(compute, server_ids):  # type: ignore[no-untyped-def]
        begun = await look(compute, server_ids)
        await world.serve_hosts()
        return begun

    monkeypatch.setattr(finish, "list_begun", look_and_then_the_host_reports)
    await world.expire_leases()
    await world.run()
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()
