"""`openstack aggregate …` and `openstack availability zone list --compute`, as users run them, on real processes."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.running import ROOT, openstack, refused, write_clouds_file
from tests.cluster import Cluster, cluster, settle
from tests.launching import run_manage

CLOUD = (ROOT / "examples" / "three-racks.yaml").read_text()
CREATE = "openstack server create --flavor small --network public --block-device boot_index=0"


@pytest.fixture(scope="module")
def clouds_file() -> Iterator[Path]:
    with cluster() as made:
        made.serve("all")
        made.load(CLOUD)
        made.agent(state="agent-1")
        yield write_clouds_file(made)
        asyncio.run(settle(made))
        assert_mirrored(made)


def assert_mirrored(made: Cluster) -> None:
    done = run_manage("sync_placement_aggregates", "--dry-run", "--prune", "--database", made.dsn)
    assert (done.returncode, done.stdout) == (0, "No host would be written.\n"), done.stderr


def test_an_operators_day_with_aggregates_and_zones(clouds_file: Path) -> None:
    (*_, shown, hosts) = openstack(
        clouds_file,
        "openstack aggregate create --zone east --property ssd=true gpu",
        "openstack aggregate add host gpu r1-h1",
        "openstack aggregate add host gpu r1-h2",
        "openstack aggregate set --name gpus --property cpu_allocation_ratio=2.0 gpu",
        "openstack aggregate unset --property ssd gpus",
        "openstack aggregate show gpus -f json",
        "openstack availability zone list --compute --long -f json",
    )
    aggregate = json.loads(shown)
    assert (aggregate["availability_zone"], sorted(aggregate["hosts"])) == ("east", ["r1-h1", "r1-h2"])
    assert aggregate["properties"] == {"cpu_allocation_ratio": "2.0"}
    zones = {(zone["Zone Name"], zone["Host Name"]) for zone in json.loads(hosts) if zone["Host Name"]}
    assert {("east", "r1-h1"), ("east", "r1-h2"), ("nova", "r1-h3")} <= zones
    openstack(
        clouds_file,
        f"{CREATE} --availability-zone east web",
        "until openstack server show web | grep -q ACTIVE; do sleep 1; done",
    )
    (server,) = openstack(clouds_file, "openstack server show web -f json")
    server_shown = json.loads(server)
    assert server_shown["OS-EXT-AZ:availability_zone"] == "east"
    host = server_shown["OS-EXT-SRV-ATTR:host"]
    assert host in ("r1-h1", "r1-h2")
    assert "1 server" in refused(clouds_file, f"openstack aggregate remove host gpus {host}")
    assert "not available: mars" in refused(clouds_file, f"{CREATE} --availability-zone mars lost")
    assert "not empty" in refused(clouds_file, "openstack aggregate delete gpus")
    openstack(
        clouds_file,
        "openstack server delete --wait web",
        "openstack aggregate remove host gpus r1-h1",
        "openstack aggregate remove host gpus r1-h2",
        "openstack aggregate delete gpus",
    )
    (listed,) = openstack(clouds_file, "openstack aggregate list -f json")
    assert "gpus" not in listed
