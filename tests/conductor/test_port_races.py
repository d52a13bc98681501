"""Clients at ports of servers that are being built or deleted, in every order of whole transactions.

Each test runs the one side again and again, and lets the other happen after its first, second, third ... transaction;
then everything agrees. Of moves this is what the Network API sees of them, for the compute service has none yet.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from tests.conductor.world import World
from tests.network.cloud import PROJECT
from tests.sampling import sampled_from

from roost.compute.service.servers import get_server
from roost.network.model.ports import Binding, FixedIpRequest, PortChanges, PortFilter, PortRequest
from roost.network.service import ports
from roost.network.service.reconciler import reconcile_once
from roost.platform.database import Database
from roost.platform.errors import RoostError
from roost.seams.network import Nic

ROUNDS_MAX = 100
Act = Callable[[World, str], Awaitable[Any]]


async def bind(world: World, port_id: str) -> None:
    await ports.update_port(world.networks, port_id, PortChanges(host="r2-h1"))


async def delete(world: World, port_id: str) -> None:
    await ports.delete_port(world.networks, port_id)


async def change_device(world: World, port_id: str) -> None:
    await ports.update_port(world.networks, port_id, PortChanges(device_id="other", device_owner="other"))


async def change_host(world: World, port_id: str) -> None:
    for host in ("r1-h2", ""):
        await ports.update_port(world.networks, port_id, PortChanges(host=host))


async def change_addresses(world: World, port_id: str) -> None:
    found = await ports.get_port(world.networks, port_id)
    other = "10.2.0.9" if any(item.address.startswith("10.2.") for item in found.addresses) else "10.1.0.9"
    held = tuple(FixedIpRequest(ip_address=item.address) for item in found.addresses)
    for fixed_ips in ((*held, FixedIpRequest(ip_address=other)), (FixedIpRequest(ip_address=other),)):
        await ports.update_port(world.networks, port_id, PortChanges(fixed_ips=fixed_ips))


async def activate(world: World, port_id: str) -> None:
    await ports.create_binding(world.networks, port_id, Binding(host="r1-h2"))
    await ports.activate_binding(world.networks, port_id, "r1-h2")


async def live(world: World, port_id: str, to: str = "") -> None:
    """Live migration: a second binding, which becomes the active one, and the first goes; or nothing stays of it."""
    source = (await ports.get_port(world.networks, port_id)).host
    to = to or ("r1-h1" if source == "r1-h2" else "r1-h2")
    await ports.create_binding(world.networks, port_id, Binding(host=to, profile='{"migrating_to": "x"}'))
    try:
        await ports.activate_binding(world.networks, port_id, to)
    except RoostError:
        await ports.delete_binding(world.networks, port_id, to)
        raise
    if source is not None:
        await ports.delete_binding(world.networks, port_id, source)


async def cold(world: World, port_id: str, to: str = "") -> None:
    """Cold migration, or evacuation: the destination is announced in the profile, then the port is bound there."""
    source = (await ports.get_port(world.networks, port_id)).host
    to = to or ("r1-h1" if source == "r1-h2" else "r1-h2")
    announced = PortChanges(binding_profile=f'{{"migrating_to": "{to}"}}')
    await ports.update_port(world.networks, port_id, announced)
    await ports.update_port(world.networks, port_id, PortChanges(host=to, binding_profile="{}"))


async def move(world: World, port_id: str) -> None:
    """Both kinds, the second also when the first is refused."""
    await attempt(live, world, port_id)
    await attempt(cold, world, port_id)


ACTS: tuple[Act, ...] = (bind, delete, change_device, change_host, change_addresses, activate, move)
# Roost's own port is bound, activated and moved by nobody else, while a build holds it.
CASES = [(act, made) for act in ACTS
    for made in (False, True) if not made or act not in (bind, activate, move)]  # fmt: skip


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", reach=["rack1"])
    await made.hosts("r2-h1", reach=["rack2"])
    return made


class Between:
    """Lets `then` happen once, after the n-th transaction of what runs meanwhile; `fired`: it came so far.

    publishes: `then` would wait for a publisher, so that it does not happen while there is one.
    """

    def __init__(
        self, world: World, number: int, then: Callable[[], Awaitable[Any]], *, publishes: bool = False
    ) -> None:
        self._world, self._left, self._then, self._publishes = world, number, then, publishes
        self.fired = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        database = self._world.database
        original = database.transaction

        @asynccontextmanager
        async def watched(*, snapshot: bool = False) -> AsyncIterator[Any]:
            async with original(snapshot=snapshot) as tx:
                yield tx
            # Who gives claims back holds a lock of this process, for which `then` would wait.
            if self.fired or self._world.networks.releasing.locked():
                return
            if self._publishes and await self._publishing():
                return
            self._left -= 1
            if self._left == 0:
                self.fired = True
                await self._then()

        with patch.object(database, "transaction", watched):
            yield

    async def _publishing(self) -> bool:
        async with self._world.database.connection() as connection:
            return bool(
                await connection.fetchval("SELECT EXISTS (SELECT FROM network.publication WHERE lease_until > now())")
            )


async def attempt(act: Act, world: World, port_id: str) -> None:
    """What a client does until it is refused, if it is: for the reason that the port is in use, or not there."""
    try:
        await act(world, port_id)
    except RoostError:
        return


async def boot(world: World, network_id: str, act: Act, *, made: bool) -> tuple[str, str]:
    """A server with a port of Roost's and one of the user's; its id, and that of the port that the client is after."""
    owner = "compute:nova" if act in (activate, move) else ""
    wanted = PortRequest(network_id=network_id, project_id=PROJECT, device_owner=owner)
    mine = (await ports.create_port(world.networks, wanted)).id
    (server,) = await world.boot(network_id, port_id=mine)
    return server, Nic(tag="0", network_id=network_id).port_id_of(server) if made else mine


async def end(world: World, network_id: str) -> None:
    """Everything agrees; then everything goes, and everything agrees."""
    await world.run()
    await reconcile_once(world.networks)
    assert set((await world.statuses()).values()) <= {"ACTIVE", "ERROR"}
    await world.settled()
    await world.delete(*(await world.statuses()))
    await world.run()
    assert await world.statuses() == {}
    await world.settled()
    for port in await ports.list_ports(world.networks, PortFilter(network_ids=(network_id,))):
        await ports.delete_port(world.networks, port.id)
    usages = await world.conductor.placement.list_usages([segment for segment, *_ in await _segments(world)])
    assert {used for classes in usages.values() for _, used in classes.values()} == {0}


async def _segments(world: World) -> list[Any]:
    async with world.database.connection() as connection:
        return list(await connection.fetch("SELECT id FROM network.segment"))


@pytest.mark.parametrize(("act", "made"), CASES, ids=lambda item: getattr(item, "__name__", None))
async def test_a_client_after_every_transaction_of_a_build(world: World, act: Act, made: bool) -> None:
    network = await world.routed(rack1="10.1.0.0/28", rack2="10.2.0.0/28")
    for number in sampled_from(1):
        assert number < ROUNDS_MAX
        _, port_id = await boot(world, network.id, act, made=made)
        between = Between(world, number, partial(attempt, act, world, port_id))
        with between():
            await world.run()
        await end(world, network.id)
        if not between.fired:
            assert number > 8, "a build has more transactions than that"
            return


async def test_a_user_who_gives_the_port_to_the_server_itself_after_every_transaction_of_a_build(world: World) -> None:
    """Before the build has it, it is not the build's; then it is nobody else's to give."""
    network = await world.routed(rack1="10.1.0.0/28", rack2="10.2.0.0/28")
    seen: list[str] = []
    for number in sampled_from(1):
        assert number < ROUNDS_MAX
        server, port_id = await boot(world, network.id, bind, made=False)

        async def give(world: World, port_id: str, server: str = server) -> None:
            await ports.update_port(world.networks, port_id, PortChanges(device_id=server))

        between = Between(world, number, partial(attempt, give, world, port_id))
        with between():
            await world.run()
        seen.append((await world.statuses())[server])
        await end(world, network.id)
        if not between.fired:
            assert (seen[0], seen[-1]) == ("ERROR", "ACTIVE")
            assert number > 8, "a build has more transactions than that"
            return


@pytest.mark.parametrize("nics", [0, 1])
async def test_a_port_made_for_a_server_after_every_transaction_of_its_build_is_one_of_its_nics(
    world: World, nics: int
) -> None:
    """While it is being built nobody shows what it has; without other ports nothing says that it is."""
    network = await world.routed(rack1="10.1.0.0/28", rack2="10.2.0.0/28")
    for number in sampled_from(1):
        assert number < ROUNDS_MAX
        (server,) = await world.boot(*[network.id] * nics)
        wanted = PortRequest(network_id=network.id, project_id=PROJECT, device_id=server)
        between = Between(world, number, partial(ports.create_port, world.networks, wanted))
        with between():
            await world.run()
        await reconcile_once(world.networks)
        shown = (await get_server(world.compute, server)).ports
        assert len(shown) == nics + between.fired
        await end(world, network.id)
        if not between.fired:
            assert number > 5, "a build has more transactions than that"
            return


@pytest.mark.parametrize(("act", "made"), CASES, ids=lambda item: getattr(item, "__name__", None))
async def test_a_client_after_every_transaction_of_a_delete(world: World, act: Act, made: bool) -> None:
    network = await world.routed(rack1="10.1.0.0/28", rack2="10.2.0.0/28")
    for number in sampled_from(1):
        assert number < ROUNDS_MAX
        server, port_id = await boot(world, network.id, act, made=made)
        await world.run()
        between = Between(world, number, partial(attempt, act, world, port_id))
        with between():
            await world.delete(server)
            await world.run()
        await end(world, network.id)
        if not between.fired:
            assert number > 4, "a delete has more transactions than that"
            return


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize("work", ["build", "delete"])
async def test_a_build_and_a_delete_after_every_transaction_of_a_client(world: World, act: Act, work: str) -> None:
    network = await world.routed(rack1="10.1.0.0/28", rack2="10.2.0.0/28")
    for number in sampled_from(1):
        assert number < ROUNDS_MAX
        server, port_id = await boot(world, network.id, act, made=False)

        async def whole(server: str = server) -> None:
            if work == "delete":
                await world.delete(server)
            await world.run()

        if work == "delete":
            await world.run()
        between = Between(world, number, whole)
        with between():
            await attempt(act, world, port_id)
        await world.expire_leases()  # a conductor that waits in vain for who stands still leaves the server for later
        await end(world, network.id)
        if not between.fired:
            return


@pytest.mark.parametrize("made", [False, True], ids=["users port", "roosts port"])
async def test_clients_builds_deletes_and_reconcilers_all_at_once(world: World, made: bool) -> None:
    network = await world.routed(rack1="10.1.0.0/27", rack2="10.2.0.0/27")
    for _ in range(3):
        booted = [await boot(world, network.id, act, made=made) for act in ACTS]
        doomed = [server for server, _ in booted[::2]]
        await asyncio.gather(
            world.run(),
            *(attempt(act, world, port_id) for act, (_, port_id) in zip(ACTS, booted, strict=True)),
            *(attempt(delete, world, port_id) for _, port_id in booted[1::2]),
            reconcile_once(world.networks),
            world.delete(*doomed),
        )
        await world.run()
        await end(world, network.id)
