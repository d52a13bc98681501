"""A guest that runs has its server's NICs, and nobody is given an address that it may still have."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT
from tests.compute.reporting import report
from tests.conductor.world import BY, World
from tests.network.cloud import PROJECT

from roost.agent.drivers.state import describe_guest
from roost.compute.model.server import NicAsked, Server
from roost.compute.model.work import MoveKind
from roost.compute.rules.actions import STOP
from roost.compute.service import actions, guests
from roost.compute.service import hosts as host_service
from roost.compute.service import servers as server_service
from roost.compute.service.interfaces import attach_interface, detach_interface
from roost.network.errors import IpAddressAlreadyAllocated, NetworkInUse, PortInUse
from roost.network.model.networks import NetworkChanges, SubnetChanges
from roost.network.model.ports import AddressPair, FixedIpRequest, Port, PortChanges, PortFilter, PortRequest
from roost.network.service import networks, ports, subnets
from roost.network.service.reconciler import reconcile_once
from roost.platform.database import Database
from roost.seams.agent import GuestOrder, GuestReport, GuestsBody, ListedGuest

TOLD = replace(AGENT, service_version=6, described=True)


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", reach=["rack1"])
    return made


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "SETTLE_WAIT_S", 0.0)


class Guest:
    """A server that runs, with the port of its NIC; user: it is the user's own."""

    def __init__(self, world: World, server: Server, port: Port) -> None:
        self.world, self.server, self.port = world, server, port
        self.host = str(server.host)
        self.address = port.addresses[0].address

    @classmethod
    async def boot(cls, world: World, *, user: bool = False) -> "Guest":
        network = await world.routed(rack1="10.1.0.0/28")
        mine = None
        if user:
            request = PortRequest(network_id=network.id, project_id=PROJECT)
            mine = (await ports.create_port(world.networks, request)).id
        (server_id,) = await (world.boot(port_id=mine) if mine else world.boot(network.id))
        await world.run()
        (port,) = await ports.list_ports(world.networks, PortFilter(device_ids=(server_id,)))
        return cls(world, await server_service.get_server(world.compute, server_id), port)

    async def orders(self) -> list[GuestOrder]:
        polled = await guests.Polls(self.world.compute).poll([self.host], agent=TOLD, busy=(), wait_s=0)
        return list(polled.orders)

    async def say(self, order: GuestOrder, state: Any = "running", **more: Any) -> None:
        said = GuestReport(server_id=order.server_id, host=order.host, attempt=order.attempt, state=state, **more)
        (answer,) = await report(self.world.compute, [said], agent=TOLD)
        assert answer.accepted, answer.reason

    async def obey(self) -> None:
        for order in await self.orders():
            await self.say(order, order.desired, nics_version=order.nics_version)

    async def change(self, **changes: Any) -> None:
        await ports.update_port(self.world.networks, self.port.id, PortChanges(**changes))

    async def take(self) -> Port:
        """Return a new port with the address. Raises IpAddressAlreadyAllocated."""
        fixed_ips = (FixedIpRequest(ip_address=self.address),)
        request = PortRequest(network_id=self.port.network_id, project_id=PROJECT, fixed_ips=fixed_ips)
        return await ports.create_port(self.world.networks, request)


async def attach(guest: Guest) -> None:
    nic = NicAsked(network_id=guest.port.network_id)
    await attach_interface(guest.world.compute, guest.server.id, nic, BY, permissions=None)


async def detach(guest: Guest) -> None:
    await detach_interface(guest.world.compute, guest.server, guest.port.id, BY)


async def delete(guest: Guest) -> None:
    await ports.delete_port(guest.world.networks, guest.port.id)


async def readdress(guest: Guest) -> None:
    await guest.change(fixed_ips=(FixedIpRequest(ip_address="10.1.0.12"),))


async def unsecure(guest: Guest) -> None:
    await guest.change(port_security_enabled=False)


async def pair(guest: Guest) -> None:
    await guest.change(allowed_address_pairs=(AddressPair(ip_address="10.9.0.0/24"),))


async def route(guest: Guest) -> None:
    subnet_id = guest.port.addresses[0].subnet_id
    await subnets.update_subnet(guest.world.networks, subnet_id, SubnetChanges(dns_nameservers=("10.1.0.9",)))


async def shrink(guest: Guest) -> None:
    await networks.update_network(guest.world.networks, guest.port.network_id, NetworkChanges(mtu=1400))


Deed = Callable[[Guest], Awaitable[None]]


@pytest.mark.parametrize("change", [attach, detach, delete, readdress, unsecure, pair, route, shrink])
async def test_a_guest_is_asked_for_until_its_host_has_its_nics_as_they_are(world: World, change: Deed) -> None:
    guest = await Guest.boot(world)
    assert await guest.orders() == []
    await change(guest)
    await reconcile_once(world.networks)
    (order,) = await guest.orders()
    now = (await server_service.get_server(world.compute, guest.server.id)).ports
    assert (order.desired, order.ports, [told.port_id for told in order.networks]) == (
        "running", now, [port.port_id for port in now],
    )  # fmt: skip
    await guest.say(order, nics_version=0)  # what it says of an order before leaves this one open
    assert await guest.orders() == [order]
    await guest.say(order, "unchanged", desired="running", message="no slot")
    assert await guest.orders() == [order]
    await guest.say(order, nics_version=order.nics_version)
    assert await guest.orders() == []
    await world.run()
    await world.settled()


@pytest.mark.parametrize("kind", [None, MoveKind.MIGRATE, MoveKind.LIVE])
async def test_a_build_and_a_move_ask_for_no_nics_of_their_own(world: World, kind: MoveKind | None) -> None:
    await world.hosts("r1-h2", reach=["rack1"])
    guest = await Guest.boot(world)
    if kind is not None:
        await world.move(guest.server.id, kind)
        await world.run()
    if kind is MoveKind.MIGRATE:
        await world.end_move(guest.server.id, revert=False)
        await world.run()
    async with world.database.connection() as connection:
        versions = await connection.fetch("SELECT DISTINCT nics_version, nics_reported FROM compute.guest")
    assert [tuple(row) for row in versions] == [(0, 0)]


async def test_a_name_is_nothing_that_a_guest_is_told(world: World) -> None:
    guest = await Guest.boot(world)
    await guest.change(name="web")
    await subnets.update_subnet(world.networks, guest.port.addresses[0].subnet_id, SubnetChanges(name="front"))
    await reconcile_once(world.networks)
    assert await guest.orders() == []


async def test_an_agent_that_does_not_say_has_them_once_it_has_done_the_order(world: World) -> None:
    guest = await Guest.boot(world)
    await unsecure(guest)
    (order,) = await guest.orders()
    await guest.say(order)
    assert await guest.orders() == []


async def test_a_guest_that_is_stopped_says_so_too_and_one_that_is_started_has_what_its_order_says(
    world: World,
) -> None:
    guest = await Guest.boot(world)
    await actions.change_power(world.compute, guest.server.id, STOP, BY)
    await guest.obey()
    await unsecure(guest)
    (order,) = await guest.orders()
    assert order.desired == "stopped"
    await guest.obey()
    assert await guest.orders() == []


async def test_a_list_with_other_nics_than_were_reported_asks_anew(world: World) -> None:
    guest = await Guest.boot(world)
    for _ in range(2):
        await unsecure(guest)
        (order,) = await guest.orders()
        await guest.say(order, nics_version=order.nics_version)
        await guest.change(port_security_enabled=True)
        await guest.obey()
    listed = describe_guest(order, ListedGuest, state="running", sequence=1)  # a disk that went back in time has it
    body = GuestsBody(agent=TOLD, guests=(listed,), as_of=0.0)
    assert await guests.compare_guests(world.compute, body) == []
    (again,) = await guest.orders()
    assert again.nics_version > order.nics_version
    await guest.obey()


# Addresses.


@pytest.mark.parametrize("user", [False, True])
@pytest.mark.parametrize("change", [delete, readdress])
async def test_an_address_is_nobodys_until_the_guest_is_without_it(world: World, change: Deed, user: bool) -> None:
    guest = await Guest.boot(world, user=user)
    await change(guest)
    for _ in range(2):
        with pytest.raises(IpAddressAlreadyAllocated):
            await guest.take()
        await reconcile_once(world.networks)
        await world.settled()
    await guest.obey()
    assert (await guest.take()).addresses[0].address == guest.address
    await world.settled()


async def test_a_nic_that_is_detached_keeps_its_address_until_the_guest_is_without_it(world: World) -> None:
    guest = await Guest.boot(world)
    await detach(guest)
    with pytest.raises(IpAddressAlreadyAllocated):
        await guest.take()
    with pytest.raises(NetworkInUse, match="repeat the request once their hosts have let them go"):
        await networks.delete_network(world.networks, guest.port.network_id)
    await guest.obey()
    await guest.take()


async def test_a_users_port_is_no_other_servers_until_the_guest_is_without_it(world: World) -> None:
    guest = await Guest.boot(world, user=True)
    other = await Guest.boot(world)
    await detach(guest)
    nic = NicAsked(port_id=guest.port.id)
    with pytest.raises(PortInUse, match=f"server {guest.server.id} has let it go, and host r1-h1 has not said"):
        await attach_interface(world.compute, other.server.id, nic, BY, permissions=None)
    (refused,) = await world.boot(port_id=guest.port.id)
    await world.conduct()
    assert "is still in use" in await world.fault(refused)
    await attach_interface(world.compute, guest.server.id, nic, BY, permissions=None)  # its own may have it back
    await guest.obey()
    now = await server_service.get_server(world.compute, guest.server.id)
    await detach_interface(world.compute, now, guest.port.id, BY)
    await guest.obey()
    await attach_interface(world.compute, other.server.id, nic, BY, permissions=None)
    await world.run()
    await world.settled()


async def test_who_detaches_a_users_port_waits_until_the_guest_is_without_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = await Guest.boot(world, user=True)
    monkeypatch.setattr(actions, "SETTLE_WAIT_S", 20.0)
    detaching = asyncio.create_task(detach(guest))
    while not await guest.orders():
        assert not detaching.done()
    await guest.obey()
    await detaching


async def test_what_a_port_gives_up_after_it_was_detached_waits_as_well(world: World) -> None:
    guest = await Guest.boot(world, user=True)
    await detach(guest)
    await delete(guest)
    with pytest.raises(IpAddressAlreadyAllocated):
        await guest.take()
    await guest.obey()
    await guest.take()
    await world.settled()


async def force_down(guest: Guest) -> None:
    await host_service.force_down(guest.world.compute, guest.host, True)
    await reconcile_once(guest.world.networks)


async def destroy(guest: Guest) -> None:
    await guest.world.delete(guest.server.id)
    await guest.world.run()
    await reconcile_once(guest.world.networks)


async def fall_silent(guest: Guest) -> None:
    await guest.world.fall_silent(guest.host, for_s=3600)
    await guest.world.look_for_silent()
    await reconcile_once(guest.world.networks)


@pytest.mark.parametrize(("end", "is_free"), [(force_down, True), (destroy, True), (fall_silent, False)])
async def test_an_address_is_free_once_no_guest_can_have_it(world: World, end: Deed, is_free: bool) -> None:
    guest = await Guest.boot(world)
    await delete(guest)
    await end(guest)
    if is_free:
        await guest.take()
        return
    with pytest.raises(IpAddressAlreadyAllocated):
        await guest.take()


async def test_a_guest_that_begins_with_a_port_that_its_build_lost_keeps_its_address(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    (server_id,) = await world.boot(network.id)
    await world.conduct()
    (order,) = await world.orders()
    assert await world.report(server_id, order.host, order.attempt, "begun")
    (port,) = await ports.list_ports(world.networks, PortFilter(device_ids=(server_id,)))
    await ports.delete_port(world.networks, port.id)
    fixed_ips = (FixedIpRequest(ip_address=order.ports[0].addresses[0]),)
    request = PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=fixed_ips)
    with pytest.raises(IpAddressAlreadyAllocated):
        await ports.create_port(world.networks, request)
    await world.run()
    await reconcile_once(world.networks)
    await ports.create_port(world.networks, request)


async def test_a_guest_that_is_made_with_a_port_that_its_build_lost_keeps_its_address(world: World) -> None:
    """Its order names the port still, whose NIC it is told of no more: its server has never run."""
    network = await world.routed(rack1="10.1.0.0/28")
    (server_id,) = await world.boot(network.id)
    await world.conduct()
    (port,) = await ports.list_ports(world.networks, PortFilter(device_ids=(server_id,)))
    guest = Guest(world, await server_service.get_server(world.compute, server_id), port)
    await world.delete(server_id)
    await delete(guest)
    (order,) = await guest.orders()
    assert order.ports[0].addresses == (guest.address,)
    await guest.say(order, "begun")
    await guest.obey()
    await reconcile_once(world.networks)
    with pytest.raises(IpAddressAlreadyAllocated):
        await guest.take()
    await world.conduct()
    with pytest.raises(IpAddressAlreadyAllocated):
        await guest.take()
    await world.run()
    await reconcile_once(world.networks)
    await guest.take()
