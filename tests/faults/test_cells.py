"""Conductors of two cells as processes: what becomes of a cell whose conductors are killed."""

import asyncio
import signal
import time
import urllib.request

from tests.cluster import QUICK, Cluster, boot, cluster, network_ids, settle, until
from tests.launching import run_manage

from roost.cli.asking.cloud_client import CloudClient
from roost.compute.settings import ComputeSettings

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/27}]}
      - {name: rack2, physical_network: rack2, network_type: vlan, segmentation_id: 2, subnets: [{cidr: 10.2.0.0/27}]}
  - name: of-cell2
    segments:
      - {name: vlan3, physical_network: rack2, network_type: vlan, segmentation_id: 3, subnets: [{cidr: 10.3.0.0/27}]}
hosts:
  - {name: c1-h1, vcpus: 64, ram_mb: 32768, disk_gb: 800, physical_networks: [rack1], cell: cell1}
  - {name: c2-h1, vcpus: 64, ram_mb: 32768, disk_gb: 800, physical_networks: [rack2], cell: cell2}
"""
SETTINGS = ComputeSettings(host_down_after_s=6)
SILENT_AFTER_S = SETTINGS.host_down_after_s + SETTINGS.look_s
"""When a cell is silent at the latest, on a machine that is not busy."""
BUSY_FACTOR = 10
REASONS = {"OpenStack-API-Version": "compute 2.84"}


async def test_a_cell_whose_conductors_are_killed_keeps_its_servers_and_gets_none_until_they_are_back() -> None:
    with cluster({**QUICK, "ROOST_COMPUTE_HOST_DOWN_AFTER_S": f"{SETTINGS.host_down_after_s:g}"}) as made:
        made.serve("placement", "network", "compute")
        made.serve("conductor", cell="cell1")
        made.serve("conductor", cell="cell2")
        conductor_of_cell2 = made.processes[-1]
        made.load(CLOUD)
        made.agent()
        async with CloudClient.connect(made.url) as client:
            networks = await network_ids(client)
            await boot(client, networks["public"], count=6)
            await until(lambda: _is_active(client, "web", 6))
            assert await _hosts(client, "web") == {"c1-h1", "c2-h1"}
            made.stop(conductor_of_cell2, signal.SIGKILL)
            killed_s = time.monotonic()
            await boot(client, networks["of-cell2"], name="unfinished")
            await until(lambda: _waits(client), timeout_s=BUSY_FACTOR * SILENT_AFTER_S)
            print(f"silent after {time.monotonic() - killed_s:.1f} s, expected {SILENT_AFTER_S:.1f} s")  # noqa: T201
            assert _check(made, "No conductor of cell2 (1 hosts) is there") == 2
            await boot(client, networks["public"], count=4, name="elsewhere")
            await until(lambda: _is_active(client, "elsewhere", 4))
            assert await _hosts(client, "elsewhere") == {"c1-h1"}
            assert await _statuses(client, "unfinished") == ["BUILD"]
            made.serve("conductor", cell="cell2")
            await until(lambda: _is_active(client, "unfinished", 1))
            assert await _hosts(client, "unfinished") == {"c2-h1"}
            assert not await _waits(client)
            assert _check(made) != 2
            await boot(client, networks["public"], count=6, name="back")
            await until(lambda: _is_active(client, "back", 6))
            assert "c2-h1" in await _hosts(client, "back")
        await settle(made)


async def _statuses(client: CloudClient, name: str) -> list[str]:
    return [server["status"] for server in await client.list_servers() if server["name"].startswith(name)]


async def _is_active(client: CloudClient, name: str, count: int) -> bool:
    return await _statuses(client, name) == ["ACTIVE"] * count


async def _hosts(client: CloudClient, name: str) -> set[str]:
    return {server["OS-EXT-SRV-ATTR:host"] for server in await client.list_servers() if server["name"].startswith(name)}


async def _waits(client: CloudClient) -> bool:
    """Whether the action log of the unfinished server says that it waits for a conductor of its cell."""
    (server_id,) = [server["id"] for server in await client.list_servers() if server["name"] == "unfinished"]
    path = f"/compute/v2.1/servers/{server_id}/os-instance-actions"
    (creation,) = (await client.call("GET", path))["instanceActions"]
    request = urllib.request.Request(f"{client.url}{path}/{creation['request_id']}", headers=REASONS)
    with await asyncio.to_thread(urllib.request.urlopen, request, timeout=60) as response:
        return "no conductor of cell cell2 is there" in response.read().decode()


def _check(made: Cluster, text: str = "") -> int:
    """Return the exit status of upgrade-check, which prints that text."""
    done = run_manage("status", "upgrade-check", "--data-dir", str(made.data_dir))
    assert text in done.stdout
    return done.returncode
