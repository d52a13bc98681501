"""Segments as the ledger has them: upstream's names and units, whole ones full of ports, ones in others' aggregates."""

import uuid

import pytest
from tests.conductor.world import World
from tests.network.cloud import PROJECT

from roost.network.model.ports import FixedIpRequest, PortChanges, PortRequest
from roost.network.service import networks as network_service
from roost.network.service.ports import create_port, delete_port, update_port
from roost.platform.database import Database
from roost.seams.placement import IPV4_ADDRESS, SHARING, Inventory

ROUTER = "network:router_gateway"


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", reach=["rack1"])
    return made


async def test_a_segment_is_a_sharing_provider_with_upstreams_name_and_units(world: World) -> None:
    """The gateway is no capacity, and two NICs of one server may share a segment: max_unit is the total."""
    network = await world.routed(rack1="10.1.0.0/29")
    (segment,) = (await world.cloud.client.get_networks([network.id]))[network.id].segments
    name = f"Neutron segment id {segment.provider_uuid}"
    (state,) = (await world.networks.placement.get_providers([segment.provider_uuid])).values()
    assert (state.name, state.traits) == (name, {SHARING})
    assert state.placement_aggregates == {segment.placement_aggregate}
    assert state.inventories == {
        IPV4_ADDRESS: Inventory(
            total=5, reserved=0, min_unit=1, max_unit=5, step_size=1, allocation_ratio=1.0
        )
    }  # fmt: skip
    aggregates = await world.networks.compute.list_host_aggregates()
    assert aggregates[segment.placement_aggregate].name == name
    assert tuple(aggregates[segment.placement_aggregate].hosts) == ("r1-h1",)


async def test_a_server_boots_with_a_port_that_holds_the_last_address_of_a_segment(world: World) -> None:
    """Whoever owns a port, its address is its own claim: nothing is counted twice when it goes to a server."""
    network = await world.routed(rack1="10.1.0.0/29")
    made = [
        await create_port(
            world.networks,
            PortRequest(
                network_id=network.id, project_id=PROJECT, device_owner=ROUTER, fixed_ips=(FixedIpRequest(
                    ip_address=f"10.1.0.{number}"
                ),),
            ),
        )
        for number in range(2, 7)
    ]  # fmt: skip
    segment = made[0].provider_uuid
    assert segment is not None
    assert await world.cloud.used(segment) == (5, 5)
    await update_port(world.networks, made[0].id, PortChanges(device_owner="", device_id=""))
    (server,) = await world.boot(port_id=made[0].id)
    await world.run()
    assert (await world.statuses())[server] == "ACTIVE"
    assert await world.cloud.used(segment) == (5, 5)
    await delete_port(world.networks, made[1].id)
    assert await world.cloud.used(segment) == (5, 4)
    await world.settled()


async def test_an_aggregate_of_operators_brings_no_server_to_a_segment_that_its_host_does_not_reach(
    world: World,
) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    await world.hosts("apart")
    (segment,) = (await world.cloud.client.get_networks([network.id]))[network.id].segments
    named = await world.networks.placement.list_named_providers("apart", after="", limit=1)
    theirs = str(uuid.uuid4())
    inside = dict.fromkeys([segment.provider_uuid, *named], frozenset({theirs}))
    await world.networks.placement.set_placement_aggregates(inside, managed=frozenset({theirs}))
    together = await world.networks.placement.list_aggregate_providers([theirs])
    assert sorted(together[theirs]) == sorted(inside)
    servers = await world.boot(network.id, count=4)
    await world.run()
    assert set((await world.statuses()).values()) == {"ACTIVE"}
    assert [host for _, host in world.launches] == ["r1-h1"] * len(servers)
    (rack1,) = await network_service.list_segments(world.networks, [segment.provider_uuid])
    await world.cloud.subnet(network, "10.2.0.0/29", rack1)
    assert await world.networks.placement.list_aggregate_providers([theirs]) == {theirs: list(named)}
    await world.settled()
