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
        for kind, path in (("compute", "compute/v2.1"), ("network", "network"), ("placement", "placement")):
            made.run(f"openstack service create --name {kind} {kind}")
            made.run(f"openstack endpoint create --region RegionOne {kind} public {roost.url}/{path}")
        made.run("openstack project create --or-show mine")
        made.run("openstack role add --user admin --project mine admin")
        yield made


def test_quotas_limits_and_usages_as_people_ask_for_them(reader: Reader, roost: Cluster) -> None:
    shown = reader.table("openstack quota show mine")
    assert (shown["instances"], shown["cores"], shown["ram"], shown["properties"]) == (10, 20, 51_200, 128)
    assert (shown["networks"], shown["subnets"], shown["ports"], shown["key-pairs"]) == (100, 100, 500, 100)
    reader.run("openstack quota set --instances 2 --ports 7 mine")
    reader.run("openstack quota set --class --cores 30 default")
    shown = reader.table("openstack quota show mine")
    assert (shown["instances"], shown["cores"], shown["ports"]) == (2, 30, 7)
    assert reader.table("openstack quota show --default mine")["instances"] == 10
    assert [row["Instances"] for row in json.loads(reader.run("openstack quota list --compute -f json"))] == [2]
    reader.run("openstack flavor create --ram 512 --vcpus 2 --disk 1 small")
    mine = "OS_PROJECT_NAME=mine "
    for name in ("a", "b"):
        reader.run(f"{mine}{CREATE} {name}")
    refusal = "Quota exceeded for instances: Requested 1, but already used 2 of 2 instances"
    assert refusal in reader.run(f"{mine}{CREATE} c", expected=1)
    in_use = {
        row["Resource"]: row["In Use"] for row in json.loads(reader.run("openstack quota show --usage mine -f json"))
    }
    assert (in_use["instances"], in_use["cores"], in_use["ram"]) == (2, 4, 1024)
    limits = reader.table(f"{mine}openstack limits show --absolute")
    assert (limits["instances"], limits["instances_used"], limits["total_cores_used"]) == (2, 2, 4)
    project_id = reader.run("openstack project show mine -f value -c id").strip()
    limits = reader.table(f"openstack limits show --absolute --project {project_id}")
    assert limits["instances_used"] == 2
    assert json.loads(reader.run("openstack usage list -f json")) == [], "no host has launched them"
    asyncio.run(note_launches(roost.dsn))
    (row,) = json.loads(reader.run("openstack usage list -f json"))
    assert (row["Project"], row["Servers"], row["CPU Hours"]) == (project_id, 2, pytest.approx(8, abs=0.5))
    usage = json.loads(reader.run("openstack usage show --project mine -f json"))
    assert (usage["Servers"], usage["RAM MB-Hours"]) == (2, pytest.approx(2048, abs=100))
    assert "instances" in reader.run("openstack quota set --no-force --instances 1 mine", expected=1)
    reader.run("openstack quota set --instances 1 --force mine")
    reader.run("openstack quota delete mine")
    assert reader.table("openstack quota show mine")["instances"] == 10


async def note_launches(dsn: str) -> None:
    """The servers were launched two hours ago."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("UPDATE compute.server SET launched_at = now() - interval '2 hours'")
    await connection.close()
