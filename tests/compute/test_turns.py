"""Whose work is leased: projects in turn, a few rows of each, and the oldest of each first."""

import uuid

import pytest
from tests.compute.conftest import NetworkRows

from roost.compute.model.server import NicAsked, ServerRequest
from roost.compute.model.work import Stage, StageChange
from roost.compute.service import Compute
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.service.servers import create_servers, delete_server
from roost.compute.service.work import LEASE_ROWS_MAX, TURN_ROWS, change_stages, lease_work

NET = "bbbbbbbb-0000-0000-0000-000000000001"


@pytest.fixture
async def cloud(compute: Compute, networks: NetworkRows) -> Compute:
    await networks.add(NET)
    await create_flavor(compute, FlavorRequest(name="small", vcpus=1, ram_mb=1024, disk_gb=10))
    return compute


async def boot(cloud: Compute, project_id: str, count: int = 1) -> list[str]:
    request = ServerRequest(name="web", flavor_ref="small", nics=(NicAsked(network_id=NET),), count=count)
    return list((await create_servers(cloud, request, project_id=project_id, user_id="u")).server_ids)


async def flood(cloud: Compute, project_id: str, count: int) -> None:
    """Servers of one project, all due, put straight into the tables."""
    async with cloud.database.transaction() as tx:
        await tx.execute(
            "WITH made AS (INSERT INTO compute.server (id, name, project_id, user_id, flavor, spec)"
            " SELECT gen_random_uuid(), 'web', $1, 'u', flavor, spec FROM compute.server, generate_series(1, $2)"
            " WHERE project_id = 'pattern' RETURNING id)"
            " INSERT INTO compute.work (server_id, stage) SELECT id, 'create_ports' FROM made",
            project_id,
            count,
        )


async def lease(cloud: Compute, *, limit: int = LEASE_ROWS_MAX, after: str = "") -> list[str]:
    """The projects of one batch's rows, in the order of their servers."""
    owner = str(uuid.uuid4())
    return [work.project_id for work in await lease_work(cloud, owner=owner, limit=limit, lease_s=30, after=after)]


async def test_beside_thousands_of_rows_of_one_project_anothers_is_in_the_next_batch(cloud: Compute) -> None:
    await boot(cloud, "pattern")
    await flood(cloud, "flood", 2000)
    assert set(await lease(cloud)) == {"pattern", "flood"}
    assert await lease(cloud) == ["flood"] * LEASE_ROWS_MAX, "alone, a project fills the batch"
    await boot(cloud, "late")
    batch = await lease(cloud, after="flood")
    assert batch.count("late") == 1
    assert batch.count("flood") == TURN_ROWS, "the others of a batch are few: it is soon done"


async def test_a_project_has_its_oldest_rows_leased_first(cloud: Compute) -> None:
    first, second, third = [(await boot(cloud, "p"))[0] for _ in range(3)]
    async with cloud.database.transaction() as tx:
        await tx.execute("UPDATE compute.work SET run_at = now() - interval '1 hour' WHERE server_id = $1", third)
    leased = [(await lease_work(cloud, owner=str(uuid.uuid4()), limit=1, lease_s=30))[0].server_id for _ in range(3)]
    assert leased == [third, first, second]


@pytest.mark.parametrize(
    ("after", "turns"),
    [("", "abc"), ("a", "bca"), ("ab", "bca"), ("b", "cab"), ("c", "abc"), ("z", "abc")],
)
async def test_projects_have_their_turns_in_a_ring(cloud: Compute, after: str, turns: str) -> None:
    for project_id in "cab":
        await boot(cloud, project_id)
    leased = []
    for _ in turns:
        leased += await lease(cloud, limit=1, after=after)
        after = leased[-1]
    assert leased == list(turns)
    assert await lease(cloud) == []


async def test_a_full_batch_has_a_row_of_as_many_projects_as_it_has_room_for(cloud: Compute) -> None:
    for number in range(40):
        await boot(cloud, f"p{number:02}")
    assert await lease(cloud, limit=16, after="p29") == [f"p{number:02}" for number in (*range(6), *range(30, 40))]
    assert len(await lease(cloud)) == 24


async def test_rows_that_wait_or_are_leased_take_nobodys_turn(cloud: Compute) -> None:
    await boot(cloud, "leased", TURN_ROWS + 1)
    assert len(await lease(cloud)) == TURN_ROWS + 1
    for server_id in await boot(cloud, "waits", 2):
        async with cloud.database.transaction() as tx:
            await tx.execute("UPDATE compute.work SET run_at = now() + interval '1 h' WHERE server_id = $1", server_id)
    await boot(cloud, "due", TURN_ROWS + 1)
    assert await lease(cloud) == ["due"] * (TURN_ROWS + 1), "it is alone"


async def test_a_delete_is_of_its_servers_project(cloud: Compute) -> None:
    (deleted,) = await boot(cloud, "deleted")
    owner = str(uuid.uuid4())
    await lease_work(cloud, owner=owner, limit=10, lease_s=30)
    assert await change_stages(cloud, [StageChange(server_id=deleted, stage=None)], owner=owner, lease_s=30)
    await delete_server(cloud, deleted)
    async with cloud.database.transaction() as tx:
        rows = await tx.fetch("SELECT server_id, project_id FROM compute.work")
    assert {row["server_id"]: row["project_id"] for row in rows} == {deleted: "deleted"}


async def test_a_row_that_is_kept_from_stage_to_stage_writes_no_index(cloud: Compute) -> None:
    """When it is due matters to others alone: a lease that runs out leaves it as due as it was."""
    (server_id,) = await boot(cloud, "p")
    owner = str(uuid.uuid4())
    await lease_work(cloud, owner=owner, limit=10, lease_s=30)
    read = "SELECT run_at FROM compute.work"
    async with cloud.database.transaction() as tx:
        before = await tx.fetchval(read)
    for keep, is_same in ((True, True), (False, False)):
        change = StageChange(server_id=server_id, stage=Stage.PLACE, keep=keep)
        assert await change_stages(cloud, [change], owner=owner, lease_s=30)
        async with cloud.database.transaction() as tx:
            assert (await tx.fetchval(read) == before) is is_same
