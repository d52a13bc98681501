"""The promise, on real processes: exact fit, no launch on a dry segment, every NIC from its own provider."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.cluster import Cluster, boot, cluster, network_ids, settle
from tests.invariants import ALWAYS, list_problems

from roost.cli.asking.cloud_client import CloudClient, CloudRefused, Json
from roost.platform.database import Database

FLAVOR = "flavors:\n  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}\n"

EXACT = (
    FLAVOR
    + """
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1,
         subnets: [{cidr: 203.0.113.0/28}]}
      - {name: rack2, physical_network: rack2, network_type: vlan, segmentation_id: 2,
         subnets: [{cidr: 203.0.113.16/28}]}
      - {name: rack3, physical_network: rack3, network_type: vlan, segmentation_id: 3,
         subnets: [{cidr: 203.0.113.32/29}]}
hosts:
  - {name: 'r1-h[1-4]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
  - {name: 'r2-h[1-4]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack2]}
  - {name: 'r3-h[1-2]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack3]}
"""
)
EXACT_ADDRESSES = 13 + 13 + 5

DRY = (
    FLAVOR
    + """
networks:
  - name: public
    segments:
      - {name: dry, physical_network: dry, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/29}]}
      - {name: wet1, physical_network: wet1, network_type: vlan, segmentation_id: 2, subnets: [{cidr: 10.2.0.0/26}]}
      - {name: wet2, physical_network: wet2, network_type: vlan, segmentation_id: 3, subnets: [{cidr: 10.3.0.0/26}]}
  - name: backend
    physical_network: backend
    subnets: [{cidr: 10.9.0.0/24}]
hosts:
  - {name: 'dry-h[1-9]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [dry, backend]}
  - {name: 'wet1-h[1-3]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [wet1]}
  - {name: 'wet2-h[1-3]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [wet2]}
"""
)

NICS = (
    FLAVOR
    + """
networks:
  - name: one
    segments:
      - {name: one-a, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/28}]}
      - {name: one-b, physical_network: rack2, network_type: vlan, segmentation_id: 2, subnets: [{cidr: 10.2.0.0/28}]}
  - name: two
    segments:
      - {name: two-a, physical_network: rack1, network_type: vlan, segmentation_id: 3, subnets: [{cidr: 10.3.0.0/28}]}
      - {name: two-b, physical_network: rack2, network_type: vlan, segmentation_id: 4, subnets: [{cidr: 10.4.0.0/28}]}
  - name: both
    segments:
      - {name: both-x, physical_network: wide1, network_type: vlan, segmentation_id: 5, subnets: [{cidr: 10.5.0.0/29}]}
      - {name: both-y, physical_network: wide2, network_type: vlan, segmentation_id: 6, subnets: [{cidr: 10.6.0.0/29}]}
  - name: backend
    physical_network: backend
    subnets: [{cidr: 10.9.0.0/29}]
hosts:
  - {name: 'r1-h[1-2]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1, backend]}
  - {name: 'r2-h[1-2]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack2, backend]}
  - {name: 'wide-h1', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [wide1, wide2]}
"""
)


async def test_the_last_address_is_given_and_the_next_server_is_told_why() -> None:
    """N addresses on three segments, N servers from 16 clients, 3 conductors: all ACTIVE, and the N+1st refused."""
    with cluster() as made:
        made.serve(workers=2, conductors=3)
        made.load(EXACT)
        made.agent()
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            watching = asyncio.create_task(watch_capacity(made))
            await asyncio.gather(*(boot(client, network, name=f"s{n}") for n in range(EXACT_ADDRESSES)))
            await settle(made)
            servers = await client.list_servers()
            assert Counter(server["status"] for server in servers) == {"ACTIVE": EXACT_ADDRESSES}
            assert len({address for server in servers for address in addresses(server)}) == EXACT_ADDRESSES
            await boot(client, network, name="late")
            await settle(made)
            watching.cancel()
            (late,) = [server for server in await client.list_servers() if server["name"] == "late"]
        assert late["status"] == "ERROR"
        message = late["fault"]["message"]
        for word in ("No valid host was found", "10 hosts considered", "public ran out", "rack1 0 of 13 free", "rack3"):
            assert word in message
        await no_problem_seen(watching)


async def test_one_request_for_48_fits_around_a_segment_with_room_for_five() -> None:
    with cluster() as made:
        made.serve()
        made.load(DRY)
        made.agent()
        async with CloudClient.connect(made.url) as client:
            networks = await network_ids(client)
            await boot(client, networks["public"], count=48)
            await settle(made)
            assert [server["status"] for server in await client.list_servers()] == ["ACTIVE"] * 48
            assert len(made.launches()) == 48, "a launch was tried that did not succeed"
            on_dry = Counter(launch["host"].split("-")[0] for launch in made.launches())["dry"]
            assert on_dry <= 5
            # Whatever of the dry segment is left goes; then its hosts serve other networks and nothing else.
            await boot(client, networks["public"], count=127 - 48 - 1, name="more")
            await settle(made)
            before = len(made.launches())
            await boot(client, networks["public"], count=1, name="last")
            await boot(client, networks["backend"], count=5, name="other")
            await settle(made)
            servers = {server["name"]: server for server in await client.list_servers()}
            assert servers["last"]["status"] == "ACTIVE"
            others = [server for name, server in servers.items() if name.startswith("other")]
            assert {server["status"] for server in others} == {"ACTIVE"}
            assert all(server["OS-EXT-SRV-ATTR:host"].startswith("dry") for server in others)
            assert len(made.launches()) == before + 6


@pytest.fixture(scope="module")
def nics() -> Iterator[Cluster]:
    """A Roost with two routed networks on the same racks, one on two segments of a host, and a plain one."""
    with cluster() as made:
        made.serve()
        made.load(NICS)
        made.agent()
        yield made


@pytest.mark.parametrize(
    ("wanted", "per_server"),
    [
        (["one", "two"], {"one": 1, "two": 1}),
        (["one", "one"], {"one": 2}),
        (["one", "backend"], {"one": 1, "backend": 1}),
        (["both"], {"both": 1}),
        (["both", "both"], {"both": 2}),
    ],
)
async def test_each_nic_is_claimed_from_its_own_network_exactly_once(
    nics: Cluster, wanted: list[str], per_server: dict[str, int]
) -> None:
    async with CloudClient.connect(nics.url) as client:
        networks = await network_ids(client)
        await boot(client, [{"uuid": networks[name]} for name in wanted], count=3)
        await settle(nics)
        servers = await client.list_servers()
        assert {server["status"] for server in servers} == {"ACTIVE"}, [server.get("fault") for server in servers]
        for server in servers:
            assert {name: len(held) for name, held in server["addresses"].items()} == per_server
        used = await used_by_network(client)
        assert used == {name: used.get(name, 0) and 3 * per_server[name] for name in used}
        assert {name: 3 * count for name, count in per_server.items()} == {n: u for n, u in used.items() if u}
        await delete_all(nics, client)


async def test_a_plain_network_holds_no_more_servers_than_addresses(nics: Cluster) -> None:
    async with CloudClient.connect(nics.url) as client:
        backend = (await network_ids(client))["backend"]
        await boot(client, backend, count=6)
        await settle(nics)
        assert Counter(server["status"] for server in await client.list_servers()) == {"ACTIVE": 5, "ERROR": 1}
        await delete_all(nics, client)


async def test_two_segments_of_one_host_are_both_filled(nics: Cluster) -> None:
    async with CloudClient.connect(nics.url) as client:
        both = (await network_ids(client))["both"]
        await boot(client, both, count=10)
        await settle(nics)
        assert Counter(server["status"] for server in await client.list_servers()) == {"ACTIVE": 10}
        await delete_all(nics, client)


async def test_a_users_port_named_by_two_servers_goes_to_exactly_one(nics: Cluster) -> None:
    async with CloudClient.connect(nics.url) as client:
        network = (await network_ids(client))["one"]
        port = (await client.call("POST", "/network/v2.0/ports", {"port": {"network_id": network}}))["port"]
        assert (port["ip_allocation"], port["fixed_ips"]) == ("deferred", [])
        await asyncio.gather(*(boot(client, [{"port": port["id"]}], name=name) for name in ("a", "b")))
        await settle(nics)
        servers = await client.list_servers()
        assert Counter(server["status"] for server in servers) == {"ACTIVE": 1, "ERROR": 1}
        (refused,) = [server for server in servers if server["status"] == "ERROR"]
        assert "in use" in refused["fault"]["message"]
        await delete_all(nics, client)
        kept = (await client.call("GET", f"/network/v2.0/ports/{port['id']}"))["port"]
        assert kept["device_id"] == ""
        assert len(kept["fixed_ips"]) == 1, "the user's own port keeps its address"
        await client.call("DELETE", f"/network/v2.0/ports/{port['id']}")
        await settle(nics)


async def test_a_port_with_an_address_takes_its_server_to_its_segment(nics: Cluster) -> None:
    async with CloudClient.connect(nics.url) as client:
        network = (await network_ids(client))["one"]
        body = {"port": {"network_id": network, "fixed_ips": [{"ip_address": "10.2.0.9"}]}}
        port = (await client.call("POST", "/network/v2.0/ports", body))["port"]
        assert port["ip_allocation"] == "immediate"
        await boot(client, [{"port": port["id"]}])
        await settle(nics)
        (server,) = await client.list_servers()
        assert server["OS-EXT-SRV-ATTR:host"].startswith("r2-")
        assert addresses(server) == ["10.2.0.9"]
        await delete_all(nics, client)
        await client.call("DELETE", f"/network/v2.0/ports/{port['id']}")


async def test_what_one_worker_answered_the_next_request_to_another_sees() -> None:
    with cluster() as made:
        made.serve(workers=3)
        made.load(EXACT)
        async with CloudClient.connect(made.url) as client, CloudClient.connect(made.url) as other:
            host = (await client.call("GET", "/placement/resource_providers?name=r1-h1"))["resource_providers"][0][
                "uuid"
            ]
            for number in range(1, 40):
                consumer = f"00000000-0000-4000-8000-{number:012}"
                # Not of the type INSTANCE: the reconciler would return what no server stands behind.
                body = {
                    "allocations": {host: {"resources": {"VCPU": 1}}}, "consumer_type": "OTHER", "project_id": "p",
                    "user_id": "u", "consumer_generation": None,
                }  # fmt: skip
                await client.call("PUT", f"/placement/allocations/{consumer}", body)
                asked = "/placement/allocation_candidates?resources=VCPU:1&limit=20"
                seen = (await other.call("GET", asked))["provider_summaries"][host]["resources"]["VCPU"]["used"]
                assert seen == number


def addresses(server: Json) -> list[str]:
    return [one["addr"] for held in server["addresses"].values() for one in held]


async def used_by_network(client: CloudClient) -> dict[str, int]:
    """Network name -> addresses in use, by the ledger."""
    used = {}
    subnets = await client.list_all("/network/v2.0/subnets", "subnets")
    for name, network in (await network_ids(client)).items():
        providers = {one["segment_id"] or network for one in subnets if one["network_id"] == network}
        counts = [await client.call("GET", f"/placement/resource_providers/{uuid}/usages") for uuid in providers]
        used[name] = sum(count["usages"]["IPV4_ADDRESS"] for count in counts)
    return used


async def delete_all(made: Cluster, client: CloudClient) -> None:
    for server in await client.list_servers():
        await client.call("DELETE", f"/compute/v2.1/servers/{server['id']}")
    await settle(made)
    with pytest.raises(CloudRefused):
        await client.call("GET", f"/compute/v2.1/servers/{server['id']}")


async def watch_capacity(made: Cluster) -> None:
    """Every 50 ms: nothing above its capacity, no address twice, no address without its claim."""
    database = await Database.open(made.dsn, size=1)
    try:
        while True:
            async with database.transaction(snapshot=True) as tx:
                problems = await list_problems(tx, settled=False)
            assert not problems, problems
            await asyncio.sleep(0.05)
    finally:
        await database.close()


async def no_problem_seen(watching: asyncio.Task[None]) -> None:
    assert ALWAYS
    with pytest.raises(asyncio.CancelledError):
        await watching
