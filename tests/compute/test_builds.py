"""What a server that is being built or deleted waits for, as a rule and over HTTP."""

import uuid
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.agent.cloud import AGENT
from tests.compute.conftest import NetworkRows

from roost.compute.model.server import NicAsked, ServerRequest
from roost.compute.model.work import Build, Placed, Stage, StageChange
from roost.compute.rules.builds import find_wait
from roost.compute.service import Compute
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.service.hosts import register_hosts
from roost.compute.service.servers import create_servers, delete_server
from roost.compute.service.work import change_stages, lease_work
from roost.seams.agent import HostReport

NET = "bbbbbbbb-0000-0000-0000-000000000001"
BUILD = Build(
    server_id="s", name="web", project_id="p", stage=Stage.PLACE, attempt=0, failures=0,
    since=datetime(2026, 3, 1, tzinfo=UTC), leased=False, due_s=-1.0,
)  # fmt: skip
ON_H1: dict[str, Any] = {"host": "h1", "cell": "cell1", "guest": True}


@pytest.mark.parametrize(
    ("changes", "waits_for"),
    [
        ({}, "a conductor"),
        ({"leased": True}, "the conductor that is at work on it"),
        ({"due_s": 4.6}, "its next try, in 5 s"),
        ({"stage": Stage.BIND, "host": "h1", "cell": "cell2"}, "a conductor of cell2"),
        ({"stage": Stage.LAUNCH, "due_s": 60.0, **ON_H1}, "host h1 to begin the launch"),
        ({"stage": Stage.LAUNCH, "due_s": 60.0, "begun": True, **ON_H1}, "host h1 to finish the launch"),
        ({"stage": Stage.LAUNCH, "host_down": True, **ON_H1}, "host h1, which is down, to begin the launch"),
        ({"stage": Stage.DELETE, **ON_H1}, "host h1 to give up its guest"),
        (
            {"stage": Stage.FAIL, "due_s": 5.0, "host_down": True, **ON_H1},
            "host h1, which is down, to give up its guest",
        ),
        ({"stage": Stage.DELETE}, "a conductor"),
    ],
)
def test_a_build_says_what_it_waits_for(changes: dict[str, Any], waits_for: str) -> None:
    assert find_wait(msgspec.structs.replace(BUILD, **changes)) == waits_for


async def test_builds_are_listed_from_the_first_stage_to_the_delete(
    compute: Compute, networks: NetworkRows, call: Any
) -> None:
    await networks.add(NET)
    await create_flavor(compute, FlavorRequest(name="small", vcpus=1, ram_mb=1024, disk_gb=10))
    await register_hosts(compute, [HostReport(name="h1", vcpus=8, ram_mb=8192, disk_gb=100)], agent=AGENT)
    request = ServerRequest(name="web", flavor_ref="small", nics=(NicAsked(network_id=NET),), count=2)
    first, second = (await create_servers(compute, request, project_id="p", user_id="u")).server_ids

    async def builds(query: str = "") -> dict[str, Any]:
        answer = await call("GET", f"/builds{query}")
        assert answer.status == 200, answer.raw
        found: dict[str, Any] = answer.body
        return found

    listed = await builds()
    assert listed["total"] == 2
    assert {one["server_id"]: one["waits_for"] for one in listed["builds"]} == {
        first: "a conductor",
        second: "a conductor",
    }
    assert listed["builds"][0].keys() == {
        *("server_id", "name", "project_id", "stage", "attempt", "failures", "host", "since", "waits_for"),
    }  # fmt: skip
    assert [len((await builds("?limit=1"))["builds"]), (await builds("?limit=1"))["total"]] == [1, 2]

    owner = str(uuid.uuid4())
    await lease_work(compute, owner=owner, limit=10, lease_s=30)
    assert {one["waits_for"] for one in (await builds())["builds"]} == {"the conductor that is at work on it"}
    placed = Placed(host="h1", providers_by_port={}, generations={})
    launch = StageChange(server_id=first, stage=Stage.LAUNCH, attempt=1, guest_host="h1", placed=placed, delay_s=60.0)
    await change_stages(compute, [launch, StageChange(server_id=second, stage=None)], owner=owner, lease_s=30)
    [build] = (await builds())["builds"]
    assert (build["stage"], build["host"], build["waits_for"]) == ("launch", "h1", "host h1 to begin the launch")
    await delete_server(compute, first)
    [build] = (await builds())["builds"]
    assert (build["stage"], build["waits_for"]) == ("delete", "host h1 to give up its guest")
