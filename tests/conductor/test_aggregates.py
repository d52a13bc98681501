"""Where servers go when zones, projects and isolated aggregates narrow the hosts; and why they go nowhere."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.conductor.test_destinations import FAST, has, places
from tests.conductor.world import World
from tests.network.cloud import PROJECT

from roost.compute.errors import ServerRefused
from roost.compute.model.server import NicAsked, ServerRequest
from roost.compute.model.work import MoveKind
from roost.compute.service import hosts as host_service
from roost.compute.service import operator_aggregates as aggregates
from roost.compute.service import servers as server_service
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.platform.database import Database

HOSTS = ("h1", "h2", "h3", "h4")


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts(*HOSTS, reach=["rack1"], vcpus=2)
    await create_flavor(made.compute, FlavorRequest(name="large", vcpus=2, ram_mb=1024, disk_gb=1))
    return made


async def group(world: World, name: str, hosts: Sequence[str], zone: str | None = None, **metadata: str) -> int:
    made = await aggregates.create_aggregate(world.compute, name, zone)
    spelled = {key.replace("__", ":"): value for key, value in metadata.items()}
    await aggregates.update_aggregate(world.compute, made.id, metadata=spelled)
    for host in hosts:
        await aggregates.add_host(world.compute, made.id, host)
    return made.id


def switch_on(world: World, **options: bool) -> None:
    world.conductor.scheduling = replace(world.conductor.scheduling, **options)


async def boot(world: World, *, count: int = 1, **fields: Any) -> list[str]:
    network = await world.routed(rack1="10.1.0.0/26")
    request = ServerRequest(
        name="web", flavor_ref="small", nics=(NicAsked(network_id=network.id),), count=count, **fields
    )
    made = await server_service.create_servers(world.compute, request, project_id=PROJECT, user_id="user")
    await world.run()
    return list(made.server_ids)


async def test_servers_go_to_the_zone_that_they_ask_for_and_no_further(world: World) -> None:
    await group(world, "e1", ["h1"], "east")
    await group(world, "e2", ["h2"], "east")
    await group(world, "w", ["h3"], "west")
    east = await boot(world, count=5, availability_zone="east")
    assert sorted(str(host) for host in await places(world, east)) == ["None", "h1", "h1", "h2", "h2"]
    (refused,) = [server for server, host in zip(east, await places(world, east), strict=True) if host is None]
    assert "in availability zone east" in await world.fault(refused)
    assert await places(world, await boot(world, count=2, availability_zone="nova")) == ["h4", "h4"]
    with pytest.raises(ServerRefused, match="zone is not available: mars"):
        await boot(world, availability_zone="mars")
    await world.settled()


async def test_a_server_stays_in_its_zone_when_it_is_moved(world: World) -> None:
    await group(world, "e", ["h1", "h2"], "east")
    (server,) = await boot(world, availability_zone="east")
    (before,) = await places(world, [server])
    for _ in range(2):
        await world.move(server, MoveKind.LIVE)
        await world.run()
    assert await places(world, [server]) == [before]
    await world.move(server, MoveKind.LIVE, to="h4")
    await world.run()
    assert await places(world, [server]) == [before]
    assert "in availability zone east" in await world.fault(server)
    await world.settled()


MOVES = [MoveKind.MIGRATE, MoveKind.RESIZE, MoveKind.LIVE, MoveKind.EVACUATE, MoveKind.UNSHELVE]


@pytest.mark.parametrize("kind", MOVES, ids=lambda kind: kind.value)
async def test_no_move_takes_a_project_out_of_its_aggregate(world: World, kind: MoveKind) -> None:
    switch_on(world, limit_tenants_to_placement_aggregate=True)
    await group(world, "mine", ["h1"], filter_tenant_id=PROJECT)
    (server,) = await boot(world)
    if kind is MoveKind.UNSHELVE:
        await world.move(server, MoveKind.SHELVE)
        await world.run()
    if kind in (MoveKind.EVACUATE, MoveKind.UNSHELVE):
        await host_service.force_down(world.compute, "h1", True)
        world.running.clear()
    await world.move(server, kind, flavor="large" if kind is MoveKind.RESIZE else None)
    await world.run(silent=["h1"] if kind is MoveKind.EVACUATE else [])
    assert f"in a host aggregate of project {PROJECT}" in await world.fault(server)
    assert (await places(world, [server]))[0] in (None, "h1")


async def test_a_project_that_is_limited_is_refused_elsewhere_when_its_hosts_are_full_or_another_is_named(
    world: World,
) -> None:
    switch_on(world, limit_tenants_to_placement_aggregate=True, placement_aggregate_required_for_tenants=True)
    (unnamed,) = await boot(world)
    assert f"project {PROJECT} has no hosts" in await world.fault(unnamed)
    await group(world, "mine", ["h2"], filter_tenant_id=PROJECT)
    assert sorted(str(host) for host in await places(world, await boot(world, count=3))) == ["None", "h2", "h2"]
    (forced,) = await boot(world, host="h3")
    assert f"in a host aggregate of project {PROJECT}" in await world.fault(forced)
    await world.settled()


async def test_isolated_hosts_are_for_servers_that_require_their_traits(world: World) -> None:
    switch_on(world, enable_isolated_aggregate_filtering=True)
    await group(world, "fast", ["h1", "h2", "h3"], trait__CUSTOM_FAST="required")
    await has(world, "h1", traits=[FAST])
    servers = await boot(world, count=3)
    assert sorted(str(host) for host in await places(world, servers)) == ["None", "h4", "h4"]
    refused = servers[[*await places(world, servers)].index(None)]
    assert "outside of isolated aggregates fast" in await world.fault(refused)
    specs = {f"trait:{FAST}": "required"}
    await create_flavor(world.compute, FlavorRequest(name="fast", vcpus=1, ram_mb=512, disk_gb=1, extra_specs=specs))
    network = await world.routed(rack1="10.2.0.0/28")
    request = ServerRequest(name="f", flavor_ref="fast", nics=(NicAsked(network_id=network.id),))
    made = await server_service.create_servers(world.compute, request, project_id=PROJECT, user_id="user")
    await world.run()
    assert await places(world, made.server_ids) == ["h1"]
    await world.settled()
