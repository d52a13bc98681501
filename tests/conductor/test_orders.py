"""The orders in which servers are built: chosen by fact, kept to the end, with the same ports whoever makes them."""

from collections import Counter

import pytest
from tests.conductor.world import World

from roost.compute.model import Credentials
from roost.platform.database import Database

REVOKED = Credentials(False, "the token was revoked")


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", reach=["rack1"])
    await made.hosts("r2-h1", "r2-h2", reach=["rack2"])
    return made


async def orders_of(world: World) -> dict[str, str]:
    """Server id -> the name of its order."""
    async with world.database.connection() as connection:
        rows = await connection.fetch("SELECT id, build_order ->> 'name' AS name FROM compute.server")
    return {row["id"]: row["name"] for row in rows}


@pytest.mark.parametrize(("version", "order"), [(1, "late"), (2, "early-create"), (3, "early")])
async def test_servers_are_built_in_the_order_of_the_oldest_agent(world: World, version: int, order: str) -> None:
    await world.set_version("r1-h1", version)
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    servers = await world.boot(network.id, count=10)
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 10}
    assert Counter((await orders_of(world)).values()) == {order: 10}
    await world.settled()
    (late,) = await world.boot(network.id)
    await world.run()
    assert "ran out: rack1 0 of 5 free, rack2 0 of 5 free" in await world.fault(late)
    await world.delete(*servers, late)
    await world.run()
    assert await world.statuses() == {}
    await world.settled()
