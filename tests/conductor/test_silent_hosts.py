"""Hosts that fall silent, seen by the pipeline: not chosen, left soon, and never waited for without an end."""

from collections import Counter

import pytest
from tests.conductor.world import World
from tests.next_call import before

from roost.conductor import launches
from roost.conductor.pipeline import run_once
from roost.platform.database import Database

RACK_1, RACK_2 = ("r1-h1", "r1-h2", "r1-h3"), ("r2-h1", "r2-h2", "r2-h3")


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts(*RACK_1, reach=["rack1"])
    await made.hosts(*RACK_2, reach=["rack2"])
    return made


async def hosts_of(world: World) -> dict[str, str]:
    """Server id -> the host that it is on, or was sent to."""
    async with world.database.connection() as connection:
        return {row[0]: row[1] for row in await connection.fetch("SELECT id, host FROM compute.server")}


async def begin_timeout(world: World, *, asked_s: float = 18) -> None:
    """So long has passed since hosts were asked; the conductor looks at every launch."""
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.guest SET created_at = now() - $1 * interval '1 s'", asked_s)
    await world.expire_leases()
    await run_once(world.conductor)


async def test_a_silent_rack_is_not_chosen_and_is_back_with_its_next_poll(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/24", rack2="10.2.0.0/24")
    await world.fall_silent(*RACK_1, for_s=60)
    assert await world.look_for_silent() == [*RACK_1]
    await world.boot(network.id, count=12)
    await world.run(silent=RACK_1)
    assert set((await world.statuses()).values()) == {"ACTIVE"}
    assert {host for _, host in world.launches} == {*RACK_2}
    await world.hear(*RACK_1)
    await world.boot(network.id, count=12)
    await world.run()
    assert {host for _, host in world.launches} == {*RACK_1, *RACK_2}
    await world.settled()


async def test_where_no_host_is_up_a_boot_is_refused_and_told_how_many_are_down(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/24")
    await world.fall_silent(*RACK_1, *RACK_2, for_s=60)
    await world.look_for_silent()
    (server,) = await world.boot(network.id)
    await world.run()
    fault = await world.fault(server)
    assert "6 hosts considered, 0 up and enabled (6 down), and so 0 reach network" in fault
    assert "6 hosts are down: start the agent of a host, or enable one that is up." in fault
    await world.settled()


async def test_the_next_try_leaves_a_segment_whose_hosts_are_silent_and_not_yet_known_to_be_down(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/24", rack2="10.2.0.0/24")
    servers = await world.boot(network.id, count=12)
    await world.conduct()
    sent = Counter(host.split("-")[0] for host in (await hosts_of(world)).values())
    assert sent == {"r1": 6, "r2": 6}
    await world.serve_hosts(silent=RACK_1)
    await world.fall_silent(*RACK_1, for_s=19)
    assert await world.look_for_silent() == []
    await begin_timeout(world)
    assert {host.split("-")[0] for host in (await hosts_of(world)).values()} == {"r2"}
    await world.serve_hosts()
    await world.conduct()
    assert await world.statuses() == dict.fromkeys(servers, "ACTIVE")
    await world.settled()


async def test_a_silent_host_is_tried_where_every_other_is_silent_too(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/24")
    (server,) = await world.boot(network.id)
    await world.conduct()
    first = (await hosts_of(world))[server]
    await world.fall_silent(*RACK_1, *RACK_2, for_s=19)
    await begin_timeout(world)
    second = (await hosts_of(world))[server]
    assert second in {*RACK_1} - {first}
    await world.hear(second)
    await world.serve_hosts()
    await world.conduct()
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


@pytest.mark.parametrize("alive", [False, True])
async def test_a_server_that_no_host_begins_ends_in_error_after_max_attempts(world: World, alive: bool) -> None:
    network = await world.routed(rack1="10.1.0.0/24")
    (server,) = await world.boot(network.id)
    await world.conduct()
    asked_s, tried = 18, {(await hosts_of(world))[server]}
    for _ in range(3):
        assert await world.statuses() == {server: "BUILD"}
        await world.fall_silent(*RACK_1, for_s=1 if alive else 25)
        await begin_timeout(world, asked_s=asked_s)
        now = (await hosts_of(world))[server]
        asked_s = 36 if alive and now in tried else 18
        tried.add(now)
    await world.conduct()
    assert await world.statuses() == {server: "ERROR"}
    how = "though its agent asks for orders" if alive else "and was not heard of meanwhile"
    fault = await world.fault(server)
    assert "Exceeded maximum number of retries: 3 attempts failed, on r1-h" in fault
    assert f"did not begin to launch the server within 20 s, {how}" in fault
    assert len(tried - {None}) == (2 if alive else 3)
    await world.settled()


async def test_a_host_that_begins_at_the_very_end_of_its_time_goes_on(world: World) -> None:
    """Between the look at the launch and its withdrawal: the launch stays, and so does the attempt."""
    network = await world.routed(rack1="10.1.0.0/24")
    (server,) = await world.boot(network.id)
    await world.conduct()
    host = (await hosts_of(world))[server]

    async def begin() -> None:
        assert await world.report(server, host, 1, "begun")

    before(launches, "withdraw_unbegun_guests", begin)
    await world.fall_silent(host, for_s=19)
    await begin_timeout(world)
    assert await world.report(server, host, 1, "running")
    await world.conduct()
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


async def test_a_server_whose_host_began_and_went_down_ends_in_error_and_keeps_its_claims(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/24")
    (server,) = await world.boot(network.id)
    await world.conduct()
    host = (await hosts_of(world))[server]
    assert await world.report(server, host, 1, "begun")
    await world.fall_silent(host, for_s=60)
    await begin_timeout(world, asked_s=60)
    assert await world.statuses() == {server: "BUILD"}, "nobody has noticed that it is down"
    await world.look_for_silent()
    await begin_timeout(world, asked_s=60)
    assert await world.statuses() == {server: "ERROR"}
    assert f"{host} began to launch the server and is down" in await world.fault(server)
    assert set(await world.conductor.placement.get_consumers([server])) == {server}
    assert await world.report(server, host, 1, "absent")
    await world.expire_leases()
    await run_once(world.conductor)
    await world.settled()
