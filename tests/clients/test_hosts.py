"""Hosts as `openstack` shows and removes them: `openstack hypervisor …`, `openstack compute service …`."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.running import openstack, refused, write_clouds_file
from tests.cluster import cluster, settle

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
hosts:
  - {name: 'c1-h[1-2]', vcpus: 4, ram_mb: 4096, disk_gb: 40}
  - {name: 'c2-h[1-2]', vcpus: 4, ram_mb: 4096, disk_gb: 40, cell: cell2}
"""


@pytest.fixture(scope="module")
def clouds_file() -> Iterator[Path]:
    """Two cells with two hosts each, without an agent."""
    with cluster() as made:
        made.serve("all")
        made.load(CLOUD)
        yield write_clouds_file(made)
        asyncio.run(settle(made))


@pytest.mark.parametrize("version", ["2.1", "2.53", "2.88", "2.96"])
def test_openstack_shows_a_hosts_cell(clouds_file: Path, version: str) -> None:
    hypervisor = f"openstack --os-compute-api-version {version} hypervisor"
    shown = openstack(clouds_file, *(f"{hypervisor} show c{cell}-h1 -f json" for cell in (1, 2)))
    assert [json.loads(host)["hypervisor_type"] for host in shown] == ["roost (cell1)", "roost (cell2)"]
    (listed,) = openstack(clouds_file, f"{hypervisor} list -f json")
    types = {host["Hypervisor Hostname"]: host["Hypervisor Type"] for host in json.loads(listed)}
    assert {name: kind for name, kind in types.items() if name.startswith("c2-")} == {
        "c2-h1": "roost (cell2)",
        "c2-h2": "roost (cell2)",
    }


def test_openstack_removes_a_host(clouds_file: Path) -> None:
    (services,) = openstack(clouds_file, "openstack compute service list -f json")
    ids = {service["Host"]: service["ID"] for service in json.loads(services)}
    openstack(clouds_file, f"openstack compute service delete {ids['c1-h2']}")
    (services,) = openstack(clouds_file, "openstack compute service list -f value -c Host")
    assert "c1-h2" not in services.split()
    assert "c1-h1" in services.split()
    assert "could not be found" in refused(clouds_file, f"openstack compute service delete {ids['c1-h2']}")
