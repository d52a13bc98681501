"""Moves: whatever comes of one, its server is on one host, with its addresses, and the books agree."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT
from tests.conductor.world import BY, World
from tests.network.cloud import PROJECT
from tests.next_call import instead

from roost.compute.errors import ActionRefused, HostClosed, MigrationNotFound, ServerRefused
from roost.compute.model.server import MigrationFilter, NicAsked, Server
from roost.compute.model.work import MoveKind
from roost.compute.rules.actions import REBOOT_HARD, REBOOT_SOFT, STOP, ActionRule
from roost.compute.service import guests
from roost.compute.service import hosts as host_service
from roost.compute.service import servers as server_service
from roost.compute.service.actions import change_power, reset_state
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.service.interfaces import attach_interface
from roost.compute.service.moves import abort_migration, confirm_due, list_migrations
from roost.compute.settings import ComputeSettings
from roost.network.model.networks import Network
from roost.network.model.ports import PortFilter, PortRequest
from roost.network.service import ports
from roost.network.service.reconciler import reconcile_once as reconcile_ports
from roost.platform.database import Database
from roost.platform.errors import Conflict
from roost.seams.compute import ServerPort
from roost.seams.network import PortAttachment

CONFIRMED = (MoveKind.MIGRATE, MoveKind.RESIZE)


def nics(server: Server) -> list[ServerPort]:
    """What is kept of the server's ports, but for revisions, which every bind raises."""
    return [replace(port, revision=0) for port in server.ports]


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", "r1-h3", reach=["rack1"])
    await create_flavor(made.compute, FlavorRequest(name="large", vcpus=2, ram_mb=1024, disk_gb=1))
    return made


@pytest.fixture(autouse=True)
async def no_binding_left(database: Database) -> AsyncIterator[None]:
    """What a live migration binds beside the active one goes again."""
    yield
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM network.binding") == 0


async def booted(world: World, network: Network) -> Any:
    (server_id,) = await world.boot(network.id)
    await world.run()
    server = await server_service.get_server(world.compute, server_id)
    return replace(server, ports=tuple(nics(server)))


@pytest.mark.parametrize("kind", [MoveKind.MIGRATE, MoveKind.RESIZE, MoveKind.LIVE], ids=lambda kind: kind.value)
@pytest.mark.parametrize("revert", [False, True])
async def test_a_server_moves_within_a_full_segment(world: World, kind: MoveKind, revert: bool) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    before = await booted(world, network)
    await world.move(before.id, kind, flavor="large" if kind is MoveKind.RESIZE else None)
    await world.run()
    if kind in CONFIRMED:
        waiting = await server_service.get_server(world.compute, before.id)
        assert (waiting.status, waiting.task_state) == ("VERIFY_RESIZE", None)
        await world.end_move(before.id, revert=revert)
        await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.task_state, nics(after)) == ("ACTIVE", None, nics(before))
    assert (after.host == before.host) == (revert and kind in CONFIRMED)
    assert after.flavor.name == ("large" if kind is MoveKind.RESIZE and not revert else "small")
    await world.settled()


@pytest.mark.parametrize("stages", range(7))
@pytest.mark.parametrize("kind", [MoveKind.MIGRATE, MoveKind.LIVE], ids=lambda kind: kind.value)
async def test_a_conductor_that_dies_anywhere_leaves_a_move_that_goes_on(
    world: World, kind: MoveKind, stages: int
) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    before = await booted(world, network)
    await world.move(before.id, kind)
    for _ in range(8):
        await world.die_after(stages)
        await world.expire_leases()
        await world.serve_hosts()
    await world.run()
    if kind in CONFIRMED:
        await world.end_move(before.id, revert=True)
        await world.die_after(0)
        await world.expire_leases()
        await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, nics(after)) == ("ACTIVE", nics(before))
    assert (after.host == before.host) == (kind in CONFIRMED)
    await world.settled()


@pytest.mark.parametrize("kind", [MoveKind.MIGRATE, MoveKind.RESIZE, MoveKind.LIVE], ids=lambda kind: kind.value)
async def test_a_server_is_what_it_was_when_every_destination_fails(world: World, kind: MoveKind) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    before = await booted(world, network)
    others = [name for name in ("r1-h1", "r1-h2", "r1-h3") if name != before.host]
    await world.move(before.id, kind, flavor="large" if kind is MoveKind.RESIZE else None)
    await world.run(failing=others)
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.task_state, after.host, nics(after)) == ("ACTIVE", None, before.host, nics(before))
    assert (after.flavor, after.spec) == (before.flavor, before.spec)
    assert "told to fail" in await world.fault(before.id)
    await world.settled()


@pytest.mark.parametrize("kind", [MoveKind.MIGRATE, MoveKind.RESIZE, MoveKind.LIVE], ids=lambda kind: kind.value)
async def test_a_named_destination_outside_of_the_segment_is_refused_with_the_reason(
    world: World, kind: MoveKind
) -> None:
    await world.hosts("r2-h1", reach=["rack2"])
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    (server_id,) = await world.boot(network.id)
    await world.run()
    before = await server_service.get_server(world.compute, server_id)
    elsewhere = "r1-h1" if before.host == "r2-h1" else "r2-h1"
    await world.move(before.id, kind, to=elsewhere, flavor="large" if kind is MoveKind.RESIZE else None)
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.host, nics(after)) == ("ACTIVE", before.host, nics(before))
    why = await world.fault(before.id)
    assert "segment" in why
    assert f"The server is to leave {before.host}, so that host is not tried." in why
    assert "failed on" not in why
    await world.settled()


async def test_a_disabled_host_is_a_destination_if_it_is_forced_and_its_segment_will_do(world: World) -> None:
    await world.hosts("r2-h1", reach=["rack2"])
    before = await booted(world, await world.routed(rack1="10.1.0.0/29"))
    target = next(name for name in ("r1-h1", "r1-h2") if name != before.host)
    for name in (target, "r2-h1"):
        await host_service.disable_host(world.compute, name)
    with pytest.raises(HostClosed, match="is disabled"):
        await world.move(before.id, MoveKind.LIVE, to=target)
    await world.move(before.id, MoveKind.LIVE, to="r2-h1", anyway=True)
    await world.run()
    assert "does not reach segment" in await world.fault(before.id)
    assert (await server_service.get_server(world.compute, before.id)).host == before.host
    await world.move(before.id, MoveKind.LIVE, to=target, anyway=True)
    await world.run()
    assert (await server_service.get_server(world.compute, before.id)).host == target
    await world.settled()


async def test_a_server_is_evacuated_from_a_host_that_is_down_and_its_guest_there_goes(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    before = await booted(world, network)
    await host_service.force_down(world.compute, before.host, True)
    world.running.clear()  # its operator says so
    await world.move(before.id, MoveKind.EVACUATE)
    await world.run(silent=[before.host])
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, nics(after)) == ("ACTIVE", nics(before))
    assert after.host != before.host
    await host_service.force_down(world.compute, before.host, False)
    (other,) = await world.boot()
    await world.conduct()
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.guest SET host = $1 WHERE server_id = $2", before.host, other)
    orders = (await guests.Polls(world.compute).poll([before.host], agent=AGENT, busy=[], wait_s=0)).orders
    assert [order.desired for order in orders] == ["absent"], "before it serves anything else"
    await world.delete(other)
    await world.run()
    await world.settled()


async def test_a_server_can_be_stopped_where_it_is_evacuated_to(world: World) -> None:
    before = await booted(world, await world.routed(rack1="10.1.0.0/30"))
    await host_service.force_down(world.compute, before.host, True)
    world.running.clear()
    await world.move(before.id, MoveKind.EVACUATE, stopped=True)
    await world.run(silent=[before.host])
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.power, nics(after)) == ("SHUTOFF", "stopped", nics(before))
    assert not world.running
    await host_service.force_down(world.compute, before.host, False)
    await world.run()
    await world.settled()


async def test_a_server_that_was_to_be_stopped_there_still_runs_where_it_is(world: World) -> None:
    before = await booted(world, await world.routed(rack1="10.1.0.0/30"))
    await host_service.force_down(world.compute, before.host, True)
    await world.move(before.id, MoveKind.EVACUATE, stopped=True)
    await host_service.force_down(world.compute, before.host, False)
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.power, after.host) == ("ACTIVE", "running", before.host)
    await world.settled()


async def test_a_server_that_found_no_host_when_it_was_evacuated_keeps_what_it_has_and_is_evacuated_later(
    world: World,
) -> None:
    before = await booted(world, await world.routed(rack1="10.1.0.0/30"))
    await host_service.force_down(world.compute, before.host, True)
    world.running.clear()  # its operator says so
    await world.move(before.id, MoveKind.EVACUATE)
    others = [name for name in ("r1-h1", "r1-h2", "r1-h3") if name != before.host]
    await world.run(failing=others, silent=[before.host])
    failed = await server_service.get_server(world.compute, before.id)
    assert (failed.status, failed.host, nics(failed)) == ("ERROR", before.host, nics(before))
    await reconcile_ports(world.networks)
    await world.move(before.id, MoveKind.EVACUATE)
    await world.run(silent=[before.host])
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, nics(after)) == ("ACTIVE", nics(before))
    await host_service.force_down(world.compute, before.host, False)
    await world.run()
    await world.settled()


async def test_a_server_that_was_not_evacuated_is_made_again_on_its_host_by_a_hard_reboot(world: World) -> None:
    before = await booted(world, await world.routed(rack1="10.1.0.0/30"))
    await host_service.force_down(world.compute, before.host, True)
    world.running.clear()  # its operator says so
    await world.move(before.id, MoveKind.EVACUATE)
    others = [name for name in ("r1-h1", "r1-h2", "r1-h3") if name != before.host]
    await world.run(failing=others, silent=[before.host])
    with pytest.raises(ActionRefused, match="is not ready"):
        await change_power(world.compute, before.id, REBOOT_HARD, BY)  # its host is down
    await host_service.force_down(world.compute, before.host, False)
    await world.run()
    assert not world.running, "its host has destroyed what was fenced"
    with pytest.raises(ActionRefused, match="is not ready"):
        await change_power(world.compute, before.id, STOP, BY)
    await change_power(world.compute, before.id, REBOOT_HARD, BY)
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.host, nics(after)) == ("ACTIVE", before.host, nics(before))
    await world.settled()


async def test_servers_of_a_host_that_is_up_are_not_evacuated(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    before = await booted(world, network)
    with pytest.raises(ServerRefused, match="is still in use"):
        await world.move(before.id, MoveKind.EVACUATE)
    await host_service.force_down(world.compute, before.host, True)
    await world.move(before.id, MoveKind.EVACUATE)
    await host_service.force_down(world.compute, before.host, False)
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.host) == ("ACTIVE", before.host)
    assert "is up again" in await world.fault(before.id)
    await world.settled()


async def test_a_server_in_error_that_is_not_evacuated_after_all_stays_so(world: World) -> None:
    before = await booted(world, await world.routed(rack1="10.1.0.0/30"))
    await reset_state(world.compute, before.id, BY, active=False)
    await host_service.force_down(world.compute, before.host, True)
    await world.move(before.id, MoveKind.EVACUATE)
    await host_service.force_down(world.compute, before.host, False)
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.host, after.task_state) == ("ERROR", before.host, None)
    await reset_state(world.compute, before.id, BY, active=True)
    await world.settled()


async def test_inactive_bindings_that_users_made_stay(world: World) -> None:
    before = await booted(world, await world.routed(rack1="10.1.0.0/30"))
    (destination,) = {"r1-h1", "r1-h2"} - {before.host}
    user_made = [(before.ports[0].port_id, "r1-h3")]
    assert await world.conductor.moves.add_bindings(user_made) == [None]
    for kind, to in ((MoveKind.LIVE, destination), (MoveKind.MIGRATE, before.host)):
        await world.move(before.id, kind, to=to)
        await world.run()
    async with world.database.connection() as connection:
        bindings = await connection.fetch("SELECT port_id, host FROM network.binding")
    assert [tuple(row) for row in bindings] == user_made
    await world.conductor.moves.drop_bindings([(before.id, "r1-h3")])


async def test_a_move_waits_for_the_last_of_a_build(world: World) -> None:
    before = await booted(world, await world.routed(rack1="10.1.0.0/30"))
    async with world.database.connection() as connection:
        await connection.execute("INSERT INTO compute.work (server_id, stage) VALUES ($1, 'settle')", before.id)
    moving = asyncio.create_task(world.move(before.id, MoveKind.LIVE))
    await asyncio.wait([moving], timeout=0.2)
    assert not moving.done()
    await world.run()
    await moving
    await world.run()
    assert (await server_service.get_server(world.compute, before.id)).host != before.host
    await world.settled()


async def test_a_shelved_server_keeps_the_last_address(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    before = await booted(world, network)
    await world.move(before.id, MoveKind.SHELVE)
    await world.run()
    shelved = await server_service.get_server(world.compute, before.id)
    assert (shelved.status, shelved.host, shelved.task_state) == ("SHELVED_OFFLOADED", None, None)
    (other,) = await world.boot(network.id)
    await world.run()
    assert (await world.statuses())[other] == "ERROR"
    await world.delete(other)
    await world.run()
    await world.settled()
    await world.move(before.id, MoveKind.UNSHELVE)
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, nics(after)) == ("ACTIVE", nics(before))
    await world.settled()


@pytest.mark.parametrize("kind", list(MoveKind), ids=lambda kind: kind.value)
@pytest.mark.parametrize("stages", range(6))
async def test_a_server_that_is_deleted_on_its_way_leaves_nothing(world: World, kind: MoveKind, stages: int) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    before = await booted(world, network)
    if kind is MoveKind.UNSHELVE:
        await world.move(before.id, MoveKind.SHELVE)
        await world.run()
    if kind is MoveKind.EVACUATE:
        await host_service.force_down(world.compute, before.host, True)
        world.running.clear()
    await world.move(before.id, kind, flavor="large" if kind is MoveKind.RESIZE else None)
    await world.die_after(stages)
    await world.delete(before.id)
    await world.expire_leases()
    await world.run()
    assert await world.statuses() == {}
    await world.settled()


async def test_a_resize_on_its_own_host_claims_only_the_difference(database: Database) -> None:
    world = await World.make(database)
    world.compute.settings = ComputeSettings(allow_resize_to_same_host=True)
    await world.hosts("r1-h1", reach=["rack1"], vcpus=3)
    await create_flavor(world.compute, FlavorRequest(name="large", vcpus=2, ram_mb=1024, disk_gb=1))
    network = await world.routed(rack1="10.1.0.0/30")
    before = await booted(world, network)
    for revert in (True, False):
        await world.move(before.id, MoveKind.RESIZE, flavor="large")
        await world.run()
        assert (await world.statuses())[before.id] == "VERIFY_RESIZE"
        claims = await world.conductor.placement.get_consumers([before.id])
        assert [resources["VCPU"] for resources in claims[before.id].allocations.values()] == [2]
        await world.end_move(before.id, revert=revert)
        await world.run()
        after = await server_service.get_server(world.compute, before.id)
        assert (after.status, after.flavor.name) == ("ACTIVE", "small" if revert else "large")
        await world.settled()


async def test_a_stopped_server_stays_stopped(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    before = await booted(world, network)
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.guest SET desired = 'stopped'")
    await world.run()
    for revert in (True, False):
        await world.move(before.id, MoveKind.MIGRATE)
        await world.run()
        await world.end_move(before.id, revert=revert)
        await world.run()
        assert (await server_service.get_server(world.compute, before.id)).status == "SHUTOFF"
        await world.settled()


async def test_flat_and_routed_networks_and_two_nics_move_together(world: World) -> None:
    routed = await world.routed(rack1="10.1.0.0/29")
    flat = await world.cloud.flat(cell1="10.9.0.0/29")
    (server_id,) = await world.boot(routed.id, flat.id)
    await world.run()
    before = await server_service.get_server(world.compute, server_id)
    assert before.status == "ACTIVE"
    for kind, revert in ((MoveKind.MIGRATE, True), (MoveKind.MIGRATE, False), (MoveKind.LIVE, False)):
        await world.move(before.id, kind)
        await world.run()
        if kind in CONFIRMED:
            await world.end_move(before.id, revert=revert)
            await world.run()
        after = await server_service.get_server(world.compute, before.id)
        assert (after.status, nics(after)) == ("ACTIVE", nics(before))
        await world.settled()
    await world.move(before.id, MoveKind.SHELVE)
    await world.run()
    await world.settled()
    await world.move(before.id, MoveKind.UNSHELVE)
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, nics(after)) == ("ACTIVE", nics(before))
    await world.settled()


async def test_a_nic_that_a_server_got_since_moves_with_it_and_goes_with_it(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    before = await booted(world, network)
    wanted = PortAttachment(server_id=before.id, project_id=PROJECT, host=before.host, network_id=network.id)
    port_id = await world.compute.network.attach_port(wanted)
    attached = await server_service.get_server(world.compute, before.id)
    assert [port.port_id for port in attached.ports][1:] == [port_id]
    await world.move(before.id, MoveKind.LIVE)
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, nics(after), after.host != before.host) == ("ACTIVE", nics(attached), True)
    await world.settled()
    await world.compute.network.detach_port(before.id, port_id)
    assert nics(await server_service.get_server(world.compute, before.id)) == nics(before)
    await world.settled()
    await world.compute.network.attach_port(wanted)
    await world.delete(before.id)
    await world.run()
    await world.settled()
    assert await ports.list_ports(world.networks, PortFilter()) == []


async def test_a_nic_without_an_address_that_the_host_reaches_is_refused_and_leaves_nothing(world: World) -> None:
    await world.hosts("r2-h1", reach=["rack2"])
    near = await world.routed(rack1="10.1.0.0/29")
    before = await booted(world, near)
    far = await world.routed(rack2="10.2.0.0/29")
    port = await ports.create_port(world.networks, PortRequest(network_id=far.id, project_id=PROJECT, host="r2-h1"))
    for named in ({"network_id": far.id}, {"port_id": port.id}):
        wanted = PortAttachment(server_id=before.id, project_id=PROJECT, host=before.host, **named)
        with pytest.raises(Conflict, match="segment"):
            await world.compute.network.attach_port(wanted)
        assert nics(await server_service.get_server(world.compute, before.id)) == nics(before)
    await world.settled()


async def test_a_move_that_nobody_confirms_is_confirmed_after_the_window(world: World) -> None:
    world.compute.settings = ComputeSettings(resize_confirm_window=0.01)
    network = await world.routed(rack1="10.1.0.0/30")
    before = await booted(world, network)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run()
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.move SET updated_at = now() - interval '1 s'")
    assert await confirm_due(world.compute) == [before.id]
    await world.run()
    assert (await world.statuses())[before.id] == "ACTIVE"
    assert await confirm_due(world.compute) == []
    await world.settled()


async def test_a_live_migration_that_is_aborted_is_taken_back_whole(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    before = await booted(world, network)
    await world.move(before.id, MoveKind.LIVE)
    await world.conduct()  # a destination is asked to take over the memory
    only = MigrationFilter(server_id=before.id, open=True)
    (migration,) = await list_migrations(world.compute, only, marker=None, limit=9)
    assert migration.status == "running"
    await abort_migration(world.compute, before.id, migration.id)
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.host, nics(after)) == ("ACTIVE", before.host, nics(before))
    assert await world.fault(before.id) == "the migration was aborted"
    (migration,) = await list_migrations(world.compute, MigrationFilter(), marker=None, limit=9)
    assert migration.status == "cancelled"
    with pytest.raises(MigrationNotFound):
        await abort_migration(world.compute, before.id, migration.id)
    await world.settled()


async def test_what_a_server_had_stays_taken_until_its_move_is_over(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    before = await booted(world, network)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run()
    claims = await world.conductor.placement.get_consumers([before.id])
    (there,) = claims[before.id].allocations
    async with world.database.connection() as connection:
        held = await connection.fetch(
            """SELECT p.uuid, c.consumer_type, sum(a.used) AS used FROM placement.allocation a
            JOIN placement.provider p ON p.id = a.provider_id JOIN placement.consumer c ON c.uuid = a.consumer_uuid
            WHERE c.consumer_type = 'MIGRATION' GROUP BY 1, 2"""
        )
    assert [(row["uuid"] != there, row["used"]) for row in held] == [(True, 1 + 512 + 1)]


async def test_a_server_whose_host_falls_silent_as_it_is_to_be_stopped_is_what_it_was(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    before = await booted(world, network)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.fall_silent(before.host, for_s=600)
    await world.look_for_silent()
    await world.conduct()
    await world.hear(before.host)
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.host, nics(after)) == ("ACTIVE", before.host, nics(before))
    assert "it is down" in await world.fault(before.id)
    await world.settled()


@pytest.mark.parametrize(
    ("kind", "refused"), [(MoveKind.MIGRATE, "stopped"), (MoveKind.LIVE, "stopped"), (MoveKind.LIVE, "running")]
)
async def test_a_server_is_what_it_was_when_a_host_does_not_change_its_guest(
    world: World, kind: MoveKind, refused: str
) -> None:
    """A source that does not stop it, or destinations on which it does not go on."""
    before = await booted(world, await world.routed(rack1="10.1.0.0/30"))
    await world.move(before.id, kind)
    for _ in range(8):  # what is refused on the source it may be asked for once more
        await world.conduct()
        await world.serve_hosts(refused=[refused])
        await world.expire_leases()
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.task_state, after.host, nics(after)) == ("ACTIVE", None, before.host, nics(before))
    assert "told to fail" in await world.fault(before.id)
    await world.settled()


async def test_what_becomes_of_ports_while_a_server_is_shelved_it_shows(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    before = await booted(world, network)
    await world.move(before.id, MoveKind.SHELVE)
    await world.run()
    await ports.delete_port(world.networks, before.ports[0].port_id)
    assert nics(await server_service.get_server(world.compute, before.id)) == []
    await world.move(before.id, MoveKind.UNSHELVE)
    await world.run()
    assert (await world.statuses())[before.id] == "ACTIVE"


@pytest.mark.parametrize("kind", [MoveKind.MIGRATE, MoveKind.RESIZE, MoveKind.LIVE], ids=lambda kind: kind.value)
@pytest.mark.parametrize("named", [False, True])
async def test_a_destination_that_does_not_begin_is_left(world: World, kind: MoveKind, named: bool) -> None:
    """For another host; or, where that was the only one that would do, the server is what it was."""
    before = await booted(world, await world.routed(rack1="10.1.0.0/30"))
    others = {"r1-h1", "r1-h2", "r1-h3"} - {before.host}
    flavor = "large" if kind is MoveKind.RESIZE else None
    await world.move(before.id, kind, to=min(others) if named else None, flavor=flavor)
    await world.run(silent=[*others])
    async with world.database.connection() as connection:
        chosen = await connection.fetchval("SELECT placed ->> 'host' FROM compute.work")
    (other,) = others - {chosen}
    for _ in range(3):
        await all_begin_times_are_over(world)
        await world.run(silent=[chosen])
    after = await server_service.get_server(world.compute, before.id)
    if named or kind is MoveKind.LIVE:
        assert (after.status, after.task_state, after.host) == ("ACTIVE", None, before.host if named else other)
    else:
        assert (after.status, after.task_state, after.host) == ("VERIFY_RESIZE", None, other)
        await world.end_move(before.id, revert=False)
        await world.run()
    assert nics(await server_service.get_server(world.compute, before.id)) == nics(before)
    await world.run()
    await world.settled()


async def all_begin_times_are_over(world: World) -> None:
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.guest SET created_at = created_at - interval '1000 s'")
        await connection.execute("UPDATE compute.work SET run_at = now()")


@pytest.mark.parametrize("reboot", [REBOOT_HARD, REBOOT_SOFT], ids=lambda rule: rule.task_state)
async def test_a_guest_that_is_about_to_be_made_anew_is_not_forgotten(world: World, reboot: ActionRule) -> None:
    """Its host has the one of the attempt before: the server's addresses are its own until that one is gone."""
    before = await booted(world, await world.routed(rack1="10.1.0.0/30"))
    await change_power(world.compute, before.id, reboot, BY)
    await world.delete(before.id)
    await world.run(silent=[before.host])
    assert await world.statuses() != {}
    await world.expire_leases()
    await world.run()
    assert (await world.statuses(), world.guests) == ({}, {})
    await world.settled()


async def test_a_nic_that_is_attached_while_the_server_moves_is_taken_off_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    before = await booted(world, network)
    attach_port = world.compute.network.attach_port

    async def attach_and_move(wanted: PortAttachment) -> str:
        port_id = await attach_port(wanted)
        await world.move(before.id, MoveKind.LIVE)
        await world.run()
        return port_id

    monkeypatch.setattr(world.compute.network, "attach_port", attach_and_move)
    with pytest.raises(ActionRefused, match="was moved from"):
        await attach_interface(world.compute, before.id, NicAsked(network_id=network.id), BY, permissions=None)
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, nics(after)) == ("ACTIVE", nics(before))
    await world.settled()


async def test_a_nic_that_a_move_binds_while_it_is_detached_is_detached(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    before = await booted(world, network)
    wanted = PortAttachment(server_id=before.id, project_id=PROJECT, host=before.host, network_id=network.id)
    port_id = await world.compute.network.attach_port(wanted)
    await world.move(before.id, MoveKind.LIVE)

    async def get_port(real: Any, *arguments: Any) -> Any:
        port = await real(*arguments)
        await world.run()
        return port

    instead(ports, "get_port", get_port)
    await world.compute.network.detach_port(before.id, port_id)
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, nics(after)) == ("ACTIVE", nics(before))
    assert after.host != before.host
    await world.settled()
