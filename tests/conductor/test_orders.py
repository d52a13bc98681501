"""The orders in which servers are built: chosen by fact, kept to the end, with the same ports whoever makes them."""

import json
from collections import Counter
from typing import Any

import pytest
from tests.conductor.test_pipeline import ports_of
from tests.conductor.world import World
from tests.network.cloud import PROJECT
from tests.next_call import instead

from roost.compute.model.work import Credentials, MoveKind
from roost.compute.old_agents.rules.orders import VERSION_EARLY
from roost.compute.service.work import lease_work
from roost.conductor.context import Build, Lease
from roost.conductor.pipeline import carry
from roost.network.errors import PortInUse, RevisionNumberConstraintFailed
from roost.network.model.ports import PortRequest
from roost.network.service.old_agents import AgentPort, take_port
from roost.network.service.ports import create_port
from roost.platform.database import Database
from roost.seams.network import Nic

REVOKED = Credentials(False, "the token was revoked")


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", reach=["rack1"])
    await made.hosts("r2-h1", "r2-h2", reach=["rack2"])
    return made


async def orders_of(world: World) -> dict[str, str]:
    """Server id -> the name of its order."""
    async with world.database.connection() as connection:
        rows = await connection.fetch("SELECT id, build_order ->> 'name' AS name FROM compute.server")
    return {row["id"]: row["name"] for row in rows}


@pytest.mark.parametrize(("version", "order"), [(1, "late"), (2, "early-create"), (3, "early")])
async def test_servers_are_built_in_the_order_of_the_oldest_agent(world: World, version: int, order: str) -> None:
    await world.set_version("r1-h1", version)
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    servers = await world.boot(network.id, count=10)
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 10}
    assert Counter((await orders_of(world)).values()) == {order: 10}
    await world.settled()
    (late,) = await world.boot(network.id)
    await world.run()
    assert "ran out: rack1 0 of 5 free, rack2 0 of 5 free" in await world.fault(late)
    await world.delete(*servers, late)
    await world.run()
    assert await world.statuses() == {}
    await world.settled()


async def infos_of(world: World) -> dict[str, list[dict[str, Any]]]:
    """Server id -> what is kept of its ports."""
    async with world.database.connection() as connection:
        rows = await connection.fetch("SELECT id, network_info FROM compute.server")
    return {row["id"]: json.loads(row["network_info"]) for row in rows}


async def test_a_server_begun_in_one_order_ends_in_it_whatever_the_fleet_becomes(world: World) -> None:
    await world.set_version("r1-h1", 1)
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    (late,) = await world.boot(network.id)
    await world.conduct()  # it waits for its host
    await world.set_version("r1-h1", 3)
    (early,) = await world.boot(network.id)
    await world.run()
    assert await orders_of(world) == {late: "late", early: "early"}
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 2}
    await world.settled()


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_retry_takes_the_same_port_and_address_along_in_every_order(world: World, version: int) -> None:
    await world.set_version("r2-h1", version)
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.conduct()
    await world.serve_hosts(failing=["r1-h1", "r1-h2"])
    ((port, host, address),) = await ports_of(world)
    await world.run(failing=[host])
    ((same, now_on, kept),) = await ports_of(world)
    assert (same, kept) == (port, address)
    assert now_on != host
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


async def failures_of(world: World, server: str) -> int:
    """How many launches and binds of the build have failed."""
    async with world.database.connection() as connection:
        return int(await connection.fetchval("SELECT failures FROM compute.work WHERE server_id = $1", server))


def refuse_next_bind(world: World, version: int) -> list[str]:
    """Have the next host on which a port is to be bound reach nothing by then; the list gets its name."""
    owner, name = (
        (world.agent_network, "take_port") if version < VERSION_EARLY else (world.compute.network, "bind_ports")
    )
    unreachable: list[str] = []

    async def refuse(real: Any, wanted: Any) -> Any:
        unreachable.append(wanted.host if version < VERSION_EARLY else wanted[0].host)
        await world.compute.network.set_hosts({unreachable[0]: []})
        return await real(wanted)

    instead(owner, name, refuse)
    return unreachable


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("launches_failed", [0, 1])
async def test_a_refused_bind_is_tried_elsewhere_with_the_same_ports_in_every_order(
    world: World, version: int, launches_failed: int
) -> None:
    """Once a launch has failed the ports have addresses, which they keep on the same segment."""
    await world.hosts("r1-h3", reach=["rack1"])
    await world.set_version("r1-h1", version)
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id, network.id)
    port_ids = sorted(Nic(tag=tag).port_id_of(server) for tag in "01")
    if launches_failed:
        await world.conduct()
        await world.serve_hosts(failing=["r1-h1", "r1-h2", "r1-h3"])
    before = {port_id: address for port_id, _, address in await ports_of(world)}
    assert sorted(before) == (port_ids if launches_failed else [])
    unreachable = refuse_next_bind(world, version)
    await world.conduct()
    if version < VERSION_EARLY:
        await world.serve_hosts()
        await world.conduct()
    assert await failures_of(world, server) == launches_failed + 1
    await world.run()
    after = {port_id: (host, address) for port_id, host, address in await ports_of(world)}
    assert sorted(after) == port_ids
    assert before == {port_id: after[port_id][1] for port_id in before}
    assert unreachable[0] not in {host for host, _ in after.values()}
    assert await world.statuses() == {server: "ACTIVE"}
    await world.compute.network.set_hosts({unreachable[0]: ["rack1"]})
    await world.settled()


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_server_leaves_its_segment_in_every_order(world: World, version: int) -> None:
    await world.set_version("r1-h1", version)
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    (server,) = await world.boot(network.id)
    await world.conduct()
    (host,) = [order.host for order in await world.orders()]
    rack = host[:2]
    await world.run(failing=[f"{rack}-h1", f"{rack}-h2"])
    assert await world.statuses() == {server: "ACTIVE"}
    ((_, now_on, address),) = await ports_of(world)
    assert now_on[:2] != rack
    assert address.startswith("10.1." if rack == "r2" else "10.2.")
    await world.settled()


async def test_a_loser_of_the_last_address_is_tried_elsewhere(world: World) -> None:
    """In the late order a server is sent to an address that somebody else may claim first."""
    await world.set_version("r1-h1", 1)
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    (server,) = await world.boot(network.id)
    await world.conduct()
    (order,) = await world.orders()
    for _ in range(5):
        await create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT, host=order.host))
    await world.run()
    assert len(world.refusals) == 1
    assert await world.statuses() == {server: "ACTIVE"}
    assert {host[:2] for _, host, _ in await ports_of(world)} == {"r1", "r2"}
    await world.settled()


@pytest.mark.parametrize("version", [1, 2])
async def test_a_users_port_is_bound_by_the_agent_and_outlives_its_server(world: World, version: int) -> None:
    await world.set_version("r1-h1", version)
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    port = await create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    (server,) = await world.boot(port_id=port.id)
    await world.run()
    assert await world.statuses() == {server: "ACTIVE"}
    ((info,),) = (await infos_of(world)).values()
    assert (info["port_id"], info["preserve_on_delete"], info["created_by"]) == (port.id, True, "user")
    await world.delete(server)
    await world.run()
    assert [one for one, _, _ in await ports_of(world)] == [port.id]
    await world.settled()


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_named_address_is_had_in_every_order_and_holds_the_server_to_its_segment(
    world: World, version: int
) -> None:
    await world.set_version("r1-h1", version)
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    (server,) = await world.boot(network.id, fixed_ip="10.2.0.5")
    await world.run()
    assert await world.statuses() == {server: "ACTIVE"}
    ((_, host, address),) = await ports_of(world)
    assert (host[:2], address) == ("r2", "10.2.0.5")
    (other,) = await world.boot(network.id, fixed_ip="10.2.0.5")
    await world.run()
    assert "10.2.0.5" in await world.fault(other)
    await world.settled()


async def test_without_network_credentials_servers_are_built_late_whatever_the_agents(world: World) -> None:
    world.let_in_old_agents()
    world.conductor.credentials = lambda: REVOKED
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.run()
    assert await orders_of(world) == {server: "late"}
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


async def test_what_is_kept_of_ports_says_who_made_them(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    makers = {}
    for version, maker in ((1, "agent"), (2, "conductor"), (3, "conductor")):
        await world.set_version("r1-h1", version)
        (server,) = await world.boot(network.id)
        await world.run()
        makers[server] = maker
    for server, (info,) in (await infos_of(world)).items():
        assert info["created_by"] == makers[server]
        assert (info["binding"], bool(info["segment"]), len(info["addresses"])) == ("bound", True, 1)
        assert info["preserve_on_delete"] is False


async def test_ports_are_told_with_absence_only_where_a_server_is_deleted(world: World) -> None:
    """An agent of version 1 deletes what it is told: nothing of a server that is tried elsewhere, or moves."""
    await world.set_version("r1-h1", 1)
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.run()
    await world.move(server, MoveKind.MIGRATE)
    await world.run()
    await world.end_move(server, revert=False)
    await world.conduct()
    (leaving,) = await world.orders()
    assert (leaving.desired, leaving.ports) == ("absent", ())
    await world.run()
    await world.delete(server)
    await world.conduct()
    (going,) = await world.orders()
    assert going.desired == "absent"
    assert [port.preserve_on_delete for port in going.ports] == [False]


async def test_a_stale_attempt_does_not_take_the_port_back(world: World) -> None:
    await world.set_version("r1-h1", 1)
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.conduct()
    (order,) = await world.orders()
    await world.run()
    ((_, host, _),) = await ports_of(world)
    assert host == order.host
    other = {"r1-h1": "r1-h2", "r1-h2": "r1-h1"}[host]
    nic = Nic(tag=order.ports[0].tag, network_id=network.id)
    with pytest.raises(PortInUse, match="its revision is not named"):
        await take_port(world.networks, AgentPort(server_id=server, project_id=PROJECT, nic=nic, host=other))
    with pytest.raises(RevisionNumberConstraintFailed):
        await take_port(
            world.networks, AgentPort(server_id=server, project_id=PROJECT, nic=nic, host=other, revision=1)
        )
    await world.settled()


async def test_a_build_that_is_deleted_before_its_order_is_chosen_waits_for_no_lease(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    (server,) = await world.boot(network.id)
    owner = world.compute.env.new_uuid()
    rows = await lease_work(world.compute, owner=owner, limit=10, lease_s=30)
    await world.delete(server)
    await carry(Lease(world.conductor, owner), [Build(work) for work in rows])
    await world.run()
    assert await world.statuses() == {}
