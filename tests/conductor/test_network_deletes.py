"""Networks and subnets that go while ports and servers come, in every order of whole transactions.

A delete that is refused has changed nothing, whatever came between its steps; one that is granted leaves nothing.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.conductor.test_port_races import Between
from tests.conductor.world import World
from tests.network.cloud import PROJECT
from tests.next_call import after
from tests.sampling import sampled_from

from roost.compute.service import servers as server_service
from roost.network.errors import NetworkInUse, NetworkNotFound, SubnetInUse
from roost.network.model.networks import Network, Subnet
from roost.network.model.ports import FixedIpRequest, Port, PortChanges, PortFilter, PortRequest
from roost.network.service import networks, ports, subnets
from roost.network.service.reconciler import reconcile_once
from roost.platform.database import Database
from roost.platform.errors import RoostError

ROUNDS_MAX = 60
SLAAC = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}

THERE = {
    "networks": "SELECT * FROM network.network ORDER BY id",
    "segments": "SELECT * FROM network.segment ORDER BY id",
    "subnets": "SELECT * FROM network.subnet ORDER BY id",
    "pools": "SELECT * FROM network.pool ORDER BY subnet_id, first_address",
    "providers": """
        SELECT p.uuid, p.name, ARRAY(
                SELECT (resource_class_id, total, reserved, min_unit, max_unit, step_size, allocation_ratio)::text
                FROM placement.inventory i WHERE i.provider_id = p.id ORDER BY 1) AS inventories,
            ARRAY(SELECT trait_id FROM placement.provider_trait t WHERE t.provider_id = p.id ORDER BY 1) AS traits,
            ARRAY(SELECT aggregate_uuid FROM placement.provider_aggregate a WHERE a.provider_id = p.id ORDER BY 1)
                AS aggregates
        FROM placement.provider p ORDER BY p.uuid""",
    "host aggregates": "SELECT uuid, name FROM compute.host_aggregate ORDER BY uuid",
    "members": "SELECT aggregate_uuid, host FROM compute.host_aggregate_host ORDER BY 1, 2",
}


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("h1", reach=["rack1"])
    await made.hosts("h2", reach=["rack2"], cell="cell2")
    return made


async def there(world: World) -> dict[str, list[Any]]:
    """All that a refused delete leaves as it was."""
    async with world.database.transaction(snapshot=True) as tx:
        return {what: [tuple(row) for row in await tx.fetch(query)] for what, query in THERE.items()}


async def plain(world: World) -> Network:
    network = await world.cloud.plain("10.1.0.0/29", physical_network="rack1")
    await world.cloud.subnet(network, "10.2.0.0/29")
    await world.cloud.subnet(network, "2001:db8::/64", **SLAAC)
    return network


async def routed(world: World) -> Network:
    return await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")


async def flat(world: World) -> Network:
    return await world.cloud.flat(cell1="10.1.0.0/29", cell2="10.2.0.0/29")


Make = Callable[[World], Awaitable[Network]]
Come = Callable[[World, Network], Awaitable[Any]]


async def bare(world: World, network: Network) -> None:
    await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=()))


async def addressed(world: World, network: Network) -> None:
    wanted = PortRequest(network_id=network.id, project_id=PROJECT, host="h1", device_owner="network:dhcp")
    await ports.create_port(world.networks, wanted)


async def outside(world: World, network: Network) -> None:
    """With an address that is in no pool, so that nothing is claimed for it."""
    named = (FixedIpRequest(ip_address="10.1.0.1"),)
    await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=named))


async def server(world: World, network: Network) -> None:
    await world.boot(network.id)
    await world.run()


async def came(world: World, network: Network) -> bool:
    """Whether something is on the network."""
    async with world.database.connection() as connection:
        return bool(
            await connection.fetchval("SELECT EXISTS (SELECT FROM network.port WHERE network_id = $1)", network.id)
        )


async def attempt(come: Come, world: World, network: Network) -> None:
    try:
        await come(world, network)
    except RoostError:
        return


async def clear(world: World, network: Network) -> None:
    """Nothing is on the network any more."""
    await world.run()
    await world.delete(*(await world.statuses()))
    await world.run()
    for port in await ports.list_ports(world.networks, PortFilter(network_ids=(network.id,))):
        await ports.delete_port(world.networks, port.id)


CASES = [(plain, bare), (plain, outside), (routed, addressed), (routed, server), (flat, server)]


@pytest.mark.parametrize(("make", "come"), CASES, ids=lambda item: item.__name__)
async def test_what_comes_after_any_transaction_of_a_networks_delete(world: World, make: Make, come: Come) -> None:
    empty = await there(world)
    for number in sampled_from(1):
        assert number < ROUNDS_MAX
        network = await make(world)
        before = await there(world)
        between = Between(world, number, lambda network=network: attempt(come, world, network))
        with between():
            try:
                await networks.delete_network(world.networks, network.id)
            except NetworkInUse:
                assert between.fired
                assert await there(world) == before
                assert await came(world, network)
        if await networks.list_networks(world.networks):
            await clear(world, network)
            await networks.delete_network(world.networks, network.id)
        assert not await came(world, network)
        await clear(world, network)
        assert await there(world) == empty
        await world.settled()
        if not between.fired:
            assert number > 3, "a delete has more transactions than that"
            return


@pytest.mark.parametrize(("make", "come"), CASES, ids=lambda item: item.__name__)
async def test_a_networks_delete_after_any_transaction_of_what_comes(world: World, make: Make, come: Come) -> None:
    empty = await there(world)
    for number in sampled_from(1):
        assert number < ROUNDS_MAX
        network = await make(world)

        async def delete(network: Network = network) -> None:
            before = await there(world)
            try:
                await networks.delete_network(world.networks, network.id)
            except NetworkInUse:
                assert await there(world) == before

        between = Between(world, number, delete, publishes=True)
        with between():
            await attempt(come, world, network)
        if await networks.list_networks(world.networks):
            await clear(world, network)
            await networks.delete_network(world.networks, network.id)
        assert not await came(world, network)
        await clear(world, network)
        await reconcile_once(world.networks)
        assert await there(world) == empty
        await world.settled()
        if not between.fired:
            return


async def claimed(world: World, then: Callable[[Subnet], Awaitable[Any]]) -> None:
    """`then` happens while the only subnet has no port's address, and a build's claim."""
    network = await world.routed(rack1="10.1.0.0/29")
    (subnet,) = await subnets.list_subnets(world.networks)
    await world.boot(network.id)
    happened = 0

    async def happen() -> None:
        nonlocal happened
        happened += 1
        await then(subnet)

    after(world.conductor.placement, "claim", happen)
    await world.run()
    assert happened == 1
    assert set((await world.statuses()).values()) == {"ACTIVE"}
    await world.settled()


async def test_a_subnet_that_a_build_has_claimed_is_as_it_was_when_its_delete_is_refused(world: World) -> None:
    async def delete(subnet: Subnet) -> None:
        before = await there(world)
        with pytest.raises(SubnetInUse, match="Servers are being built"):
            await subnets.delete_subnet(world.networks, subnet.id)
        assert await there(world) == before

    await claimed(world, delete)


async def test_a_network_that_somebody_deletes_first_is_not_found(world: World) -> None:
    network = await routed(world)
    between = Between(world, 1, lambda: networks.delete_network(world.networks, network.id))
    with between(), pytest.raises(NetworkNotFound):
        await networks.delete_network(world.networks, network.id)
    await world.settled()


# Subnets whose addresses follow from MACs.


async def automatic(world: World, network: Network) -> Subnet:
    """SLAAC beside the network's IPv4 addresses."""
    (segment,) = await networks.list_segments(world.networks)
    return await world.cloud.subnet(network, "2001:db8::/64", segment, name="automatic", **SLAAC)


async def bound(world: World, network: Network) -> Port:
    return await ports.create_port(
        world.networks, PortRequest(network_id=network.id, project_id=PROJECT, host="h1", device_owner="network:dhcp")
    )


async def creates(world: World, network: Network) -> None:
    await bound(world, network)


async def names_it(world: World, network: Network) -> None:
    """A port that wants the address, and no other."""
    for subnet in [item for item in await subnets.list_subnets(world.networks) if item.name == "automatic"]:
        named = (FixedIpRequest(subnet_id=subnet.id),)
        wanted = PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=named)
        await ports.create_port(world.networks, wanted)


async def binds(world: World, network: Network) -> None:
    port = await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    await ports.update_port(world.networks, port.id, PortChanges(host="h1"))


async def renews(world: World, network: Network) -> None:
    """Another MAC address, then another IPv4 address."""
    port = await bound(world, network)
    await ports.update_port(world.networks, port.id, PortChanges(host="", mac_address="fa:16:3e:00:00:77"))
    named = (FixedIpRequest(ip_address="10.1.0.200"),)
    await ports.update_port(world.networks, port.id, PortChanges(fixed_ips=named))
    await ports.delete_port(world.networks, port.id)


async def spreads(world: World, network: Network) -> None:
    """Another such subnet gives its addresses to the ports that are there, and goes."""
    (segment,) = await networks.list_segments(world.networks)
    other = await world.cloud.subnet(network, "2001:db8:e::/64", segment, **SLAAC)
    await subnets.delete_subnet(world.networks, other.id)


async def end(world: World, subnet: Subnet) -> None:
    """The subnet is gone, and everything agrees."""
    await world.run()
    await reconcile_once(world.networks)
    await world.settled()
    assert set((await world.statuses()).values()) <= {"ACTIVE"}
    async with world.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM network.subnet WHERE id = $1", subnet.id) == 0
        assert await connection.fetchval("SELECT count(*) FROM network.address WHERE subnet_id = $1", subnet.id) == 0


@pytest.mark.parametrize("act", [creates, names_it, binds, renews, spreads, server], ids=lambda act: act.__name__)
async def test_an_automatic_subnet_goes_after_any_transaction_of_its_ports(world: World, act: Come) -> None:
    network = await world.routed(rack1="10.1.0.0/24")
    held = await bound(world, network)
    for number in sampled_from(1):
        assert number < ROUNDS_MAX
        subnet = await automatic(world, network)

        async def delete(subnet: Subnet = subnet) -> None:
            await subnets.delete_subnet(world.networks, subnet.id)

        between = Between(world, number, delete, publishes=True)
        with between():
            await attempt(act, world, network)
        if not between.fired:
            return
        await end(world, subnet)
        assert (await ports.get_port(world.networks, held.id)).addresses == held.addresses


@pytest.mark.parametrize("act", [creates, binds, spreads, server], ids=lambda act: act.__name__)
async def test_ports_come_after_any_transaction_of_an_automatic_subnets_delete(world: World, act: Come) -> None:
    network = await world.routed(rack1="10.1.0.0/24")
    await server(world, network)
    held = set(await world.statuses())
    for number in sampled_from(1):
        assert number < ROUNDS_MAX
        subnet = await automatic(world, network)
        between = Between(world, number, lambda: attempt(act, world, network), publishes=True)
        with between():
            await subnets.delete_subnet(world.networks, subnet.id)
        await end(world, subnet)
        if not between.fired:
            return
        # The delete tells every server of the network, in a transaction each: with one more a round it had no end.
        await world.delete(*(set(await world.statuses()) - held))
        await world.run()


async def test_a_server_shows_no_address_of_an_automatic_subnet_that_went(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/24")
    subnet = await automatic(world, network)
    await server(world, network)
    (booted,) = await world.statuses()
    for addresses in (2, 1):
        shown = await server_service.get_server(world.compute, booted)
        assert [len(port.addresses) for port in shown.ports] == [addresses]
        if addresses == 2:
            await subnets.delete_subnet(world.networks, subnet.id)
    await world.settled()
