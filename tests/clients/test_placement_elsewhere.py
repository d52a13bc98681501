"""A whole Roost on upstream's Placement: boots, moves, refusals and deletes, and at the end all four records agree."""

import asyncio
from collections.abc import Sequence

from tests.cluster import Cluster, boot, cluster, network_ids, settle, until
from tests.faults.moving import act, all_are, servers_by_id
from tests.placements import ADMIN_TOKEN

from roost.cli.asking.cloud_client import CloudClient
from roost.clients.placement import RemotePlacement
from roost.platform.settings import PlacementClientSettings
from roost.seams.placement import IPV4_ADDRESS

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 101,
         subnets: [{cidr: 203.0.113.0/29}]}
      - {name: rack2, physical_network: rack2, network_type: vlan, segmentation_id: 102,
         subnets: [{cidr: 203.0.113.16/29}]}
hosts:
  - {name: 'r1-h[1-2]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack1]}
  - {name: 'r2-h[1-2]', vcpus: 64, ram_mb: 262144, disk_gb: 2000, physical_networks: [rack2]}
"""
ADDRESSES = 5 + 5


async def test_a_whole_roost_places_on_upstreams_placement() -> None:
    with cluster(arrangement="upstream") as made:
        made.serve("network", "compute", "conductor")
        made.load(CLOUD)
        made.agent()
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            segments = [one["id"] for one in await client.list_all("/network/v2.0/segments", "segments")]
            subnet = {"network_id": network, "ip_version": 6}
            for number, segment in enumerate(segments, 1):
                body = {**subnet, "segment_id": segment, "cidr": f"2001:db8:{number}::/120"}
                await client.call("POST", "/network/v2.0/subnets", {"subnet": body})
            await boot(client, network, count=ADDRESSES - 1)
            await all_are(client, "ACTIVE")
            assert await _addresses_used(made, segments) == ADDRESSES - 1
            await _move(client, next(iter(await servers_by_id(client))))
            await _is_refused(client, network)
            await settle(made)
            for server_id in await servers_by_id(client):
                await client.call("DELETE", f"/compute/v2.1/servers/{server_id}")
            await until(lambda: _is_empty(client))
            await settle(made)
            assert await _addresses_used(made, segments) == 0


async def _move(client: CloudClient, server_id: str) -> None:
    """There and to stay, and there and back: both move one server within its segment."""
    before = (await servers_by_id(client))[server_id]
    for end in ("confirmResize", "revertResize"):
        await act(client, server_id, "migrate")
        await _is(client, server_id, "VERIFY_RESIZE")
        await act(client, server_id, end)
        await _is(client, server_id, "ACTIVE")
    after = (await servers_by_id(client))[server_id]
    assert after["addresses"] == before["addresses"]
    assert after["OS-EXT-SRV-ATTR:host"] != before["OS-EXT-SRV-ATTR:host"]


async def _is_refused(client: CloudClient, network: str) -> None:
    """The last address is booted on, and the one after that is not there: the fault says so, with the funnel."""
    await boot(client, network, count=1, name="last")
    await all_are(client, "ACTIVE")
    await boot(client, network, count=1, name="refused")

    async def is_refused() -> bool:
        return any(server["status"] == "ERROR" for server in await client.list_servers())

    await until(is_refused)
    (refused,) = [server for server in await client.list_servers() if server["status"] == "ERROR"]
    message = refused["fault"]["message"]
    assert message.startswith("No valid host was found: 4 hosts considered"), message
    assert "no free address" in message or "0 free" in message or "address" in message, message


async def _is(client: CloudClient, server_id: str, status: str) -> None:
    async def has_it() -> bool:
        server = (await servers_by_id(client))[server_id]
        return (server["status"], server["OS-EXT-STS:task_state"]) == (status, None)

    await until(has_it, what=f"server {server_id} is not {status}")


async def _is_empty(client: CloudClient) -> bool:
    return not await client.list_servers()


async def _addresses_used(made: Cluster, segments: Sequence[str]) -> int:
    """What upstream itself says is in use."""
    placement = RemotePlacement.connect(PlacementClientSettings(url=made.upstream_url, token=ADMIN_TOKEN))
    try:
        usages = await placement.list_usages(segments)
    finally:
        await placement.close()
    await asyncio.sleep(0)
    return sum(of[IPV4_ADDRESS][1] for of in usages.values())
