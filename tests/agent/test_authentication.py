"""Agents authenticate: `roost serve --auth noauth2` and agents, all real processes, with tokens good and bad."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from tests.agent.cloud import AGENT
from tests.cluster import PATH, Cluster, boot, cluster, network_ids, until

from roost.cli.asking.cloud_client import CloudClient
from roost.cli.keystone import Access
from roost.compute.service.agent_tokens import create_agent_token, revoke_agent_token
from roost.platform.database import Database

SERVER = "11111111-1111-1111-1111-111111111111"
REVOKED_WITHIN_S = 5.0


async def token_for(database: Database, *hosts: str) -> str:
    return (await create_agent_token(database, hosts=hosts, name=""))[1]


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cluster]:
    """A Roost that listens on 127.0.0.2, and that asks who calls."""
    with cluster() as made:
        made.serve(listen="127.0.0.2:0", auth="noauth2")
        asyncio.run(make_network(made.url))
        yield made


@pytest.fixture
async def client(cloud: Cluster) -> AsyncIterator[CloudClient]:
    async with CloudClient.connect(cloud.url, Access(token="admin")) as connected:
        yield connected


@pytest.fixture
async def database(cloud: Cluster) -> AsyncIterator[Database]:
    opened = await Database.open(cloud.dsn, size=2)
    yield opened
    await opened.close()


@pytest.fixture
async def network(client: CloudClient) -> str:
    return (await network_ids(client))["net"]


async def make_network(url: str) -> None:
    """A network, and a flavor `small`."""
    async with CloudClient.connect(url, Access(token="admin")) as client:
        flavor = {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}
        await client.call("POST", "/compute/v2.1/flavors", {"flavor": flavor})
        made = await client.call("POST", "/network/v2.0/networks", {"network": {"name": "net"}})
        subnet = {"network_id": made["network"]["id"], "cidr": "10.1.0.0/24", "ip_version": 4}
        await client.call("POST", "/network/v2.0/subnets", {"subnet": subnet})


async def call(client: CloudClient, token: str | None, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """(status, the answer) of a call on the agents' listener."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    if body is not None:
        body = {"agent": {"id": AGENT.id}, "as_of": 0, **body}
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.request(method, f"{await client.agent_url()}{path}", json=body) as response:
            return response.status, await response.json()


def host(name: str) -> dict[str, Any]:
    """A host without room: no server goes where no agent is."""
    return {"name": name, "vcpus": 0, "ram_mb": 0, "disk_gb": 0}


def calls_about(name: str, server_id: str = SERVER) -> list[tuple[str, str, Any]]:
    """Every call of the agent API that speaks for a host."""
    guest = {"server_id": server_id, "host": name, "attempt": 1}
    return [
        ("PUT", "/hosts", {"hosts": [host(name)]}),
        ("POST", "/poll", {"hosts": [name], "wait_s": 0}),
        ("POST", "/reports", {"reports": [guest | {"state": "absent"}]}),
        ("POST", "/guests", {"guests": [guest]}),
    ]


async def everything(database: Database) -> list[Any]:
    """What agents can change."""
    async with database.connection() as connection:
        return [
            await connection.fetch(f"SELECT * FROM {table} ORDER BY 1, 2")
            for table in ("compute.host", "compute.guest", "compute.work", "network.address", "placement.allocation")
        ]


async def statuses(client: CloudClient) -> dict[str, str]:
    return {server["name"]: server["status"] for server in await client.list_servers()}


async def start_agent(cloud: Cluster, database: Database, name: str, token: str) -> Path:
    """Start an agent of one host, the only one to which servers go from now on; returns the file of its token."""
    file = cloud.directory / f"{name}.token"
    file.write_text(f"{token}\n")
    cloud.agent("--host", name, "--token-file", str(file), state=f"agent-{name}", wait=False)

    async def published() -> bool:
        async with database.connection() as connection:
            return bool(await connection.fetchval("SELECT published = wanted FROM compute.host WHERE name = $1", name))

    await until(published)
    async with CloudClient.connect(cloud.url, Access(token="admin")) as client:
        services = (await client.call("GET", "/compute/v2.1/os-services?binary=nova-compute"))["services"]
        for host_name in (service["host"] for service in services):
            word = "enable" if host_name == name else "disable"
            body = {"host": host_name, "binary": "nova-compute"}
            await client.call("PUT", f"/compute/v2.1/os-services/{word}", body)
    return file


def guests_of(cloud: Cluster, name: str) -> list[str]:
    journal = cloud.directory / f"agent-{name}" / "guests.journal"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    gone = {line["server_id"] for line in lines if line.get("gone")}
    return [line["server_id"] for line in lines if line["server_id"] not in gone]


async def test_agents_are_asked_for_on_loopback(cloud: Cluster, client: CloudClient) -> None:
    assert urlsplit(cloud.url).hostname == "127.0.0.2"
    assert urlsplit(await client.agent_url()).hostname == "127.0.0.1"


async def test_without_auth_agents_are_asked_for_where_all_others_are() -> None:
    with cluster() as made:
        await asyncio.to_thread(made.serve, listen="127.0.0.2:0")
        async with CloudClient.connect(made.url) as client:
            assert urlsplit(await client.agent_url()).hostname == "127.0.0.2"
            assert (await call(client, None, "GET", "/hosts"))[0] == 200


async def test_an_agent_with_a_token_boots_a_server_and_nobody_else_ends_it(
    cloud: Cluster, client: CloudClient, network: str, database: Database
) -> None:
    await start_agent(cloud, database, "boot-h1", await token_for(database, "boot-*"))
    other = await token_for(database, "h1", "boot-h2", "*-h3")
    await boot(client, network, name="guarded")

    async def active() -> bool:
        async with database.connection() as connection:
            settled = not await connection.fetchval("SELECT count(*) FROM compute.work")
        return settled and (await statuses(client))["guarded"] == "ACTIVE"

    await until(active)
    (server_id,) = [server["id"] for server in await client.list_servers() if server["name"] == "guarded"]
    before = await everything(database)
    for token, status in ((None, 401), ("roost_agent_made-up", 401), ("", 401), ("a b", 401), (other, 403)):
        for method, path, body in calls_about("boot-h1", server_id):
            answered, answer = await call(client, token, method, path, body)
            assert answered == status, (token, path, answer)
            assert answer["status"] == status
            if status == 403:
                assert answer["detail"] == "this token is for h1, boot-h2, *-h3, and not for boot-h1"
    after = await everything(database)
    assert [[dict(row) | {"seen_at": 0} for row in table] for table in before] == [
        [dict(row) | {"seen_at": 0} for row in table] for table in after
    ]
    assert guests_of(cloud, "boot-h1") == [server_id]


async def test_a_host_that_nobody_declared_is_disabled_with_the_reason(client: CloudClient, database: Database) -> None:
    token = await token_for(database, "invented-*")
    assert (await call(client, token, "PUT", "/hosts", {"hosts": [host("invented-h1")]}))[0] == 200
    shown = await client.call("GET", "/compute/v2.1/os-services?host=invented-h1")
    (service,) = shown["services"]
    assert service["status"] == "disabled"
    assert service["disabled_reason"] == "registered by its agent and not accepted yet: roost-manage host accept NAME"
    larger = host("invented-h2") | {"vcpus": 65_537}
    status, answer = await call(client, token, "PUT", "/hosts", {"hosts": [larger]})
    assert (status, answer["detail"]) == (400, "host invented-h2: 65537 VCPUs, expected at most 65536")


async def test_one_host_too_many_refuses_the_whole_call(client: CloudClient, database: Database) -> None:
    token = await token_for(database, "set-h1")
    status, answer = await call(client, token, "PUT", "/hosts", {"hosts": [host("set-h1"), host("set-h2")]})
    assert (status, answer["detail"]) == (403, "this token is for set-h1, and not for set-h2")
    assert await call(client, token, "GET", "/hosts") == (200, {"hosts": []})
    assert (await call(client, token, "PUT", "/hosts", {"hosts": [host("set-h1")]}))[0] == 200
    assert await call(client, token, "GET", "/hosts") == (200, {"hosts": ["set-h1"]})


@pytest.mark.parametrize("path", ["/hosts", "/nothing", "/../v1/hosts", ""])
async def test_without_a_token_nothing_is_told(client: CloudClient, path: str) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{await client.agent_url()}{path}") as response:
            assert response.status == 401
            assert response.headers["WWW-Authenticate"].startswith("Bearer")


async def test_an_agents_token_is_good_for_nothing_else(cloud: Cluster, database: Database) -> None:
    token = await token_for(database, "*")
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        for path in ("/placement/resource_providers", "/network/v2.0/networks", "/compute/v2.1/servers"):
            async with session.get(cloud.url + path) as response:
                assert response.status == 401


async def test_every_declared_host_means_those_that_the_token_covers(client: CloudClient, database: Database) -> None:
    names = ["fleet1-h1", "fleet1-h2", "fleet2-h1"]
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO compute.host (name, provider_uuid, vcpus, ram_mb, disk_gb, physical_networks, declared)"
            " SELECT name, gen_random_uuid(), 0, 0, 0, '{}', true FROM unnest($1::text[]) AS name",
            names,
        )
    status, answer = await call(
        client, await token_for(database, "fleet1-*"), "POST", "/poll", {"hosts": None, "wait_s": 0}
    )
    assert (status, answer["orders"]) == (200, [])
    async with database.connection() as connection:
        seen = await connection.fetch(
            "SELECT name FROM compute.host WHERE seen_at IS NOT NULL AND name = ANY($1)", names
        )
    assert sorted(row["name"] for row in seen) == ["fleet1-h1", "fleet1-h2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Authorization: Bearer TOKEN; give --token-file or ROOST_AGENT_TOKEN"),
        (("--token-file", "other"), "403: this token is for other-h1, and not for first-h1"),
        (("--token-file", "nosuch"), "--token-file nosuch: No such file or directory"),
    ],
)
async def test_an_agent_that_is_refused_at_its_first_call_ends(
    cloud: Cluster, database: Database, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "other").write_text(await token_for(database, "other-h1"))
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "roost.cli.main", "agent", "--api", cloud.url, "--host", "first-h1", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": PATH},
    )  # fmt: skip
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


async def test_a_held_poll_ends_when_its_token_is_revoked(client: CloudClient, database: Database) -> None:
    made, token = await create_agent_token(database, hosts=["held-h1"], name="")
    await call(client, token, "PUT", "/hosts", {"hosts": [host("held-h1")]})
    poll = asyncio.create_task(call(client, token, "POST", "/poll", {"hosts": ["held-h1"], "wait_s": 30}))
    await revoke_agent_token(database, made.id)
    revoked_s = time.monotonic()
    assert (await poll)[0] == 401
    assert time.monotonic() - revoked_s < REVOKED_WITHIN_S


async def test_a_revoked_agent_serves_no_more_and_its_guests_run_on_until_it_has_a_new_token(
    cloud: Cluster, client: CloudClient, network: str, database: Database
) -> None:
    made, token = await create_agent_token(database, hosts=["run-h1"], name="")
    file = await start_agent(cloud, database, "run-h1", token)

    async def active(name: str) -> bool:
        return (await statuses(client))[name] == "ACTIVE"

    await boot(client, network, name="first")
    await until(lambda: active("first"))
    guests = guests_of(cloud, "run-h1")
    assert len(guests) == 1

    await revoke_agent_token(database, made.id)
    revoked_s = time.monotonic()

    async def said() -> bool:
        return "does not let this agent in any more; its guests run on" in cloud.logs()

    await until(said)
    assert time.monotonic() - revoked_s < REVOKED_WITHIN_S
    await boot(client, network, name="later")
    refused = await call(client, token, "POST", "/poll", {"hosts": ["run-h1"], "wait_s": 1})
    assert refused[0] == 401
    assert guests_of(cloud, "run-h1") == guests
    assert (await statuses(client)) | {"guarded": ""} == {"first": "ACTIVE", "later": "BUILD", "guarded": ""}

    file.write_text(await token_for(database, "run-*"))
    await until(lambda: active("later"))
    assert len(guests_of(cloud, "run-h1")) == 2
    assert [process.poll() for process in cloud.processes] == [None] * len(cloud.processes)
