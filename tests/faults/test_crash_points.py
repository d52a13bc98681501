"""SIGKILL at every named crash point: every accepted server comes to its end, and nothing is leaked."""

from collections.abc import Iterator

import pytest
from tests.cluster import Cluster, cluster, network_ids, settle, until
from tests.faults.crashing import (
    AGENT,
    PUBLISH,
    RECONCILE,
    RETRY,
    crashed,
    fail_and_move,
    fill_and_empty,
    kill_agent,
    kill_publisher,
    kill_reconciler,
    points,
    up,
    up_client,
    without_conductor,
)

from roost.cli.asking.cloud_client import CloudClient, CloudRefused

# One host in each rack: after a failed launch there, a server has to leave its segment.
CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 101,
         subnets: [{cidr: 203.0.113.0/29}]}
      - {name: rack2, physical_network: rack2, network_type: vlan, segmentation_id: 102,
         subnets: [{cidr: 203.0.113.16/28}]}
  - name: backend
    physical_network: backend
    subnets: [{cidr: 10.0.0.0/24}]
  - name: legacy
    kind: flat
    subnets: [{cidr: 192.0.2.0/27, cell: cell1}]
hosts:
  - {name: 'r1-h1', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1, backend]}
  - {name: 'r2-h1', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack2, backend]}
"""
ADDRESSES = 5 + 13

CONDUCTOR = points("create_ports", "place", "bind", "launch", "fail", "delete")
PORT = points("port")
AT_DELETE = ("port.after-unassign", "port.before-tell", "port.after-tell")


@pytest.fixture(scope="module")
def services() -> Iterator[Cluster]:
    with without_conductor(CLOUD) as made:
        yield made


@pytest.mark.parametrize("point", CONDUCTOR)
async def test_a_conductor_killed_there_leaks_nothing(services: Cluster, point: str) -> None:
    """Each server has a port, and an address of a flat network's pool beside it."""
    await fill_and_empty(services, point, ["public", "legacy"], count=ADDRESSES)


@pytest.mark.parametrize("point", RETRY)
async def test_a_conductor_killed_while_a_server_leaves_its_segment_leaks_nothing(
    services: Cluster, point: str
) -> None:
    await fail_and_move(services, point, ["public", "backend"])


@pytest.mark.parametrize("point", AGENT)
async def test_an_agent_killed_there_goes_on_where_it_was(services: Cluster, point: str) -> None:
    await kill_agent(services, point, "public")


@pytest.mark.parametrize("point", PORT)
async def test_an_api_worker_killed_while_a_port_gets_or_loses_its_address_leaks_nothing(point: str) -> None:
    with cluster() as made:
        made.serve(environment={"ROOST_CRASH_AT": point})
        made.load(CLOUD)
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["backend"]
            for number in range(3):
                # The device may be a server: then compute is told of the delete.
                body = {"network_id": network, "device_id": f"5c3a6f0e-0000-4000-8000-00000000000{number}"}
                await attempt(client, "POST", "/network/v2.0/ports", {"port": body})
            await crashed(made, point) if point not in AT_DELETE else None
            for port in await listed(client, "ports"):
                await attempt(client, "DELETE", f"/network/v2.0/ports/{port['id']}")
            await crashed(made, point)
            await up(made)
            await settle(made)
            for port in await listed(client, "ports"):
                await client.call("DELETE", f"/network/v2.0/ports/{port['id']}")
            await until(lambda: nothing_claimed(client), what="claims are left")
            await settle(made)


@pytest.mark.parametrize("point", PUBLISH)
async def test_an_api_worker_killed_while_it_publishes_a_segment_is_healed(point: str) -> None:
    await kill_publisher(CLOUD, point, "public", count=ADDRESSES)


@pytest.mark.parametrize("point", RECONCILE)
async def test_a_reconciler_killed_there_returns_what_nobody_may_hold(services: Cluster, point: str) -> None:
    await kill_reconciler(services, point, {"r1-h1": {"VCPU": 1}})


async def attempt(client: CloudClient, method: str, path: str, body: object = None) -> None:
    """A request that may be cut off by the crash."""
    try:
        await client.call(method, path, body)
    except CloudRefused as error:
        if error.status not in (0, 404, 409, 503):
            raise


async def listed(client: CloudClient, kind: str) -> list[dict[str, object]]:
    await up_client(client)
    return await client.list_all(f"/network/v2.0/{kind}", kind)


async def nothing_claimed(client: CloudClient) -> bool:
    network = (await network_ids(client))["backend"]
    usages = await client.call("GET", f"/placement/resource_providers/{network}/usages")
    return usages["usages"] == {"IPV4_ADDRESS": 0}
