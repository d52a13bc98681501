"""Claims of servers that may hold none are returned, and no others."""

import asyncio
from typing import Any

import pytest
from tests.agent.cloud import AGENT, take_leases
from tests.blocked import until_blocked
from tests.conductor.world import World
from tests.next_call import after, instead

from roost.compute.service.audit import HOSTS
from roost.conductor.pipeline import run_once
from roost.conductor.reconcile import reconcile_once
from roost.platform.database import Database
from roost.platform.drift import Repairs
from roost.seams.placement import Claimed, ClaimGroup


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", reach=["rack1"])
    return made


async def claimed_without_work(world: World) -> str:
    """A server that holds its claim, and whose work is away."""
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await run_once(world.conductor)
    async with world.database.connection() as connection:
        await connection.execute("CREATE TABLE away AS SELECT * FROM compute.work")
        await connection.execute("CREATE TABLE guests AS SELECT * FROM compute.guest")
        await connection.execute("DELETE FROM compute.work; DELETE FROM compute.guest")
    return server


async def test_a_claim_is_kept_as_long_as_a_host_may_have_a_guest(world: World) -> None:
    server = await claimed_without_work(world)
    async with world.database.connection() as connection:
        await connection.execute("INSERT INTO compute.guest SELECT * FROM guests; DELETE FROM compute.server")
    assert await reconcile_once(world.conductor) == []
    assert server in await world.conductor.placement.get_consumers([server])


async def test_a_claim_that_nobody_may_hold_is_returned(world: World) -> None:
    server = await claimed_without_work(world)
    assert await reconcile_once(world.conductor) == [server]
    assert await world.conductor.placement.get_consumers([server]) == {}


async def test_a_server_that_is_at_work_again_when_its_claim_is_read_keeps_it(world: World) -> None:
    server = await claimed_without_work(world)
    placement = world.conductor.placement

    async def back_at_work(real: Any, uuids: Any) -> Any:
        async with world.database.connection() as connection:
            await connection.execute("INSERT INTO compute.work SELECT * FROM away")
        return await real(uuids)

    instead(placement, "get_consumers", back_at_work)
    assert await reconcile_once(world.conductor) == []
    assert server in await placement.get_consumers([server])


async def test_a_claim_that_was_replaced_since_it_was_read_is_kept(world: World) -> None:
    server = await claimed_without_work(world)
    placement = world.conductor.placement
    held = await placement.get_consumers([server])

    async def replaced() -> None:
        assert await placement.claim([ClaimGroup((held[server].claiming(held[server].allocations),))]) == [
            Claimed({server: 2})
        ]

    after(placement, "get_consumers", replaced)
    await reconcile_once(world.conductor)
    assert server in await placement.get_consumers([server])


async def test_an_audit_that_has_hosts_published_again_locks_them_in_order(world: World) -> None:
    """Else it and the hosts that say that they are there wait for each other."""
    await world.hosts("z-last")
    await world.hosts("a-first")
    await world.fall_silent("a-first", "z-last", for_s=20)
    async with world.database.connection() as connection:
        await connection.execute("DELETE FROM network.host WHERE name IN ('a-first', 'z-last')")

    async with world.database.transaction() as tx:
        await tx.execute("SELECT FROM compute.host WHERE name = 'z-last' FOR NO KEY UPDATE")
        auditing = asyncio.create_task(HOSTS.run(world.compute, repairs=Repairs.ITSELF))
        await until_blocked(world.database, 1)
        beating = asyncio.create_task(take_leases(world.compute, ["a-first", "z-last"], AGENT))
        await until_blocked(world.database, 2)
    await asyncio.gather(auditing, beating)
    assert await HOSTS.run(world.compute, repairs=Repairs.NONE) == []
