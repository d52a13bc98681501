"""After the restore of an older dump: no boot and no request gets what guests have that the records do not know."""

import uuid

import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT
from tests.conductor.world import World
from tests.invariants import assert_books_agree
from tests.network.cloud import PROJECT
from tests.next_call import before

from roost.compute.service.guests import compare_guests
from roost.compute.service.unknown_guests import hold_round
from roost.network.errors import IpAddressGenerationFailure
from roost.network.model.networks import Network
from roost.network.model.ports import PortRequest
from roost.network.service import ports
from roost.network.service.reconciler import reconcile_once
from roost.platform.database import Database
from roost.seams.agent import GuestNic, GuestsBody, ListedGuest

NINE = [f"10.1.0.{number}" for number in range(2, 11)]
HELD = "9 of its addresses are held by unknown guests: see roost-manage guests list."


@pytest.fixture
async def world(database: Database) -> World:
    world = await World.make(database)
    await world.hosts("h1", reach=["rack1"])
    return world


def guests_with(network: Network, addresses: list[str], host: str = "h1") -> list[ListedGuest]:
    """As an agent of version 5 lists them."""
    return [
        ListedGuest(
            server_id=str(uuid.uuid5(uuid.NAMESPACE_OID, address)), host=host, attempt=1, state="running",
            power_state="running", name=address, project_id=PROJECT, vcpus=1, ram_mb=512, disk_gb=1,
            nics=(
                GuestNic(
                    mac_address=f"fa:16:3e:00:01:{number:02x}", addresses=(address,), network_id=network.id,
                    port_id=str(uuid.uuid5(uuid.NAMESPACE_URL, address)),
                ),
            ),
        )
        for number, address in enumerate(addresses)
    ]  # fmt: skip


async def send(world: World, guests: list[ListedGuest]) -> None:
    await compare_guests(world.compute, GuestsBody(agent=AGENT, guests=tuple(guests), as_of=0.0))


async def addresses_of(world: World, server_ids: list[str]) -> list[str]:
    ports_by_server = await world.compute.network.list_attached_ports(server_ids)
    return [address for ports in ports_by_server.values() for port in ports for address in port.addresses]


async def test_nine_unknown_guests_keep_their_addresses_whatever_is_booted(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")  # 13 addresses
    await send(world, guests_with(network, NINE))
    server_ids = await world.boot(network.id, count=10)
    await world.run()
    statuses = [(await world.statuses())[server_id] for server_id in server_ids]
    assert sorted(statuses) == ["ACTIVE"] * 4 + ["ERROR"] * 6
    given = await addresses_of(world, server_ids)
    assert sorted(given) == ["10.1.0.11", "10.1.0.12", "10.1.0.13", "10.1.0.14"]
    failed = [server_id for server_id, status in (await world.statuses()).items() if status == "ERROR"]
    assert HELD in await world.fault(failed[0])
    with pytest.raises(IpAddressGenerationFailure, match=HELD):
        await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT, host="h1"))
    await world.delete(*server_ids)
    await world.run()
    await reconcile_once(world.networks)
    await assert_books_agree(world.database)


async def test_a_pool_that_has_only_what_unknown_guests_hold_has_nothing_to_give(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    addresses = [f"10.1.0.{number}" for number in range(2, 7)]
    await send(world, guests_with(network, addresses))
    (server_id,) = await world.boot(network.id)
    await world.run()
    assert (await world.statuses())[server_id] == "ERROR"
    fault = await world.fault(server_id)
    assert "The addresses of network net ran out: rack1 0 of 0 free." in fault
    assert "5 of its addresses are held by unknown guests: see roost-manage guests list." in fault
    with pytest.raises(IpAddressGenerationFailure, match="5 of its addresses are held by unknown guests"):
        await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT, host="h1"))


async def test_once_the_guests_are_gone_their_addresses_are_given_again(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    await send(world, guests_with(network, [f"10.1.0.{number}" for number in range(2, 7)]))
    await send(world, [])
    server_ids = await world.boot(network.id, count=5)
    await world.run()
    assert set((await world.statuses()).values()) == {"ACTIVE"}
    assert len(await addresses_of(world, server_ids)) == 5
    await assert_books_agree(world.database)


async def test_a_build_that_was_promised_the_last_address_is_retried_where_one_is_free(world: World) -> None:
    await world.hosts("h2", reach=["rack2"])
    network = await world.routed(rack1="10.1.0.0/30", rack2="10.2.0.0/30")
    (server_id,) = await world.boot(network.id)

    async def lose() -> None:
        """Its claim is made: the host's list comes before it binds."""
        async with world.database.connection() as connection:
            placed = await connection.fetchval("SELECT placed ->> 'host' FROM compute.work")
        rack = {"h1": "10.1.0.2", "h2": "10.2.0.2"}[placed]
        await send(world, guests_with(network, [rack], host=placed))

    before(world.conductor.network, "bind_ports", lose)
    await world.run()
    assert (await world.statuses())[server_id] == "ACTIVE", await world.fault(server_id)
    (address,) = await addresses_of(world, [server_id])
    async with world.database.connection() as connection:
        held = await connection.fetchval("SELECT host(address) FROM network.address WHERE NOT claimed")
    assert {address, held} == {"10.1.0.2", "10.2.0.2"}
    await reconcile_once(world.networks)
    await assert_books_agree(world.database)


async def known_elsewhere(world: World) -> tuple[str, str, str]:
    """A server that runs, its address, and another host that lists a guest of it with that address."""
    await world.hosts("h2", reach=["rack1"])
    network = await world.routed(rack1="10.1.0.0/28")
    (server_id,) = await world.boot(network.id)
    await world.run()
    (address,) = await addresses_of(world, [server_id])
    other = "h2" if (server_id, "h1") in world.guests else "h1"
    (guest,) = guests_with(network, [address], host=other)
    await send(world, [replace(guest, server_id=server_id, attempt=5)])
    return server_id, address, other


async def test_a_guest_of_a_server_that_is_known_elsewhere_keeps_its_servers_address(world: World) -> None:
    server_id, address, _ = await known_elsewhere(world)
    async with world.database.connection() as connection:
        assert await connection.fetchval("SELECT bool_and(claimed) FROM network.address"), "nothing is held"
    await hold_round(world.compute)
    assert await addresses_of(world, [server_id]) == [address]


async def test_a_delete_orders_unknown_guests_away_and_waits_for_them(world: World) -> None:
    server_id, address, other = await known_elsewhere(world)
    await world.delete(server_id)
    await world.conduct()
    assert {(order.host, order.desired) for order in await world.orders()} == {("h1", "absent"), ("h2", "absent")}
    await world.serve_hosts(silent=[other])
    await world.expire_leases()
    await world.conduct()
    assert await addresses_of(world, [server_id]) == [address], "its guest may still run there"
    await world.serve_hosts()
    await send(world, [])
    await world.expire_leases()
    await world.conduct()
    assert await addresses_of(world, [server_id]) == []
    await world.settled()


async def test_a_build_that_fails_gives_nothing_back_while_a_host_has_an_unknown_guest_of_it(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    (server_id,) = await world.boot(network.id)
    await world.conduct()
    (address,) = await addresses_of(world, [server_id])
    (guest,) = guests_with(network, [address])
    await send(world, [replace(guest, server_id=server_id, attempt=5)])
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.work SET stage = 'fail', run_at = now()")
    await world.conduct()
    assert await addresses_of(world, [server_id]) == [address]
    assert (await world.statuses())[server_id] == "ERROR"
    await send(world, [])
    await world.expire_leases()
    await world.conduct()
    assert await addresses_of(world, [server_id]) == []
    await world.settled()
