"""Servers placed by Roost's own Placement API over HTTP: boots, refusals, moves and deletes, and what they cost."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace
from starlette.responses import JSONResponse
from structlog.testing import capture_logs
from tests.cluster import until
from tests.conductor.world import World
from tests.placements import asgi_app, serving

from roost.clients.placement import RemotePlacement
from roost.clients.placement_http import PlacementHttp, PlacementUnavailable
from roost.compute.model.work import MoveKind
from roost.compute.service import audit as compute_audit
from roost.conductor.pipeline import run
from roost.conductor.reconcile import reconcile_once
from roost.network.service import audit as network_audit
from roost.placement.service.ledger import Ledger
from roost.platform.database import Database
from roost.platform.drift import Repairs
from roost.platform.repeat import repeat

UNUSED = "c0000000-0000-0000-0000-000000000001"
"""A provider that is not there."""


@pytest.fixture
async def world(database: Database) -> World:
    return await World.make(database, arrangement="http")


def http_of(world: World) -> PlacementHttp:
    placement = world.conductor.placement
    assert isinstance(placement, RemotePlacement)
    return placement.service.http


async def _requests(world: World, count: int) -> int:
    """How many requests the boot of so many servers takes."""
    network = await world.routed(**{f"rack{count}": f"10.{count}.0.0/24"})
    await world.hosts(f"h{count}", reach=[f"rack{count}"])
    before = http_of(world).requests
    await world.boot(network.id, count=count)
    await world.run()
    return http_of(world).requests - before


async def test_boots_and_deletes_take_few_requests_and_leave_nothing(world: World) -> None:
    assert await _requests(world, 1) <= 4
    assert await _requests(world, 10) <= 4  # a search, the names of its host and segment, a claim
    assert set((await world.statuses()).values()) == {"ACTIVE"}
    await world.settled()
    before = http_of(world).requests
    await world.delete(*await world.statuses())
    await world.run()
    assert http_of(world).requests - before <= 11 * 3 + 8
    await world.settled()


async def test_a_dry_segment_refuses_with_its_funnel(world: World) -> None:
    network = await world.routed(rack1="10.0.0.0/30")
    await world.hosts("r1-1", reach=["rack1"])
    servers = await world.boot(network.id, count=1)
    await world.run()
    refused = await world.boot(network.id, count=1)
    await world.run()
    assert await world.statuses() == {servers[0]: "ACTIVE", refused[0]: "ERROR"}
    fault = await world.fault(refused[0])
    assert fault.startswith("No valid host was found: 1 host considered")
    assert "address" in fault
    await world.delete(*refused)
    await world.run()
    await world.settled()


@pytest.mark.parametrize("revert", [False, True])
async def test_a_server_moves_and_is_where_it_should_be(world: World, revert: bool) -> None:
    network = await world.routed(rack1="10.0.0.0/29")
    await world.hosts("r1-1", "r1-2", reach=["rack1"])
    (server,) = await world.boot(network.id)
    await world.run()
    await world.move(server, MoveKind.MIGRATE)
    await world.run()
    await world.end_move(server, revert=revert)
    await world.run()
    assert await world.statuses() == {server: "ACTIVE"}
    await world.settled()


async def test_audits_find_no_drift_and_repair_what_there_is(world: World) -> None:
    network = await world.routed(rack1="10.0.0.0/29")
    await world.hosts("r1-1", reach=["rack1"])
    (server,) = await world.boot(network.id)
    await world.run()

    async def drifts(repairs: Repairs) -> list[str]:
        found = await network_audit.AUDIT.run(world.networks, repairs=repairs)
        found += await compute_audit.AUDIT.run(world.compute, repairs=repairs)
        return [str(drift) for drift in found]

    assert await drifts(Repairs.NONE) == []
    await world.conductor.placement.release([server])
    assert await drifts(Repairs.ALL) != []
    assert await drifts(Repairs.NONE) == []
    await reconcile_once(world.conductor)
    await world.settled()


async def test_a_placement_that_is_away_holds_builds_up_and_loses_none(world: World) -> None:
    network = await world.routed(rack1="10.0.0.0/29")
    await world.hosts("r1-1", reach=["rack1"])
    (server,) = await world.boot(network.id)
    http = http_of(world)
    url, http.url = http.url, "http://127.0.0.1:9"
    with pytest.raises(PlacementUnavailable):
        await world.conduct()
    assert (await world.statuses())[server] == "BUILD"
    http.url = url
    await world.expire_leases()
    await world.run()
    assert (await world.statuses())[server] == "ACTIVE"
    await world.settled()


class Guard:
    """A Placement service whose administrator may revoke Roost's credentials. refused: of what, how often."""

    def __init__(self, app: Any) -> None:
        self.revoked = False
        self.refused: Counter[str] = Counter()
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        refusal = JSONResponse({"errors": [{"detail": "Authentication required"}]}, status_code=401)
        if self.revoked:
            self.refused[scope["path"].split("/")[1]] += 1
        await (refusal if self.revoked else self._app)(scope, receive, send)


async def test_revoked_credentials_are_said_once_and_servers_wait_until_they_are_back(world: World) -> None:
    network = await world.routed(rack1="10.0.0.0/28")
    await world.hosts("r1-1", reach=["rack1"])
    conductor, http, guard = world.conductor, http_of(world), Guard(asgi_app(Ledger(world.database)))
    conductor.settings = replace(conductor.settings, batches_at_once=3, batch_rows=1, poll_s=0.01, lease_s=1.0)

    async def count() -> None:
        await conductor.placement.list_usages([UNUSED])

    async def are_refused_again() -> bool:
        return guard.refused["allocations"] > 6 and guard.refused["resource_providers"] > 6

    async def are_on_their_host() -> bool:
        return len(await world.orders()) == 6

    async with serving(guard) as url:
        http.url, guard.revoked = url, True
        with capture_logs() as logs:
            await world.boot(network.id, count=6)
            tasks = [
                asyncio.create_task(run(conductor)),
                asyncio.create_task(repeat(count, "counting", interval_s=0.01)),
            ]
            await until(are_refused_again)
            assert set((await world.statuses()).values()) == {"BUILD"}
            guard.revoked = False
            await until(are_on_their_host)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await world.run()
        assert set((await world.statuses()).values()) == {"ACTIVE"}
        await world.settled()
    assert [(line["log_level"], line["event"]) for line in logs if line["event"] != "index loaded"] == [
        ("warning", "the ledger elsewhere refuses Roost's credentials: servers wait in BUILD"),
        ("info", "the ledger elsewhere lets Roost in again"),
    ]
