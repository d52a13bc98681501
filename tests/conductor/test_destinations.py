"""Where servers go that name their host, or whose flavor asks for traits and resources; and why they go nowhere."""

from collections.abc import Mapping, Sequence

import pytest
from tests.conductor.world import World
from tests.network.cloud import PROJECT

from roost.compute.errors import HostClosed, ServerRefused
from roost.compute.model.server import NicAsked, ServerRequest
from roost.compute.service import hosts as host_service
from roost.compute.service import servers as server_service
from roost.compute.service.audit import SERVERS
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.platform.database import Database
from roost.platform.drift import Repairs
from roost.seams.placement import DISABLED, Inventory, ProviderState

GPU, FAST = "CUSTOM_GPU", "CUSTOM_FAST"


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", "r1-h3", reach=["rack1"], vcpus=4)
    await made.hosts("r2-h1", reach=["rack2"], vcpus=4)
    async with made.database.connection() as connection:
        await connection.execute("UPDATE compute.host SET seen_at = now()")
    return made


async def has(world: World, host: str, *, gpus: int = 0, traits: Sequence[str] = (), nested: str | None = None) -> None:
    """What an operator says of a host in the ledger, or of a new provider below it."""
    uuid = host_service.provider_uuid_of(host)
    placement = world.conductor.placement
    (held,) = (await placement.get_providers([uuid])).values()
    gpu = {GPU: Inventory(total=gpus, max_unit=gpus)} if gpus else {}
    if nested:
        state = ProviderState(
            uuid=nested, name=f"{host}-gpu-{nested[-1]}", parent_uuid=uuid, inventories=gpu, traits=frozenset(traits)
        )
    else:
        inventories = {**(held.inventories or {}), **gpu}
        state = ProviderState(uuid=uuid, name=host, inventories=inventories, traits=frozenset(traits))
    await placement.ensure_providers([state])


async def boot(
    world: World,
    network_id: str,
    extra_specs: Mapping[str, str] | None = None,
    *,
    host: str | None = None,
    count: int = 1,
) -> list[str]:
    flavor = await create_flavor(
        world.compute,
        FlavorRequest(
            name=world.compute.env.new_uuid(), vcpus=1, ram_mb=512, disk_gb=1, extra_specs=dict(extra_specs or {})
        ),
    )
    nics = (NicAsked(network_id=network_id),)
    request = ServerRequest(name="web", flavor_ref=flavor.id, nics=nics, count=count, host=host)
    made = await server_service.create_servers(world.compute, request, project_id=PROJECT, user_id="user")
    await world.run()
    return list(made.server_ids)


async def places(world: World, servers: Sequence[str]) -> list[str | None]:
    return [(await server_service.get_server(world.compute, server)).host for server in servers]


async def test_a_forced_host_gets_every_server(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28", rack2="10.2.0.0/28")
    servers = await boot(world, network.id, host="r1-h2", count=4)
    assert await places(world, servers) == ["r1-h2"] * 4
    await world.settled()


async def test_a_forced_host_that_is_full_is_named_in_the_funnel(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    await boot(world, network.id, host="r1-h2", count=4)
    (late,) = await boot(world, network.id, host="r1-h2")
    message = await world.fault(late)
    assert "4 hosts considered, 4 enabled, 1 named r1-h2, 1 reaches network net, 0 with 1 VCPU free" in message
    await world.settled()


async def test_a_forced_host_outside_the_segment_is_said_not_to_reach_it(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    (server,) = await boot(world, network.id, host="r2-h1")
    message = await world.fault(server)
    assert "1 named r2-h1, 0 reach network net" in message
    assert "The server may be on host r2-h1 alone, which does not reach network net" in message
    await world.settled()


async def test_a_forced_host_that_is_closed_or_unknown_is_refused_at_once(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    with pytest.raises(ServerRefused, match=r"Compute host r9 could not be found\."):
        await boot(world, network.id, host="r9")
    await host_service.disable_host(world.compute, "r1-h1")
    with pytest.raises(HostClosed, match=r"r1-h1 is disabled: it takes no new server\. Enable it, or"):
        await boot(world, network.id, host="r1-h1")
    await host_service.force_down(world.compute, "r1-h2", True)
    with pytest.raises(
        HostClosed, match=r"r1-h2 was forced down: it takes no new server\. Set forced_down to false, or"
    ):
        await boot(world, network.id, host="r1-h2")
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.host SET silent = true WHERE name = 'r1-h3'")
    with pytest.raises(HostClosed, match=r"r1-h3 has not been heard of: it takes no new server\. Start its agent, or"):
        await boot(world, network.id, host="r1-h3")
    assert await world.statuses() == {}


async def test_a_forced_host_that_was_disabled_meanwhile_gets_no_server(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    nics = (NicAsked(network_id=network.id),)
    request = ServerRequest(name="web", flavor_ref="small", nics=nics, host="r1-h1")
    made = await server_service.create_servers(world.compute, request, project_id=PROJECT, user_id="user")
    await host_service.disable_host(world.compute, "r1-h1")
    await world.run()
    message = await world.fault(made.server_ids[0])
    assert "4 hosts considered, 3 enabled, 0 named r1-h1" in message
    assert "The server may be on host r1-h1 alone" in message


async def test_a_forced_host_that_fails_is_not_left_for_another(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    nics = (NicAsked(network_id=network.id),)
    request = ServerRequest(name="web", flavor_ref="small", nics=nics, host="r1-h1")
    made = await server_service.create_servers(world.compute, request, project_id=PROJECT, user_id="user")
    await world.run(failing=["r1-h1"])
    assert "The server failed on r1-h1 before and is not tried there again" in await world.fault(made.server_ids[0])
    assert {host for _, host in world.launches} == {"r1-h1"}
    await world.settled()


async def test_traits_decide_which_hosts_will_do(world: World) -> None:
    await has(world, "r1-h2", traits=[FAST])
    network = await world.routed(rack1="10.1.0.0/28")
    servers = await boot(world, network.id, {f"trait:{FAST}": "required"}, count=4)
    assert await places(world, servers) == ["r1-h2"] * 4
    servers = await boot(world, network.id, {f"trait:{FAST}": "forbidden"}, count=4)
    assert "r1-h2" not in await places(world, servers)
    (late,) = await boot(world, network.id, {f"trait:{FAST}": "required"})
    assert (
        f"1 with trait {FAST} that the flavor requires, 1 reaches network net, 0 with 1 VCPU free"
        in await world.fault(late)
    )
    (never,) = await boot(world, network.id, {"trait:CUSTOM_NEVER": "required"})
    assert "4 enabled, 0 with trait CUSTOM_NEVER that the flavor requires" in await world.fault(never)
    await world.settled()


async def test_resources_are_claimed_with_the_server_and_kept_when_the_host_changes(world: World) -> None:
    await has(world, "r1-h3", gpus=2)
    network = await world.routed(rack1="10.1.0.0/28")
    servers = await boot(world, network.id, {f"resources:{GPU}": "1"}, count=3)
    assert sorted(map(str, await places(world, servers))) == ["None", "r1-h3", "r1-h3"]
    (short,) = [server for server in servers if (await world.statuses())[server] == "ERROR"]
    assert f"with 1 {GPU} free" in await world.fault(short)
    uuid = host_service.provider_uuid_of("r1-h3")
    await host_service.disable_host(world.compute, "r1-h3")
    assert DISABLED in ((await world.conductor.placement.get_providers([uuid]))[uuid].traits or ())
    await host_service.enable_host(world.compute, "r1-h3")
    assert (await world.conductor.placement.list_usages([uuid]))[uuid][GPU] == (2, 2)
    assert await SERVERS.run(world.compute, repairs=Repairs.NONE) == []
    await world.settled()


async def test_groups_are_claimed_from_providers_of_their_own_below_the_host(world: World) -> None:
    below = [f"eeeeeeee-0000-0000-0000-00000000000{number}" for number in (1, 2)]
    for uuid in below:
        await has(world, "r1-h2", gpus=4, nested=uuid)
    network = await world.routed(rack1="10.1.0.0/28")
    asked = {f"resources1:{GPU}": "1", f"resources2:{GPU}": "1", "group_policy": "isolate"}
    (server,) = await boot(world, network.id, asked)
    assert await places(world, [server]) == ["r1-h2"]
    usages = await world.conductor.placement.list_usages(below)
    assert [usages[uuid][GPU] for uuid in below] == [(4, 1), (4, 1)]
    assert await SERVERS.run(world.compute, repairs=Repairs.NONE) == []
    (late,) = await boot(world, network.id, asked | {f"resources3:{GPU}": "1"})
    assert "0 with each group on a provider of its own" in await world.fault(late)
    await world.delete(server)
    await world.run()
    assert (await world.conductor.placement.list_usages(below))[below[0]][GPU] == (4, 0)
    await world.settled()


async def test_a_flavor_that_asks_for_what_is_not_served_is_refused_by_name(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    with pytest.raises(ServerRefused, match="hw:cpu_policy=dedicated: Roost does not serve it"):
        await boot(world, network.id, {"hw:cpu_policy": "dedicated"})
    assert await world.statuses() == {}
