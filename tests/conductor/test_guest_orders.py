"""What hosts are told of the guests that they make, and how the two of a live migration meet."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT
from tests.compute.reporting import report
from tests.conductor.world import BY, World

from roost.compute.model.server import MigrationFilter, Server
from roost.compute.model.work import MoveKind
from roost.compute.rules.actions import REBOOT_HARD, REBOOT_SOFT, REBUILD, SHELVE_IN_PLACE, STOP, ActionRule
from roost.compute.service import guests
from roost.compute.service import hosts as host_service
from roost.compute.service import servers as server_service
from roost.compute.service.actions import change_power
from roost.compute.service.moves import abort_migration, list_migrations
from roost.platform.database import Database
from roost.seams.agent import GuestOrder, GuestReport, OrderId
from roost.seams.guests import DiskKept, GuestImage, MemorySource, NicSubnet

TOLD = replace(AGENT, service_version=6, described=True)
MEETING = MemorySource(address="192.0.2.7:49152", token="once")
HOSTS = ("r1-h1", "r1-h2")


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts(*HOSTS, reach=["rack1"])
    return made


async def poll(world: World, *hosts: str, version: int = 6, busy: Sequence[OrderId] = ()) -> list[GuestOrder]:
    agent = replace(AGENT, service_version=version, described=version >= 6)
    return list((await guests.Polls(world.compute).poll(hosts or HOSTS, agent=agent, busy=busy, wait_s=0)).orders)


async def booted(world: World) -> Server:
    (server_id,) = await world.boot((await world.routed(rack1="10.1.0.0/29")).id)
    await world.run()
    return await server_service.get_server(world.compute, server_id)


async def test_an_order_says_what_is_around_its_nics_from_version_6_on(world: World) -> None:
    network, flat = await world.routed(rack1="10.1.0.0/29"), await world.cloud.flat(cell1="10.2.0.0/29")
    await world.boot(network.id, flat.id)
    await world.conduct()
    (order,) = await poll(world)
    assert [told.port_id for told in order.networks] == [order.ports[0].port_id, ""]
    assert [port.port_id is None for port in order.ports] == [False, True]
    assert [told.segment and told.segment.id for told in order.networks] == [order.ports[0].segment, None]
    assert order.networks[0].segment is not None
    assert order.networks[0].segment.physical_network == "rack1"
    assert [told.subnets for told in order.networks] == [
        (NicSubnet(cidr=cidr, gateway=gateway),)
        for cidr, gateway in (("10.1.0.0/29", "10.1.0.1"), ("10.2.0.0/29", "10.2.0.1"))
    ]
    assert (order.hostname, order.image, order.soft, order.meeting) == ("web", None, False, None)
    (older,) = await poll(world, version=5)
    assert (older.networks, older.ports) == ((), order.ports)


@pytest.mark.parametrize(("version", "nics", "asked"), [(6, 1, 1), (6, 0, 0), (5, 1, 0)])
async def test_the_network_service_is_asked_once_for_a_poll_and_only_where_there_is_something_to_ask(
    world: World, monkeypatch: pytest.MonkeyPatch, version: int, nics: int, asked: int
) -> None:
    await world.boot(*[(await world.routed(rack1="10.1.0.0/27")).id] * nics, count=3)
    await world.conduct()
    calls: list[Any] = []
    real = world.compute.network.get_nic_networks

    async def noting(port_ids: Sequence[str]) -> Any:
        calls.append(port_ids)
        return await real(port_ids)

    monkeypatch.setattr(world.compute.network, "get_nic_networks", noting)
    assert len(await poll(world, version=version)) == 3
    assert [len(port_ids) for port_ids in calls] == [3] * asked


async def test_a_guest_is_told_its_name_and_its_image(world: World) -> None:
    server = await booted(world)
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.guest SET reported = NULL")
        await connection.execute("UPDATE compute.server SET hostname = NULL, name = 'My web_1!', image_ref = 'i'")
    (order,) = await poll(world)
    assert (order.server_id, order.hostname, order.image) == (server.id, "my-web-1", GuestImage(id="i"))


@pytest.mark.parametrize(
    ("rule", "desired", "soft"),
    [
        (STOP, "stopped", True),
        (SHELVE_IN_PLACE, "stopped", True),
        (REBOOT_SOFT, "running", True),
        (REBOOT_HARD, "running", False),
    ],
)
async def test_a_guest_is_asked_to_shut_down_first_where_its_user_asked_for_that(
    world: World, rule: ActionRule, desired: str, soft: bool
) -> None:
    server = await booted(world)
    await change_power(world.compute, server.id, rule, BY)
    (order,) = await poll(world)
    assert (order.desired, order.soft) == (desired, soft)


# Disks.


@pytest.mark.parametrize(("rule", "keeps"), [(REBOOT_SOFT, True), (REBOOT_HARD, True), (REBUILD, False)])
async def test_a_guest_that_is_made_anew_goes_on_with_its_disk_unless_it_is_rebuilt(
    world: World, rule: ActionRule, keeps: bool
) -> None:
    server = await booted(world)
    await change_power(world.compute, server.id, rule, BY)
    (order,) = await poll(world)
    assert (order.attempt, order.keeps_disk) == (2, keeps)


async def test_a_server_that_never_ran_begins_its_disk(world: World) -> None:
    await world.boot((await world.routed(rack1="10.1.0.0/29")).id)
    await world.conduct()
    (order,) = await poll(world)
    assert order.disk is None


async def migrating(world: World) -> tuple[Server, GuestOrder, GuestOrder]:
    """A server that is stopped to be migrated, the order for that, and that for its destination."""
    server = await booted(world)
    await world.move(server.id, MoveKind.MIGRATE)
    await world.conduct()
    (stopping,) = await poll(world)
    assert (stopping.host, stopping.desired, stopping.soft) == (server.host, "stopped", True)
    await tell(world, stopping, "stopped")
    (order,) = await poll(world)
    assert (order.host != server.host, order.desired) == (True, "running")
    assert order.disk == DiskKept(host=str(server.host))
    return server, stopping, order


async def test_a_source_that_is_stopped_is_told_where_its_disk_is_awaited(world: World) -> None:
    server, stopping, order = await migrating(world)
    await tell(world, order, "begun")
    assert await poll(world, str(server.host)) == [], "the destination has found it"
    await tell(world, order, "begun", meeting=MEETING)
    (again,) = await poll(world, str(server.host))
    assert (again.id, again.meeting) == (stopping.id, MEETING)
    later = MemorySource(address=MEETING.address, token="another")
    await tell(world, order, "begun", meeting=later)
    await tell(world, again, "stopped", meeting=MEETING)  # R48
    (again,) = await poll(world, str(server.host))
    assert again.meeting == later
    await tell(world, again, "stopped", meeting=later)
    assert await poll(world, str(server.host)) == []
    await tell(world, order, "running")
    after = await server_service.get_server(world.compute, server.id)
    assert (after.status, after.host) == ("VERIFY_RESIZE", order.host)
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.guest SET reported = NULL WHERE host = $1", server.host)
    (again,) = await poll(world, str(server.host))
    assert (again.desired, again.meeting) == ("stopped", None), "nobody awaits it any more"


async def test_a_destination_that_cannot_have_the_disk_gives_the_server_back(world: World) -> None:
    server, _, order = await migrating(world)
    await tell(world, order, "begun", meeting=MEETING)
    await tell(world, order, "failed", message="the source's agent did not come")
    (again,) = await poll(world, str(server.host))
    assert (again.desired, again.attempt, again.meeting) == ("running", 1, None)
    await tell(world, again, "running")
    after = await server_service.get_server(world.compute, server.id)
    assert (after.status, after.host) == ("ACTIVE", server.host)
    await world.settled()


async def test_an_evacuated_server_goes_on_with_its_disk_where_that_is_found(world: World) -> None:
    server = await booted(world)
    (other,) = {*HOSTS} - {server.host}
    await host_service.force_down(world.compute, str(server.host), True)
    await world.move(server.id, MoveKind.EVACUATE)
    await world.conduct()
    (order,) = await poll(world, other)
    assert order.disk == DiskKept(host=str(server.host), needed=False)


# Live migrations.


def say(order: GuestOrder, state: Any, **more: Any) -> GuestReport:
    return GuestReport(server_id=order.server_id, host=order.host, attempt=order.attempt, state=state, **more)


async def tell(world: World, order: GuestOrder, state: Any, **more: Any) -> None:
    (answer,) = await report(world.compute, [say(order, state, **more)], agent=TOLD)
    assert answer.accepted, answer.reason
    await world.conduct()


async def beginning(world: World) -> tuple[Server, GuestOrder]:
    """A server whose destination is asked to take over its memory, and that order."""
    server = await booted(world)
    await world.move(server.id, MoveKind.LIVE)
    await world.conduct()
    (order,) = await poll(world)
    assert (order.desired, order.host != server.host, order.meeting) == ("incoming", True, None)
    await tell(world, order, "begun")
    assert await poll(world, str(server.host)) == [], "nobody waits for memory yet"
    return server, order


async def test_the_source_is_told_once_where_to_send_its_memory_and_again_as_it_is_stopped(world: World) -> None:
    server, incoming = await beginning(world)
    await tell(world, incoming, "begun", meeting=MEETING)
    (order,) = await poll(world, str(server.host))
    assert (order.desired, order.meeting) == ("running", MEETING)
    assert await poll(world, str(server.host), busy=[order.id]) == []
    await tell(world, order, "running")
    assert await poll(world, str(server.host)) == []
    await tell(world, incoming, "incoming", meeting=MEETING)
    (order,) = await poll(world, str(server.host))
    assert (order.desired, order.soft, order.meeting) == ("stopped", False, MEETING)
    await tell(world, order, "stopped")
    (order,) = await poll(world, incoming.host)
    assert (order.desired, order.meeting) == ("running", None)
    await tell(world, order, "running")
    async with world.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM compute.guest WHERE meeting IS NOT NULL") == 0
    (order,) = await poll(world)
    assert (order.host, order.desired, order.meeting) == (server.host, "absent", None)
    await tell(world, order, "absent")
    after = await server_service.get_server(world.compute, server.id)
    assert (after.status, after.host) == ("ACTIVE", incoming.host)
    world.guests.clear()
    await world.settled()


async def test_a_source_that_sends_to_where_nobody_waits_any_more_is_told_again(world: World) -> None:
    server, incoming = await beginning(world)
    await tell(world, incoming, "begun", meeting=MEETING)
    (order,) = await poll(world, str(server.host))
    later = MemorySource(address=MEETING.address, token="another")
    await tell(world, incoming, "begun", meeting=later)
    await tell(world, order, "running", meeting=MEETING)
    (order,) = await poll(world, str(server.host))
    assert (order.desired, order.meeting) == ("running", later)
    await tell(world, order, "running", meeting=later)
    assert await poll(world, str(server.host)) == []


async def test_a_paused_source_is_told_as_it_is(world: World) -> None:
    server = await booted(world)
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.guest SET desired = 'paused', reported = 'paused'")
        await connection.execute("UPDATE compute.server SET power = 'paused'")
    await world.move(server.id, MoveKind.LIVE)
    await world.conduct()
    (incoming,) = await poll(world)
    await tell(world, incoming, "begun", meeting=MEETING)
    (order,) = await poll(world, str(server.host))
    assert (order.desired, order.meeting) == ("paused", MEETING)


async def test_a_source_that_cannot_send_its_memory_keeps_the_server(world: World) -> None:
    server, incoming = await beginning(world)
    await tell(world, incoming, "begun", meeting=MEETING)
    (order,) = await poll(world, str(server.host))
    await tell(world, order, "unchanged", desired="running", message="192.0.2.7 does not answer")
    (order,) = await poll(world, incoming.host)
    assert order.desired == "absent"
    await tell(world, order, "absent")
    (order,) = await poll(world)
    assert (order.host, order.desired, order.meeting) == (server.host, "running", None)
    await tell(world, order, "running")
    after = await server_service.get_server(world.compute, server.id)
    assert (after.status, after.host) == ("ACTIVE", server.host)
    assert await world.fault(server.id) == "192.0.2.7 does not answer"
    await world.settled()


async def test_a_source_of_which_the_destination_is_given_up_is_told_of_no_meeting(world: World) -> None:
    server, incoming = await beginning(world)
    await tell(world, incoming, "begun", meeting=MEETING)
    (migration,) = await list_migrations(world.compute, MigrationFilter(open=True), marker=None, limit=9)
    await abort_migration(world.compute, server.id, migration.id)
    await world.conduct()
    orders = {order.host: order for order in await poll(world)}
    assert {host: (order.desired, order.meeting) for host, order in orders.items()} == {
        server.host: ("running", None),
        incoming.host: ("absent", None),
    }
    (answer,) = await report(world.compute, [say(incoming, "begun", meeting=MEETING)], agent=TOLD)
    assert not answer.accepted
    await tell(world, orders[incoming.host], "absent")
    await tell(world, orders[str(server.host)], "running")
    after = await server_service.get_server(world.compute, server.id)
    assert (after.status, after.host) == ("ACTIVE", server.host)
    await world.settled()


async def test_a_source_of_version_5_confirms_its_guest_and_needs_no_meeting(world: World) -> None:
    server, incoming = await beginning(world)
    await tell(world, incoming, "begun", meeting=MEETING)
    (order,) = await poll(world, str(server.host), version=5)
    assert (order.desired, order.networks) == ("running", ())
    await tell(world, order, "running")
    await tell(world, incoming, "incoming")
    await world.run()
    after = await server_service.get_server(world.compute, server.id)
    assert (after.status, after.host) == ("ACTIVE", incoming.host)
