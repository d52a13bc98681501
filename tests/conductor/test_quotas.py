"""Quotas while servers are moved, shelved and rebuilt: what a server may need again is never given to another."""

import asyncio

import pytest
from tests.blocked import until_blocked
from tests.conductor.world import BY, World

from roost.compute.errors import MetadataFull, OverQuota
from roost.compute.model.server import ServerUpdate
from roost.compute.model.work import MoveKind
from roost.compute.service import actions
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.service.quotas import QUOTAS
from roost.platform.database import Database

PROJECT = "project"


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("h1", "h2")
    await create_flavor(made.compute, FlavorRequest(name="large", vcpus=4, ram_mb=512, disk_gb=1))
    return made


async def cores(world: World) -> int:
    return (await QUOTAS.get_usages(world.compute, PROJECT))["cores"].used


async def limit(world: World, maximum: int) -> None:
    await QUOTAS.set(world.compute, PROJECT, {"cores": maximum}, check=False)


@pytest.mark.parametrize("revert", [False, True])
async def test_a_server_counts_with_the_larger_flavor_until_its_resize_is_over(world: World, revert: bool) -> None:
    (server_id,) = await world.boot()
    await world.run()
    for flavor in ("large", "small"):
        before = await cores(world)
        await world.move(server_id, MoveKind.RESIZE, flavor=flavor)
        assert await cores(world) == 4, "from when it is asked for"
        await world.run()
        assert (await world.statuses())[server_id] == "VERIFY_RESIZE"
        assert await cores(world) == 4
        await limit(world, 4)
        with pytest.raises(OverQuota, match="Requested 1, but already used 4 of 4 cores"):
            await world.boot()
        await limit(world, 0)
        await world.end_move(server_id, revert=revert)
        await limit(world, -1)
        await world.run()
        after = before if revert else {"large": 4, "small": 1}[flavor]
        assert await cores(world) == after
        if revert:
            break


async def test_a_resize_that_is_too_much_changes_nothing(world: World) -> None:
    (server_id,) = await world.boot()
    await world.run()
    await limit(world, 3)
    with pytest.raises(OverQuota, match="Quota exceeded for cores: Requested 3, but already used 1 of 3 cores"):
        await world.move(server_id, MoveKind.RESIZE, flavor="large")
    assert await world.statuses() == {server_id: "ACTIVE"}
    async with world.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM compute.move") == 0
        assert await connection.fetchval("SELECT count(*) FROM compute.action") == 0
    await limit(world, 4)
    await world.move(server_id, MoveKind.RESIZE, flavor="large")


async def test_the_second_of_two_resizes_counts_what_the_first_asked_for(world: World) -> None:
    one, two = await world.boot(count=2)
    await world.run()
    await limit(world, 5)
    async with world.database.transaction() as tx:
        await QUOTAS.lock(tx, [PROJECT])
        moves = [
            asyncio.create_task(world.move(server_id, MoveKind.RESIZE, flavor="large")) for server_id in (one, two)
        ]
        await until_blocked(world.database, 2)
    answers = await asyncio.gather(*moves, return_exceptions=True)
    assert [type(answer) for answer in answers if answer is not None] == [OverQuota]
    assert await cores(world) == 5


async def test_a_failed_resize_gives_back_what_it_asked_for(world: World) -> None:
    (server_id,) = await world.boot()
    await world.run()
    await world.move(server_id, MoveKind.RESIZE, flavor="large")
    await world.run(failing=["h1", "h2"])
    assert await world.statuses() == {server_id: "ACTIVE"}
    assert await cores(world) == 1


async def test_what_a_server_has_already_it_may_have_again(world: World) -> None:
    (server_id,) = await world.boot()
    await world.run()
    await limit(world, 0)
    for kind in (MoveKind.SHELVE, MoveKind.UNSHELVE, MoveKind.LIVE):
        await world.move(server_id, kind)
        await world.run()
        assert await cores(world) == 1
    assert await world.statuses() == {server_id: "ACTIVE"}
    update = ServerUpdate(image_ref="i", metadata={"a": "b"})
    await actions.rebuild(world.compute, server_id, update, BY)
    await world.run()
    assert await cores(world) == 1


async def test_a_rebuild_keeps_the_quota_of_metadata(world: World) -> None:
    (server_id,) = await world.boot()
    await world.run()
    await QUOTAS.set(world.compute, PROJECT, {"metadata_items": 1}, check=True)
    with pytest.raises(MetadataFull, match="Maximum number of metadata items exceeds 1"):
        await actions.rebuild(world.compute, server_id, ServerUpdate(image_ref="i", metadata={"a": "", "b": ""}), BY)
