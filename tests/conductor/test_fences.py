"""Silence fences nobody: what proves that a host runs a server no more, and what waits until then."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT, take_leases
from tests.conductor.test_moves import booted
from tests.conductor.test_readdress import server_of
from tests.conductor.world import BY, World

from roost.compute.errors import ActionRefused, ServerRefused
from roost.compute.model.work import MoveKind
from roost.compute.service import guests
from roost.compute.service import hosts as host_service
from roost.compute.service.actions import reset_state
from roost.compute.service.leases import release_leases
from roost.compute.service.moves import abort_migration
from roost.compute.service.silence import SilenceWatch
from roost.network.model.ports import PortFilter
from roost.network.service import ports
from roost.platform.database import Database
from roost.seams.agent import AgentIdentity, GuestsBody, ListedGuest

FENCE_AFTER_S = 120.0
PROMISING = replace(AGENT, fence_after_s=FENCE_AFTER_S)
HEIR = AgentIdentity(id="b0000000-0000-0000-0000-00000000000b", label="an heir", fence_after_s=FENCE_AFTER_S)
HOSTS = ("h1", "h2")
DOWN_AFTER_S = 30.0


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts(*HOSTS, reach=["rack1"])
    return made


async def a_server(world: World) -> Any:
    return await booted(world, await world.routed(rack1="10.1.0.0/29"))


def other_host(server: Any) -> str:
    (host,) = set(HOSTS) - {server.host}
    return host


async def fall_silent(world: World, host: str, *, for_s: float) -> None:
    """The host was last heard of so long ago, and said with it what it had promised; the listeners have seen it."""
    async with world.database.connection() as connection:
        await connection.execute(
            "UPDATE compute.host SET seen_at = seen_at - $2 * interval '1 s', promised_at = promised_at - $2 *"
            " interval '1 s' WHERE name = $1", host, for_s,
        )  # fmt: skip
        await connection.execute("UPDATE compute.agent SET seen_at = NULL, hosts_digest = NULL")
    await world.look_for_silent()


async def promise(world: World, host: str, fence_after_s: float | None = FENCE_AFTER_S) -> None:
    agent = replace(AGENT, fence_after_s=fence_after_s)
    await guests.Polls(world.compute).poll([host], agent=agent, busy=[], wait_s=0)


async def fenced_by(world: World, server_id: str) -> dict[str, str | None]:
    """Host -> what fences the server's guest there."""
    async with world.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT host, fenced_by, fenced FROM compute.guest WHERE server_id = $1", server_id
        )
    assert all(row["fenced"] == (row["fenced_by"] is not None) for row in rows), "the release before reads `fenced`"
    return {row["host"]: row["fenced_by"] for row in rows}


async def used(world: World) -> int:
    async with world.database.connection() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM network.address"))


async def test_a_silent_host_is_not_evacuated_before_its_operator_says_so(world: World) -> None:
    before = await a_server(world)
    await fall_silent(world, before.host, for_s=3600)
    with pytest.raises(
        ActionRefused, match="only silent: once you know that it does not, force the host's service down"
    ):
        await world.move(before.id, MoveKind.EVACUATE)
    assert await fenced_by(world, before.id) == {before.host: None}
    await host_service.force_down(world.compute, before.host, True)
    world.running.clear()
    await world.move(before.id, MoveKind.EVACUATE)
    await world.run(silent=[before.host])
    after = await server_of(world, before.id)
    assert (after.status, after.host, after.ports) == ("ACTIVE", other_host(before), before.ports)
    assert await fenced_by(world, before.id) == {before.host: "order", after.host: None}


async def test_a_host_that_is_up_is_refused_as_nova_does(world: World) -> None:
    before = await a_server(world)
    with pytest.raises(ServerRefused, match="is still in use"):
        await world.move(before.id, MoveKind.EVACUATE)


@pytest.mark.parametrize(
    ("for_s", "is_due"),
    [(DOWN_AFTER_S + 1, False), (DOWN_AFTER_S + 1.1 * FENCE_AFTER_S - 2, False),
     (DOWN_AFTER_S + 1.1 * FENCE_AFTER_S + 2, True)],
    ids=["silent", "not yet", "due"],
)  # fmt: skip
async def test_a_promise_counts_a_tenth_after_its_time(world: World, for_s: float, is_due: bool) -> None:
    before = await a_server(world)
    await promise(world, before.host)
    await fall_silent(world, before.host, for_s=for_s)
    await world.look_for_silent()
    if not is_due:
        with pytest.raises(ActionRefused, match="NICs are down 120 s after its last lease"):
            await world.move(before.id, MoveKind.EVACUATE)
        return
    world.running.clear()
    await world.move(before.id, MoveKind.EVACUATE)
    await world.run(silent=[before.host])
    after = await server_of(world, before.id)
    assert (after.status, after.host, after.ports) == ("ACTIVE", other_host(before), before.ports)
    assert await fenced_by(world, before.id) == {before.host: "promise", after.host: None}


async def test_a_shorter_lease_after_a_restart_does_not_end_those_that_were_given_before(world: World) -> None:
    before = await a_server(world)
    world.compute.settings = replace(world.compute.settings, host_down_after_s=600)
    await promise(world, before.host)
    world.compute.settings = replace(world.compute.settings, host_down_after_s=DOWN_AFTER_S)
    await fall_silent(world, before.host, for_s=DOWN_AFTER_S + 1.1 * FENCE_AFTER_S + 2)
    with pytest.raises(ActionRefused, match="NICs are down 120 s after its last lease"):
        await world.move(before.id, MoveKind.EVACUATE)
    await fall_silent(world, before.host, for_s=600 - DOWN_AFTER_S)
    await world.move(before.id, MoveKind.EVACUATE)
    assert await fenced_by(world, before.id) == {before.host: None}


async def test_no_promise_is_kept_before_somebody_has_listened_for_as_long(world: World) -> None:
    """A database whose clock jumped ahead says nothing about what agents did."""
    before = await a_server(world)
    await promise(world, before.host)
    async with world.database.connection() as connection:
        await connection.execute(
            "UPDATE compute.host SET silent = true, seen_at = seen_at - interval '1 day',"
            " promised_at = promised_at - interval '1 day' WHERE name = $1", before.host,
        )  # fmt: skip
    assert await SilenceWatch(world.compute).look() == []
    with pytest.raises(ActionRefused):
        await world.move(before.id, MoveKind.EVACUATE)


async def test_a_poll_that_an_older_release_heard_takes_the_promise_back(world: World) -> None:
    """It writes when the host was heard of, and knows nothing of what was promised."""
    before = await a_server(world)
    await promise(world, before.host)
    await fall_silent(world, before.host, for_s=3600)
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.host SET seen_at = now() - interval '50 min', silent = false")
    await world.look_for_silent()
    await world.look_for_silent()
    with pytest.raises(ActionRefused):
        await world.move(before.id, MoveKind.EVACUATE)


async def test_a_guest_is_to_go_from_its_fence_on_and_not_only_once_its_server_runs_elsewhere(world: World) -> None:
    before = await a_server(world)
    await host_service.force_down(world.compute, before.host, True)
    await world.move(before.id, MoveKind.EVACUATE)
    await world.conduct()
    assert (await fenced_by(world, before.id))[before.host] == "order"
    await host_service.force_down(world.compute, before.host, False)
    assert {(order.host, order.desired) for order in await world.orders()} == {
        (before.host, "absent"), (other_host(before), "running")
    }  # fmt: skip


async def test_a_host_that_comes_back_before_the_fence_keeps_its_server(world: World) -> None:
    """R40, the poll first: its agent has its lease again, and brings NICs up."""
    before = await a_server(world)
    await promise(world, before.host)
    await fall_silent(world, before.host, for_s=3600)
    await world.move(before.id, MoveKind.EVACUATE)
    await promise(world, before.host)
    await world.run()
    after = await server_of(world, before.id)
    assert (after.status, after.host, after.ports) == ("ACTIVE", before.host, before.ports)
    assert "is up again" in await world.fault(before.id)
    assert await fenced_by(world, before.id) == {before.host: None}


async def test_a_fence_and_the_poll_of_a_host_that_comes_back_wait_for_each_other(world: World) -> None:
    """R40, the fence first: the poll that renews the lease comes after it, so its agent destroys the guest."""
    before = await a_server(world)
    await promise(world, before.host)
    await fall_silent(world, before.host, for_s=3600)
    world.running.clear()
    await world.move(before.id, MoveKind.EVACUATE)
    holding, let_go = asyncio.Event(), asyncio.Event()

    async def hold_guest() -> None:
        async with world.database.transaction() as tx:
            await tx.execute("UPDATE compute.guest SET desired = desired WHERE server_id = $1", before.id)
            holding.set()
            await let_go.wait()

    holder = asyncio.create_task(hold_guest())
    await holding.wait()
    fencing = asyncio.create_task(world.conduct())
    await _until_locked(world, before.host)
    polling = asyncio.create_task(promise(world, before.host))
    done, _ = await asyncio.wait([polling], timeout=0.3)
    assert not done, "the poll does not wait for the fence"
    let_go.set()
    await asyncio.gather(holder, fencing, polling)
    assert (await fenced_by(world, before.id))[before.host] == "promise"
    body = GuestsBody(agent=AGENT, as_of=0.0, guests=(ListedGuest(server_id=before.id, host=before.host, attempt=1),))
    superseded = await guests.compare_guests(world.compute, body)
    assert [guest.key for guest in superseded] == [(before.id, before.host)]


async def _until_locked(world: World, host: str) -> None:
    """Return when somebody holds a lock on the host's row."""
    for _ in range(500):
        async with world.database.connection() as connection:
            free = await connection.fetchval(
                "SELECT count(*) FROM (SELECT FROM compute.host WHERE name = $1 FOR NO KEY UPDATE SKIP LOCKED) h", host
            )
        if not free:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nobody locks the host")


async def test_a_delete_of_a_server_on_a_silent_host_keeps_its_address_until_the_host_lets_go(world: World) -> None:
    before = await a_server(world)
    await fall_silent(world, before.host, for_s=3600)
    await world.delete(before.id)
    await world.run(silent=[before.host])
    assert await used(world) == 1
    await world.hear(before.host)
    await world.expire_leases()
    await world.run()
    assert (await used(world), await world.statuses()) == (0, {})
    await world.settled()


async def test_a_move_is_confirmed_while_its_source_is_silent_and_the_guest_there_goes_later(world: World) -> None:
    before = await a_server(world)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run()
    await fall_silent(world, before.host, for_s=60)
    await world.end_move(before.id, revert=False)
    await world.run(silent=[before.host])
    after = await server_of(world, before.id)
    assert (after.status, after.task_state, after.host) == ("ACTIVE", None, other_host(before))
    assert await fenced_by(world, before.id) == {before.host: "stopped", after.host: None}
    await world.hear(before.host)
    await world.run()
    assert world.guests.keys() == {(before.id, after.host)}
    await world.settled()


async def test_a_move_is_not_reverted_while_its_silent_destination_may_run_the_server(world: World) -> None:
    before = await a_server(world)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run()
    await fall_silent(world, other_host(before), for_s=3600)
    await world.end_move(before.id, revert=True)
    for _ in range(2):
        await world.expire_leases()
        await world.run(silent=[other_host(before)])
    assert await fenced_by(world, before.id) == dict.fromkeys(HOSTS)
    assert world.running == {(before.id, other_host(before))}
    await world.hear(other_host(before))
    await world.expire_leases()
    await world.run()
    assert world.running == {(before.id, before.host)}
    await world.settled()


async def test_a_destination_that_falls_silent_after_the_copy_leaves_the_move_waiting_and_an_abort_works(
    world: World,
) -> None:
    before = await a_server(world)
    await world.move(before.id, MoveKind.LIVE)
    await world.conduct()
    await world.serve_hosts()
    await fall_silent(world, other_host(before), for_s=60)
    for _ in range(2):
        await world.expire_leases()
        await world.conduct()
    assert world.running == {(before.id, before.host)}, "the source runs on"
    async with world.database.connection() as connection:
        migration_id = await connection.fetchval("SELECT id FROM compute.move WHERE open")
    await abort_migration(world.compute, before.id, migration_id)
    await world.run(silent=[other_host(before)])
    after = await server_of(world, before.id)
    assert (after.status, after.task_state, after.host) == ("ACTIVE", None, before.host)
    assert world.running == {(before.id, before.host)}
    await world.hear(other_host(before))
    await world.run()
    assert world.guests.keys() == {(before.id, before.host)}
    await world.settled()


async def test_an_exchanged_address_is_held_until_somebody_says_that_the_host_is_down(world: World) -> None:
    await world.hosts("h3", reach=["rack2"])
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    (server_id,) = await world.boot(network.id)
    await world.run()
    before = await server_of(world, server_id)
    await fall_silent(world, before.host, for_s=3600)
    with pytest.raises(ActionRefused):
        await world.move(server_id, MoveKind.EVACUATE, readdress=True)
    (port,) = await ports.list_ports(world.networks, PortFilter())
    assert tuple(item.address for item in port.addresses) == before.ports[0].addresses


async def test_no_agent_promises_for_the_guests_of_another(world: World) -> None:
    """R25: the one that sleeps promised nothing, or more than who serves its host now."""
    before = await a_server(world)
    await fall_silent(world, before.host, for_s=60)
    await take_leases(world.compute, [before.host], HEIR)  # and is dead before it lists its guests
    await fall_silent(world, before.host, for_s=3600)
    await world.look_for_silent()
    with pytest.raises(ActionRefused, match="is only silent"):
        await world.move(before.id, MoveKind.EVACUATE)
    await host_service.force_down(world.compute, before.host, True)
    await world.move(before.id, MoveKind.EVACUATE)
    await host_service.force_down(world.compute, before.host, False)
    await world.run(silent=[before.host])
    after = await server_of(world, before.id)
    assert (after.status, after.host, after.ports) == ("ACTIVE", before.host, before.ports)
    assert await fenced_by(world, before.id) == {before.host: None}


async def test_an_agent_that_was_stopped_has_promised_too(world: World) -> None:
    before = await a_server(world)
    await promise(world, before.host)
    await release_leases(world.compute, AGENT)
    await fall_silent(world, before.host, for_s=3600)
    world.running.clear()
    await world.move(before.id, MoveKind.EVACUATE)
    await world.run(silent=[before.host])
    assert await fenced_by(world, before.id) == {before.host: "promise", other_host(before): None}


async def test_a_guest_that_its_host_began_to_start_is_not_taken_for_stopped(world: World) -> None:
    """What the host said last is older: its NICs may be up, and nobody hears of it."""
    before = await a_server(world)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run()
    await world.end_move(before.id, revert=True)
    await world.conduct()
    await world.serve_hosts(silent=[before.host])  # the destination lets go
    await world.expire_leases()
    await world.conduct()
    await world.hear(*HOSTS)
    assert await world.report(before.id, before.host, 1, "begun"), "its agent starts it, and is cut off"
    world._note(before.id, before.host, 1, "running")
    await fall_silent(world, before.host, for_s=60)
    await world.expire_leases()
    await world.conduct()
    assert "is down, and does not start it again" in await world.fault(before.id)
    await reset_state(world.compute, before.id, BY, active=True)
    await world.move(before.id, MoveKind.MIGRATE)
    await world.run(silent=[before.host])
    assert world.running == {(before.id, before.host)}
    await world.hear(before.host)
    await world.run()
    assert world.running == {(before.id, before.host)}
