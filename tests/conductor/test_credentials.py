"""What a conductor knows of its network credentials: refused, taken again, and a service that is only away."""

import asyncio

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs
from tests.conductor.world import World

from roost.compute.service.cells import list_heartbeats
from roost.conductor.credentials import CredentialsWatch, Presence
from roost.platform.database import Database
from roost.seams.agent import NetworkAway, NetworkRefused

REFUSED = NetworkRefused("the token is refused (401)", status=401)
AWAY = NetworkAway("http://network does not answer: Connection refused")


class Service:
    """A network service as a conductor's probe meets it. answer: None to be let in; met: probes wait for each other."""

    def __init__(self, answer: Exception | None = None) -> None:
        self.answer = answer
        self.met: asyncio.Barrier | None = None

    async def check(self) -> None:
        """Let it in, or not."""
        if self.met is not None:
            await self.met.wait()
        if self.answer is not None:
            raise self.answer


@pytest.mark.parametrize(
    ("answers", "usable", "warnings"),
    [
        pytest.param([None], True, 0, id="let in"),
        pytest.param([REFUSED], False, 1, id="refused"),
        pytest.param([AWAY], True, 1, id="a service that is away refuses nothing"),
        pytest.param([REFUSED, AWAY], False, 2, id="nor does it let anybody in"),
        pytest.param([None, REFUSED, REFUSED, REFUSED], False, 1, id="revoked, said once"),
        pytest.param([None, AWAY, AWAY, None, AWAY], True, 2, id="away twice, said each time"),
        pytest.param([REFUSED, None], True, 1, id="let in again"),
    ],
)
async def test_credentials_are_what_the_service_said_last(
    answers: list[Exception | None], usable: bool, warnings: int
) -> None:
    service = Service()
    watch = CredentialsWatch(service.check)
    with capture_logs() as logs:
        for answer in answers:
            service.answer = answer
            await watch.look()
    assert watch.current().usable == usable
    assert len([line for line in logs if line["log_level"] == "warning"]) == warnings


@pytest.mark.parametrize(
    ("known", "answer", "level"),
    [
        pytest.param(None, REFUSED, "warning", id="refused"),
        pytest.param(None, AWAY, "warning", id="away"),
        pytest.param(REFUSED, None, "info", id="let in again"),
    ],
)
async def test_two_looks_at_once_say_it_once(known: Exception | None, answer: Exception | None, level: str) -> None:
    """As at a conductor's start, which waits for the first look while the periodic one begins."""
    service = Service(known)
    watch = CredentialsWatch(service.check)
    await watch.look()
    service.answer, service.met = answer, asyncio.Barrier(2)
    with capture_logs() as logs:
        await asyncio.gather(watch.look(), watch.look())
    assert [line["log_level"] for line in logs] == [level]


async def test_the_next_servers_are_built_late_once_credentials_are_revoked(database: Database) -> None:
    world = await World.make(database)
    await world.hosts("r1-h1", reach=["rack1"])
    network = await world.routed(rack1="10.1.0.0/28")
    service = Service()
    watch = CredentialsWatch(service.check)
    world.let_in_old_agents()
    world.conductor.credentials = watch.current
    presence = Presence(world.conductor, watch)
    orders = []
    for answer in (None, REFUSED, None):
        service.answer = answer
        await watch.look()
        await presence.beat()
        (server,) = await world.boot(network.id)
        await world.run()
        async with database.connection() as connection:
            order = await connection.fetchval("SELECT build_order ->> 'name' FROM compute.server WHERE id = $1", server)
        (heartbeat,) = await list_heartbeats(world.compute)
        orders.append((order, heartbeat.credentials.usable))
    assert orders == [("early", True), ("late", False), ("early", True)]
    assert set((await world.statuses()).values()) == {"ACTIVE"}
    await world.settled()


ORDERS = ("late", "early-create", "early")


def order_now() -> dict[str, float | None]:
    """What `roost_build_order` says of each order."""
    return {name: REGISTRY.get_sample_value("roost_build_order", {"order": name}) for name in ORDERS}


def builds_begun() -> dict[str, float]:
    """What `roost_builds_begun_total` has counted of each order, in this process."""
    counts = {name: REGISTRY.get_sample_value("roost_builds_begun_total", {"order": name}) for name in ORDERS}
    return {name: count or 0.0 for name, count in counts.items()}


@pytest.mark.parametrize(
    ("answer", "version", "order"),
    [(None, 4, "early"), (None, 2, "early-create"), (None, 1, "late"), (REFUSED, 4, "late")],
)
async def test_metrics_say_the_order_the_credentials_and_what_was_begun(
    database: Database, answer: Exception | None, version: int, order: str
) -> None:
    world = await World.make(database)
    await world.hosts("r1-h1", reach=["rack1"])
    await world.set_version("r1-h1", version)
    watch = CredentialsWatch(Service(answer).check)
    world.let_in_old_agents()
    world.conductor.credentials = watch.current
    await watch.look()
    await Presence(world.conductor, watch).beat()
    assert order_now() == {name: float(name == order) for name in ORDERS}
    assert REGISTRY.get_sample_value("roost_network_credentials_usable") == float(answer is None)
    before = builds_begun()
    network = await world.routed(rack1="10.1.0.0/28")
    await world.boot(network.id, count=2)
    await world.run()
    assert {name: count - before[name] for name, count in builds_begun().items()} == {
        name: 2.0 * (name == order) for name in ORDERS
    }


async def test_a_change_of_the_order_is_one_line_with_the_hosts_that_caused_it(database: Database) -> None:
    world = await World.make(database)
    await world.hosts("r1-h1", "r1-h2", reach=["rack1"])
    world.let_in_old_agents()
    watch = CredentialsWatch(Service().check)
    await watch.look()
    presence = Presence(world.conductor, watch)
    with capture_logs() as logs:
        for version in (3, 1, 1, 3):
            await world.set_version("r1-h2", version)
            await presence.beat()
    lines = [line for line in logs if line["event"] == "servers are built in another order"]
    assert [(line["order"], line["hosts"]) for line in lines] == [("late", ["r1-h2"]), ("early", [])]


async def test_without_a_network_api_of_others_there_is_nothing_to_try() -> None:
    assert (await CredentialsWatch().look()).usable
