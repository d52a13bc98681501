"""`openstack quota`, `limits` and `usage`, as released, with a real Keystone, on real processes."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.cluster import QUICK, Cluster, cluster
from tests.howto.keystone_server import PASSWORD
from tests.howto.rehearsal import Shell, rehearsal
from tests.howto.test_keystone import admin_of, keystone_url

__all__ = ["keystone_url"]  # a fixture

pytestmark = pytest.mark.timeout(600)

CREATE = "openstack server create --flavor small --nic none --image '' --block-device boot_index=0"


@pytest.fixture
def roost(keystone_url: str) -> Iterator[Cluster]:
    """Roost behind that Keystone, with upstream's default quotas, and one project without any server."""
    options = {"AUTH_URL": keystone_url, "USERNAME": "admin", "PASSWORD": PASSWORD, "PROJECT_NAME": "admin"}
    with cluster({**QUICK, **{f"ROOST_KEYSTONE_{name}": value for name, value in options.items()}}) as made:
        made.serve("all", auth="keystone")
        yield made


class Reader:
    """Who types commands of `openstack`, as an administrator of that Keystone."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def run(self, command: str, *, expected: int = 0) -> str:
        """What a command prints."""
        status, printed = self._shell.run(command)
        assert status == expected, f"{command}\n{printed}"
        return printed

    def table(self, command: str) -> dict[str, Any]:
        """The first column of a list -> the second."""
        rows = json.loads(self.run(f"{command} -f json"))
        return {next(iter(row.values())): list(row.values())[1] for row in rows}


@pytest.fixture
def reader(data_dir: Path, keystone_url: str, roost: Cluster) -> Iterator[Reader]:
    with rehearsal(data_dir, replaced={}, **admin_of(keystone_url)) as desk:
        made = Reader(desk.shell)
        for kind, path in (("compute", "compute/v2.1"), ("network", "network")):
            made.run(f"openstack service create --name {kind} {kind}")
            made.run(f"openstack endpoint create --region RegionOne {kind} public {roost.url}/{path}")
        yield made


def test_quotas_limits_and_usages_as_people_ask_for_them(reader: Reader, roost: Cluster) -> None:
    shown = reader.table("openstack quota show admin")
    assert (shown["instances"], shown["cores"], shown["ram"], shown["properties"]) == (10, 20, 51_200, 128)
    assert (shown["networks"], shown["subnets"], shown["ports"], shown["key-pairs"]) == (100, 100, 500, 100)
    reader.run("openstack quota set --instances 2 --ports 7 admin")
    reader.run("openstack quota set --class --cores 30 default")
    reader.run("openstack flavor create --ram 512 --vcpus 2 --disk 1 small")
    reader.run(f"{CREATE} --min 2 --max 3 web")
    refusal = "Quota exceeded for instances: Requested 1, but already used 2 of 2 instances"
    assert refusal in reader.run(f"{CREATE} other", expected=1)
    rows = {row["Resource"]: row for row in json.loads(reader.run("openstack quota show --usage admin -f json"))}
    assert [(rows[name]["Limit"], rows[name]["In Use"]) for name in ("instances", "cores")] == [(2, 2), (30, 4)]
    assert (rows["ports"]["Limit"], rows["ports"]["In Use"]) == (7, 0)
    limits = reader.table("openstack limits show --absolute")
    assert (limits["instances"], limits["instances_used"], limits["total_cores_used"]) == (2, 2, 4)
    asyncio.run(note_launches(roost.dsn))
    (row,) = json.loads(reader.run("openstack usage list -f json"))
    assert (len(row["Servers"]), row["CPU Hours"]) == (2, pytest.approx(8, abs=0.5))
    usage = json.loads(reader.run("openstack usage show -f json"))
    assert (len(usage["Servers"]), usage["RAM MB-Hours"]) == (2, pytest.approx(2048, abs=100))
    assert "already used" in reader.run("openstack quota set --no-force --instances 1 admin", expected=1)
    reader.run("openstack quota delete admin")
    assert reader.table("openstack quota show admin")["instances"] == 10


async def note_launches(dsn: str) -> None:
    """The servers were launched two hours ago."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("UPDATE compute.server SET launched_at = now() - interval '2 hours'")
    await connection.close()
