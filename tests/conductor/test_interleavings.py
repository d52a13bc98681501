"""What others do between two steps of a stage: hosts that report, conductors that were taken for dead."""

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest
from tests.conductor.world import World
from tests.network.cloud import PROJECT
from tests.next_call import before, instead

from roost.compute.service import nics
from roost.compute.service.servers import get_server
from roost.conductor import finish
from roost.network.model.ports import PortChanges, PortFilter, PortRequest
from roost.network.service import builds as port_builds
from roost.network.service import ports
from roost.platform.database import Database
from roost.platform.errors import TransactionVictim
from roost.seams.compute import PortsChange


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", reach=["rack1"])
    await made.hosts("r2-h1", "r2-h2", reach=["rack2"])
    return made


async def test_a_guest_that_runs_just_when_its_launch_times_out_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.conduct()
    look = finish.list_launches

    async def look_and_then_the_host_reports(*arguments: Any) -> Any:
        launches = await look(*arguments)
        await world.serve_hosts()
        return launches

    monkeypatch.setattr(finish, "list_launches", look_and_then_the_host_reports)
    await world.expire_leases()
    await world.run()
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


async def test_a_claim_that_is_kept_is_shut_to_the_conductor_that_made_it(world: World) -> None:
    """It wakes and gives back all that it claimed, after another has kept the port's claim and claimed another host."""
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    async with world.asleep(world.conductor.placement, "claim"):
        async with world.database.connection() as connection:
            await connection.execute("""
                UPDATE compute.work SET excluded_hosts = ARRAY(
                    SELECT h.name FROM placement.allocation a JOIN placement.provider p ON p.id = a.provider_id
                    JOIN compute.host h ON h.provider_uuid = p.uuid WHERE a.consumer_uuid = work.server_id)""")
        await world.run()
        assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


async def test_a_server_whose_stage_fails_holds_up_no_other_of_its_batch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    bad, *others = await world.boot(network.id, count=3)
    client = world.conductor.network
    bind = client.bind_ports

    async def fails_for_one(binds: Any) -> Any:
        if any(one.server_id == bad for one in binds):
            raise ValueError("what nobody foresaw")
        return await bind(binds)

    monkeypatch.setattr(client, "bind_ports", fails_for_one)
    await world.run()
    statuses = await world.statuses()
    assert {statuses[server] for server in others} == {"ACTIVE"}
    assert statuses[bad] == "BUILD"
    monkeypatch.undo()
    await world.expire_leases()
    await world.run()
    assert set((await world.statuses()).values()) == {"ACTIVE"}
    await world.settled()


@pytest.mark.parametrize("name", ["ensure_ports", "bind_ports", "settle_ports", "release_ports"])
async def test_a_stage_whose_transaction_gave_way_to_another_is_done_again_at_once(world: World, name: str) -> None:
    """Its servers do not wait until the lease runs out."""
    network = await world.routed(rack1="10.1.0.0/29")
    servers = await world.boot(network.id, count=2)
    if name == "release_ports":
        await world.run()
        await world.delete(*servers)

    async def victim(real: Any, *arguments: Any, **more: Any) -> Any:
        raise TransactionVictim("a deadlock")

    instead(world.conductor.network, name, victim)
    await world.run()
    assert await world.statuses() == ({} if name == "release_ports" else dict.fromkeys(servers, "ACTIVE"))
    await world.settled()


async def test_a_conductor_that_wakes_before_it_assigns_a_named_address_takes_no_port_from_the_server(
    world: World,
) -> None:
    """It finds the address taken: by the very port for which another has assigned it meanwhile."""
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id, fixed_ip="10.1.0.4")
    async with world.asleep(port_builds, "assign_address", before=True):
        await world.run()
        assert await world.statuses() == {server: "ACTIVE"}
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


async def test_a_conductor_that_wakes_before_it_looks_at_ports_moves_none_off_the_host_of_a_server_that_runs(
    world: World,
) -> None:
    """It was to bind them on a first host; another did, and went on to the next when the launch there failed."""
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.die_after(2)
    await world.expire_leases()
    async with world.asleep(world.conductor.network, "ensure_ports", before=True):
        await world.conduct()
        first = (await get_server(world.compute, server)).host
        assert first is not None
        await world.run(failing=[first])
        assert await world.statuses() == {server: "ACTIVE"}
    (port,) = await ports.list_ports(world.networks, PortFilter())
    assert port.host == (await get_server(world.compute, server)).host != first
    await world.settled()


async def test_a_conductor_that_wakes_before_it_makes_ports_leaves_none_with_a_server_that_failed(
    world: World,
) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    mine = await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    (server,) = await world.boot(network.id, port_id=mine.id)
    async with world.asleep(world.conductor.network, "ensure_ports", before=True):
        await world.run(failing=["r1-h1", "r1-h2"])
        assert await world.statuses() == {server: "ERROR"}
    assert len(await ports.list_ports(world.networks, PortFilter())) == 2
    await world.settled()
    (left,) = await ports.list_ports(world.networks, PortFilter())
    assert (left.id, left.device_id) == (mine.id, "")


async def test_a_conductor_that_wakes_before_it_makes_ports_gives_no_nic_back_that_was_taken_from_the_server(
    world: World,
) -> None:
    first, second = await world.routed(rack1="10.1.0.0/29"), await world.cloud.plain("10.3.0.0/29")
    (server,) = await world.boot(first.id, second.id)
    async with world.asleep(world.conductor.network, "ensure_ports", before=True):
        await world.run()
        kept, taken = sorted(
            await ports.list_ports(world.networks, PortFilter()), key=lambda port: port.network_id == second.id
        )
        await ports.delete_port(world.networks, taken.id)
    assert len(await ports.list_ports(world.networks, PortFilter())) == 2
    await world.settled()
    assert [port.id for port in await ports.list_ports(world.networks, PortFilter())] == [kept.id]
    assert await world.statuses() == {server: "ACTIVE"}


DETACHED = PortChanges(device_id="", device_owner="", host="")
LEFT_BOUND = PortChanges(device_id="", device_owner="")


@pytest.mark.parametrize("detached", [DETACHED, LEFT_BOUND], ids=["unbound", "left bound"])
async def test_a_conductor_that_wakes_before_it_reserves_a_users_port_keeps_none_that_was_detached_since(
    world: World, detached: PortChanges
) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    mine = await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    (server,) = await world.boot(network.id, port_id=mine.id)
    async with world.asleep(world.conductor.network, "ensure_ports", before=True):
        await world.run()
        assert await world.statuses() == {server: "ACTIVE"}
        await ports.update_port(world.networks, mine.id, detached)
        (left,) = await ports.list_ports(world.networks, PortFilter(ids=(mine.id,)))
    await world.settled()
    (after,) = await ports.list_ports(world.networks, PortFilter(ids=(mine.id,)))
    assert (after.device_id, after.device_owner) == ("", "")
    assert (after.host, after.vif_type) == (left.host, left.vif_type)
    assert after.addresses == left.addresses != ()
    assert [port.port_id for port in (await get_server(world.compute, server)).ports].count(mine.id) == 0
    await world.settled()


async def test_settling_a_server_again_gives_it_no_port_that_was_reserved_since_it_ran(world: World) -> None:
    """A conductor died when it had settled the server's ports; another that was taken for dead reserves one anew."""
    network = await world.routed(rack1="10.1.0.0/29")
    mine = await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    (server,) = await world.boot(network.id, port_id=mine.id)

    async def settle_and_die(real: Any, *arguments: Any) -> Any:
        await real(*arguments)
        raise ValueError("dies")

    async with world.asleep(world.conductor.network, "ensure_ports", before=True):
        instead(world.conductor.network, "settle_ports", settle_and_die)
        await world.run()
        await ports.update_port(world.networks, mine.id, LEFT_BOUND)
    await world.expire_leases()
    await world.run()
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()
    (after,) = await ports.list_ports(world.networks, PortFilter(ids=(mine.id,)))
    assert after.device_id == ""


async def test_a_conductor_that_wakes_when_another_has_placed_the_server_again_costs_it_no_attempt(
    database: Database,
) -> None:
    """It takes the port off its segment, where there was no host left, under who has found one there meanwhile."""
    world = await World.make(database)
    await world.hosts("r1-h1", reach=["rack1"])
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    world.conductor.settings = msgspec.structs.replace(world.conductor.settings, max_attempts=2)

    async def late(real: Any, *arguments: Any) -> Any:
        await world.hosts("r1-h2", reach=["rack1"])
        await world.expire_leases()
        before(world.conductor.network, "bind_ports", partial(real, *arguments))
        await world.run()

    await world.conduct()
    instead(world.conductor.network, "unassign_ports", late)
    await world.run(failing=["r1-h1"])
    assert await world.statuses() == {server: "ACTIVE"}
    (port,) = await ports.list_ports(world.networks, PortFilter())
    assert (port.host, len(port.addresses)) == ("r1-h2", 1)
    await world.settled()


async def test_whoever_writes_down_the_ports_of_several_servers_holds_one_at_a_time(world: World) -> None:
    """A conductor locks several servers too, in another order."""
    network = await world.routed(rack1="10.1.0.0/29")
    first, second = sorted(await world.boot(network.id, count=2))
    await world.run()
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.server SET network_info = '[]'")
    async with world.database.transaction() as tx:
        await tx.execute("SELECT FROM compute.server WHERE id = $1 FOR UPDATE", second)
        telling = asyncio.create_task(
            nics.ports_changed(world.compute, [PortsChange(first, ()), PortsChange(second, ())])
        )
        async with asyncio.timeout(10):
            while not (await get_server(world.compute, first)).ports:
                await asyncio.sleep(0.01)
        await tx.execute("SELECT FROM compute.server WHERE id = $1 FOR UPDATE NOWAIT", first)
    await telling
    assert (await get_server(world.compute, second)).ports
    await world.settled()
