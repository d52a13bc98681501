"""Servers: what may be asked for, what one transaction writes, deleting at any stage, paging."""

import asyncio
import uuid
from typing import Any

import asyncpg
import pytest
from tests.agent.cloud import AGENT

from roost.clients.local_compute import LocalCompute
from roost.compute.errors import FilterInvalid, NetworkAmbiguous, ServerNotFound, ServerRefused
from roost.compute.model.server import NicAsked, ServerFault, ServerFilter, ServerRequest
from roost.compute.model.work import StageChange
from roost.compute.rules.servers import (
    Counts,
    Destination,
    fault_details,
    hostname_problem,
    make_hostname,
    nic_problem,
    number_nics,
    power_state,
    read_counts,
    read_destination,
    server_names,
    zone_sentence,
)
from roost.compute.service import Compute
from roost.compute.service import hosts as hosts_service
from roost.compute.service import servers as service
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.service.work import change_stages, lease_work
from roost.seams.agent import HostReport
from roost.seams.compute import ServerState

NET, OTHER = "bbbbbbbb-0000-0000-0000-000000000001", "bbbbbbbb-0000-0000-0000-000000000002"
PORT = "cccccccc-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    ("least", "most", "means"),
    [(None, None, Counts(1, 1)), (3, None, Counts(3, 3)), (None, 4, Counts(1, 4)), (2, 1000, Counts(2, 1000))],
)
def test_how_many_servers_a_request_means(least: Any, most: Any, means: Counts) -> None:
    assert read_counts(least, most) == means


@pytest.mark.parametrize(("least", "most"), [(2, 1), (0, None), (None, 0), (None, 1001)])
def test_counts_that_cannot_be(least: Any, most: Any) -> None:
    assert isinstance(read_counts(least, most), str)


def test_several_servers_are_numbered_from_one() -> None:
    assert server_names("web", 1) == ("web",)
    assert server_names("web", 3) == ("web-1", "web-2", "web-3")


@pytest.mark.parametrize(
    ("name", "hostname"),
    [
        ("web", "web"), ("Web Server", "web-server"), ("a_b.c", "a-b-c"), ("-a-", "a"), ("x" * 70, "x" * 63),
        ("été 1", "t-1"), ("日本", f"server-{PORT}"), ("---", f"server-{PORT}"),
    ],
)  # fmt: skip
def test_a_hostname_is_made_of_the_name(name: str, hostname: str) -> None:
    assert make_hostname(name, PORT) == hostname


@pytest.mark.parametrize(
    ("hostname", "unqualified", "qualified"),
    [
        ("db", True, True), ("d", False, True), ("DB-1", True, True), ("-db", False, True), ("db-", False, True),
        ("db.example", False, True), ("d_b", False, True), ("a" * 63, True, True), ("a" * 64, False, True),
        ("a" * 255, False, True), ("a" * 256, False, False), ("", False, False), ("a b", False, False),
        ("db\n", False, False),
    ],
)  # fmt: skip
def test_what_a_hostname_may_be(hostname: str, unqualified: bool, qualified: bool) -> None:
    assert (hostname_problem(hostname, qualified=False) is None) == unqualified
    assert (hostname_problem(hostname, qualified=True) is None) == qualified
    assert "2 servers" in str(hostname_problem(hostname, qualified=True, count=2))


def test_a_zone_that_there_is_not_is_named() -> None:
    assert (
        zone_sentence("z", ["a", "nova"]) == "The requested availability zone is not available: z. There are: a, nova."
    )


@pytest.mark.parametrize(
    ("nics", "count", "part"),
    [
        ([NicAsked()], 1, "Bad networks format"),
        ([NicAsked(port_id=PORT)], 2, "belongs to one server"),
        ([NicAsked(port_id=PORT), NicAsked(port_id=PORT)], 1, "only once"),
        ([NicAsked(network_id=NET, fixed_ip="10.0.0.300")], 1, "Invalid fixed IP"),
        ([NicAsked(network_id=NET, fixed_ip="fe80::1%eth0")], 1, "Invalid fixed IP"),
        ([NicAsked(network_id=NET, fixed_ip="10.0.0.3")], 2, "max_count"),
        ([NicAsked(port_id=PORT, fixed_ip="10.0.0.3")], 1, "addresses of its own"),
        ([NicAsked(network_id=NET, tag="a"), NicAsked(network_id=NET, tag="a")], 1, "unique"),
        ([NicAsked(network_id=NET)] * 65, 1, "can have 64"),
    ],
)
def test_nics_that_cannot_be(nics: Any, count: int, part: str) -> None:
    assert part in (nic_problem(nics, count=count) or "")


@pytest.mark.parametrize(
    ("zone", "host", "hypervisor", "means"),
    [
        (None, None, None, Destination(None, None)),
        ("", None, None, Destination(None, None)),
        ("nova", None, None, Destination("nova", None)),
        ("nova:h1", None, None, Destination("nova", "h1")),
        ("nova:h1:h1", None, None, Destination("nova", "h1")),
        ("nova::h1", None, None, Destination("nova", "h1")),
        (":h1", None, None, Destination(None, "h1")),
        ("nova::", None, None, Destination("nova", None)),
        (None, "h1", None, Destination(None, "h1")),
        (None, None, "h1", Destination(None, "h1")),
        ("nova", "h1", "h1", Destination("nova", "h1")),
        ("mars", None, None, Destination("mars", None)),
        ("mars:h1", None, None, Destination("mars", "h1")),
        ("nova:h1:h1:h1", None, None, "Unable to parse availability_zone nova:h1:h1:h1"),
        ("nova:h1", "h1", None, "mutually exclusive"),
        ("nova::h1", None, "h1", "mutually exclusive"),
        ("nova:h1:h2", None, None, "h1 and h2 are two hosts"),
        (None, "h2", "h1", "h1 and h2 are two hosts"),
    ],
)
def test_where_a_request_wants_its_servers(zone: Any, host: Any, hypervisor: Any, means: Destination | str) -> None:
    read = read_destination(zone, host=host, hypervisor=hypervisor)
    if isinstance(means, Destination):
        assert read == means
    else:
        assert isinstance(read, str)
        assert means in read


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, ""),
        ({"details": "It burns."}, "It burns."),
        ({"host": "h1"}, "host: h1"),
        (
            {"funnel": (("hosts", 3), ("up", 1), ("1 VCPU free", 0))},
            "hosts: 3 hosts left\nup: 1 host left\n1 VCPU free: 0 hosts left",
        ),
        ({"details": "It burns.", "host": "h1", "funnel": (("hosts", 0),)}, "It burns.\nhost: h1\nhosts: 0 hosts left"),
    ],
)
def test_a_fault_says_where_it_failed_and_how_many_hosts_were_left(fields: Any, said: str) -> None:
    assert fault_details(ServerFault(message="No valid host was found.", **fields)) == said


@pytest.mark.parametrize(
    ("vm_state", "state"),
    [("active", 1), ("building", 0), ("error", 0), ("stopped", 4), ("paused", 3), ("suspended", 7), ("resized", 4)],
)
def test_the_power_state_follows_from_what_the_server_is(vm_state: str, state: int) -> None:
    assert power_state(vm_state, has_crashed=False) == state
    assert power_state(vm_state, has_crashed=True) == 6


def test_every_nic_has_a_tag_of_its_own() -> None:
    nics = [NicAsked(network_id=NET, tag="0"), NicAsked(network_id=NET), NicAsked(network_id=NET, port_id=PORT)]
    assert nic_problem(nics, count=1) is None
    numbered = number_nics(nics)
    assert [nic.tag for nic in numbered] == ["0", "1", "2"]
    assert (numbered[2].network_id, numbered[2].port_id) == (None, PORT)


@pytest.fixture
async def cloud(compute: Compute, networks: Any) -> Compute:
    await networks.add(NET)
    await create_flavor(compute, FlavorRequest(name="small", vcpus=1, ram_mb=1024, disk_gb=10, id="1"))
    return compute


async def boot(compute: Compute, **other: Any) -> tuple[str, ...]:
    asked = {"name": "web", "flavor_ref": "small", "nics": (NicAsked(network_id=NET),)}
    request = ServerRequest(**(asked | other))
    return (await service.create_servers(compute, request, project_id="p", user_id="u")).server_ids


async def work_of(compute: Compute, server_id: str) -> Any:
    async with compute.database.connection() as connection:
        return await connection.fetchrow("SELECT * FROM compute.work WHERE server_id = $1", server_id)


async def run(compute: Compute, sql: str, *arguments: Any) -> None:
    async with compute.database.transaction() as tx:
        await tx.execute(sql, *arguments)


async def test_servers_and_their_work_are_written_together(cloud: Compute) -> None:
    ids = await boot(cloud, count=3, metadata={"a": "b"})
    servers = [await service.get_server(cloud, server_id) for server_id in ids]
    assert [(one.name, one.launch_index, one.status) for one in servers] == [
        ("web-1", 0, "BUILD"), ("web-2", 1, "BUILD"), ("web-3", 2, "BUILD"),
    ]  # fmt: skip
    assert servers[0].spec.nics == number_nics([NicAsked(network_id=NET)])
    assert (servers[0].spec.vcpus, servers[0].spec.memory_mb, servers[0].flavor.name) == (1, 1024, "small")
    assert [(await work_of(cloud, server_id))["stage"] for server_id in ids] == ["create_ports"] * 3
    client = LocalCompute(cloud)
    unknown = str(uuid.uuid4())
    building = ServerState(claiming=True, unfinished=True)
    assert await client.get_server_states([*ids, unknown]) == dict.fromkeys(ids, building)


async def test_a_hundred_servers_take_as_many_statements_as_one(cloud: Compute, statements: Any) -> None:
    with statements() as seen:
        await boot(cloud)
        one = list(seen)
    with statements() as seen:
        await boot(cloud, count=100)
        assert seen == one == ["compute.find_flavor_with_quotas", "compute.insert_servers", "compute.insert_work"]


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ({"flavor_ref": "big"}, "There are: small."),
        ({"nics": (NicAsked(network_id=OTHER),)}, f"Network {OTHER} could not be found."),
        ({"nics": (NicAsked(port_id=PORT),), "count": 2}, "belongs to one server"),
        ({"count": 1001}, "1 to 1000"),
    ],
)
async def test_a_refused_request_leaves_nothing(cloud: Compute, asked: Any, part: str) -> None:
    with pytest.raises(ServerRefused, match=part):
        await boot(cloud, **asked)
    assert await service.list_servers(cloud, ServerFilter()) == []


async def test_without_a_network_named_the_only_one_is_meant(cloud: Compute, networks: Any) -> None:
    [with_one] = await boot(cloud, nics=None)
    assert (await service.get_server(cloud, with_one)).spec.nics[0].network_id == NET
    await networks.add(OTHER)
    with pytest.raises(NetworkAmbiguous, match="Multiple possible networks found"):
        await boot(cloud, nics=None)
    [none_wanted] = await boot(cloud, nics=())
    assert (await service.get_server(cloud, none_wanted)).spec.nics == ()
    await networks.clear()
    [without] = await boot(cloud, nics=None)
    assert (await service.get_server(cloud, without)).spec.nics == ()
    with pytest.raises(ServerRefused, match="automatically"):
        await boot(cloud, nics=None, auto=True)


LEASED = "lease_owner = gen_random_uuid(), lease_until = now() + interval '1 minute'"
EXPIRED = "lease_owner = gen_random_uuid(), lease_until = now() - interval '1 second'"


@pytest.mark.parametrize(
    ("state", "stage", "leased"),
    [
        ("lease_owner = NULL", "delete", False),
        (EXPIRED, "delete", False),
        (LEASED, "create_ports", True),
        (f"stage = 'launch', run_at = now() + interval '1 hour', {LEASED}", "delete", False),
        ("stage = 'launch', run_at = now() + interval '1 hour'", "delete", False),
    ],
)
async def test_a_delete_takes_the_work_unless_a_conductor_has_it(
    cloud: Compute, state: str, stage: str, leased: bool
) -> None:
    [server_id] = await boot(cloud)
    await run(cloud, f"UPDATE compute.work SET {state} WHERE server_id = $1", server_id)
    await service.delete_server(cloud, server_id)
    await service.delete_server(cloud, server_id)
    work = await work_of(cloud, server_id)
    assert (work["stage"], work["lease_owner"] is not None, work["deleting"]) == (stage, leased, True)
    assert (await service.get_server(cloud, server_id)).task_state == "deleting"
    if not leased:
        owner = str(uuid.uuid4())
        [taken] = await lease_work(cloud, owner=owner, limit=10, lease_s=30)
        assert taken.stage.value == "delete"
        await change_stages(cloud, [StageChange(server_id=server_id, stage=None, gone=True)], owner=owner, lease_s=30)
        with pytest.raises(ServerNotFound):
            await service.delete_server(cloud, server_id)
        assert await work_of(cloud, server_id) is None


async def test_a_server_without_work_gets_some_to_be_deleted_by(cloud: Compute) -> None:
    [server_id] = await boot(cloud)
    await run(cloud, "DELETE FROM compute.work")
    await service.delete_server(cloud, server_id)
    assert (await work_of(cloud, server_id))["stage"] == "delete"


async def test_a_delete_of_nothing_leaves_no_work(cloud: Compute) -> None:
    unknown = str(uuid.uuid4())
    with pytest.raises(ServerNotFound):
        await service.delete_server(cloud, unknown)
    assert await work_of(cloud, unknown) is None


async def test_a_server_deleted_on_a_host_that_is_down_is_gone_at_once(cloud: Compute) -> None:
    await hosts_service.register_hosts(cloud, [HostReport(name="h1", vcpus=1, ram_mb=1024, disk_gb=10)], agent=AGENT)
    up, down = await boot(cloud, count=2)
    await run(cloud, "UPDATE compute.server SET host = 'h1', status = 'ACTIVE'")
    await service.delete_server(cloud, up)
    assert (await service.get_server(cloud, up)).task_state == "deleting"
    await hosts_service.force_down(cloud, "h1", True)
    await service.delete_server(cloud, down)
    with pytest.raises(ServerNotFound):
        await service.get_server(cloud, down)
    assert [one.id for one in await service.list_servers(cloud, ServerFilter())] == [up]
    assert set(await LocalCompute(cloud).get_server_states([down])) == {down}


async def test_pages_are_the_youngest_first_and_whole(cloud: Compute) -> None:
    ids = await boot(cloud, count=5)
    first = await service.list_servers(cloud, ServerFilter(), limit=2)
    second = await service.list_servers(cloud, ServerFilter(), limit=2, marker=first[-1].id)
    third = await service.list_servers(cloud, ServerFilter(), limit=2, marker=second[-1].id)
    assert [one.id for one in [*first, *second, *third]] == list(reversed(ids))
    ascending = await service.list_servers(cloud, ServerFilter(), marker=ids[1], descending=False)
    assert [one.id for one in ascending] == list(ids[2:])
    with pytest.raises(FilterInvalid, match="marker"):
        await service.list_servers(cloud, ServerFilter(), marker=str(uuid.uuid4()))


async def test_lists_are_narrowed_by_every_filter(cloud: Compute) -> None:
    [web] = await boot(cloud)
    [db] = await boot(cloud, name="db")
    await run(cloud, "UPDATE compute.server SET host = 'h1', status = 'ACTIVE' WHERE id = $1", db)
    for only, found in [
        (ServerFilter(name="^w"), [web]), (ServerFilter(statuses=("ACTIVE",)), [db]), (ServerFilter(host="h1"), [db]),
        (ServerFilter(project_id="p"), [db, web]), (ServerFilter(project_id="q"), []),
        (ServerFilter(flavor_id="1", server_id=web), [web]), (ServerFilter(flavor_id="2"), []),
    ]:  # fmt: skip
        assert [one.id for one in await service.list_servers(cloud, only)] == found, only
    with pytest.raises(FilterInvalid):
        await service.list_servers(cloud, ServerFilter(name="("))


async def test_a_delete_that_meets_the_end_of_the_work_is_never_lost(cloud: Compute) -> None:
    ids = await boot(cloud, count=20)
    owner = str(uuid.uuid4())
    assert len(await lease_work(cloud, owner=owner, limit=20, lease_s=30)) == 20
    gone = ids[10:]

    async def delete(server_id: str) -> bool:
        try:
            await service.delete_server(cloud, server_id)
        except ServerNotFound:
            return False
        return True

    async def end(server_id: str) -> Any:
        ends = StageChange(server_id=server_id, stage=None, gone=server_id in gone)
        return (await change_stages(cloud, [ends], owner=owner, lease_s=30))[server_id].stage

    done = await asyncio.gather(*(act(server_id) for server_id in ids for act in (delete, end)))
    for server_id, deleted, ended in zip(ids, done[::2], done[1::2], strict=True):
        work = await work_of(cloud, server_id)
        if server_id in gone and ended is None:
            assert work is None, "a delete that came late left work for a server that does not exist"
        else:
            assert deleted
            assert work["deleting"]
            assert work["stage"] == "delete"


async def test_deletes_of_one_server_at_once_agree(cloud: Compute) -> None:
    [server_id] = await boot(cloud)
    await run(cloud, "DELETE FROM compute.work")
    await asyncio.gather(*(service.delete_server(cloud, server_id) for _ in range(8)))
    assert (await work_of(cloud, server_id))["stage"] == "delete"


async def test_servers_without_their_work_are_never_there(cloud: Compute) -> None:
    """Whatever goes wrong between the two is as if the request had not come."""
    await run(cloud, "ALTER TABLE compute.work RENAME TO away")
    with pytest.raises(asyncpg.UndefinedTableError):
        await boot(cloud, count=3)
    assert await service.list_servers(cloud, ServerFilter()) == []
