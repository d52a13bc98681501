"""Where no agent makes or binds ports any more: servers are built early, and what was begun otherwise ends as well."""

from collections import Counter

import pytest
from msgspec.structs import replace
from tests.conductor.test_orders import orders_of
from tests.conductor.test_pipeline import ports_of
from tests.conductor.world import World, stages_until

from roost.compute.model.work import EARLY, Placed, ServerChange, Stage, Work
from roost.compute.old_agents.rules.orders import EARLY_CREATE, LATE
from roost.compute.service.work import lease_work
from roost.conductor.bind import ask_host, port_information
from roost.conductor.context import Build, Lease
from roost.conductor.old_agents import let_in
from roost.conductor.pipeline import carry
from roost.conductor.settings import ConductorSettings
from roost.platform.database import Database
from roost.seams.compute import RequestSpec
from roost.seams.network import Bound, NetworkView, Nic, Port

SERVER = "5b5c0e4e-2fa1-4a57-9d53-0016d3cca427"
NICS = (Nic(tag="0", network_id="n"), Nic(tag="1", port_id="a user's port"))
WORK = Work(
    server_id=SERVER, stage=Stage.BIND, attempt=2, failures=0, excluded_hosts=(),
    placed=Placed(host="h1", providers_by_port={NICS[0].port_id_of(SERVER): "rack1"}, generations={}), failure=None,
    deleting=False, name="web", project_id="p", user_id="u", active=False,
    spec=RequestSpec(vcpus=1, memory_mb=1, disk_gb=0, nics=NICS),
)  # fmt: skip
NETWORKS = {"n": NetworkView(id="n", name="net", routed=True, segments=())}


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("r1-h1", "r1-h2", reach=["rack1"])
    await made.hosts("r2-h1", "r2-h2", reach=["rack2"])
    return made


def forbid_old_agents(world: World) -> None:
    """The conductor begins anew, and no agent may make or bind ports."""
    world.conductor.old_agents = None
    world.compute.with_ports_going = None
    world.compute.settings = replace(world.compute.settings, service_version_min=3)


async def stages_of(world: World) -> Counter[str]:
    async with world.database.connection() as connection:
        return Counter(row["stage"] for row in await connection.fetch("SELECT stage FROM compute.work"))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("stages", [0, 1, 2])
async def test_what_was_begun_for_old_agents_ends_without_them(world: World, version: int, stages: int) -> None:
    """Wherever it stands: its conductor died after so many stages. Agents below version 3 are gone."""
    await world.set_version("r1-h1", version)
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/29")
    servers = await world.boot(network.id, count=4)
    await world.die_after(stages)
    await world.expire_leases()
    await world.set_version("r1-h1", 3)
    forbid_old_agents(world)
    await world.run()
    assert Counter((await world.statuses()).values()) == {"ACTIVE": 4}
    assert set((await orders_of(world)).values()) == {LATE.name if version == 1 else EARLY_CREATE.name}
    assert not world.refusals
    await world.settled()
    await world.delete(*servers)
    await world.run()
    assert await world.statuses() == {}
    await world.settled()


async def test_a_server_at_its_agents_stage_is_placed_anew_with_its_address_claimed(world: World) -> None:
    """Where the last address went meanwhile it goes to the other rack, as a server does that is placed first."""
    await world.set_version("r1-h1", 1)
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    owner = world.compute.env.new_uuid()
    rows = await lease_work(world.compute, owner=owner, limit=1, lease_s=30)
    with stages_until(1):  # placed
        await carry(Lease(world.conductor, owner), [Build(work) for work in rows])
    assert await stages_of(world) == {"ask": 1}
    await world.expire_leases()
    forbid_old_agents(world)
    await world.conduct()
    ((_, host, address),) = await ports_of(world)
    assert (host[:2], address[:5]) == ("r1", "10.1.")
    await world.run()
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


@pytest.mark.parametrize("old_agents", [False, True])
async def test_absence_tells_ports_to_old_agents_alone(world: World, old_agents: bool) -> None:
    if old_agents:
        let_in(world.conductor)
    network = await world.routed(rack1="10.1.0.0/29")
    (server,) = await world.boot(network.id)
    await world.run()
    assert await orders_of(world) == {server: "early"}
    await world.delete(server)
    await world.conduct()
    (going,) = await world.orders()
    assert (going.desired, len(going.ports)) == ("absent", int(old_agents))
    await world.run()
    await world.settled()


def a_port(nic: Nic, **more: object) -> Port:
    return replace(
        Port(
            id=nic.port_id_of(SERVER), tag=nic.tag, network_id="n", project_id="p", mac_address="fa:16:3e:00:00:01",
            revision=3, preserve_on_delete=nic.port_id is not None, needs_address=False, provider_uuid="rack2",
        ),
        **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("port", "order", "segment", "created_by"),
    [
        pytest.param(a_port(NICS[0]), EARLY, "rack1", "conductor", id="claimed by this build"),
        pytest.param(a_port(NICS[0]), LATE, "rack1", "agent", id="of a late build"),
        pytest.param(a_port(NICS[1]), EARLY, "rack2", "user", id="a user's"),
        pytest.param(
            a_port(Nic(tag="", port_id="later"), preserve_on_delete=False), EARLY, "rack2", "roost", id="later"
        ),
    ],
)
def test_a_host_is_told_of_a_bound_port(port: Port, order: object, segment: str, created_by: str) -> None:
    bound = Bound(port.id, ("10.1.0.2",), 4)
    told = port_information(Build(replace(WORK, order=order)), port, NETWORKS, bound)
    assert (told.segment, told.created_by, told.binding, told.revision) == (segment, created_by, "bound", 4)
    assert (told.addresses, told.network_name, told.fixed_ip) == (("10.1.0.2",), "net", None)


def test_a_host_is_asked_for_the_next_attempt_of_a_build(world: World) -> None:
    change = ask_host(Build(WORK), [], Lease(world.conductor, "owner"), note="a note")
    assert (change.stage, change.attempt, change.guest_host, change.desired) == (Stage.LAUNCH, 3, "h1", "running")
    assert change.server == ServerChange(status="BUILD", task_state="spawning", host="h1", network_info=())
    assert (change.note, change.delay_s) == ("a note", ConductorSettings().begin_timeout_s * 0.9)
