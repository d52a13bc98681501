"""Turns of projects in a conductor: the rule as a table, and that a flood holds up nobody else."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.conductor.world import World

from roost.compute.model.server import NicAsked, ServerRequest
from roost.compute.service import flavors, servers
from roost.compute.service.flavors import FlavorRequest
from roost.compute.service.work import lease_work
from roost.conductor.pipeline import run_once
from roost.conductor.turns import last_turn
from roost.platform.database import Database


@pytest.mark.parametrize(
    ("after", "projects", "last"),
    [
        ("", "a", "a"),
        ("", "abc", "c"),
        ("b", "c", "c"),
        ("b", "cd", "d"),
        ("b", "ab", "b"),
        ("b", "acd", "a"),
        ("b", "abc", "b"),
        ("x", "abc", "c"),
        ("b", "", "b"),
    ],
)
def test_the_last_turn_of_a_batch_is_where_the_next_begins(after: str, projects: str, last: str) -> None:
    assert last_turn(after, projects) == last


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("h1", "h2", reach=["rack1"], vcpus=10_000)
    await flavors.create_flavor(made.compute, FlavorRequest(name="huge", vcpus=20_000, ram_mb=512, disk_gb=1))
    return made


async def boot(world: World, network_id: str, *, project_id: str, count: int = 1, flavor: str = "small") -> list[str]:
    request = ServerRequest(name="web", flavor_ref=flavor, nics=(NicAsked(network_id=network_id),), count=count)
    made = await servers.create_servers(world.compute, request, project_id=project_id, user_id="user")
    return list(made.server_ids)


async def test_a_server_beside_a_flood_is_asked_of_its_host_with_the_next_batch(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/16")
    await boot(world, network.id, project_id="flood", count=600)
    assert await run_once(world.conductor)
    (server_id,) = await boot(world, network.id, project_id="other")
    assert await run_once(world.conductor)
    assert server_id in {order.server_id for order in await world.orders()}


async def test_a_server_waits_for_no_batch_of_a_flood(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/16")
    await boot(world, network.id, project_id="flood", count=300)
    assert not await run_once(world.conductor, light=True), "another batch is free for it"
    owner = world.compute.env.new_uuid()
    assert len(await lease_work(world.compute, owner=owner, limit=256, lease_s=30)) == 256
    world.conductor.batches_running = world.conductor.settings.batches_at_once
    assert not await run_once(world.conductor, light=True), "the flood has its batch"
    (server_id,) = await boot(world, network.id, project_id="other")
    assert await run_once(world.conductor, light=True)
    assert {order.server_id for order in await world.orders()} == {server_id}


async def test_a_flavor_that_fits_nowhere_costs_one_search_a_batch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = await world.routed(rack1="10.1.0.0/16")
    refused = await boot(world, network.id, project_id="flood", count=50, flavor="huge")
    (server_id,) = await boot(world, network.id, project_id="other")
    searches: list[int] = []
    candidates = world.conductor.placement.candidates

    async def counted(queries: Sequence[Any]) -> Any:
        searches.append(len(queries))
        return await candidates(queries)

    monkeypatch.setattr(world.conductor.placement, "candidates", counted)
    world.conductor.last_project = "flood"
    while await run_once(world.conductor):
        pass
    assert searches == [2, 1], "one for all of a batch, and one for the other project's"
    statuses = await world.statuses()
    assert {statuses[id] for id in refused} == {"ERROR"}
    assert server_id in {order.server_id for order in await world.orders()}
