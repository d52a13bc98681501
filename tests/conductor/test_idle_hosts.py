"""Hosts that poll and begin nothing, seen by the pipeline: closed after three launches, and tried again with one."""

import pytest
from tests.conductor.world import World

from roost.compute.rules.drift import HOST_IDLE
from roost.compute.service import audit
from roost.compute.service.idle_hosts import look
from roost.platform.database import Database
from roost.platform.drift import Repairs

HOSTS = ("h1", "h2", "h3")


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts(*HOSTS, reach=["rack1"])
    return made


async def pass_time(world: World, seconds: float) -> None:
    """So much time passes for what hosts were asked for, and for what is noted of them."""
    async with world.database.transaction() as tx:
        for table, column in (
            ("guest", "created_at"), ("guest", "begun_at"), ("host", "unbegun_at"), ("host", "probe_at"),
        ):  # fmt: skip
            await tx.execute(f"UPDATE compute.{table} SET {column} = {column} - $1 * interval '1 second'", seconds)


async def boot_round(world: World, network_id: str) -> set[str]:
    """Servers for every host, of which h1 polls and begins none; return whom the conductor asked first."""
    servers = await world.boot(network_id, count=6)
    await world.conduct()
    asked = {order.host for order in await world.orders()}
    await world.serve_hosts(silent=["h1"])
    await pass_time(world, 40)
    await world.expire_leases()
    await world.run(silent=["h1"])
    assert {(await world.statuses())[server_id] for server_id in servers} == {"ACTIVE"}
    return asked


async def test_a_host_that_begins_nothing_is_closed_tried_again_and_open_once_it_begins(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/24")
    for _ in range(3):
        assert await look(world.compute) == {}
        assert "h1" in await boot_round(world, network.id), "the host with most free memory"
    assert await look(world.compute) == {"h1": True}
    found = await audit.AUDIT.run(world.compute, repairs=Repairs.NONE)
    assert [(drift.kind, drift.key) for drift in found] == [(HOST_IDLE, "h1")]
    assert "h1" not in await boot_round(world, network.id)
    await pass_time(world, 60)
    assert await look(world.compute) == {"h1": False}
    assert "h1" in await boot_round(world, network.id)
    assert await look(world.compute) == {"h1": True}, "the probe was given up"
    await pass_time(world, 119)
    assert await look(world.compute) == {}
    await pass_time(world, 1)
    assert await look(world.compute) == {"h1": False}
    await world.boot(network.id, count=6)
    await world.conduct()
    assert await look(world.compute) == {"h1": True}, "one launch is the probe"
    await world.serve_hosts()
    assert await look(world.compute) == {"h1": False}
    await pass_time(world, 3600)
    assert await look(world.compute) == {}
    await world.run()
    await world.settled()


async def test_of_launches_that_are_given_up_together_one_counts(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/24")
    await world.boot(network.id, count=12)
    await world.conduct()
    await world.serve_hosts(silent=["h1"])
    await pass_time(world, 40)
    await world.expire_leases()
    await world.run(silent=["h1"])
    async with world.database.connection() as connection:
        counts = await connection.fetch("SELECT name, unbegun FROM compute.host ORDER BY name")
    assert [tuple(row) for row in counts] == [("h1", 1), ("h2", 0), ("h3", 0)]


async def test_a_host_that_nobody_hears_is_silent_and_not_idle(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/24")
    await world.boot(network.id, count=3)
    await world.conduct()
    await world.fall_silent(*HOSTS, for_s=3600)
    await pass_time(world, 40)
    await world.expire_leases()
    await world.conduct()
    async with world.database.connection() as connection:
        assert await connection.fetchval("SELECT max(unbegun) FROM compute.host") == 0
