"""Moves whose source or destination was cabled otherwise meanwhile: no address is taken from a server that has it."""

import asyncio
from typing import Any

import pytest
from tests.conductor.test_moves import booted
from tests.conductor.test_readdress import RACKS, lose_rack, server_of
from tests.conductor.world import World
from tests.network.cloud import PROJECT
from tests.next_call import instead

from roost.compute.errors import ActionRefused
from roost.compute.model.work import MoveKind
from roost.compute.service import hosts as host_service
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.service.moves import confirm_due
from roost.compute.settings import ComputeSettings
from roost.network.model.networks import Network
from roost.network.model.ports import FixedIpRequest, PortChanges, PortFilter, PortRequest
from roost.network.rules.drift import PORT_UNREACHED
from roost.network.service import ports
from roost.network.service.audit import AUDIT
from roost.network.service.reconciler import reconcile_once as reconcile_ports
from roost.platform.audit import Repairs
from roost.platform.database import Database
from roost.platform.errors import DatabaseUnavailable
from roost.seams.network import BindRefused

FAILING_KINDS = (MoveKind.MIGRATE, MoveKind.RESIZE, MoveKind.LIVE)


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    for rack, hosts in RACKS.items():
        await made.hosts(*hosts, reach=[rack])
    return made


async def recable(world: World, *hosts: str) -> None:
    """The agents of these hosts report a physical network that no segment has."""
    await world.hosts(*hosts, reach=["RACK"])


async def list_unreached(world: World) -> list[str]:
    """Return the ports that the audit names since their hosts do not reach their addresses."""
    drifts = await AUDIT.run(world.networks, repairs=Repairs.NONE)
    assert {drift.kind for drift in drifts} <= {PORT_UNREACHED}
    return [drift.key for drift in drifts]


async def booted_in_rack1(world: World) -> tuple[Network, Any]:
    network = await world.routed(rack1="10.1.0.0/29")
    return network, await booted(world, network)


def other_host(server: Any) -> str:
    """Return the other host of rack1."""
    (host,) = set(RACKS["rack1"]) - {server.host}
    return host


async def assert_kept(world: World, before: Any, *, host: str | None = None, is_reached: bool = False) -> None:
    """The server is ACTIVE with the addresses that it had, bound to its host.

    is_reached: else the audit names its ports, until the host is cabled as before.
    """
    after = await server_of(world, before.id)
    assert (after.status, after.host, after.ports) == ("ACTIVE", host or before.host, before.ports)
    bound = await ports.list_ports(world.networks, PortFilter(device_ids=(before.id,)))
    assert {port.host for port in bound} == {after.host}
    assert await list_unreached(world) == ([] if is_reached else [port.id for port in bound])
    await world.hosts(*RACKS["rack1"], reach=["rack1"])
    await world.settled()


@pytest.mark.parametrize("kind", FAILING_KINDS, ids=lambda kind: kind.value)
async def test_a_move_that_fails_returns_to_a_recabled_source_with_its_addresses(world: World, kind: MoveKind) -> None:
    _, before = await booted_in_rack1(world)
    await world.move(before.id, kind)
    await world.conduct()
    await recable(world, before.host)
    await world.run(failing=[other_host(before)])
    await assert_kept(world, before)


async def test_a_users_port_keeps_the_address_that_he_asked_for(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    request = PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=(FixedIpRequest(ip_address="10.1.0.4"),))
    port = await ports.create_port(world.networks, request)
    (server_id,) = await world.boot(port_id=port.id)
    await world.run()
    before = await server_of(world, server_id)
    await world.move(server_id, MoveKind.MIGRATE)
    await world.conduct()
    await recable(world, before.host)
    await world.run(failing=[other_host(before)])
    assert before.ports[0].addresses == ("10.1.0.4",)
    await assert_kept(world, before)


async def test_an_evacuation_that_fails_leaves_the_addresses_of_a_host_that_comes_back_recabled(world: World) -> None:
    _, before = await booted_in_rack1(world)
    await host_service.force_down(world.compute, before.host, True)
    world.running.clear()
    await world.move(before.id, MoveKind.EVACUATE)
    await world.conduct()
    await recable(world, before.host)
    await world.run(failing=[other_host(before)], silent=[before.host])
    after = await server_of(world, before.id)
    assert (after.status, after.host, after.ports) == ("ERROR", before.host, before.ports)
    assert await list_unreached(world) == [port.port_id for port in before.ports]


async def test_a_readdressing_that_was_half_done_keeps_what_was_not_exchanged(world: World) -> None:
    """One of the two ports was exchanged when the launch failed: it loses the new address, the other keeps its own."""
    first, second = [await world.routed(rack1=f"10.{n}.0.0/29", rack2=f"10.{n + 1}.0.0/29") for n in (1, 3)]
    (server_id,) = await world.boot(first.id, second.id)
    await world.run()
    before = await server_of(world, server_id)
    rack = await lose_rack(world, before)
    await world.move(server_id, MoveKind.EVACUATE, readdress=True)
    kept, exchanged = before.ports
    readdress = world.conductor.moves.readdress_ports

    async def refuse_one(binds: Any) -> Any:
        answers = await readdress([bind for bind in binds if bind.port_id != kept.port_id])
        return [*answers, *(BindRefused(bind.port_id, "told to") for bind in binds if bind.port_id == kept.port_id)]

    setattr(world.conductor.moves, "readdress_ports", refuse_one)  # noqa: B010 - a method, for mypy
    await world.run(silent=RACKS[rack])
    after = await server_of(world, server_id)
    assert (after.status, after.host) == ("ERROR", before.host)
    addresses = {port.port_id: port.addresses for port in after.ports}
    assert addresses == {kept.port_id: kept.addresses, exchanged.port_id: ()}
    assert await list_unreached(world) == []


async def test_a_move_that_an_older_roost_began_gives_nothing_back(world: World) -> None:
    _, before = await booted_in_rack1(world)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.conduct()
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.move SET plan = plan - 'addresses'")
    await recable(world, before.host)
    await world.run(failing=[other_host(before)])
    await assert_kept(world, before)


@pytest.mark.parametrize("kind", [MoveKind.MIGRATE, MoveKind.RESIZE], ids=lambda kind: kind.value)
async def test_a_revert_to_a_host_that_was_recabled_is_refused_with_the_address(world: World, kind: MoveKind) -> None:
    _, before = await booted_in_rack1(world)
    await create_flavor(world.compute, FlavorRequest(name="large", vcpus=2, ram_mb=1024, disk_gb=1))
    await world.move(before.id, kind, flavor="large" if kind is MoveKind.RESIZE else None)
    await world.run()
    await recable(world, before.host)
    with pytest.raises(ActionRefused) as refused:
        await world.end_move(before.id, revert=True)
    (address,) = before.ports[0].addresses
    assert f"host {before.host} does not reach all its addresses" in str(refused.value)
    assert f"The port with address {address} holds the server to segment rack1 of network net." in str(refused.value)
    assert (await server_of(world, before.id)).status == "VERIFY_RESIZE"
    await world.hosts(before.host, reach=["rack1"])
    await world.end_move(before.id, revert=True)
    await world.run()
    await assert_kept(world, before, is_reached=True)


@pytest.mark.parametrize("forced", [True, False], ids=["forced down", "silent"])
async def test_a_revert_to_a_host_that_is_down_is_refused_with_its_name(world: World, forced: bool) -> None:
    _, before = await booted_in_rack1(world)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run()
    if forced:
        await host_service.force_down(world.compute, before.host, True)
    else:
        await world.fall_silent(before.host, for_s=60)
        assert await world.look_for_silent() == [before.host]
    with pytest.raises(ActionRefused, match=f"host {before.host}, from which it came, is down"):
        await world.end_move(before.id, revert=True)
    after = await server_of(world, before.id)
    assert (after.status, after.task_state, after.host) == ("VERIFY_RESIZE", None, other_host(before))
    assert world.running == {(before.id, after.host)}


async def test_a_source_that_is_recabled_once_the_revert_was_accepted_gets_the_server_with_its_addresses(
    world: World,
) -> None:
    _, before = await booted_in_rack1(world)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run()
    await world.end_move(before.id, revert=True)
    await recable(world, before.host)
    await world.run()
    await assert_kept(world, before)


async def test_a_move_is_confirmed_though_its_destination_was_recabled(world: World) -> None:
    _, before = await booted_in_rack1(world)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run()
    await recable(world, other_host(before))
    await world.end_move(before.id, revert=False)
    await world.run()
    await assert_kept(world, before, host=other_host(before))


async def test_a_server_that_cannot_be_unshelved_keeps_its_addresses(world: World) -> None:
    _, before = await booted_in_rack1(world)
    await world.move(before.id, MoveKind.SHELVE)
    await world.run()
    await world.move(before.id, MoveKind.UNSHELVE)
    await world.conduct()
    await recable(world, *RACKS["rack1"])
    await world.run(failing=RACKS["rack1"])
    after = await server_of(world, before.id)
    assert (after.status, after.host) == ("SHELVED_OFFLOADED", None)
    assert after.ports[0].addresses == before.ports[0].addresses
    await world.hosts(*RACKS["rack1"], reach=["rack1"])
    await world.move(before.id, MoveKind.UNSHELVE)
    await world.run()
    await assert_kept(world, before, host=(await server_of(world, before.id)).host, is_reached=True)


async def test_a_build_that_is_tried_again_takes_no_address_that_its_user_named(world: World) -> None:
    """A bind is refused by a host that was recabled; what the user's other port has is his, wherever the build goes."""
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    request = PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=(FixedIpRequest(ip_address="10.1.0.4"),))
    port = await ports.create_port(world.networks, request)
    (server_id,) = await world.boot(network.id, port_id=port.id)
    await world.conduct()
    first_host = (await world.orders())[0].host
    await recable(world, first_host)
    await world.run(failing=[first_host])
    after = await server_of(world, server_id)
    assert after.status == "ACTIVE"
    assert after.host in set(RACKS["rack1"]) - {first_host}
    assert [nic.addresses for nic in after.ports if nic.port_id == port.id] == [("10.1.0.4",)]
    (kept,) = await ports.list_ports(world.networks, PortFilter(ids=(port.id,)))
    assert [item.address for item in kept.addresses] == ["10.1.0.4"]
    await world.settled()


async def test_an_address_that_a_move_gave_holds_the_server_from_then_on(world: World) -> None:
    """A server whose port got its address on a move leaves that segment no more than any other."""
    network, before = await booted_in_rack1(world)
    await world.cloud.subnet(network, "10.2.0.0/29", await world.cloud.segment(network, "rack2"))
    (port,) = await ports.list_ports(world.networks, PortFilter(device_ids=(before.id,)))
    await ports.update_port(world.networks, port.id, PortChanges(fixed_ips=()))
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run()
    await world.end_move(before.id, revert=False)
    await world.run()
    moved = await server_of(world, before.id)
    assert moved.ports[0].addresses
    rack = next(rack for rack, hosts in RACKS.items() if moved.host in hosts)
    for host in set(RACKS[rack]) - {moved.host}:
        await recable(world, host)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run()
    after = await server_of(world, before.id)
    assert (after.status, after.host, after.ports) == ("ACTIVE", moved.host, moved.ports)


async def test_a_move_is_reverted_or_confirmed_when_both_come_at_once(world: World) -> None:
    _, before = await booted_in_rack1(world)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run()
    world.compute.settings = ComputeSettings(resize_confirm_window=0.001)
    answers = await asyncio.gather(
        world.end_move(before.id, revert=True), confirm_due(world.compute), return_exceptions=True
    )
    reverted, confirmed = not isinstance(answers[0], BaseException), bool(answers[1])
    assert (reverted, confirmed) in ((True, False), (False, True)), answers
    await world.run()
    await assert_kept(world, before, host=before.host if reverted else other_host(before), is_reached=True)


async def test_a_move_does_not_go_on_with_a_claim_that_is_being_given_back(world: World) -> None:
    """Its user has taken the address off, and the ledger did not hear of it: the move would take the old claim over."""
    _, before = await booted_in_rack1(world)
    (port,) = await ports.list_ports(world.networks, PortFilter(device_ids=(before.id,)))

    async def is_lost(_real: Any, *_arguments: Any, **_more: Any) -> None:
        raise DatabaseUnavailable("away")

    instead(world.networks.placement, "release", is_lost)
    await ports.update_port(world.networks, port.id, PortChanges(fixed_ips=()))
    await world.move(before.id, MoveKind.LIVE)
    await world.conduct()
    await reconcile_ports(world.networks)
    await world.run()
    after = await server_of(world, before.id)
    assert (after.status, after.host) == ("ACTIVE", other_host(before))
    await world.settled()
