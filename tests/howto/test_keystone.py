"""How to put Roost behind Keystone, and to move to it from upstream Placement: followed literally, with real ones."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.cli.upstream import CONFIGURATION, upstream_running
from tests.howto.keystone_server import PASSWORD
from tests.howto.rehearsal import BLOCK, Rehearsal, rehearsal
from tests.ports import free_port

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
BEHIND_KEYSTONE = """
[keystone_authtoken]
auth_type = password
auth_url = {url}/v3
www_authenticate_uri = {url}/v3
username = admin
password = {password}
project_name = admin
user_domain_name = Default
project_domain_name = Default
"""

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def keystone_url(data_dir: Path) -> Iterator[str]:
    """A Keystone that was just made."""
    folder = data_dir / "keystone"
    folder.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.howto.keystone_server", str(folder), str(free_port())],
            cwd=HOWTO.parents[1], stdout=subprocess.PIPE, stderr=log, text=True, env=clean,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (folder / "log").read_text()[-3000:]
        yield line.strip()
    finally:
        process.kill()
        process.communicate()


def admin_of(url: str) -> Mapping[str, str]:
    """What an operator's openrc sets."""
    return {
        "OS_AUTH_URL": url, "OS_USERNAME": "admin", "OS_PASSWORD": PASSWORD, "OS_PROJECT_NAME": "admin",
        "OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default", "OS_IDENTITY_API_VERSION": "3",
        "OS_REGION_NAME": "RegionOne",
    }  # fmt: skip


def test_keystone_is_set_up_as_it_is_printed(data_dir: Path, keystone_url: str, dsn: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    replaced = {
        "https://keystone.example:5000": keystone_url,
        "postgresql://roost@db/roost": f"'{dsn}'",
        "http://roost.example:8778": f"http://{address}",
        "0.0.0.0:8778": address,
        "/etc/roost/": f"{data_dir}/etc/",
    }
    with rehearsal(data_dir, replaced=replaced, **admin_of(keystone_url)) as reader:
        reader.follow(HOWTO / "keystone.md")
        status, printed = reader.shell.run("openstack resource provider list -f value -c name")
        assert (status, printed) == (0, "host1\n")
        member = "openstack user create --password x m && openstack role add --user m --project service reader"
        assert reader.shell.run(f"{member} > /dev/null")[0] == 0
        as_reader = "OS_USERNAME=m OS_PASSWORD=x OS_PROJECT_NAME=service"
        assert reader.shell.run(f"{as_reader} openstack --os-placement-api-version 1.6 trait list")[0] == 0
        assert reader.shell.run(f"{as_reader} openstack resource provider list")[0] == 1


@pytest.mark.long  # test_existing_openstack.py moves one, too
def test_placement_is_moved_as_it_is_printed(data_dir: Path, keystone_url: str) -> None:
    address, alone = (f"127.0.0.1:{free_port()}" for _ in range(2))
    folder = data_dir / "upstream"
    folder.mkdir()
    behind = BEHIND_KEYSTONE.format(url=keystone_url, password=PASSWORD)
    configuration = CONFIGURATION.replace("noauth2", "keystone") + behind
    with upstream_running(folder, configuration) as upstream:
        replaced = {
            "https://keystone.example:5000": keystone_url,
            "http://controller/placement": upstream.url,
            "http://10.0.0.5:8778": upstream.url,
            "http://roost.example:8778": f"http://{address}",
            "0.0.0.0:8778": address,
            "127.0.0.1:8779": alone,
            "/etc/roost/": f"{data_dir}/etc/",
            "/var/lib/roost": f"{data_dir}/lib",
        }
        with rehearsal(data_dir, replaced=replaced, **admin_of(keystone_url)) as reader:
            make_a_cloud_with_placement(reader, upstream.url)
            reader.follow(HOWTO / "import-placement.md")
            status, printed = reader.shell.run(
                "openstack endpoint list --service placement -f value -c URL; "
                "openstack resource provider show $HOST -f value -c name"
            )
            assert (status, printed.splitlines()) == (0, [f"http://{address}"] * 3 + ["host1"])


def make_a_cloud_with_placement(reader: Rehearsal, upstream_url: str) -> None:
    """What such a cloud has already: the service user, Placement in the catalog, a host with a server."""
    first_block = next(text for kind, text in BLOCK.findall((HOWTO / "keystone.md").read_text()) if kind == "console")
    consumer = "00000000-0000-4000-8000-0000000000c1"
    commands = [
        *first_block.splitlines(),
        "openstack service create --name placement placement",
        *(
            f"openstack endpoint create --region RegionOne placement {interface} {upstream_url}"
            for interface in ("public", "internal", "admin")
        ),
        "HOST=$(openstack resource provider create host1 -f value -c uuid)",
        "openstack resource provider inventory set $HOST --resource VCPU=8 --resource MEMORY_MB=4096",
        f"openstack --os-placement-api-version 1.38 resource provider allocation set {consumer} "
        "--allocation rp=$HOST,VCPU=2 --project-id p --user-id u --consumer-type INSTANCE",
    ]
    for command in commands:
        status, printed = reader.shell.run(command)
        assert status == 0, f"{command}\n{printed}"
