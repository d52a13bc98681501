"""Flat networks of the legacy kind with real processes: two cells, agents in both, conductors that are killed."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.cluster import Cluster, boot, cluster, network_ids, settle, until
from tests.faults.crashing import (
    AGENT,
    CHANGE,
    MOVES,
    PUBLISH,
    RECONCILE,
    RETRY,
    delete_all,
    fail_and_move,
    fill_and_empty,
    kill_agent,
    kill_publisher,
    kill_reconciler,
    points,
    without_conductor,
)

from roost.cli.asking.cloud_client import CloudClient
from roost.cli.serving.crash_points import CRASH_POINTS

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: legacy
    kind: flat
    subnets:
      - {cidr: 192.0.2.0/29, cell: cell1}
      - {cidr: 192.0.2.16/30, cell: cell2}
      - {cidr: 192.0.2.20/30, cell: cell2}
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 101,
         subnets: [{cidr: 203.0.113.0/27}]}
hosts:
  - {name: 'c1-h1', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
  - {name: 'c2-h1', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1], cell: cell2}
"""
ADDRESSES = 5 + 1 + 1

CONDUCTOR = [*points("allocate", "fail"), "port.after-unassign"]
WITH_PORTS = points("create_ports", "place", "bind", "launch", "delete")
"""Tried in test_crash_points.py, by servers that have a port and an address of a pool."""
NEVER = {
    "a flat network has no ports that a client could claim for, assign to, or take from a server": {
        point for point in points("port") if point != "port.after-unassign"
    },
    "the ranges of a pool do not change, nor does its segment or service type": {*points("subnet")},
    "a guest changes its state as any other does": {CHANGE},
    "the driver pretends; that of QEMU dies there in tests/agent/qemu": {*points("guest", "disk", "send", "receive")},
    "unknown guests hold what they have, and are adopted, in tests/conductor": {*points("held", "adopt")},
}


@pytest.fixture(scope="module")
def services() -> Iterator[Cluster]:
    with without_conductor(CLOUD) as made:
        yield made


def test_every_crash_point_that_a_flat_network_comes_by_is_tried() -> None:
    tried = {*CONDUCTOR, *WITH_PORTS, *RETRY, *MOVES, *AGENT, *PUBLISH, *RECONCILE}
    assert tried.isdisjoint(set.union(*NEVER.values()))
    assert tried.union(*NEVER.values()) == set(CRASH_POINTS)


@pytest.mark.parametrize("point", CONDUCTOR)
async def test_a_conductor_killed_there_leaks_no_address_of_a_pool(services: Cluster, point: str) -> None:
    await fill_and_empty(services, point, ["legacy", "public"], count=ADDRESSES)


@pytest.mark.parametrize("point", RETRY)
async def test_a_conductor_killed_while_a_server_leaves_its_cell_leaks_nothing(services: Cluster, point: str) -> None:
    await fail_and_move(services, point, ["legacy"])


@pytest.mark.parametrize("point", AGENT)
async def test_an_agent_killed_there_goes_on_with_the_addresses_that_its_servers_have(
    services: Cluster, point: str
) -> None:
    await kill_agent(services, point, "legacy")


@pytest.mark.parametrize("point", PUBLISH)
async def test_an_api_worker_killed_while_it_publishes_a_pool_is_healed(point: str) -> None:
    await kill_publisher(CLOUD, point, "legacy", count=ADDRESSES)


@pytest.mark.parametrize("point", RECONCILE)
async def test_a_reconciler_killed_there_returns_an_address_of_a_pool(services: Cluster, point: str) -> None:
    async with CloudClient.connect(services.url) as client:
        pools = await client.list_all("/network/v2.0/subnets", "subnets")
    pool = next(pool["id"] for pool in pools if pool["roost:cell"] == "cell1")
    await kill_reconciler(services, point, {"c1-h1": {"VCPU": 1}, f"Flat pool id {pool}": {"IPV4_ADDRESS": 1}})


async def test_two_cells_with_agents_and_conductors_of_their_own_give_each_its_addresses() -> None:
    """From the API to the guests: hosts report their cells, a conductor for each goes on with what was placed there."""
    with cluster() as made:
        made.serve("placement", "network", "compute")
        made.serve("conductor", environment={"ROOST_CONDUCTOR_CELLS": "cell1"})
        made.serve("conductor", environment={"ROOST_CONDUCTOR_CELLS": "cell2"})
        made.agent("--host=a1", "--host=a2", state="agent-a")
        made.agent("--host=b1", "--host=b2", "--cell=cell2", state="agent-b")
        made.load(CLOUD.split("hosts:")[0])
        async with CloudClient.connect(made.url) as client:
            await hosts_are_there(client, 4)
            legacy = (await network_ids(client))["legacy"]
            await asyncio.gather(*(boot(client, legacy, name=f"web{number}") for number in range(ADDRESSES + 2)))
            await settle(made)
            servers = await client.list_servers()
            active = [server for server in servers if server["status"] == "ACTIVE"]
            assert len(active) == ADDRESSES
            for server in active:
                (shown,) = server["addresses"]["legacy"]
                in_cell2 = int(shown["addr"].rpartition(".")[2]) >= 16
                assert server["OS-EXT-SRV-ATTR:host"][0] == ("b" if in_cell2 else "a"), server
                assert shown["OS-EXT-IPS-MAC:mac_addr"].startswith("fa:16:3e:")
            assert len({server["addresses"]["legacy"][0]["addr"] for server in active}) == ADDRESSES
            (fault,) = {server["fault"]["message"] for server in servers if server["status"] == "ERROR"}
            assert "The addresses of network legacy ran out: cell1 0 of 5 free" in fault
            await delete_all(made, client)
            usages = [await used(client, pool) for pool in await client.list_all("/network/v2.0/subnets", "subnets")]
            assert usages == [0] * 4


async def hosts_are_there(client: CloudClient, count: int) -> None:
    async def there() -> bool:
        hosts = await client.call("GET", "/compute/v2.1/os-hypervisors")
        return len(hosts["hypervisors"]) == count

    await until(there, what="the agents did not register their hosts")


async def used(client: CloudClient, subnet: dict[str, str]) -> int:
    provider = subnet["id"] if subnet["roost:cell"] else subnet["segment_id"]
    usages = await client.call("GET", f"/placement/resource_providers/{provider}/usages")
    return int(usages["usages"]["IPV4_ADDRESS"])
