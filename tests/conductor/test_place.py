"""Who may claim, and what becomes of a claim whose conductor died, or was taken for dead."""

from collections import Counter
from typing import Any

import pytest
from tests.conductor.world import KilledHere, World
from tests.next_call import instead

from roost.conductor.pipeline import run_once
from roost.platform.database import Database


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", reach=["rack1"], vcpus=5)
    return made


async def killed(*_: Any) -> Any:
    raise KilledHere


async def test_claims_of_the_last_of_everything_are_gone_on_with_after_a_crash(world: World) -> None:
    """The servers fill host and segment by claims that nobody wrote down: a new search would find no room."""
    network = await world.routed(rack1="10.1.0.0/29")
    servers = await world.boot(network.id, count=5)
    await world.die_after(1)
    await world.expire_leases()
    assert set(await world.conductor.placement.get_consumers(servers)) == set(servers)
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 5}
    await world.settled()


async def test_a_claim_that_was_read_when_the_lease_was_lost_is_left_to_who_made_it(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    instead(world.conductor.placement, "claim", killed)
    with pytest.raises(KilledHere):
        await run_once(world.conductor)
    await world.expire_leases()

    async def overtaken(real: Any, *arguments: Any) -> Any:
        await world.expire_leases()
        await world.conduct()
        return await real(*arguments)

    instead(world.conductor.placement, "get_consumers", overtaken)
    await run_once(world.conductor)
    assert server in await world.conductor.placement.get_consumers([server])
    await world.run()
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


async def test_a_claim_made_after_the_lease_was_lost_is_given_back(world: World) -> None:
    """The server was deleted, and is gone, when the sleeper wakes and claims for it."""
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)

    async def late(real: Any, groups: Any) -> Any:
        await world.expire_leases()
        await world.delete(server)
        await world.conduct()
        return await real(groups)

    instead(world.conductor.placement, "claim", late)
    await run_once(world.conductor)
    assert await world.statuses() == {}
    assert await world.conductor.placement.list_consumers("INSTANCE", after="", limit=10) == []
    await world.settled()  # the port's own claim is the network reconciler's
    assert await world.conductor.placement.list_consumers("PORT", after="", limit=10) == []
