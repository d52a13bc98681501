"""The pipeline turn by turn: what each stage does, what failures change, and who may change nothing any more."""

from collections import Counter
from functools import partial

import pytest
from tests.conductor.world import World
from tests.network.cloud import PROJECT
from tests.next_call import before

from roost.compute.errors import ServerNotFound
from roost.compute.service import hosts as host_service
from roost.compute.service import servers as server_service
from roost.conductor.pipeline import run_once
from roost.network.model.ports import FixedIpRequest, PortRequest
from roost.network.service.ports import create_port
from roost.platform.database import Database


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", reach=["rack1"])
    await made.hosts("r2-h1", "r2-h2", reach=["rack2"])
    return made


async def test_servers_fill_every_address_and_the_next_is_refused_with_the_reason(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    await world.boot(network.id, count=10)
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 10}
    await world.settled()
    (late,) = await world.boot(network.id)
    await world.run()
    assert (await world.statuses())[late] == "ERROR"
    assert "ran out: rack1 0 of 5 free, rack2 0 of 5 free" in await world.fault(late)
    await world.settled()


async def test_a_network_that_no_host_reaches_is_named_with_what_to_do(world: World) -> None:
    (server,) = await world.boot((await world.routed(rack9="10.9.0.0/29")).id)
    await world.run()
    fault = await world.fault(server)
    assert "4 enabled, 0 reach network " in fault
    assert fault.endswith("physical network of segment rack9. Addresses of network net: rack9 5 of 5 free.")
    await world.settled()


async def test_a_port_whose_address_only_full_hosts_reach_is_named_with_its_segment(world: World) -> None:
    await world.hosts("r3-h1", reach=["rack3"], vcpus=1)
    network = await world.routed(rack3="10.3.0.0/29", rack1="10.1.0.0/29")
    servers = []
    for number in (4, 5):
        asked = (FixedIpRequest(ip_address=f"10.3.0.{number}"),)
        port = PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=asked)
        servers += await world.boot(port_id=(await create_port(world.networks, port)).id)
    await world.run()
    statuses = await world.statuses()
    ((server, address),) = [(s, f"10.3.0.{n}") for s, n in zip(servers, (4, 5), strict=True) if statuses[s] == "ERROR"]
    fault = await world.fault(server)
    assert "1 reaches segment rack3 of network net, 0 with 1 VCPU free" in fault
    assert fault.endswith(f"The port with address {address} holds the server to segment rack3 of network net.")
    await world.settled()


async def test_a_server_that_failed_on_every_host_that_fits_is_told_so(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.run(failing=["r1-h1", "r1-h2"])
    fault = await world.fault(server)
    assert "2 hosts with all that was asked for, 0 where the server has not failed before." in fault
    assert "The server failed on r1-h1, r1-h2 before and is not tried there again; the last time: told to fail" in fault
    await world.settled()


async def test_a_deleted_servers_address_goes_to_the_next(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    first, *_ = await world.boot(network.id, count=5)
    await world.run()
    await world.delete(first)
    await world.run()
    assert first not in await world.statuses()
    await world.boot(network.id)
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 5}
    await world.settled()


async def test_a_failed_launch_is_tried_elsewhere_with_the_same_port_and_address(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.conduct()
    before = await ports_of(world)
    (host,) = {order[1] for order in before}
    await world.run(failing=[host])
    assert await world.statuses() == {server: "ACTIVE"}
    after = await ports_of(world)
    assert [(port, address) for port, _, address in before] == [(port, address) for port, _, address in after]
    assert after[0][1] != host
    await world.settled()


async def test_a_server_leaves_its_segment_when_all_its_hosts_fail_and_takes_its_port_along(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    (server,) = await world.boot(network.id)
    await world.conduct()
    ((port, host, _),) = await ports_of(world)
    rack = host[:2]
    await world.run(failing=[f"{rack}-h1", f"{rack}-h2"])
    assert await world.statuses() == {server: "ACTIVE"}
    ((same, new_host, address),) = await ports_of(world)
    assert same == port
    assert new_host[:2] != rack
    assert address.startswith("10.1." if rack == "r2" else "10.2.")
    await world.settled()


async def test_the_last_address_is_kept_for_the_server_that_tries_again(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    await world.boot(network.id, count=5)
    await world.conduct()
    await world.serve_hosts(failing=["r1-h1"])
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 5}
    await world.settled()


@pytest.mark.parametrize("forced_down", [False, True])
async def test_a_closed_host_gets_no_server_until_it_is_open_again(world: World, forced_down: bool) -> None:
    async def close(host: str, closed: bool) -> None:
        if forced_down:
            await host_service.force_down(world.compute, host, closed)
        else:
            await (host_service.disable_host if closed else host_service.enable_host)(world.compute, host)

    network = await world.routed(rack1="10.1.0.0/28")
    await close("r1-h1", True)
    await world.boot(network.id, count=4)
    await world.run()
    assert {host for _, host in world.launches} == {"r1-h2"}
    await close("r1-h2", True)
    (refused,) = await world.boot(network.id)
    await world.run()
    assert ("2 up and enabled (2 down)" if forced_down else "2 enabled") in await world.fault(refused)
    await close("r1-h1", False)
    await world.boot(network.id)
    await world.run()
    assert world.launches[-1][1] == "r1-h1"
    await world.settled()


async def test_launches_that_fail_everywhere_end_in_error_with_nothing_left(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    await world.boot(network.id, count=4)
    await world.run(failing=["r1-h1", "r1-h2", "r2-h1", "r2-h2"])
    assert Counter((await world.statuses()).values()) == {"ERROR": 4}
    for server in await world.statuses():
        assert "Exceeded maximum number of retries: 3" in await world.fault(server)
    assert await ports_of(world) == []
    await world.settled()


@pytest.mark.parametrize("turns", range(7))
async def test_a_delete_at_any_stage_leaves_nothing(world: World, turns: int) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    servers = await world.boot(network.id, count=3)
    if turns < 4:
        await world.die_after(turns)
        await world.delete(*servers)
        await world.expire_leases()
    else:
        await run_once(world.conductor)
        if turns == 5:
            await world.serve_hosts(silent=["r1-h1"])
        if turns == 6:
            await world.serve_hosts()
        await world.delete(*servers)
    await world.run()
    await world.run()
    assert await world.statuses() == {}
    assert await ports_of(world) == []
    await world.settled()


async def test_a_delete_that_comes_while_a_conductor_is_at_work_ends_the_build_before_its_launch(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    before(world.conductor.placement, "claim", partial(world.delete, server))
    await world.run()
    assert (await world.statuses(), world.launches) == ({}, [])
    assert await ports_of(world) == []
    await world.settled()


async def test_a_conductor_that_was_taken_for_dead_changes_nothing(world: World) -> None:
    """It has claimed, sleeps through its lease, and wakes when another has carried the server on."""
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    async with world.asleep(world.conductor.placement, "claim"):
        await world.run()
        assert await world.statuses() == {server: "ACTIVE"}
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


async def test_a_report_of_an_old_attempt_changes_nothing(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.conduct()
    ((_, host, _),) = await ports_of(world)
    assert not await world.report(server, host, 0, "running")
    assert await world.report(server, host, 1, "begun")
    assert await world.report(server, host, 1, "failed")
    assert not await world.report(server, host, 1, "running")
    await world.run()
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


async def test_a_host_that_never_begins_is_left_and_one_that_has_begun_is_waited_for(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.conduct()
    ((_, host, _),) = await ports_of(world)
    await world.expire_leases()
    await world.run(silent=[host])
    assert await world.statuses() == {server: "ACTIVE"}
    assert not await world.report(server, host, 1, "begun"), "two of one server"
    await world.settled()


async def test_a_launch_that_has_begun_and_never_ends_is_an_error_that_keeps_its_claims_until_the_guest_is_gone(
    world: World,
) -> None:
    world.conductor.settings = type(world.conductor.settings)(launch_timeout_s=0, recheck_s=60)
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.conduct()
    ((port, host, _),) = await ports_of(world)
    assert await world.report(server, host, 1, "begun")
    await world.expire_leases()
    await run_once(world.conductor)
    assert await world.statuses() == {server: "ERROR"}
    held = await world.conductor.placement.get_consumers([server, port])
    assert set(held) == {server, port}
    assert await world.report(server, host, 1, "absent")
    await world.run()
    assert await world.conductor.placement.get_consumers([server, port]) == {}
    await world.settled()


async def ports_of(world: World) -> list[tuple[str, str, str]]:
    """(port id, host, address) of every port."""
    async with world.database.connection() as connection:
        rows = await connection.fetch("""
            SELECT p.id, p.host, host(a.address) FROM network.port p LEFT JOIN network.address a ON a.port_id = p.id
            ORDER BY p.id""")
    return [tuple(row) for row in rows]


async def test_a_server_whose_host_goes_down_during_its_delete_is_gone_for_clients_and_keeps_what_it_holds(
    world: World,
) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.run()
    await world.delete(server)
    await run_once(world.conductor)
    assert (await server_service.get_server(world.compute, server)).task_state == "deleting"
    await world.fall_silent("r1-h1", "r1-h2", "r2-h1", "r2-h2", for_s=3600)
    assert len(await world.look_for_silent()) == 4
    await world.expire_leases()
    await run_once(world.conductor)
    with pytest.raises(ServerNotFound):
        await server_service.get_server(world.compute, server)
    assert len(await ports_of(world)) == 1, "the host may still run it"
    await world.serve_hosts()
    await world.expire_leases()
    await run_once(world.conductor)
    assert (await world.statuses(), await ports_of(world)) == ({}, [])
    await world.settled()
