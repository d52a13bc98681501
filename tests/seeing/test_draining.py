"""Drains and recoveries of a whole cloud in one process: every server is elsewhere, or said to stay and why."""

from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest
from tests.conductor.world import BY, LEASE_S, World
from tests.seeing.draining import KilledHereToo, Operator

from roost.compute.model.work import MoveKind
from roost.compute.rules.actions import PAUSE, STOP, SUSPEND, ActionRule
from roost.compute.service.actions import change_power
from roost.compute.service.events import EVENTS
from roost.compute.service.hosts import disable_host, enable_host, list_hosts
from roost.compute.service.servers import get_server
from roost.network.service.networks import list_networks
from roost.platform.database import Database
from roost.platform.events import DRAIN, EventFilter
from roost.seeing.errors import DrainInvalid, DrainNotFound, HostsBusy, HostsNotFound, HostsUp
from roost.seeing.model import Drain, DrainKind
from roost.seeing.service import drain_rounds
from roost.seeing.service.drain_rounds import work_on_drains
from roost.seeing.service.drains import cancel_drain, get_drain, list_drains, purge_drains

RACK = ("r1-h1", "r1-h2", "r1-h3")


@pytest.fixture
async def operator(database: Database) -> Operator:
    world = await World.make(database)
    await world.hosts(*RACK, reach=["rack1"])
    return Operator(world)


async def booted(operator: Operator, count: int, on: str | None = None) -> list[str]:
    """Servers on rack1; on: all of them on that host."""
    world = operator.world
    networks = await world.routed(rack1="10.1.0.0/26")
    others = [name for name in RACK if on is not None and name != on]
    for name in others:
        await disable_host(world.compute, name)
    server_ids = await world.boot(networks.id, count=count)
    await world.run()
    for name in others:
        await enable_host(world.compute, name)
    return server_ids


async def power(operator: Operator, server_id: str, rule: ActionRule) -> None:
    await change_power(operator.world.compute, server_id, rule, BY)
    await operator.world.run()


async def vm_states(operator: Operator, server_ids: list[str]) -> list[str]:
    return [(await get_server(operator.world.compute, server_id)).vm_state for server_id in server_ids]


async def host_state(operator: Operator, name: str) -> tuple[bool, str | None, bool]:
    (host,) = await list_hosts(operator.world.compute, [name])
    return host.disabled, host.disabled_reason, host.forced_down


async def test_a_drained_host_is_disabled_and_empty_but_for_what_is_listed_with_its_reason(operator: Operator) -> None:
    servers = await booted(operator, 4, on="r1-h1")
    for server_id, rule in zip(servers, (STOP, PAUSE, SUSPEND), strict=False):
        await power(operator, server_id, rule)
    begun = await operator.ask("r1-h1", parallel=2)
    assert begun.drain is not None
    assert (begun.plan.servers, begun.plan.live, begun.plan.cold) == (4, 2, 1)
    assert [one.server_id for one in begun.plan.staying] == [servers[2]]
    drain = await operator.run(begun.drain.id)
    assert (drain.state, drain.servers, drain.progress.servers_left) == ("done", 4, 1)
    (stays,) = drain.progress.staying
    assert (stays.server_id, stays.host, stays.name) == (servers[2], "r1-h1", "web-3")
    assert "vm_state suspended" in stays.reason
    assert [host == "r1-h1" for host in await operator.hosts_of(servers)] == [False, False, True, False]
    assert await vm_states(operator, servers) == ["stopped", "paused", "suspended", "active"]
    assert await host_state(operator, "r1-h1") == (True, drain.reason, False)
    await operator.world.settled()


async def test_a_server_that_is_shelved_where_its_disk_is_leaves_with_it_and_stays_shelved(operator: Operator) -> None:
    operator.world.disks_on.update(RACK)
    servers = await booted(operator, 1, on="r1-h1")
    await operator.world.move(servers[0], MoveKind.SHELVE)
    await operator.world.run()
    assert await vm_states(operator, servers) == ["shelved"]
    drain = await operator.run((await operator.begin("r1-h1")).id)
    assert (drain.state, drain.progress.staying) == ("done", ())
    assert "r1-h1" not in await operator.hosts_of(servers)
    assert await vm_states(operator, servers) == ["shelved"]
    await operator.world.settled()


async def test_no_more_moves_than_asked_for_are_under_way(operator: Operator) -> None:
    servers = await booted(operator, 5, on="r1-h1")
    drain = await operator.begin("r1-h1", parallel=2)
    seen = []
    for _ in range(4):
        await operator.round()
        async with operator.world.database.connection() as connection:
            seen.append(await connection.fetchval("SELECT count(*) FROM compute.move WHERE open"))
        if len(seen) > 1:
            await operator.world.run()
    assert seen == [2, 2, 2, 1]
    await operator.run(drain.id)
    assert "r1-h1" not in await operator.hosts_of(servers)


async def test_a_move_that_fails_is_tried_again_and_its_last_reason_is_told(operator: Operator) -> None:
    servers = await booted(operator, 1, on="r1-h1")
    drain = await operator.begin("r1-h1")
    over = await operator.run(drain.id, failing=["r1-h2", "r1-h3"])
    (stays,) = over.progress.staying
    assert stays.reason.startswith("3 moves of it failed, the last one as: ")
    assert "told to fail" in stays.reason
    assert await operator.hosts_of(servers) == ["r1-h1"]
    again = await operator.begin("r1-h1")
    assert again.id != drain.id
    assert (await operator.run(again.id)).progress.staying == ()
    await operator.world.settled()


async def test_the_plan_is_of_all_servers_together(operator: Operator) -> None:
    """Two hosts have room for one server each; three servers would each fit alone."""
    await operator.world.hosts("r1-h4", "r1-h5", reach=["rack2"], vcpus=1)
    for name in RACK:
        await disable_host(operator.world.compute, name)
    await operator.world.hosts("r2-h1", reach=["rack2"])
    network = await operator.world.routed(rack2="10.2.0.0/26")
    for name in ("r1-h4", "r1-h5"):
        await disable_host(operator.world.compute, name)
    await operator.world.boot(network.id, count=3)
    await operator.world.run()
    for name in ("r1-h4", "r1-h5"):
        await enable_host(operator.world.compute, name)
    begun = await operator.ask("r2-h1", dry_run=True)
    assert begun.drain is None
    assert (begun.plan.servers, begun.plan.live) == (3, 2)
    (stays,) = begun.plan.staying
    assert "the 2 hosts that would do for it have room for 2 of the 3 servers like it" in stays.reason
    assert "segment" in stays.reason
    assert await list_drains(operator.seeing) == []
    drain = await operator.begin("r2-h1")
    over = await operator.run(drain.id)
    assert len(over.progress.staying) == 1
    assert "3 moves of it failed" in over.progress.staying[0].reason


async def test_a_whole_rack_cannot_go_where_addresses_hold_it(operator: Operator) -> None:
    await booted(operator, 2)
    begun = await operator.ask(*RACK, dry_run=True)
    assert {one.reason.partition(":")[0] for one in begun.plan.staying} == {
        "only hosts that are to be empty would do for it; its address holds it to segment "
        + begun.plan.staying[0].reason.rpartition("segment ")[2]
    }
    assert [one.server_id for one in (await operator.ask("r1-h1", dry_run=True)).plan.staying] == []


async def test_a_segment_names_its_hosts(operator: Operator) -> None:
    await operator.world.hosts("r2-h1", reach=["rack2"])
    network = await operator.world.routed(rack1="10.1.0.0/26", rack2="10.2.0.0/26")
    async with operator.world.database.connection() as connection:
        segment_id = await connection.fetchval(
            "SELECT id::text FROM network.segment WHERE network_id = $1 AND physical_network = 'rack1'", network.id
        )
    drain = await operator.begin(segment=segment_id)
    assert (drain.hosts, drain.segment) == (RACK, segment_id)
    with pytest.raises(DrainInvalid, match="no segment has that name"):
        await operator.ask(segment="rack9")


async def test_the_same_command_again_goes_on_with_the_same_drain(operator: Operator) -> None:
    drain = await operator.begin("r1-h1", "r1-h2", parallel=1)
    again = await operator.begin("r1-h2", "r1-h1", parallel=3, deadline_s=60)
    assert (again.id, again.parallel, again.request_id) == (drain.id, 3, drain.request_id)
    assert again.deadline_at is not None
    assert len(await list_drains(operator.seeing)) == 1
    assert [one.id for one in await list_drains(operator.seeing, ["r1-h2"])] == [drain.id]
    assert await list_drains(operator.seeing, ["r1-h3"]) == []


async def test_hosts_are_refused_in_one_sentence(operator: Operator) -> None:
    await operator.begin("r1-h1", "r1-h2")
    with pytest.raises(HostsBusy, match="host r1-h2 is being drained by drain 1, of 2 hosts"):
        await operator.ask("r1-h2", "r1-h3")
    with pytest.raises(HostsNotFound, match="Compute host r9 could not be found"):
        await operator.ask("r9")
    with pytest.raises(HostsUp, match="host r1-h3 is up"):
        await operator.ask("r1-h3", kind=DrainKind.RECOVER)
    with pytest.raises(DrainInvalid, match="no host is named"):
        await operator.ask()
    with pytest.raises(DrainNotFound, match="Drain 9 could not be found"):
        await get_drain(operator.seeing, 9)
    with pytest.raises(DrainNotFound, match="Drain 9 could not be found"):
        await cancel_drain(operator.seeing, 9)


async def cancelled(operator: Operator, drain: Drain) -> Drain:
    await cancel_drain(operator.seeing, drain.id)
    return await operator.run(drain.id)


@pytest.mark.parametrize("over", [False, True])
async def test_a_cancelled_drain_enables_the_hosts_that_it_disabled_and_no_other(
    operator: Operator, over: bool
) -> None:
    await disable_host(operator.world.compute, "r1-h2", reason="its disk")
    drain = await operator.begin("r1-h1", "r1-h2")
    await operator.round()
    assert await host_state(operator, "r1-h1") == (True, drain.reason, False)
    if over:
        assert (await operator.run(drain.id)).state == "done"
    assert (await cancelled(operator, drain)).state == "cancelled"
    assert await host_state(operator, "r1-h1") == (False, None, False)
    assert await host_state(operator, "r1-h2") == (True, "its disk", False)
    async with operator.world.database.connection() as connection:
        only = EventFilter(kind=DRAIN, host="r1-h1")
        events = await EVENTS.list(connection, only, before=None, limit=10)
    actions = [event.action for event in events]
    assert (actions[:2], actions[-1]) == (["over", "cancelled"], "begun")


async def test_a_drain_is_kept_for_the_days_of_history_after_it_was_over(operator: Operator) -> None:
    await booted(operator, 1)
    over = await operator.begin("r1-h1")
    await operator.run(over.id)
    young = await operator.begin("r1-h1")
    await operator.run(young.id)
    under_way = await operator.begin("r1-h1")
    async with operator.world.database.connection() as connection:
        await connection.execute("UPDATE seeing.drain SET ended_at = now() - interval '31 days' WHERE id = $1", over.id)
        await connection.execute("UPDATE seeing.drain SET created_at = now() - interval '99 days'")
    assert await purge_drains(operator.seeing) == 1
    assert [drain.id for drain in await list_drains(operator.seeing)] == [under_way.id, young.id]


async def test_a_cancelled_drain_ends_the_moves_that_it_has_begun(operator: Operator) -> None:
    """A cold move is confirmed, although nothing begins any more."""
    servers = await booted(operator, 3, on="r1-h1")
    for server_id in servers:
        await power(operator, server_id, STOP)
    drain = await operator.begin("r1-h1", parallel=1)
    await operator.round()
    over = await cancelled(operator, drain)
    assert (await operator.hosts_of(servers)).count("r1-h1") == 2
    assert {one.reason for one in over.progress.staying} == {"the drain was cancelled before its turn came"}
    assert await vm_states(operator, servers) == ["stopped"] * 3
    await operator.world.settled()


async def test_after_its_deadline_a_drain_begins_nothing(operator: Operator) -> None:
    servers = await booted(operator, 3, on="r1-h1")
    drain = await operator.begin("r1-h1", parallel=1, deadline_s=3600)
    await operator.round()
    async with operator.world.database.connection() as connection:
        await connection.execute("UPDATE seeing.drain SET deadline_at = now()")
    over = await operator.run(drain.id)
    assert (over.state, len(over.progress.staying)) == ("done", 2)
    assert (await operator.hosts_of(servers)).count("r1-h1") == 2
    assert await host_state(operator, "r1-h1") == (True, drain.reason, False)


async def test_a_resize_of_a_user_is_left_to_the_user(operator: Operator) -> None:
    (server_id,) = await booted(operator, 1, on="r1-h1")
    await operator.world.move(server_id, MoveKind.MIGRATE)
    await operator.world.run()
    over = await operator.run((await operator.begin("r1-h1")).id)
    (stays,) = over.progress.staying
    assert (stays.server_id, stays.host) == (server_id, "r1-h1")
    assert "waits until that is confirmed or reverted" in stays.reason


async def test_a_server_that_is_built_there_meanwhile_goes_too(operator: Operator) -> None:
    network = await operator.world.routed(rack1="10.1.0.0/26")
    for name in RACK[1:]:
        await disable_host(operator.world.compute, name)
    servers = await operator.world.boot(network.id)
    await operator.world.conduct()
    for name in RACK[1:]:
        await enable_host(operator.world.compute, name)
    drain = await operator.begin("r1-h1")
    await operator.round()
    (waits,) = (await get_drain(operator.seeing, drain.id)).progress.staying
    assert (waits.server_id, waits.final) == (servers[0], False)
    assert (await operator.run(drain.id)).progress.staying == ()
    assert "r1-h1" not in await operator.hosts_of(servers)
    await operator.world.settled()


@pytest.mark.parametrize("readdress", [False, True])
async def test_a_dead_rack_is_recovered(operator: Operator, readdress: bool) -> None:
    """Servers go to the hosts of their segment that live; with none, to another segment if they may."""
    servers = await booted(operator, 3, on="r1-h1")
    await power(operator, servers[0], STOP)
    dead = RACK if readdress else RACK[:1]
    if readdress:
        await operator.world.hosts("r2-h1", reach=["rack2"])
        cloud = operator.world.cloud
        async with operator.world.database.connection() as connection:
            network_id = await connection.fetchval("SELECT id::text FROM network.network")
        (network,) = await list_networks(operator.world.networks, [network_id])
        await cloud.subnet(network, "10.2.0.0/26", await cloud.segment(network, "rack2"))
    await operator.world.fall_silent(*dead, for_s=3600)
    await operator.world.look_for_silent()
    begun = await operator.ask(*dead, kind=DrainKind.RECOVER, readdress=readdress)
    assert begun.drain is not None
    assert (begun.plan.evacuated, begun.plan.staying) == (3, ())
    operator.world.running -= {key for key in operator.world.running if key[1] in dead}  # they are dead, indeed
    over = await operator.run(begun.drain.id, silent=dead)
    assert over.progress.staying == ()
    assert not set(await operator.hosts_of(servers)) & set(dead)
    assert await vm_states(operator, servers) == ["stopped", "active", "active"]
    assert [(await host_state(operator, name))[2] for name in dead] == [True] * len(dead)
    assert (await cancelled(operator, over)).state == "cancelled"
    assert (await host_state(operator, dead[0]))[2]


async def test_a_host_that_is_heard_of_again_is_not_forced_down_by_its_recovery(operator: Operator) -> None:
    """Its operator vouched for its death, and was wrong, or has repaired it meanwhile."""
    servers = await booted(operator, 2, on="r1-h1")
    await operator.world.fall_silent("r1-h1", for_s=3600)
    await operator.world.look_for_silent()
    recovery = await operator.begin("r1-h1", kind=DrainKind.RECOVER)
    await operator.world.hear("r1-h1")
    over = await operator.run(recovery.id)
    assert await host_state(operator, "r1-h1") == (False, None, False)
    assert await operator.hosts_of(servers) == ["r1-h1", "r1-h1"]
    assert {one.reason.partition(":")[0] for one in over.progress.staying} == {"host r1-h1 is up"}
    await operator.world.settled()


async def test_a_drain_that_follows_another_opens_what_that_one_closed(operator: Operator) -> None:
    await booted(operator, 1, on="r1-h1")
    first = await operator.begin("r1-h1")
    await operator.run(first.id)
    second = await operator.begin("r1-h1")
    await operator.round()
    await cancelled(operator, first)
    assert await host_state(operator, "r1-h1") == (True, second.reason, False), "another drain has it"
    await cancelled(operator, second)
    assert await host_state(operator, "r1-h1") == (False, None, False)


async def test_a_round_that_closed_a_host_is_not_the_last(operator: Operator) -> None:
    """A build that had chosen the host just before may come there yet."""
    drain = await operator.begin("r1-h1")
    await operator.round()
    assert (await get_drain(operator.seeing, drain.id)).state == "running"
    await operator.round()
    assert (await get_drain(operator.seeing, drain.id)).state == "done"


async def test_who_changes_a_drain_takes_it_from_the_round_that_is_under_way(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline had passed when the round looked; its end would end the drain that goes on."""
    servers = await booted(operator, 1, on="r1-h1")
    drain = await operator.begin("r1-h1", deadline_s=0.001)
    await operator.round()  # closes the host
    listed = drain_rounds.list_departures

    async def listed_late(*arguments: Any, **more: Any) -> Any:
        departures = await listed(*arguments, **more)
        monkeypatch.setattr(drain_rounds, "list_departures", listed)
        await operator.begin("r1-h1", deadline_s=3600)
        return departures

    monkeypatch.setattr(drain_rounds, "list_departures", listed_late)
    await operator.round()
    assert (await get_drain(operator.seeing, drain.id)).state == "running"
    assert (await operator.run(drain.id)).progress.staying == ()
    assert "r1-h1" not in await operator.hosts_of(servers)


async def test_servers_of_a_host_that_fell_silent_wait_for_it(operator: Operator) -> None:
    servers = await booted(operator, 1, on="r1-h1")
    drain = await operator.begin("r1-h1")
    await operator.world.fall_silent("r1-h1", for_s=3600)
    await operator.world.look_for_silent()
    await operator.round()
    (waits,) = (await get_drain(operator.seeing, drain.id)).progress.staying
    assert not waits.final
    assert "`roost recover` takes its servers elsewhere" in waits.reason
    await operator.world.hear("r1-h1")
    assert (await operator.run(drain.id)).progress.staying == ()
    assert "r1-h1" not in await operator.hosts_of(servers)


@pytest.mark.parametrize("after", [1, 4, 6])
async def test_a_conductor_that_dies_anywhere_in_a_round_leaves_a_drain_that_goes_on(
    operator: Operator, after: int
) -> None:
    """Killed at any renewal of its lease: before a host is closed, between two moves, before a confirmation."""
    servers = await booted(operator, 3, on="r1-h1")
    await power(operator, servers[0], STOP)
    drain = await operator.begin("r1-h1", "r1-h2", parallel=2)
    calls, keep = 0, drain_rounds.store.keep_lease

    async def counted(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == after + 1:
            raise KilledHereToo
        return await keep(*arguments, **more)

    for _ in range(3):
        with patch.object(drain_rounds.store, "keep_lease", counted), suppress(KilledHereToo):
            await operator.round()
        await operator.world.run()
    over = await operator.run(drain.id)
    assert over.progress.staying == ()
    assert set(await operator.hosts_of(servers)) == {"r1-h3"}
    assert await vm_states(operator, servers) == ["stopped", "active", "active"]
    await operator.world.settled()


async def test_a_conductor_that_sleeps_through_its_lease_begins_nothing(operator: Operator) -> None:
    """It has looked at the servers; another one has the next round, and moves them, before it goes on."""
    await booted(operator, 4, on="r1-h1")
    await operator.begin("r1-h1", parallel=2)
    look = drain_rounds.list_departures

    async def sleep(*arguments: Any, **more: Any) -> Any:
        departures = await look(*arguments, **more)
        with patch.object(drain_rounds, "list_departures", look):
            await operator.round()
        await operator.world.run()
        return departures

    with patch.object(drain_rounds, "list_departures", sleep), patch.object(drain_rounds, "DRAINS_AT_ONCE_MAX", 1):
        await operator.round()
    async with operator.world.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM compute.move") == 2


async def test_two_conductors_have_a_round_of_one_drain_only_when_a_lease_runs_out(operator: Operator) -> None:
    await operator.begin("r1-h1")
    assert await work_on_drains(operator.seeing, lease_s=LEASE_S) == 1
    assert await work_on_drains(operator.seeing, lease_s=LEASE_S) == 0
    await operator.due()
    async with operator.world.database.transaction() as tx:
        assert await drain_rounds.store.lease_drain(tx, operator.seeing.env.new_uuid(), lease_s=60) is not None
    assert await work_on_drains(operator.seeing, lease_s=LEASE_S) == 0
    await operator.due()
    assert await work_on_drains(operator.seeing, lease_s=LEASE_S) == 1
