"""What consumers are told of a server's life: which notifications, in which order, by whom, on whose request."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.agent.cloud import AGENT
from tests.blocked import until_blocked
from tests.compute.reporting import report
from tests.conductor.world import BY, World
from tests.network.cloud import PROJECT

from roost.compute.model.server import MigrationFilter, NicAsked, Requester, ServerUpdate
from roost.compute.model.work import MoveKind
from roost.compute.rules import actions as rules
from roost.compute.service import action_log
from roost.compute.service import hosts as host_service
from roost.compute.service import servers as server_service
from roost.compute.service.actions import change_power, lock, unlock
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.service.interfaces import attach_interface, detach_interface
from roost.compute.service.moves import abort_migration, list_migrations
from roost.compute.service.server_changes import update_server
from roost.platform.database import Database
from roost.platform.errors import Conflict
from roost.platform.outbox import Notification, Outbox
from roost.seams.agent import GuestReport

SELECTED = [
    "scheduler.select_destinations.start nova-scheduler:here",
    "scheduler.select_destinations.end nova-scheduler:here",
]


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    made.compute.outbox = Outbox("compute", host="here", destinations=("log_file",))
    await made.hosts("h1", "h2", "h3", reach=["rack1"])
    await create_flavor(made.compute, FlavorRequest(name="large", vcpus=2, ram_mb=1024, disk_gb=1))
    return made


def asked(name: str) -> Requester:
    return Requester(request_id=f"req-{name}", project_id=PROJECT, user_id="user", is_admin=True)


async def take(world: World) -> list[Notification]:
    """What was written since the last time, of all subjects."""
    async with world.database.connection() as connection:
        rows = await connection.fetch("SELECT id, notification FROM compute.outbox ORDER BY id")
        await connection.execute("DELETE FROM compute.outbox")
    return [msgspec.json.decode(row["notification"], type=Notification) for row in rows]


async def told(world: World, server_id: str) -> list[str]:
    """`event_type publisher_id` of what the server's consumers were told since the last time."""
    return [f"{one.event_type} {one.publisher_id}" for one in await take(world) if one.subject == server_id]


def around(name: str, host: str, *phases: str) -> list[str]:
    return [f"instance.{name}.{phase} nova-compute:{host}" for phase in phases or ("start", "end")]


async def booted(world: World) -> Any:
    network = await world.routed(rack1="10.1.0.0/28")
    (server_id,) = await world.boot(network.id)
    await world.run()
    return await server_service.get_server(world.compute, server_id)


async def test_a_boot_is_told(world: World) -> None:
    server = await booted(world)
    assert await told(world, server.id) == [*SELECTED, *around("create", server.host)]


async def test_a_launch_that_fails_is_told_and_the_next_one_too(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    (server_id,) = await world.boot(network.id)
    await world.conduct()
    first = (await server_service.get_server(world.compute, server_id)).host
    await world.run(failing=[first])
    second = (await server_service.get_server(world.compute, server_id)).host
    assert await told(world, server_id) == [
        *SELECTED,
        *around("create", first, "start", "error"),
        *SELECTED,
        *around("create", second),
    ]


async def test_a_boot_that_finds_no_host_ends_in_an_error_with_its_reason(world: World) -> None:
    network = await world.routed(rack9="10.9.0.0/28")
    (server_id,) = await world.boot(network.id)
    await world.run()
    notifications = [one for one in await take(world) if one.subject == server_id]
    assert [f"{one.event_type} {one.publisher_id}" for one in notifications] == [
        SELECTED[0],
        "instance.create.error nova-conductor:here",
    ]
    last = notifications[-1]
    assert last.priority == "ERROR"
    fault = last.payload["nova_object.data"]["fault"]["nova_object.data"]
    assert fault["exception_message"] == await world.fault(server_id)


@pytest.mark.parametrize(
    ("rules_in_order", "names"),
    [
        ((rules.STOP, rules.START), ("power_off", "power_on")),
        ((rules.PAUSE, rules.UNPAUSE), ("pause", "unpause")),
        ((rules.SUSPEND, rules.RESUME), ("suspend", "resume")),
        ((rules.REBOOT_HARD, rules.REBUILD), ("reboot", "rebuild")),
    ],
)
async def test_actions_of_a_host_are_told(world: World, rules_in_order: Any, names: Any) -> None:
    server = await booted(world)
    await take(world)
    for rule, name in zip(rules_in_order, names, strict=True):
        await change_power(world.compute, server.id, rule, asked(name))
        await world.run()
        notifications = await take(world)
        assert [f"{one.event_type} {one.publisher_id}" for one in notifications] == around(name, server.host)
        assert {one.request["request_id"] for one in notifications} == {f"req-{name}"}


async def test_an_action_that_the_host_does_not_do_ends_in_an_error(world: World) -> None:
    server = await booted(world)
    await take(world)
    await change_power(world.compute, server.id, rules.STOP, BY)
    await world.run(refused=["stopped"])
    assert await told(world, server.id) == around("power_off", server.host, "start", "error")


async def test_a_lock_a_name_and_an_attachment_are_told(world: World) -> None:
    server = await booted(world)
    await take(world)
    await lock(world.compute, server.id, BY, reason="mine")
    await unlock(world.compute, server.id, BY)
    await update_server(world.compute, server.id, ServerUpdate(name="other"), BY)
    notifications = await take(world)
    assert [f"{one.event_type} {one.publisher_id}" for one in notifications] == [
        "instance.lock nova-api:here", "instance.unlock nova-api:here", "instance.update nova-api:here",
    ]  # fmt: skip
    assert notifications[2].payload["nova_object.data"]["old_display_name"] == server.name
    (network_id,) = {port.network_id for port in server.ports}
    nic = NicAsked(network_id=network_id)
    port = await attach_interface(world.compute, server.id, nic, BY, permissions=None)
    now = await server_service.get_server(world.compute, server.id)
    await detach_interface(world.compute, now, str(port.port_id), BY)
    expected = [*around("interface_attach", server.host), *around("interface_detach", server.host)]
    assert await told(world, server.id) == expected


async def test_a_resize_its_confirmation_and_its_reverse_are_told(world: World) -> None:
    server = await booted(world)
    for kind, flavor, revert in ((MoveKind.MIGRATE, None, False), (MoveKind.RESIZE, "large", True)):
        source = (await server_service.get_server(world.compute, server.id)).host
        await take(world)
        await world.move(server.id, kind, flavor=flavor)
        await world.run()
        dest = (await server_service.get_server(world.compute, server.id)).host
        notifications = [one for one in await take(world) if one.subject == server.id]
        assert [f"{one.event_type} {one.publisher_id}" for one in notifications] == [
            *SELECTED, *around("resize_prep", dest), *around("resize", source), *around("resize_finish", dest),
        ]  # fmt: skip
        prepared = notifications[2].payload["nova_object.data"]
        assert prepared["new_flavor"]["nova_object.data"]["name"] == (flavor or "small")
        await world.end_move(server.id, revert=revert)
        await world.run()
        assert await told(world, server.id) == (
            [*around("resize_revert", dest, "start"), *around("resize_revert", source, "end")]
            if revert
            else around("resize_confirm", source)
        )


async def test_a_live_migration_is_told(world: World) -> None:
    server = await booted(world)
    await take(world)
    await world.move(server.id, MoveKind.LIVE)
    await world.run()
    dest = (await server_service.get_server(world.compute, server.id)).host
    assert await told(world, server.id) == [
        *SELECTED,
        *around("live_migration_pre", dest),
        *around("live_migration_post", server.host),
        *around("live_migration_post_dest", dest),
    ]


async def test_a_live_migration_that_is_aborted_is_rolled_back(world: World) -> None:
    server = await booted(world)
    await take(world)
    await world.move(server.id, MoveKind.LIVE, to="h1" if server.host != "h1" else "h2")
    await world.conduct()
    dest = "h1" if server.host != "h1" else "h2"
    (migration,) = await list_migrations(world.compute, MigrationFilter(server_id=server.id), marker=None, limit=1)
    await abort_migration(world.compute, server.id, migration.id, asked("abort"))
    await world.run()
    assert await told(world, server.id) == [
        *SELECTED,
        *around("live_migration_pre", dest, "start"),
        *around("live_migration_abort", server.host),
        *around("live_migration_rollback", server.host, "start"),
        *around("live_migration_rollback_dest", dest),
        *around("live_migration_rollback", server.host, "end"),
    ]


async def test_shelving_unshelving_and_evacuating_are_told(world: World) -> None:
    server = await booted(world)
    await take(world)
    await world.move(server.id, MoveKind.SHELVE)
    await world.run()
    assert await told(world, server.id) == [*around("shelve", server.host), *around("shelve_offload", server.host)]
    await world.move(server.id, MoveKind.UNSHELVE)
    await world.run()
    source = (await server_service.get_server(world.compute, server.id)).host
    assert await told(world, server.id) == [*SELECTED, *around("unshelve", source)]
    await host_service.force_down(world.compute, source, True, by=BY)
    (down,) = await take(world)
    assert (down.event_type, down.publisher_id) == ("service.update", f"nova-compute:{source}")
    assert down.payload["nova_object.data"]["forced_down"] is True
    world.running.clear()  # its operator says so
    await world.move(server.id, MoveKind.EVACUATE)
    await world.run(silent=[source])
    dest = (await server_service.get_server(world.compute, server.id)).host
    assert await told(world, server.id) == [
        "instance.evacuate nova-api:here",
        *SELECTED,
        "instance.rebuild_scheduled nova-conductor:here",
        *around("rebuild", dest),
    ]


async def test_shelving_on_its_host_is_told_as_what_the_host_does(world: World) -> None:
    world.disks_on.update(("h1", "h2", "h3"))
    server = await booted(world)
    await take(world)
    for kind, state in ((MoveKind.SHELVE, "stopped"), (MoveKind.UNSHELVE, "running")):
        await world.move(server.id, kind)
        await world.run(refused=[state])
        assert await told(world, server.id) == around(kind.value, server.host, "start", "error")
        await world.move(server.id, kind)
        await world.run()
        assert await told(world, server.id) == around(kind.value, server.host)


async def states_told(world: World, server_id: str) -> list[tuple[str | None, str | None, str | None, str | None]]:
    """(old state, old task, state, task) of what was told since the last time, in order."""
    told = []
    for one in await take(world):
        if one.subject == server_id and one.event_type == "instance.update":
            states = one.payload["nova_object.data"]["state_update"]["nova_object.data"]
            told.append((states["old_state"], states["old_task_state"], states["state"], states["new_task_state"]))
    return told


async def test_every_change_of_state_is_told_where_consumers_ask_for_it(world: World) -> None:
    """Each begins where the one before it ended, whoever changed it: the API, a conductor or a host."""
    world.compute.state_changes = "vm_and_task_state"
    server = await booted(world)
    told = await states_told(world, server.id)
    assert told[0] == (None, None, "building", "scheduling")
    for action in (rules.STOP, rules.START):
        await change_power(world.compute, server.id, action, BY)
        await world.run()
    await world.move(server.id, MoveKind.MIGRATE)
    await world.run()
    await world.end_move(server.id, revert=False)
    await world.run()
    source = (await server_service.get_server(world.compute, server.id)).host
    await world.move(server.id, MoveKind.LIVE)
    await world.run()
    await world.move(server.id, MoveKind.SHELVE)
    await world.run()
    await world.move(server.id, MoveKind.UNSHELVE)
    await world.run(failing=[source])
    await server_service.delete_server(world.compute, server.id, by=BY)
    await world.run()
    told += await states_told(world, server.id)
    assert [after[:2] for after in told[1:]] == [before[2:] for before in told[:-1]], "none is left out"
    seen = list(dict.fromkeys(state for _, _, state, _ in told))
    assert seen == ["building", "active", "stopped", "resized", "shelved_offloaded"]
    tasks = {task for _, _, _, task in told}
    assert {"powering-off", "powering-on", "resize_prep", "migrating", "shelving", "spawning", "deleting"} <= tasks
    assert told[-1] == ("active", None, "active", "deleting")


async def test_a_consumer_of_states_alone_hears_of_no_tasks(world: World) -> None:
    world.compute.state_changes = "vm_state"
    server = await booted(world)
    await take(world)
    await change_power(world.compute, server.id, rules.STOP, asked("stop"))
    assert await states_told(world, server.id) == [], "a task is none of its states"
    await world.run()
    (stopped,) = [one for one in await take(world) if one.event_type == "instance.update"]
    assert (stopped.publisher_id, stopped.request["request_id"]) == (f"nova-compute:{server.host}", "req-stop")


async def test_states_are_told_to_nobody_who_does_not_ask(world: World) -> None:
    server = await booted(world)
    await change_power(world.compute, server.id, rules.STOP, BY)
    await world.run()
    assert await states_told(world, server.id) == []


async def test_a_delete_is_told_once_whoever_asks_again(world: World) -> None:
    server = await booted(world)
    await take(world)
    for name in ("delete", "again"):
        await server_service.delete_server(world.compute, server.id, by=asked(name))
    await world.run()
    notifications = await take(world)
    assert [f"{one.event_type} {one.publisher_id}" for one in notifications] == around("delete", server.host)
    assert [one.request["request_id"] for one in notifications] == ["req-delete"] * 2
    data = notifications[1].payload["nova_object.data"]
    assert (data["state"], data["deleted_at"] is not None) == ("deleted", True)


async def test_hosts_and_the_aggregates_of_segments_are_told(world: World) -> None:
    await world.routed(rack1="10.1.0.0/28")
    seen = [f"{one.event_type} {one.publisher_id}" for one in await take(world)]
    assert seen[:3] == [f"service.create nova-compute:h{number}" for number in (1, 2, 3)]
    for change in ("create", "add_host"):
        for phase in ("start", "end"):
            assert f"aggregate.{change}.{phase} nova-api:here" in seen


async def test_a_change_that_is_rolled_back_is_not_told(world: World) -> None:
    server = await booted(world)
    await take(world)
    with pytest.raises(Conflict, match="rolled back"):
        await lock_and_fail(world, server.id)
    assert await take(world) == []


async def lock_and_fail(world: World, server_id: str) -> None:
    """An entry of the log in a transaction that ends badly."""
    async with world.database.transaction() as tx:
        await action_log.begin(world.compute, tx, server_id, "lock", BY)
        assert await tx.fetchval("SELECT count(*) FROM compute.outbox") == 1
        raise Conflict("rolled back")


async def test_two_transactions_tell_of_one_server_in_their_order(world: World) -> None:
    server = await booted(world)
    await take(world)

    async def unlock_later() -> None:
        async with world.database.transaction() as tx:
            await action_log.begin(world.compute, tx, server.id, "unlock", BY)

    async with world.database.transaction() as tx:
        await action_log.begin(world.compute, tx, server.id, "lock", BY)
        later = asyncio.create_task(unlock_later())
        await until_blocked(world.database, 1)
    await later
    assert await told(world, server.id) == ["instance.lock nova-api:here", "instance.unlock nova-api:here"]


async def test_nothing_is_written_where_nobody_is_notified(world: World) -> None:
    """How many statements an action costs then, test_actions.py says."""
    world.compute.outbox = None
    server = await booted(world)
    await take(world)
    await change_power(world.compute, server.id, rules.STOP, BY)
    await world.run()
    assert await take(world) == []


async def test_what_guests_do_by_themselves_is_told_and_the_end_of_a_whole_host_once(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    server_ids = await world.boot(network.id, count=4)
    await world.run()
    servers = [await server_service.get_server(world.compute, server_id) for server_id in server_ids]
    hosts = [server.host for server in servers]
    host = next(one for one in hosts if hosts.count(one) > 1)  # of three hosts
    ended = [server.id for server in servers if server.host == host]
    await take(world)
    await report(world.compute, [by_itself(one, host, "shutdown") for one in ended], agent=AGENT)
    notifications = await take(world)
    (of_host,) = [one for one in notifications if one.subject == host]
    assert (of_host.event_type, of_host.payload["guests_ended"]) == ("service.guests_ended", len(ended))
    for server_id in ended:
        told_of = [f"{one.event_type} {one.publisher_id}" for one in notifications if one.subject == server_id]
        assert told_of == around("power_off", host)
    await report(world.compute, [by_itself(ended[0], host, "running", sequence=3)], agent=AGENT)
    await world.run()
    assert await told(world, ended[0]) == around("power_off", host)


def by_itself(server_id: str, host: str, power_state: Any, *, sequence: int = 2) -> GuestReport:
    return GuestReport(
        server_id=server_id, host=host, attempt=1, state="unchanged", by_itself=True, power_state=power_state,
        sequence=sequence,
    )  # fmt: skip
