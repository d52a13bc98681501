"""How to make an existing OpenStack IP-aware, followed literally: real Keystone and upstream Placement, and a Neutron.

The Neutron is the tests' stand-in, which has Neutron's default policies and the two lines that the page adds.
"""

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.upstream import CONFIGURATION, upstream_running
from tests.fake_neutron import BOTH, FakeNeutron
from tests.howto.keystone_server import PASSWORD
from tests.howto.rehearsal import Rehearsal, rehearsal
from tests.howto.test_keystone import BEHIND_KEYSTONE, HOWTO, admin_of, keystone_url
from tests.ports import free_port

__all__ = ["keystone_url"]
PAGE = HOWTO / "existing-openstack.md"
SEGMENT = "00000000-0000-4000-8000-00000000005e"
AGGREGATE = "00000000-0000-4000-8000-0000000000a9"
SERVER = "00000000-0000-4000-8000-0000000000c1"
pytestmark = pytest.mark.timeout(1200)


async def test_an_openstack_is_made_ip_aware_and_back_as_it_is_printed(
    data_dir: Path, keystone_url: str, dsn: str
) -> None:
    address, alone = (f"127.0.0.1:{free_port()}" for _ in range(2))
    folder = data_dir / "upstream"
    folder.mkdir()
    neutron = FakeNeutron(roles=frozenset({"service"}))
    neutron.policies |= {"get_segment": BOTH, "get_subnet:segment_id": BOTH}
    neutron.add_network({SEGMENT: 6})
    port = neutron.add_port(SEGMENT, SERVER)
    behind = BEHIND_KEYSTONE.format(url=keystone_url, password=PASSWORD)
    async with neutron.serve():
        await asyncio.to_thread(follow, data_dir, folder, behind, keystone_url, dsn, neutron.url, address, alone, port)


def follow(
    data_dir: Path,
    folder: Path,
    behind: str,
    keystone_url: str,
    dsn: str,
    neutron_url: str,
    address: str,
    alone: str,
    port: str,
) -> None:
    """Follow the page, and look at what is there on the way."""
    with upstream_running(folder, CONFIGURATION.replace("noauth2", "keystone") + behind) as upstream:
        replaced = {
            "https://keystone.example:5000": keystone_url,
            "http://controller/placement": upstream.url,
            "http://10.0.0.5:8778": upstream.url,
            "http://roost.example:8778": f"http://{address}",
            "0.0.0.0:8778": address,
            "127.0.0.1:8779": alone,
            "postgresql://roost:SECRET@db/roost": dsn,
            "/etc/roost/": f"{data_dir}/etc/",
        }
        with rehearsal(data_dir, replaced=replaced, **admin_of(keystone_url)) as reader:
            make_a_cloud(reader, upstream.url, neutron_url)
            before, _, back = PAGE.read_text().partition("## 5. The way back")
            reader.follow_text(before)
            held = allocations_of(reader, port)
            assert held == {SEGMENT: {"IPV4_ADDRESS": 1}}, "the first round has claimed what the server's port has"
            reader.follow_text(back.partition("\n## ")[0])
            assert allocations_of(reader, port) == {}, "claims of ports stay in Roost"
            assert len(allocations_of(reader, SERVER)) == 1


def make_a_cloud(reader: Rehearsal, placement_url: str, neutron_url: str) -> None:
    """What such a cloud has: a segment as Neutron publishes it, a host on it, a server that claims of the host only."""
    at_1_1 = "openstack --os-placement-api-version 1.1"
    commands = [
        "openstack service create --name placement placement",
        "openstack service create --name neutron network",
        f"openstack endpoint create --region RegionOne network public {neutron_url}",
        f"openstack endpoint create --region RegionOne network internal {neutron_url}",
        *(
            f"openstack endpoint create --region RegionOne placement {interface} {placement_url}"
            for interface in ("public", "internal", "admin")
        ),
        "HOST=$(openstack resource provider create host1 -f value -c uuid)",
        "openstack resource provider inventory set $HOST --resource VCPU=8 --resource MEMORY_MB=4096",
        f"openstack resource provider create --uuid {SEGMENT} 'Neutron segment id {SEGMENT}'",
        f"openstack resource provider inventory set {SEGMENT} --resource IPV4_ADDRESS=7 "
        "--resource IPV4_ADDRESS:reserved=1",
        f"{at_1_1} resource provider aggregate set {SEGMENT} --aggregate {AGGREGATE}",
        f"{at_1_1} resource provider aggregate set $HOST --aggregate {AGGREGATE}",
        f"openstack --os-placement-api-version 1.38 resource provider allocation set {SERVER} "
        "--allocation rp=$HOST,VCPU=2 --project-id p --user-id u --consumer-type INSTANCE",
    ]
    for command in commands:
        status, printed = reader.shell.run(command)
        assert status == 0, f"{command}\n{printed}"


def allocations_of(reader: Rehearsal, consumer: str) -> dict[str, dict[str, int]]:
    """Provider -> what a consumer holds there, by the Placement in the catalogue."""
    status, printed = reader.shell.run(f"openstack resource provider allocation show {consumer} -f json")
    assert status == 0, printed
    return {row["resource_provider"]: row["resources"] for row in json.loads(printed)}
