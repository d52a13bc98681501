"""Moves of ports, as the Network API sees them, against whatever else happens, in every order of whole transactions.

Compute has no moves yet, so those are moved that belong to another compute service's servers. A port of a server of
this cloud moves with its server: clients that would move it are refused.
"""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest
from tests.conductor.test_port_races import ACTS, ROUNDS_MAX, Act, Between, attempt, boot, cold, delete, end, live, move
from tests.conductor.world import World
from tests.invariants import ALWAYS, SETTLED
from tests.network.cloud import PROJECT
from tests.sampling import sampled_from

from roost.network.errors import PortInUse
from roost.network.model.networks import Network
from roost.network.model.ports import Port, PortChanges, PortFilter, PortRequest
from roost.network.service import ports
from roost.network.service.reconciler import reconcile_once
from roost.platform.database import Database

MOVES: tuple[Act, ...] = (live, cold)
HOLDS = (
    "a port has two bindings on one host", "a port that is no server's has inactive bindings", "an intent is left",
    "a claim of addresses is not its port's addresses",
)  # fmt: skip


async def leave(world: World, port_id: str) -> None:
    """The server goes, and its port stays: as Nova unbinds it."""
    await ports.update_port(world.networks, port_id, PortChanges(device_id="", device_owner="", host=""))


async def live_elsewhere(world: World, port_id: str) -> None:
    await live(world, port_id, "r1-h3")


async def cold_elsewhere(world: World, port_id: str) -> None:
    await cold(world, port_id, "r1-h3")


CLIENTS: tuple[Act, ...] = (*(act for act in ACTS if act is not move), leave)


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", "r1-h3", reach=["rack1"])
    await made.hosts("r2-h1", reach=["rack2"])
    return made


async def attach(world: World, network: Network, device_id: str, host: str | None) -> str:
    """A port that a compute service has attached to a server."""
    wanted = PortRequest(
        network_id=network.id, project_id=PROJECT, device_owner="compute:nova", device_id=device_id, host=host
    )
    return (await ports.create_port(world.networks, wanted)).id


async def find(world: World, port_id: str) -> Port | None:
    found = await ports.list_ports(world.networks, PortFilter(ids=(port_id,)))
    return found[0] if found else None


async def assert_placed(world: World, port_id: str) -> Port | None:
    """If the port is still there, it is bound to one host at most, which reaches its addresses; nothing hangs."""
    async with world.database.connection() as connection:
        for what in HOLDS:
            assert await connection.fetch((ALWAYS | SETTLED)[what]) == [], what
    port = await find(world, port_id)
    if port is None:
        return None
    assert port.host is None or all(item.address.startswith(f"10.{port.host[1]}.") for item in port.addresses), port
    if port.device_owner.startswith("compute:"):
        listed = await ports.list_bindings(world.networks, port_id)
        assert [binding.host for binding in listed if binding.active] == [port.host or ""]
    return port


@pytest.mark.parametrize(
    ("ours", "firsts", "thens"),
    [
        pytest.param(False, [live], [*CLIENTS, live_elsewhere, cold_elsewhere], id="live"),
        pytest.param(False, [cold], [*CLIENTS, live_elsewhere, cold_elsewhere], id="cold"),
        pytest.param(False, CLIENTS, [move], id="clients first"),
        pytest.param(True, [move], [*CLIENTS, cold_elsewhere], id="of a server of this cloud"),
        pytest.param(True, CLIENTS, [move], id="of a server of this cloud, clients first"),
    ],
)
async def test_a_move_and_what_others_do_to_the_port(
    world: World, ours: bool, firsts: Sequence[Act], thens: Sequence[Act]
) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    device_id, host = "vm", "r1-h1"
    if ours:
        (device_id,) = await world.boot(network.id)
        await world.run()
        ((host,),) = [[port.host or "" for port in await ports.list_ports(world.networks, PortFilter())]]
    for first, then in itertools.product(firsts, thens):
        for number in sampled_from(1):
            assert number < ROUNDS_MAX
            port_id = await attach(world, network, device_id, host)
            between = Between(world, number, partial(attempt, then, world, port_id))
            with between():
                await attempt(first, world, port_id)
            if ours:
                await reconcile_once(world.networks)  # what a client publishes who stands still is published later
            port = await assert_placed(world, port_id)
            if ours:
                assert port is None or port.device_id != device_id or port.host == host
            elif first in MOVES and not between.fired:
                (binding,) = await ports.list_bindings(world.networks, port_id)
                assert (binding.host, binding.active) == ("r1-h2", True)
            await attempt(delete, world, port_id)
            await world.run()  # the guest's host says that it is without the port
            if not between.fired:
                break
    await end(world, network.id)


@pytest.mark.parametrize("built", ["built meanwhile", "moved meanwhile"])
async def test_the_last_address_goes_to_a_move_or_to_a_build(world: World, built: str) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    done: set[Act] = set()
    for turn, number in enumerate(sampled_from(2)):
        assert number < ROUNDS_MAX
        act = MOVES[turn % 2]
        port_id = await attach(world, network, "vm", None)
        (server,) = await world.boot(network.id)
        moves: Callable[[], Awaitable[None]] = partial(attempt, act, world, port_id)
        first, then = (moves, world.run) if built == "built meanwhile" else (world.run, moves)
        between = Between(world, number // 2, then)
        with between():
            await first()
        await world.run()
        port = await assert_placed(world, port_id)
        assert port is not None
        status = (await world.statuses())[server]
        assert (status, len(port.addresses)) in (("ACTIVE", 0), ("ERROR", 1)), await world.fault(server)
        await delete(world, port_id)
        await world.delete(server)
        await world.run()
        if not between.fired:
            done.add(act)
        if done == set(MOVES):
            break
    await end(world, network.id)


@pytest.mark.parametrize("move", MOVES, ids=lambda act: act.__name__)
async def test_a_port_of_a_server_is_refused_a_move(world: World, move: Act) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    server, port_id = await boot(world, network.id, move, made=False)
    await world.conduct()
    with pytest.raises(PortInUse, match="being built"):
        await move(world, port_id)
    await world.run()
    with pytest.raises(PortInUse, match="moves with the server"):
        await move(world, port_id)
    assert len(await ports.list_bindings(world.networks, port_id)) == 1
    await world.delete(server)
    await end(world, network.id)
