"""Conductors of two cells as processes: what becomes of a cell whose conductors end."""

import subprocess
import sys

from tests.cluster import QUICK, Cluster, boot, cluster, network_ids, settle, until

from roost.cli.cloud_client import CloudClient

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/27}]}
      - {name: rack2, physical_network: rack2, network_type: vlan, segmentation_id: 2, subnets: [{cidr: 10.2.0.0/27}]}
hosts:
  - {name: c1-h1, vcpus: 64, ram_mb: 32768, disk_gb: 800, physical_networks: [rack1], cell: cell1}
  - {name: c2-h1, vcpus: 64, ram_mb: 32768, disk_gb: 800, physical_networks: [rack2], cell: cell2}
"""
MANAGE = [sys.executable, "-c", "from roost.cli.manage import main; main()"]


async def test_a_cell_whose_conductors_end_gets_no_servers_until_they_are_back() -> None:
    with cluster({**QUICK, "ROOST_COMPUTE_HOST_DOWN_AFTER_S": "6"}) as made:
        made.serve("placement", "network", "compute")
        made.serve("conductor", cell="cell1")
        made.serve("conductor", cell="cell2")
        theirs = made.processes[-1]
        made.load(CLOUD)
        made.agent()
        async with CloudClient.connect(made.url) as client:
            network = (await network_ids(client))["public"]
            await boot(client, network, count=6)
            await _active(client, 6)
            assert await _hosts(client) == {"c1-h1", "c2-h1"}
            made.stop(theirs)
            await until(lambda: _is_silent(made))
            await boot(client, network, count=4, name="elsewhere")
            await _active(client, 10)
            assert await _hosts(client, "elsewhere") == {"c1-h1"}
            made.serve("conductor", cell="cell2")
            await until(lambda: _is_heard(made))
            await boot(client, network, count=6, name="back")
            await _active(client, 16)
            assert "c2-h1" in await _hosts(client, "back")
        await settle(made)


async def _active(client: CloudClient, count: int) -> None:
    async def active() -> bool:
        return [server["status"] for server in await client.list_servers()] == ["ACTIVE"] * count

    await until(active)


async def _hosts(client: CloudClient, name: str = "") -> set[str]:
    return {server["OS-EXT-SRV-ATTR:host"] for server in await client.list_servers() if server["name"].startswith(name)}


async def _is_silent(made: Cluster) -> bool:
    status, text = _check(made)
    return status == 2 and "No conductor of cell2 (1 hosts) is there" in text


async def _is_heard(made: Cluster) -> bool:
    return _check(made)[0] != 2


def _check(made: Cluster) -> tuple[int, str]:
    command = [*MANAGE, "status", "upgrade-check", "--data-dir", str(made.data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout
