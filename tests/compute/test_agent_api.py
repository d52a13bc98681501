import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.agent.cloud import AGENT, compute_of, declare_hosts, order_guests, serving
from tests.ports import free_port

from roost.compute.service import Compute
from roost.platform.database import Database

SERVER = "11111111-1111-1111-1111-111111111111"


@pytest.fixture
async def compute(database: Database) -> Compute:
    await declare_hosts(database, ["h1"])
    return compute_of(database)


@pytest.fixture
async def http(compute: Compute) -> AsyncIterator[aiohttp.ClientSession]:
    async with serving(compute, free_port()) as url, aiohttp.ClientSession(url) as session:
        yield session


async def post(http: aiohttp.ClientSession, path: str, body: Any) -> tuple[int, Any]:
    body = {"agent": {"id": AGENT.id}, "as_of": 0, **body}
    async with http.post(f"/agent/v1{path}", json=body) as response:
        return response.status, await response.json()


async def test_an_order_is_polled_begun_and_reported(compute: Compute, http: aiohttp.ClientSession) -> None:
    (server,) = await order_guests(compute, ["h1"])
    status, answer = await post(http, "/poll", {"hosts": ["h1"], "wait_s": 0})
    assert status == 200
    assert answer["orders"] == [
        {
            "server_id": server, "host": "h1", "attempt": 1, "desired": "running", "hurry": False, "name": "a server",
            "project_id": "p",
            "vcpus": 1, "ram_mb": 512, "disk_gb": 1, "ports": [], "networks": [], "hostname": "",
            "image": None, "disk": None, "soft": False, "meeting": None, "nics_version": 0,
            "request_id": "", "global_request_id": "",
        }
    ]  # fmt: skip
    said = {"server_id": server, "host": "h1", "attempt": 1}
    status, answer = await post(http, "/reports", {"reports": [said | {"state": "begun"}, said | {"state": "running"}]})
    assert status == 200
    assert [item["accepted"] for item in answer["reports"]] == [True, True]
    status, answer = await post(http, "/poll", {"hosts": ["h1"], "wait_s": 0})
    assert (status, answer["orders"], answer["elsewhere"]) == (200, [], [])
    assert await post(http, "/guests", {"guests": [said]}) == (200, {"superseded": []})


async def test_all_hosts_are_named(http: aiohttp.ClientSession) -> None:
    async with http.get("/agent/v1/hosts") as response:
        assert await response.json() == {"hosts": ["h1"]}


async def test_an_unknown_host_is_a_404_that_names_it(http: aiohttp.ClientSession) -> None:
    status, answer = await post(http, "/poll", {"hosts": ["h1", "h9"], "wait_s": 0})
    assert status == 404
    assert answer == {"type": "about:blank", "title": "Not Found", "status": 404, "detail": "there is no host h9"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/poll", {}),
        ("/poll", {"hosts": "h1"}),
        ("/poll", {"hosts": ["h1"], "wait_s": -1}),
        ("/poll", {"hosts": ["h1"], "busy": [{"server_id": SERVER, "host": "h1", "attempt": 1, "desired": "x"}]}),
        ("/reports", {"reports": [{"server_id": "x", "host": "h1", "attempt": 1, "state": "begun"}]}),
        ("/reports", {"reports": [{"server_id": SERVER, "host": "h1", "attempt": 1, "state": "fine"}]}),
        ("/reports", {"reports": [{"server_id": SERVER, "host": "h1", "attempt": 2**40, "state": "begun"}]}),
        ("/guests", {"guests": [{"host": "h1"}]}),
    ],
)
async def test_a_malformed_body_is_a_400_that_says_where(
    http: aiohttp.ClientSession, path: str, body: dict[str, Any]
) -> None:
    status, answer = await post(http, path, body)
    assert status == 400
    assert "$" in answer["detail"] or "hosts" in answer["detail"]


@pytest.mark.parametrize("name", ["../../etc", "h1\n", "a\r\nX: b", "h\x001", "", "a" * 300])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/poll", {"hosts": ["h1", "NAME"]}),
        ("/poll", {"hosts": [], "busy": [{"server_id": SERVER, "host": "NAME", "attempt": 1, "desired": "absent"}]}),
        ("/reports", {"reports": [{"server_id": SERVER, "host": "NAME", "attempt": 1, "state": "begun"}]}),
        ("/guests", {"guests": [{"server_id": SERVER, "host": "NAME", "attempt": 1}]}),
        ("/hosts", {"hosts": [{"name": "NAME", "vcpus": 1, "ram_mb": 1, "disk_gb": 1}]}),
    ],
)
async def test_a_host_name_that_is_none_is_a_400_that_says_why(
    http: aiohttp.ClientSession, path: str, body: dict[str, Any], name: str
) -> None:
    text = json.dumps({"agent": {"id": AGENT.id}, "as_of": 0, **body}).replace('"NAME"', json.dumps(name))
    method, headers = "PUT" if path == "/hosts" else "POST", {"Content-Type": "application/json"}
    async with http.request(method, f"/agent/v1{path}", data=text, headers=headers) as response:
        status, answer = response.status, await response.json()
    assert status == 400
    assert f"{name[:80]!r}"[:-1] in answer["detail"]
    assert "is no host name: " in answer["detail"]
    async with http.get("/agent/v1/hosts") as response:
        assert await response.json() == {"hosts": ["h1"]}
