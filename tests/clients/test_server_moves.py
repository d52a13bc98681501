"""What `openstack server` and openstacksdk do to move servers and their NICs, as released, on real processes."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openstack import exceptions
from openstack.config import OpenStackConfig
from openstack.connection import Connection
from tests.clients.running import openstack, refused, write_clouds_file
from tests.cluster import Cluster, cluster, settle

CLOUD = """
flavors:
  - {name: small, vcpus: 1, ram_mb: 1024, disk_gb: 10}
  - {name: large, vcpus: 2, ram_mb: 2048, disk_gb: 10}
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: vlan, segmentation_id: 1, subnets: [{cidr: 10.1.0.0/28}]}
  - name: backend
    physical_network: backend
    subnets: [{cidr: 10.9.0.0/27}]
hosts:
  - {name: 'r1-h[1-3]', vcpus: 12, ram_mb: 32768, disk_gb: 800, physical_networks: [rack1, backend]}
"""
WAIT_S = 30
SERVER = "openstack --os-compute-api-version 2.74 server"
CREATE = f"{SERVER} create --flavor small --network public --block-device boot_index=0 web"

pytestmark = [
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedFieldWarning"),
]


@pytest.fixture(scope="module")
def roost() -> Iterator[Cluster]:
    """One rack, with an agent for each host."""
    with cluster() as made:
        made.serve("all")
        made.load(CLOUD)
        for number in (1, 2, 3):
            made.agent(f"--host=r1-h{number}", state=f"agent-{number}")
        yield made


@pytest.fixture(scope="module")
def clouds_file(roost: Cluster) -> Path:
    return write_clouds_file(roost)


@pytest.fixture(scope="module")
def cloud(clouds_file: Path) -> Iterator[Connection]:
    """A connection of openstacksdk."""
    config = OpenStackConfig(config_files=[str(clouds_file)], load_envvars=False)
    with Connection(config=config.get_one("roost", compute_default_microversion="2.74")) as opened:
        yield opened


@pytest.fixture
def web(roost: Cluster, cloud: Connection, clouds_file: Path) -> Iterator[Any]:
    """A server that is deleted afterwards."""
    openstack(clouds_file, CREATE)
    yield wait(cloud, "ACTIVE")
    openstack(clouds_file, f"{SERVER} delete web")
    asyncio.run(settle(roost))


def wait(cloud: Connection, status: str) -> Any:
    server = cloud.compute.find_server("web", ignore_missing=False)
    return cloud.compute.wait_for_server(server, status=status, wait=WAIT_S, interval=0.2)


def quiet(cloud: Connection, status: str) -> Any:
    """The server, with that status and nothing being done to it."""
    for _ in range(WAIT_S * 5):
        server = wait(cloud, status)
        if server.task_state is None:
            return server
        time.sleep(0.2)  # another process is at work; nothing here can move its clock
    raise AssertionError(f"{server.task_state} does not end: {server.fault}")


def elsewhere(host: str) -> str:
    return "r1-h2" if host != "r1-h2" else "r1-h3"


def test_migrate_and_resize(cloud: Connection, clouds_file: Path, web: Any) -> None:
    there = elsewhere(web.compute_host)
    openstack(clouds_file, f"{SERVER} migrate --wait --host {there} web")
    migrated = quiet(cloud, "VERIFY_RESIZE")
    assert (migrated.compute_host, migrated.addresses) == (there, web.addresses)
    openstack(clouds_file, f"{SERVER} migration confirm web")
    quiet(cloud, "ACTIVE")
    openstack(clouds_file, f"{SERVER} migrate web")
    quiet(cloud, "VERIFY_RESIZE")
    openstack(clouds_file, f"{SERVER} migration revert web")
    assert quiet(cloud, "ACTIVE").compute_host == there
    openstack(clouds_file, f"{SERVER} resize --wait --flavor large web", f"{SERVER} resize revert web")
    assert quiet(cloud, "ACTIVE").flavor.original_name == "small"
    openstack(clouds_file, f"{SERVER} resize --flavor large web")
    quiet(cloud, "VERIFY_RESIZE")
    openstack(clouds_file, f"{SERVER} resize confirm web")
    resized = quiet(cloud, "ACTIVE")
    assert (resized.flavor.original_name, resized.addresses) == ("large", web.addresses)
    listed, events = openstack(
        clouds_file,
        f"{SERVER} migration list --server web -f json",
        f"{SERVER} event list web -f json",
    )
    assert [(one["Type"], one["Status"]) for one in json.loads(listed)] == [
        ("resize", "confirmed"),
        ("resize", "reverted"),
        ("migration", "reverted"),
        ("migration", "confirmed"),
    ]
    assert json.loads(listed)[-1]["Dest Host"] == there
    assert [event["Action"] for event in json.loads(events)] == [
        *("confirmResize", "resize", "revertResize", "resize", "revertResize", "migrate", "confirmResize", "migrate"),
        "create",
    ]
    [shown] = openstack(clouds_file, f"{SERVER} event show web {json.loads(events)[1]['Request ID']} -f json")
    assert "Success" in shown
    assert "Error" not in shown


def test_live_migration_and_its_abort(roost: Cluster, cloud: Connection, clouds_file: Path, web: Any) -> None:
    there = elsewhere(web.compute_host)
    openstack(clouds_file, f"{SERVER} migrate --live-migration --host {there} --wait web")
    moved = quiet(cloud, "ACTIVE")
    assert (moved.compute_host, moved.addresses) == (there, web.addresses)
    target = elsewhere(there)
    replace_agent(roost, target, "--fake-pre-copy=60")
    openstack(clouds_file, f"{SERVER} migrate --live-migration --host {target} web")
    [listed] = openstack(clouds_file, f"{SERVER} migration list --server web --type live-migration -f json")
    newest = json.loads(listed)[0]
    assert newest["Status"] in ("accepted", "preparing", "running")
    (found,) = cloud.compute.server_migrations(moved)
    assert (found.id, found.source_compute) == (newest["Id"], there)
    # `openstack server migration show` of python-openstackclient 10 puts the two ids of the path the wrong way round.
    assert cloud.compute.get_server_migration(newest["Id"], moved, ignore_missing=False).uuid == newest["UUID"]
    openstack(clouds_file, f"{SERVER} migration abort web {newest['Id']}")
    after = quiet(cloud, "ACTIVE")
    assert (after.compute_host, after.addresses) == (there, web.addresses)
    openstack(clouds_file, f"{SERVER} migrate --live-migration --host {target} web")
    (running,) = cloud.compute.server_migrations(moved)
    while cloud.compute.get_server_migration(running.id, moved, ignore_missing=False).status != "running":
        time.sleep(0.1)  # until its memory is copied, which takes a minute
    openstack(clouds_file, f"{SERVER} migration force complete web {running.id}")
    forced = quiet(cloud, "ACTIVE")
    assert (forced.compute_host, forced.addresses) == (target, web.addresses)
    asyncio.run(settle(roost))
    replace_agent(roost, target)


@pytest.mark.parametrize(("state", "at_source"), [("incoming", False), ("stopped", True), ("running", False)])
def test_a_live_migration_that_fails_at_any_step_leaves_the_server_where_it_was(
    roost: Cluster, cloud: Connection, clouds_file: Path, web: Any, state: str, at_source: bool
) -> None:
    here = web.compute_host
    target = elsewhere(here)
    replace_agent(roost, here if at_source else target, f"--fake-refuse={state}")
    openstack(clouds_file, f"{SERVER} migrate --live-migration --host {target} web")
    after = quiet(cloud, "ACTIVE")
    assert (after.compute_host, after.addresses, after.power_state) == (here, web.addresses, 1)
    [listed] = openstack(clouds_file, f"{SERVER} migration list --server web --type live-migration -f json")
    assert json.loads(listed)[0]["Status"] == "error"
    [events] = openstack(clouds_file, f"{SERVER} event list web -f json")
    [shown] = openstack(clouds_file, f"{SERVER} event show web {json.loads(events)[0]['Request ID']} -f json")
    assert '"Error"' in shown
    asyncio.run(settle(roost))
    replace_agent(roost, here if at_source else target)


def replace_agent(roost: Cluster, host: str, *options: str) -> None:
    """Stop the agent of a host, and start another on what it has."""
    roost.stop(next(process for process in roost.processes if f"--host={host}" in process.args))
    roost.agent(f"--host={host}", *options, state=f"agent-{host[-1]}")


def test_evacuate(roost: Cluster, cloud: Connection, clouds_file: Path, web: Any) -> None:
    here = web.compute_host
    assert "is still in use" in refused(clouds_file, f"{SERVER} evacuate web")
    roost.stop(next(process for process in roost.processes if f"--host={here}" in process.args))
    openstack(
        clouds_file,
        f"openstack --os-compute-api-version 2.74 compute service set --down {here} nova-compute",
        f"{SERVER} evacuate web",  # with --wait, python-openstackclient 10 waits for ever: for a status in capitals
    )
    after = quiet(cloud, "ACTIVE")
    assert after.compute_host != here
    assert after.addresses == web.addresses
    openstack(clouds_file, f"openstack --os-compute-api-version 2.74 compute service set --up {here} nova-compute")
    roost.agent(f"--host={here}", state=f"agent-{here[-1]}")
    asyncio.run(settle(roost))


def test_shelve(cloud: Connection, clouds_file: Path, web: Any) -> None:
    openstack(clouds_file, f"{SERVER} shelve web")
    shelved = quiet(cloud, "SHELVED_OFFLOADED")
    assert (shelved.compute_host, shelved.addresses) == (None, web.addresses)
    assert "SHELVED_OFFLOADED" in openstack(clouds_file, f"{SERVER} list")[0]
    openstack(clouds_file, f"{SERVER} unshelve web")
    assert quiet(cloud, "ACTIVE").addresses == web.addresses


def test_nics(cloud: Connection, clouds_file: Path, web: Any) -> None:
    openstack(
        clouds_file,
        "openstack port create --network backend extra",
        f"{SERVER} add port web extra",
        f"{SERVER} add network web backend",
        f"{SERVER} add fixed ip --fixed-ip-address 10.9.0.20 web backend",
    )
    assert {entry["addr"] for entry in wait(cloud, "ACTIVE").addresses["backend"]} > {"10.9.0.20"}
    assert len(list(cloud.compute.server_interfaces(web))) == 4
    openstack(clouds_file, f"{SERVER} remove port web extra", f"{SERVER} remove network web backend")
    assert quiet(cloud, "ACTIVE").addresses == web.addresses
    openstack(clouds_file, "openstack port show extra", "openstack port delete extra")


def test_the_sdk_moves_servers(cloud: Connection, web: Any) -> None:
    compute = cloud.compute
    there = elsewhere(web.compute_host)
    compute.migrate_server(web, host=there)
    assert quiet(cloud, "VERIFY_RESIZE").compute_host == there
    compute.revert_server_resize(web)
    assert quiet(cloud, "ACTIVE").compute_host == web.compute_host
    compute.resize_server(web, compute.find_flavor("large"))
    quiet(cloud, "VERIFY_RESIZE")
    compute.confirm_server_resize(web)
    here = quiet(cloud, "ACTIVE").compute_host
    compute.live_migrate_server(web, host=None, block_migration="auto")
    assert quiet(cloud, "ACTIVE").compute_host != here
    migrations = [one for one in compute.migrations() if one.server_id == web.id]
    assert [one.migration_type for one in migrations] == ["live-migration", "resize", "migration"]
    assert migrations[0].uuid
    compute.shelve_server(web)
    quiet(cloud, "SHELVED_OFFLOADED")
    compute.unshelve_server(web)
    quiet(cloud, "ACTIVE")
    network = cloud.network.find_network("backend")
    interface = compute.create_server_interface(web, net_id=network.id)
    assert compute.get_server_interface(interface.port_id, web).fixed_ips[0]["ip_address"].startswith("10.9.0.")
    compute.delete_server_interface(interface.port_id, web)
    with pytest.raises(exceptions.HttpException, match="still in use"):
        compute.evacuate_server(web)
