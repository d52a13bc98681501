"""The pipeline's hold on servers: one lease at a time, and what a lost one can still change, which is nothing."""

import uuid
from typing import Any

import pytest
from asyncpg.connection import Connection
from tests.compute.conftest import NetworkRows

from roost.compute.model.server import NicAsked, ServerRequest
from roost.compute.model.work import ServerChange, Stage, StageChange
from roost.compute.service import Compute
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.service.servers import create_servers
from roost.compute.service.work import change_stages, lease_work, list_held

NET = "bbbbbbbb-0000-0000-0000-000000000001"


@pytest.fixture
async def server(compute: Compute, networks: NetworkRows) -> str:
    await networks.add(NET)
    await create_flavor(compute, FlavorRequest(name="small", vcpus=1, ram_mb=1024, disk_gb=10))
    request = ServerRequest(name="web", flavor_ref="small", nics=(NicAsked(network_id=NET),))
    return (await create_servers(compute, request, project_id="p", user_id="u")).server_ids[0]


async def lease(compute: Compute) -> tuple[str, list[str]]:
    owner = str(uuid.uuid4())
    return owner, [work.server_id for work in await lease_work(compute, owner=owner, limit=10, lease_s=30)]


async def row(compute: Compute, sql: str) -> Any:
    async with compute.database.connection() as connection:
        return await connection.fetchrow(sql)


async def test_a_server_is_leased_to_one_until_that_lease_runs_out(compute: Compute, server: str) -> None:
    first, rows = await lease(compute)
    assert rows == [server]
    assert (await lease(compute))[1] == []
    assert await list_held(compute, [server], owner=first) == {server}
    await row(compute, "UPDATE compute.work SET lease_until = now() - interval '1 s'")
    assert await list_held(compute, [server], owner=first) == set()
    assert (await lease(compute))[1] == [server]


async def test_who_lost_the_lease_moves_nothing(compute: Compute, server: str) -> None:
    first, _ = await lease(compute)
    await row(compute, "UPDATE compute.work SET lease_until = now() - interval '1 s'")
    second, _ = await lease(compute)
    late = StageChange(
        server_id=server, stage=Stage.LAUNCH, attempt=1, guest_host="h1", server=ServerChange(status="ERROR")
    )
    assert await change_stages(compute, [late], owner=first, lease_s=30) == {}
    assert tuple(await row(compute, "SELECT stage, lease_owner FROM compute.work")) == ("create_ports", second)
    assert tuple(await row(compute, "SELECT status FROM compute.server")) == ("BUILD",)
    assert await row(compute, "SELECT * FROM compute.guest") is None


async def test_a_host_is_never_asked_for_a_lower_attempt(compute: Compute, server: str) -> None:
    owner, _ = await lease(compute)
    for attempt in (2, 1):
        asked = StageChange(server_id=server, stage=Stage.LAUNCH, attempt=attempt, guest_host="h1", keep=True)
        assert await change_stages(compute, [asked], owner=owner, lease_s=30) == {server: asked}
    assert tuple(await row(compute, "SELECT attempt FROM compute.guest")) == (2,)


async def test_to_look_for_work_is_one_statement(compute: Compute, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each idle conductor looks several times a second: no BEGIN and COMMIT around it."""
    begun: list[str] = []
    execute = Connection.execute

    async def noting(self: Connection, query: str, *arguments: Any, **options: Any) -> str:
        begun.extend([query] if query.startswith("BEGIN") else [])
        return await execute(self, query, *arguments, **options)

    monkeypatch.setattr(Connection, "execute", noting)
    assert await lease_work(compute, owner=compute.env.new_uuid(), limit=10, lease_s=30) == []
    assert begun == []
    async with compute.database.transaction():
        assert begun == ["BEGIN;"]
