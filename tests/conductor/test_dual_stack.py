"""Servers with IPv4 and IPv6: placed, bound, tried again, gone on with; what they hold is claimed by its class."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from tests.conductor.world import World
from tests.next_call import instead

from roost.conductor.pipeline import run_once
from roost.network.model.networks import Network
from roost.network.model.ports import PortFilter
from roost.network.service import ports
from roost.network.service.networks import list_segments
from roost.platform.database import Database
from roost.seams.placement import IPV4_ADDRESS, IPV6_ADDRESS

SLAAC = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", reach=["rack1"])
    await made.hosts("r2-h1", "r2-h2", reach=["rack2"])
    return made


async def dual(world: World) -> tuple[Network, dict[str, str]]:
    """rack1: 5 IPv4, 3 IPv6 addresses, and SLAAC; rack2: 5 and 5. Also the segments' ids."""
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    view = (await world.compute.network.get_networks([network.id]))[network.id]
    ids = {segment.name: segment.provider_uuid for segment in view.segments}
    parts = {part.name: part for part in await list_segments(world.networks) if part.network_id == network.id}
    await world.cloud.subnet(network, "2001:db8:1::/64", parts["rack1"], pools=[("2001:db8:1::10", "2001:db8:1::12")])
    await world.cloud.subnet(network, "2001:db8:2::/64", parts["rack2"], pools=[("2001:db8:2::10", "2001:db8:2::14")])
    await world.cloud.subnet(network, "2001:db8:f::/64", parts["rack1"], **SLAAC)
    return network, ids


async def families(world: World) -> Counter[tuple[int, int]]:
    """How many ports have so many IPv4 and IPv6 addresses."""
    found = await ports.list_ports(world.networks, PortFilter())
    return Counter(
        (sum(":" not in a.address for a in port.addresses), sum(":" in a.address for a in port.addresses))
        for port in found
    )


async def test_servers_take_one_address_of_each_family_until_one_runs_out(world: World) -> None:
    network, ids = await dual(world)
    await world.boot(network.id, count=8)
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 8}
    # On rack1 each has one of SLAAC besides.
    assert await families(world) == {(1, 2): 3, (1, 1): 5}
    assert await world.cloud.used(ids["rack1"], IPV6_ADDRESS) == (3, 3)
    assert await world.cloud.used(ids["rack1"], IPV4_ADDRESS) == (5, 3)
    await world.settled()
    (late,) = await world.boot(network.id)
    await world.run()
    assert (await world.statuses())[late] == "ERROR"
    assert "0 with a free IPv6 address on network net" in await world.fault(late)
    assert (
        "The IPv6 addresses of network net ran out: rack1 IPv4 2 of 5 free and IPv6 0 of 3 free, "
        "rack2 IPv4 0 of 5 free and IPv6 0 of 5 free."
    ) in await world.fault(late)
    await world.delete(*(await world.statuses()))
    await world.run()
    assert await world.statuses() == {}
    assert await world.cloud.used(ids["rack1"], IPV6_ADDRESS) == (3, 0)
    await world.settled()


async def test_claims_of_both_classes_that_nobody_wrote_down_are_gone_on_with(world: World) -> None:
    network, ids = await dual(world)
    servers = await world.boot(network.id, count=8)
    await world.die_after(1)
    await world.expire_leases()
    assert await world.cloud.used(ids["rack1"], IPV6_ADDRESS) == (3, 3)
    assert set(await world.conductor.placement.get_consumers(servers)) == set(servers)
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 8}
    assert await families(world) == {(1, 2): 3, (1, 1): 5}
    await world.settled()


async def test_a_server_that_leaves_its_segment_takes_both_addresses_elsewhere(world: World) -> None:
    network, ids = await dual(world)
    await world.boot(network.id, count=3)
    await world.run(failing=["r1-h1", "r1-h2"])
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 3}
    assert await families(world) == {(1, 1): 3}
    assert await world.cloud.used(ids["rack1"], IPV6_ADDRESS) == (3, 0)
    assert await world.cloud.used(ids["rack2"], IPV6_ADDRESS) == (5, 3)
    await world.settled()


async def test_a_refused_bind_ends_in_the_words_of_every_refusal(world: World) -> None:
    """It was claimed, and then it is not there: the free ranges went behind the ledger's back."""
    network, _ids = await dual(world)
    (server,) = await world.boot(network.id)
    async with world.database.connection() as connection:
        await connection.execute("DELETE FROM network.free_range")
    await world.run()
    assert (await world.statuses())[server] == "ERROR"
    fault = await world.fault(server)
    assert "could not be bound on r" in fault
    assert "No more IP addresses available on segment rack" in fault
    assert "Addresses of network net: rack1 IPv4 5 of 5 free and IPv6 3 of 3 free, rack2 " in fault


async def test_unlike_segments_and_networks_without_capacity_are_all_used(world: World) -> None:
    """One segment has IPv4 alone, one SLAAC alone: every server gets what its segment gives, until hosts run out."""
    cloud = world.cloud
    network = await cloud.network()
    for name, cidr, more in (("rack1", "10.1.0.0/29", {}), ("rack2", "2001:db8::/64", SLAAC)):
        await cloud.subnet(network, cidr, await cloud.segment(network, name), **more)
    servers = await world.boot(network.id, count=12)
    await world.die_after(1)
    await world.expire_leases()
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 12}
    found = await families(world)
    assert set(found) == {(1, 0), (0, 1)}
    assert found[1, 0] <= 5
    await world.settled()
    await world.delete(*servers)
    await world.run()
    await world.settled()


async def test_a_plain_network_of_slaac_alone_boots_and_a_new_subnet_reaches_its_servers(world: World) -> None:
    cloud = world.cloud
    network = await cloud.network()
    await cloud.subnet(network, "2001:db8::/64", **SLAAC)
    servers = await world.boot(network.id, count=2)
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 2}
    assert await families(world) == {(0, 1): 2}
    await cloud.subnet(network, "2001:db8:1::/64", **SLAAC)
    assert await families(world) == {(0, 2): 2}
    await world.settled()
    await world.delete(*servers)
    await world.run()
    await world.settled()


async def test_servers_that_claim_no_address_are_gone_on_with_where_they_were_placed(database: Database) -> None:
    """They fill the only host by claims that nobody wrote down: a new search would find no room."""
    world = await World.make(database)
    await world.hosts("only", reach=["rack1"], vcpus=2)
    network = await world.cloud.network()
    await world.cloud.subnet(network, "2001:db8::/64", await world.cloud.segment(network, "rack1"), **SLAAC)
    await world.boot(network.id, count=2)
    await world.die_after(1)
    await world.expire_leases()
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 2}
    assert await families(world) == {(0, 1): 2}
    await world.settled()


async def test_a_server_that_leaves_its_segment_for_one_where_nothing_is_claimed_gives_its_claim_back(
    database: Database,
) -> None:
    """Its launch fails on the only host of the segment whose addresses are capacity."""
    world = await World.make(database)
    await world.hosts("r1-h1", reach=["rack1"])
    network = await world.routed(rack1="10.1.0.0/29")
    await world.cloud.subnet(network, "2001:db8::/64", await world.cloud.segment(network, "rack2"), **SLAAC)
    (server,) = await world.boot(network.id)
    await world.conduct()
    await world.hosts("r2-h1", reach=["rack2"])
    await world.run(failing=["r1-h1"])
    assert [host for _, host in world.launches] == ["r1-h1", "r2-h1"]
    assert await world.statuses() == {server: "ACTIVE"}
    assert await families(world) == {(0, 1): 1}
    await world.settled()
    assert await world.conductor.placement.list_consumers("PORT", after="", limit=10) == []


async def test_a_port_that_lost_what_its_server_was_placed_with_is_not_bound_without_it(database: Database) -> None:
    """A conductor that was taken for dead lets the port leave its segment, where a host has room again by now; the
    server was placed there with the port's address, and another conductor binds it."""
    world = await World.make(database)
    await world.hosts("r1-h1", reach=["rack1"])
    network = await world.routed(rack1="10.1.0.0/29")
    (rack1,) = [part for part in await list_segments(world.networks) if part.network_id == network.id]
    await world.cloud.subnet(network, "2001:db8::/64", rack1, **SLAAC)
    (server,) = await world.boot(network.id)
    await world.conduct()
    settings = world.conductor.settings

    async def late(real: Any, *arguments: Any) -> Any:
        await world.hosts("r1-h2", reach=["rack1"])
        await world.expire_leases()
        world.conductor.settings = msgspec.structs.replace(settings, cells=("elsewhere",))
        assert await run_once(world.conductor)
        world.conductor.settings = settings
        return await real(*arguments)

    instead(world.conductor.network, "unassign_ports", late)
    world.conductor.settings = settings = msgspec.structs.replace(settings, max_attempts=2)
    await world.run(failing=["r1-h1"])
    assert await world.statuses() == {server: "ACTIVE"}
    assert await families(world) == {(1, 1): 1}
    await world.settled()
