"""A whole Roost: what was refused, retried, moved and fenced is told by `roost events` when its servers are gone."""

import asyncio
import json
import urllib.request
from typing import Any

from tests.cluster import Cluster, boot, cluster, network_ids, until
from tests.faults.moving import act, force_down, servers_by_id

from roost.cli.asking.cloud_client import CloudClient

CLOUD = """
flavors: [{name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}]
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, subnets: [{cidr: 10.1.0.0/29}]}
  - name: far
    segments:
      - {name: rack9, physical_network: rack9, subnets: [{cidr: 10.9.0.0/29}]}
hosts: [{name: "h[1-3]", vcpus: 8, ram_mb: 8192, disk_gb: 100, physical_networks: [rack1]}]
"""
GLOBAL = "req-11111111-1111-4111-8111-11111111111{}"


async def events(made: Cluster, *words: str) -> list[Any]:
    """What the command says, as JSON."""
    text = await asyncio.to_thread(made.run, "events", "--api", made.url, "--json", *words)
    return list(json.loads(text)["events"])


def ask(url: str, request_id: str, body: Any = None) -> Any:
    """One request of a client that names its request, as other services do."""
    headers = {"X-OpenStack-Request-Id": request_id, "OpenStack-API-Version": "placement 1.39"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers | {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


async def status_of(client: CloudClient, server_id: str, *statuses: str) -> Any:
    async def is_so() -> bool:
        server = (await servers_by_id(client))[server_id]
        return server["status"] in statuses and server["OS-EXT-STS:task_state"] is None

    await until(is_so)
    return (await servers_by_id(client))[server_id]


async def refuse(made: Cluster, client: CloudClient) -> str:
    """Boot a server where no host is, and search for what no host has; the server's id."""
    flavor = next(each["id"] for each in await client.list_flavors())
    network = (await network_ids(client))["far"]
    server = {"name": "lost", "flavorRef": flavor, "imageRef": "", "networks": [{"uuid": network}]}
    path = f"{made.url}/compute/v2.1/servers"
    answer = await asyncio.to_thread(ask, path, GLOBAL.format(1), {"server": server})
    await status_of(client, answer["server"]["id"], "ERROR")
    search = f"{made.url}/placement/allocation_candidates?resources=VCPU:1000"
    assert (await asyncio.to_thread(ask, search, GLOBAL.format(2)))["allocation_requests"] == []
    return str(answer["server"]["id"])


async def wander(client: CloudClient) -> str:
    """Boot a server whose first launch fails, move it, and evacuate it; its id."""
    server_id = await boot(client, (await network_ids(client))["public"])
    host = (await status_of(client, server_id, "ACTIVE"))["OS-EXT-SRV-ATTR:host"]
    await act(client, server_id, "os-migrateLive", {"host": None, "block_migration": "auto"})

    async def has_moved() -> bool:
        return bool((await servers_by_id(client))[server_id]["OS-EXT-SRV-ATTR:host"] != host)

    await until(has_moved)
    host = (await status_of(client, server_id, "ACTIVE"))["OS-EXT-SRV-ATTR:host"]
    await force_down(client, host, True)
    await act(client, server_id, "evacuate", {})
    await until(has_moved)
    await status_of(client, server_id, "ACTIVE")
    return server_id


async def test_what_happened_is_told_when_the_servers_are_gone() -> None:
    with cluster() as made:
        made.serve("all", environment={"ROOST_CONDUCTOR_MAX_ATTEMPTS": "3"})
        made.load(CLOUD)
        made.agent("--fake-fail=1")
        async with CloudClient.connect(made.url) as client:
            server_id, lost_id = await wander(client), await refuse(made, client)
            for each in (server_id, lost_id):
                await client.call("DELETE", f"/compute/v2.1/servers/{each}")

            async def are_gone() -> bool:
                return not await servers_by_id(client)

            await until(are_gone)
        told = await events(made, "--server", server_id)
        assert [(event["kind"], event["action"]) for event in told] == [
            ("retry", "boot"), ("move", "live-migration"), ("fence", "guest"), ("move", "evacuation")
        ]  # fmt: skip
        (refusal,) = await events(made, "--server", lost_id)
        assert (refusal["kind"], refusal["requirement"], refusal["network"]) == ("refusal", "network", "far")
        assert refusal["global_request_id"] == GLOBAL.format(1)
        assert refusal["funnel"][-1]["hosts_left"] == 0
        assert await events(made, "--request", refusal["request_id"]) == [refusal]
        assert await events(made, "--request", GLOBAL.format(1), "--kind", "refusal") == [refusal]
        assert await events(made, "--segment", "rack9") == [refusal]

        async def search_is_told() -> bool:
            return [event["action"] for event in await events(made, "--request", GLOBAL.format(2))] == ["candidates"]

        await until(search_is_told)
        text = await asyncio.to_thread(made.run, "events", "--api", made.url, "--since", "1h")
        assert " refusal  lost " in text
        assert refusal["request_id"] in text
        assert made.said(f'"global_request_id":"{GLOBAL.format(1)}"')
        assert made.said("a guest could not be launched")
