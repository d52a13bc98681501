"""Servers on flat networks of the legacy kind: claimed with their host, then given an address of the host's cell."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.conductor.world import KilledHere, World, stages_until
from tests.network.cloud import PROJECT
from tests.next_call import after as behind
from tests.next_call import before, instead

from roost.compute.model.server import NicAsked, ServerRequest
from roost.compute.model.work import Stage
from roost.compute.service import servers as server_service
from roost.compute.service.work import lease_work
from roost.conductor.context import Build, Lease
from roost.conductor.pipeline import carry, run_once
from roost.conductor.reconcile import reconcile_once as reconcile_claims
from roost.network.errors import PortNotFound, TagResourceNotFound
from roost.network.model.networks import Network
from roost.network.model.ports import PortChanges, PortFilter
from roost.network.service import ports, tags
from roost.network.service import subnets as subnet_service
from roost.platform.database import Database
from roost.seams.network import Nic


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("c1-h1", "c1-h2", cell="cell1")
    await made.hosts("c2-h1", "c2-h2", cell="cell2")
    return made


async def small(world: World) -> Network:
    """Five addresses in cell1, and one in cell2."""
    return await world.cloud.flat(cell1="10.1.0.0/29", cell2="10.2.0.0/30")


async def addresses(world: World) -> dict[str, list[str]]:
    """Server id -> its addresses on flat networks, in the order of tags."""
    async with world.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT p.device_id, a.address FROM network.port p JOIN network.address a ON a.port_id = p.id"
            " WHERE p.nic_tag IS NOT NULL ORDER BY p.device_id, p.nic_tag"
        )
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["device_id"], []).append(row["address"])
    return found


async def hidden(world: World) -> list[str]:
    """The ports that no client sees, by id."""
    async with world.database.connection() as connection:
        rows = await connection.fetch("SELECT id FROM network.port WHERE nic_tag IS NOT NULL ORDER BY id")
    return [row["id"] for row in rows]


async def hosts_of(world: World) -> dict[str, str]:
    async with world.database.connection() as connection:
        return {row[0]: row[1] for row in await connection.fetch("SELECT id, host FROM compute.server")}


async def boot(world: World, *nics: NicAsked) -> str:
    request = ServerRequest(name="web", flavor_ref="small", nics=nics)
    made = await server_service.create_servers(world.compute, request, project_id=PROJECT, user_id="user")
    return made.server_ids[0]


async def nothing_left(world: World) -> None:
    """No server has an address, nor a port that could have one, and no pool has a claim."""
    assert await hidden(world) == []
    pools = [pool.id for pool in await subnet_service.list_subnets(world.networks) if pool.cell]
    for usage in (await world.conductor.placement.list_usages(pools)).values():
        assert [used for _, used in usage.values()] == [0]


async def test_servers_get_an_address_of_their_hosts_cell_and_a_dry_cell_gets_none(world: World) -> None:
    network = await small(world)
    servers = await world.boot(network.id, count=6)
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 6}
    held, hosts = await addresses(world), await hosts_of(world)
    assert all(held[server][0].startswith({"c1": "10.1.", "c2": "10.2."}[hosts[server][:2]]) for server in servers)
    assert sum(host.startswith("c2") for host in hosts.values()) == 1
    await world.settled()
    await world.delete(*servers)
    await world.run()
    await nothing_left(world)
    await world.settled()


async def test_the_address_is_claimed_by_the_server_itself_and_shown_under_the_networks_name(world: World) -> None:
    network = await small(world)
    (server,) = await world.boot(network.id)
    await world.run()
    claim = (await world.conductor.placement.get_consumers([server]))[server]
    assert [dict(held) for held in claim.allocations.values() if "IPV4_ADDRESS" in held] == [{"IPV4_ADDRESS": 1}]
    assert await world.conductor.placement.list_consumers("PORT", after="", limit=10) == []
    shown = (await server_service.get_server(world.compute, server)).ports
    assert [(port.network_name, port.port_id, port.addresses) for port in shown] == [
        ("net", None, tuple((await addresses(world))[server]))
    ]
    (port_id,) = await hidden(world)
    assert port_id == Nic(tag="0", network_id=network.id).port_id_of(server)
    assert await ports.list_ports(world.networks, PortFilter(device_ids=(server,))) == []
    for call in (ports.get_port, ports.delete_port):
        with pytest.raises(PortNotFound):
            await call(world.networks, port_id)
    with pytest.raises(PortNotFound):
        await ports.update_port(world.networks, port_id, PortChanges(name="mine"))
    with pytest.raises(TagResourceNotFound):
        await tags.change_tags(world.networks, "port", port_id, tuple)


async def test_one_too_many_is_refused_with_what_each_cell_has_left(world: World) -> None:
    network = await small(world)
    await world.boot(network.id, count=6)
    await world.run()
    (late,) = await world.boot(network.id)
    await world.run()
    assert (await world.statuses())[late] == "ERROR"
    assert "The addresses of network net ran out: cell1 0 of 5 free, cell2 0 of 1 free." in await world.fault(late)
    assert world.launches == [launch for launch in world.launches if launch[0] != late]
    await world.settled()


async def test_a_cell_without_hosts_left_is_named(world: World) -> None:
    network = await world.cloud.flat(cell9="10.9.0.0/29")
    (server,) = await world.boot(network.id)
    await world.run()
    said = await world.fault(server)
    assert "No enabled host reaches network net: enable a host that does, or have its agent report cell cell9." in said
    await world.settled()


async def test_a_launch_that_fails_stays_in_its_cell_and_keeps_its_address(world: World) -> None:
    network = await small(world)
    (server,) = await world.boot(network.id)
    await world.conduct()
    held, first = await addresses(world), (await hosts_of(world))[server]
    await world.run(failing=[first])
    assert await world.statuses() == {server: "ACTIVE"}
    assert (await hosts_of(world))[server] != first
    assert await addresses(world) == held
    await world.settled()


async def test_after_a_retry_in_another_cell_the_address_is_of_that_cell(world: World) -> None:
    network = await small(world)
    (server,) = await world.boot(network.id)
    await world.conduct()
    cell = (await hosts_of(world))[server][:2]
    other = {"c1": "c2", "c2": "c1"}[cell]
    world.conductor.settings = msgspec.structs.replace(world.conductor.settings, max_attempts=5)
    await world.run(failing=[f"{cell}-h1", f"{cell}-h2"])
    assert await world.statuses() == {server: "ACTIVE"}
    assert (await hosts_of(world))[server].startswith(other)
    assert (await addresses(world))[server][0].startswith({"c1": "10.1.", "c2": "10.2."}[other])
    await world.settled()


async def test_a_retry_goes_on_with_the_last_address_of_its_cell(world: World) -> None:
    """All are taken, one of them by the server itself: it needs no other."""
    network = await world.cloud.flat(cell1="10.1.0.0/30")
    (server,) = await world.boot(network.id)
    await world.conduct()
    await world.run(failing=[(await hosts_of(world))[server]])
    assert await world.statuses() == {server: "ACTIVE"}
    assert await addresses(world) == {server: ["10.1.0.2"]}
    await world.settled()


async def test_a_server_that_fails_everywhere_leaves_nothing(world: World) -> None:
    network = await small(world)
    (server,) = await world.boot(network.id)
    await world.run(failing=["c1-h1", "c1-h2", "c2-h1", "c2-h2"])
    assert await world.statuses() == {server: "ERROR"}
    await nothing_left(world)
    await world.settled()


async def test_flat_and_routed_nics_and_two_on_one_flat_network_are_in_one_server(world: World) -> None:
    network = await world.cloud.flat(cell1="10.1.0.0/29")
    routed = await world.routed(rack1="10.5.0.0/29")
    await world.hosts("c1-h1", reach=["rack1"], cell="cell1")
    server = await boot(
        world, NicAsked(network_id=network.id), NicAsked(network_id=routed.id), NicAsked(network_id=network.id)
    )
    await world.run()
    assert (await world.statuses())[server] == "ACTIVE"
    assert (await hosts_of(world))[server] == "c1-h1"
    shown = (await server_service.get_server(world.compute, server)).ports
    assert [port.addresses for port in shown] == [("10.1.0.2",), ("10.5.0.2",), ("10.1.0.3",)]
    assert [port.port_id is None for port in shown] == [True, False, True]
    await world.settled()
    await world.delete(server)
    await world.run()
    await nothing_left(world)
    await world.settled()


async def test_two_nics_may_take_the_last_addresses_of_two_pools_of_one_cell(world: World) -> None:
    network = await world.cloud.flat(cell1="10.1.0.0/30")
    await world.cloud.subnet(network, "10.1.1.0/30", cell="cell1")
    server = await boot(world, NicAsked(network_id=network.id), NicAsked(network_id=network.id))
    late = await boot(world, NicAsked(network_id=network.id))
    await world.run()
    statuses = await world.statuses()
    assert statuses == {server: "ACTIVE", late: "ERROR"}
    assert sorted((await addresses(world))[server]) == ["10.1.0.2", "10.1.1.2"]
    assert "cell1 (10.1.0.0/30) 0 of 1 free, cell1 (10.1.1.0/30) 0 of 1 free" in await world.fault(late)
    await world.settled()


async def test_two_flat_networks_do_not_take_each_others_addresses(world: World) -> None:
    one = await world.cloud.flat(cell1="10.1.0.0/30")
    other = await world.cloud.flat(cell1="10.3.0.0/29")
    await world.boot(one.id, other.id)
    (late,) = await world.boot(one.id)
    await world.run()
    assert (await world.statuses())[late] == "ERROR"
    assert sorted(next(iter((await addresses(world)).values()))) == ["10.1.0.2", "10.3.0.2"]
    await world.settled()


async def test_a_fixed_address_decides_the_cell(world: World) -> None:
    network = await small(world)
    server = await boot(world, NicAsked(network_id=network.id, fixed_ip="10.2.0.2"))
    rival = await boot(world, NicAsked(network_id=network.id, fixed_ip="10.2.0.2"))
    nowhere = await boot(world, NicAsked(network_id=network.id, fixed_ip="10.1.0.1"))
    await world.run()
    assert await world.statuses() == {server: "ACTIVE", rival: "ERROR", nowhere: "ERROR"}
    assert await addresses(world) == {server: ["10.2.0.2"]}
    assert (await hosts_of(world))[server].startswith("c2")
    assert "10.1.0.1 is in no pool" in await world.fault(nowhere)
    await world.settled()


async def test_a_fixed_address_that_somebody_else_got_meanwhile_ends_the_server_at_once(world: World) -> None:
    network = await small(world)
    server = await boot(world, NicAsked(network_id=network.id, fixed_ip="10.1.0.2"))
    owner = world.compute.env.new_uuid()
    rows = await lease_work(world.compute, owner=owner, limit=10, lease_s=30)
    await world.boot(network.id, count=6)
    await world.run()
    with stages_until(8):
        await carry(Lease(world.conductor, owner), [Build(work) for work in rows])
    await world.run()
    statuses = await world.statuses()
    assert statuses.pop(server) == "ERROR"
    assert Counter(statuses.values()) == {"ACTIVE": 6}
    await world.settled()


async def test_a_host_that_moves_to_another_cell_takes_its_servers_addresses_from_there(world: World) -> None:
    network = await small(world)
    await world.hosts("c1-h1", "c1-h2", cell="cell2")
    servers = await world.boot(network.id, count=2)
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 1, "ERROR": 1}
    assert [held[0] for held in (await addresses(world)).values()] == ["10.2.0.2"]
    assert len(servers) == 2
    await world.settled()


async def test_a_host_that_changes_its_cell_between_claim_and_address_is_left(world: World) -> None:
    network = await small(world)
    (server,) = await world.boot(network.id)

    async def moved() -> None:
        await world.hosts((await hosts_placed(world))[server], cell="cell3")

    before(world.conductor.network, "bind_ports", moved)
    await world.run()
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


async def hosts_placed(world: World) -> dict[str, str]:
    async with world.database.connection() as connection:
        rows = await connection.fetch("SELECT server_id, placed ->> 'host' AS host FROM compute.work")
        return {row["server_id"]: row["host"] for row in rows}


# Crashes, deletes and conductors that were taken for dead.


@pytest.mark.parametrize("stages", range(1, 6))
async def test_whoever_takes_over_at_any_stage_goes_on_and_a_delete_there_leaves_nothing(
    world: World, stages: int
) -> None:
    network = await world.cloud.flat(cell1="10.1.0.0/29")  # the last five: a search anew would find none
    servers = await world.boot(network.id, count=5)
    await world.die_after(stages)
    await world.delete(servers[0])
    await world.expire_leases()
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 4}
    assert len(await addresses(world)) == 4
    await world.settled()


@pytest.mark.parametrize("name", ["claim", "allocate", "bind_ports", "ensure_ports", "release_ports"])
@pytest.mark.parametrize("after", [False, True])
async def test_a_conductor_killed_around_a_call_leaves_nothing_behind(world: World, name: str, after: bool) -> None:
    network = await world.cloud.flat(cell1="10.1.0.0/30")
    routed = await world.routed(rack1="10.5.0.0/29")
    await world.hosts("c1-h1", reach=["rack1"], cell="cell1")
    (server,) = await world.boot(network.id, routed.id)
    owner: Any = world.conductor.placement if name == "claim" else world.conductor.network

    async def killed(real: Any, *arguments: Any, **more: Any) -> Any:
        if after:
            await real(*arguments, **more)
        raise KilledHere

    async def claimed() -> None:
        instead(owner, "ensure_ports", killed)

    if name == "allocate":
        behind(world.conductor.placement, "claim", claimed)
    else:
        instead(owner, name, killed)
    if name == "release_ports":
        await world.run()
        await world.delete(server)
    with pytest.raises(KilledHere):
        await world.run()
    await world.expire_leases()
    await world.run()
    assert await world.statuses() == ({} if name == "release_ports" else {server: "ACTIVE"})
    await world.settled()
    if name != "release_ports":
        await world.delete(server)
        await world.run()
    await nothing_left(world)
    await world.settled()


@pytest.mark.parametrize(("name", "left"), [("ensure_ports", 1), ("bind_ports", 0)])
async def test_a_port_made_by_a_conductor_that_was_taken_for_dead_gets_no_address_and_is_taken_back(
    world: World, name: str, left: int
) -> None:
    """The server was deleted, and is gone, when the sleeper wakes and makes its port, or binds what is no more."""
    network = await small(world)
    (server,) = await world.boot(network.id)

    async def gone() -> None:
        await world.expire_leases()
        await world.delete(server)
        await world.conduct()

    async def claimed() -> None:
        before(world.conductor.network, name, gone)

    behind(world.conductor.placement, "claim", claimed)
    await run_once(world.conductor)
    assert await world.statuses() == {}
    assert await addresses(world) == {}
    assert len(await hidden(world)) == left
    await world.settled()
    await nothing_left(world)


@pytest.mark.parametrize("name", ["ensure_ports", "bind_ports"])
async def test_a_conductor_taken_for_dead_changes_no_address_of_the_one_that_took_over(world: World, name: str) -> None:
    """It sleeps before it makes a port, or binds it, in one cell; meanwhile the server runs in the other."""
    network = await small(world)
    (server,) = await world.boot(network.id)

    async def late(real: Any, *arguments: Any, **more: Any) -> Any:
        first = (await hosts_placed(world))[server]
        world.conductor.settings = msgspec.structs.replace(world.conductor.settings, max_attempts=9)
        await world.expire_leases()
        await world.run(failing=[f"{first[:2]}-h1", f"{first[:2]}-h2"])
        assert await world.statuses() == {server: "ACTIVE"}
        held = await addresses(world)
        answer = await real(*arguments, **more)
        assert await addresses(world) == held
        return answer

    async def claimed() -> None:
        instead(world.conductor.network, name, late)

    behind(world.conductor.placement, "claim", claimed)
    await run_once(world.conductor)
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


async def test_a_conductor_taken_for_dead_unassigns_nothing_of_the_one_that_took_over(world: World) -> None:
    """It sleeps before the server leaves its pool; meanwhile that one's cell has a host again."""
    network = await small(world)
    (server,) = await world.boot(network.id)
    await world.conduct()
    cell = (await hosts_of(world))[server][:2]
    world.conductor.settings = msgspec.structs.replace(world.conductor.settings, max_attempts=9)

    async def late(real: Any, *arguments: Any) -> Any:
        await world.hosts(f"{cell}-h3", cell={"c1": "cell1", "c2": "cell2"}[cell])
        await world.expire_leases()
        await world.run()
        assert await world.statuses() == {server: "ACTIVE"}
        held = await addresses(world)
        answer = await real(*arguments)
        assert await addresses(world) == held
        return answer

    instead(world.conductor.network, "unassign_ports", late)
    await world.run(failing=[f"{cell}-h1", f"{cell}-h2"])
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


async def test_a_conductor_taken_for_dead_gives_no_claim_back_under_an_address(world: World) -> None:
    """It sleeps before it claims another host in the cell; who took over has not looked yet at what there is."""
    network = await world.cloud.flat(cell1="10.1.0.0/30")
    (server,) = await world.boot(network.id)
    await world.conduct()
    (pool,) = await subnet_service.list_subnets(world.networks)
    await world.serve_hosts(failing=["c1-h1", "c1-h2"])

    async def late(real: Any, *arguments: Any) -> Any:
        await world.expire_leases()
        owner = world.compute.env.new_uuid()
        assert await lease_work(world.compute, owner=owner, limit=1, lease_s=60)
        return await real(*arguments)

    instead(world.conductor.placement, "claim", late)
    await run_once(world.conductor)
    assert await addresses(world) == {server: ["10.1.0.2"]}
    assert await world.cloud.used(pool.id) == (1, 1)
    await world.expire_leases()
    await world.run()
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


@pytest.mark.parametrize("seed", range(6))
async def test_any_order_of_boots_deletes_failures_and_lost_leases_agrees_in_the_end(
    database: Database, seed: int
) -> None:
    world = await World.make(database, seed=seed)
    chance = random.Random(seed)
    await world.hosts("c1-h1", "c1-h2", cell="cell1", reach=["rack1"])
    await world.hosts("c2-h1", "c2-h2", cell="cell2", reach=["rack1"])
    network, routed = await small(world), await world.routed(rack1="10.5.0.0/27")
    alive: list[str] = []

    async def some_boots() -> None:
        alive.extend(await world.boot(network.id, *[routed.id] * chance.randint(0, 1), count=chance.randint(1, 3)))

    async def a_delete() -> None:
        if alive:
            await world.delete(alive.pop(chance.randrange(len(alive))))

    async def dying() -> None:
        await world.die_after(chance.randint(1, 5), limit=3)
        await world.expire_leases()

    async def failing() -> None:
        await world.run(failing=chance.sample(["c1-h1", "c1-h2", "c2-h1", "c2-h2"], chance.randint(0, 4)))

    async def two_at_once() -> None:
        await asyncio.gather(run_once(world.conductor), run_once(world.conductor), world.serve_hosts())

    steps: list[Callable[[], Any]] = [some_boots, some_boots, a_delete, dying, failing, two_at_once]
    for _ in range(25):
        await chance.choice(steps)()
    await world.expire_leases()
    await world.run()
    await reconcile_claims(world.conductor)
    await world.settled()
    await world.delete(*alive)
    await world.run()
    await nothing_left(world)
    await world.settled()


# Conductors of cells.


async def test_a_conductor_of_a_cell_places_anywhere_and_goes_on_only_with_its_own(world: World) -> None:
    network = await small(world)
    await world.boot(network.id, count=6)
    everywhere = world.conductor.settings
    world.conductor.settings = msgspec.structs.replace(everywhere, cells=("cell1",))
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 5, "BUILD": 1}
    async with world.database.connection() as connection:
        left = await connection.fetchrow("SELECT stage, lease_owner, placed ->> 'host' AS host FROM compute.work")
    assert left["stage"] == Stage.ALLOCATE.value
    assert left["lease_owner"] is None
    assert left["host"].startswith("c2")
    world.conductor.settings = msgspec.structs.replace(everywhere, cells=("cell2", "cell3"))
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 6}
    world.conductor.settings = everywhere
    await world.settled()
