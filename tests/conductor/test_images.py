"""Where servers go whose images require traits of hosts, and where they may be moved to, and why they go nowhere."""

from collections.abc import AsyncIterator, Sequence

import pytest
from tests.conductor.test_destinations import FAST, has, places
from tests.conductor.world import BY, World
from tests.fake_glance import a_glance
from tests.network.cloud import PROJECT

from roost.compute.errors import ActionRefused
from roost.compute.model.server import NicAsked, Server, ServerRequest, ServerUpdate
from roost.compute.model.work import MoveKind
from roost.compute.service import actions as action_service
from roost.compute.service import hosts as host_service
from roost.compute.service import servers as server_service
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.platform.database import Database

IMAGE, PLAIN = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


@pytest.fixture
async def world(database: Database) -> AsyncIterator[World]:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", "r1-h3", "r1-h4", reach=["rack1"], vcpus=4)
    await create_flavor(made.compute, FlavorRequest(name="large", vcpus=2, ram_mb=1024, disk_gb=1))
    async with a_glance() as (served, images):
        served.add(IMAGE, **{f"trait:{FAST}": "required"})
        served.add(PLAIN)
        made.compute.images = images
        yield made


async def boot(world: World, image: str, *, count: int = 1) -> list[str]:
    network = await world.routed(rack1="10.1.0.0/28")
    nics = (NicAsked(network_id=network.id),)
    request = ServerRequest(name="web", flavor_ref="small", nics=nics, count=count, image_ref=image)
    made = await server_service.create_servers(world.compute, request, project_id=PROJECT, user_id="user")
    await world.run()
    return list(made.server_ids)


async def give_traits(world: World, hosts: Sequence[str]) -> None:
    for host in hosts:
        await has(world, host, traits=[FAST])


async def server_of(world: World, server_id: str) -> Server:
    return await server_service.get_server(world.compute, server_id)


async def test_a_server_goes_only_where_its_images_traits_are(world: World) -> None:
    await give_traits(world, ["r1-h3"])
    assert await places(world, await boot(world, IMAGE, count=4)) == ["r1-h3"] * 4
    await world.settled()


async def test_a_refusal_names_the_trait_and_that_the_image_requires_it(world: World) -> None:
    (server_id,) = await boot(world, IMAGE)
    assert f"4 enabled, 0 with trait {FAST} that the image requires" in await world.fault(server_id)
    assert (await server_of(world, server_id)).status == "ERROR"
    await world.settled()


MOVES = [MoveKind.MIGRATE, MoveKind.RESIZE, MoveKind.LIVE, MoveKind.EVACUATE, MoveKind.UNSHELVE]


async def move(world: World, before: Server, kind: MoveKind, *, to: str | None = None) -> None:
    """One move, from its beginning to where it waits for its user, if it does."""
    if kind is MoveKind.UNSHELVE:
        await world.move(before.id, MoveKind.SHELVE)
        await world.run()
    if kind in (MoveKind.EVACUATE, MoveKind.UNSHELVE):
        assert before.host is not None
        await host_service.force_down(world.compute, before.host, True)
        world.running.clear()  # its operator says so
    await world.move(before.id, kind, to=to, flavor="large" if kind is MoveKind.RESIZE else None)
    await world.run(silent=[str(before.host)] if kind is MoveKind.EVACUATE else [])


@pytest.mark.parametrize("kind", MOVES, ids=lambda kind: kind.value)
async def test_every_move_keeps_asking_for_the_images_traits(world: World, kind: MoveKind) -> None:
    await give_traits(world, ["r1-h2", "r1-h4"])
    before = await server_of(world, (await boot(world, IMAGE))[0])
    await move(world, before, kind)
    after = await server_of(world, before.id)
    assert {before.host, after.host} == {"r1-h2", "r1-h4"}
    assert after.spec.image_traits == {FAST}


@pytest.mark.parametrize("kind", MOVES, ids=lambda kind: kind.value)
async def test_a_move_that_finds_no_host_with_the_traits_says_so(world: World, kind: MoveKind) -> None:
    await give_traits(world, ["r1-h2"])
    before = await server_of(world, (await boot(world, IMAGE))[0])
    await has(world, "r1-h2")
    await move(world, before, kind)
    assert f"0 with trait {FAST} that the image requires" in await world.fault(before.id)
    assert (await server_of(world, before.id)).host in (None, "r1-h2")


@pytest.mark.parametrize(("anyway", "host"), [(False, "r1-h2"), (True, "r1-h1")])
async def test_only_an_operator_who_forces_a_move_may_leave_the_traits_behind(
    world: World, anyway: bool, host: str
) -> None:
    await give_traits(world, ["r1-h2"])
    before = await server_of(world, (await boot(world, IMAGE))[0])
    await world.move(before.id, MoveKind.LIVE, to="r1-h1", anyway=anyway)
    await world.run()
    assert (await server_of(world, before.id)).host == host
    await world.settled()


async def rebuild(world: World, server_id: str, image: str) -> None:
    await action_service.rebuild(world.compute, server_id, ServerUpdate(image_ref=image), BY)
    await world.run()


async def test_a_rebuilt_server_is_moved_by_its_new_images_traits(world: World) -> None:
    await give_traits(world, ["r1-h2", "r1-h4"])
    before = await server_of(world, (await boot(world, IMAGE))[0])
    await rebuild(world, before.id, PLAIN)
    await world.move(before.id, MoveKind.LIVE, to="r1-h1")
    await world.run()
    moved = await server_of(world, before.id)
    assert (moved.host, moved.status) == ("r1-h1", "ACTIVE")
    with pytest.raises(ActionRefused, match="Image traits cannot be satisfied by the current resource providers"):
        await rebuild(world, before.id, IMAGE)
    assert await server_of(world, before.id) == moved
    await world.move(before.id, MoveKind.LIVE, to="r1-h2")
    await world.run()
    await rebuild(world, before.id, IMAGE)
    assert (await server_of(world, before.id)).spec.image_traits == {FAST}
    await world.move(before.id, MoveKind.LIVE)
    await world.run()
    assert (await server_of(world, before.id)).host == "r1-h4"
    await world.settled()


async def test_a_trait_of_a_neighbouring_host_is_none_of_the_servers(world: World) -> None:
    (server_id,) = await boot(world, PLAIN)
    host = str((await server_of(world, server_id)).host)
    others = [name for name in ("r1-h1", "r1-h2", "r1-h3", "r1-h4") if name != host]
    await give_traits(world, others)
    with pytest.raises(ActionRefused, match="Image traits cannot be satisfied"):
        await rebuild(world, server_id, IMAGE)
