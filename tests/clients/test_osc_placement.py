"""Every command of osc-placement, as it is released, on `roost serve placement` alone."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from tests.cluster import Cluster, cluster

CONSUMER = "00000000-0000-4000-8000-0000000000c1"
RACK1, RACK2 = "00000000-0000-4000-8000-0000000000a1", "00000000-0000-4000-8000-0000000000a2"
FULL = "--resource VCPU=1 --resource MEMORY_MB=512"

COMMANDS = f"""
openstack resource class list
openstack resource class create CUSTOM_BAREMETAL
openstack resource class set CUSTOM_FPGA
openstack resource class show CUSTOM_FPGA
openstack resource class delete CUSTOM_BAREMETAL
openstack trait create CUSTOM_FAST
openstack trait create CUSTOM_SLOW
openstack trait show CUSTOM_FAST
openstack trait list --name in:CUSTOM_FAST,CUSTOM_SLOW
openstack trait delete CUSTOM_SLOW
HOST=$(openstack resource provider create -f value -c uuid host)
NUMA=$(openstack resource provider create -f value -c uuid --parent-provider $HOST numa)
SEGMENT=$(openstack resource provider create -f value -c uuid segment)
openstack resource provider set --name host1 $HOST
openstack resource provider set --name numa0 --parent-provider $HOST $NUMA
openstack resource provider show --allocations $HOST
openstack resource provider inventory set --resource VCPU=8 --resource MEMORY_MB=4096 --resource CUSTOM_FPGA=2 $HOST
openstack resource provider inventory set --amend --resource VCPU:allocation_ratio=2.0 $HOST
openstack resource provider inventory class set --total 16 --reserved 1 $HOST VCPU
openstack resource provider inventory show $HOST VCPU
openstack resource provider inventory delete --resource-class CUSTOM_FPGA $HOST
openstack resource provider inventory list $HOST
openstack resource provider inventory set --resource IPV4_ADDRESS=4 $SEGMENT
GENERATION=$(openstack resource provider show -f value -c generation $HOST)
openstack resource provider aggregate set --aggregate {RACK1} --aggregate {RACK2} --generation $GENERATION $HOST
openstack resource provider aggregate set --aggregate {RACK1} --generation 1 $SEGMENT
openstack resource provider aggregate list $HOST
openstack resource provider trait set --trait CUSTOM_FAST $HOST
openstack resource provider trait set --trait MISC_SHARES_VIA_AGGREGATE $SEGMENT
openstack resource provider trait list $HOST
openstack trait list --associated
openstack resource provider list --resource VCPU=4 --required CUSTOM_FAST --member-of {RACK1} --in-tree $HOST
openstack allocation candidate list {FULL} --required CUSTOM_FAST --forbidden HW_CPU_X86_VMX --limit 5
openstack allocation candidate list {FULL} --group 1 --resource IPV4_ADDRESS=1 --member-of {RACK1} --group-policy none
openstack allocation candidate list {FULL} --aggregate-uuid {RACK2}
openstack resource provider allocation set --allocation rp=$HOST,VCPU=2,MEMORY_MB=512 --allocation rp=$SEGMENT,IPV4_ADDRESS=1 --project-id p1 --user-id u1 --consumer-type INSTANCE {CONSUMER}
openstack resource provider allocation show {CONSUMER}
openstack resource provider usage show $HOST
openstack resource usage show p1 --user-id u1
openstack resource provider allocation unset --resource-class MEMORY_MB {CONSUMER}
openstack resource provider allocation delete {CONSUMER}
openstack resource provider trait delete $HOST
openstack resource provider inventory delete $SEGMENT
openstack resource provider delete $SEGMENT
openstack resource provider delete $NUMA
""".strip()  # noqa: E501 - one command a line

REFUSED = f"""
openstack resource class delete VCPU
openstack resource provider create host1
openstack resource provider show {CONSUMER}
openstack resource provider allocation delete {CONSUMER}
openstack allocation candidate list --resource NO_SUCH=1
openstack trait create NO_CUSTOM
""".strip()


@pytest.fixture(scope="module")
def clouds_file() -> Iterator[Path]:
    with cluster() as roost:
        roost.serve("placement")
        yield _write_clouds_file(roost)


def _write_clouds_file(roost: Cluster) -> Path:
    file = roost.directory / "clouds.yaml"
    auth = {"auth_type": "none", "auth": {"endpoint": roost.url}}
    placement = {"placement_endpoint_override": roost.url, "placement_api_version": "1.39"}
    file.write_text(json.dumps({"clouds": {"roost": {**auth, **placement, "identity_api_version": "3"}}}))
    return file


def test_every_command_works(clouds_file: Path) -> None:
    done = _run(clouds_file, COMMANDS.splitlines())
    assert not [one for one in done if one["status"] != 0]
    said = {one["line"].split("--")[0].strip().removeprefix("openstack "): one["out"] for one in done}
    assert re.search(r"VCPU +\| +2\.0", said["resource provider inventory set"]) is None  # the segment's came last
    assert re.search(r"IPV4_ADDRESS", said["resource provider inventory set"])
    assert re.search(r"total +\| +16", said["resource provider inventory show $HOST VCPU"])
    assert "CUSTOM_FPGA" not in said["resource provider inventory list $HOST"]
    assert RACK2 in said["resource provider aggregate list $HOST"]
    assert "CUSTOM_FAST" in said["resource provider trait list $HOST"]
    assert "host1" in said["resource provider list"]
    assert re.search(r"VCPU=1.*MEMORY_MB=512|MEMORY_MB=512.*VCPU=1", said["allocation candidate list"])
    assert "'VCPU': 2" in said[f"resource provider allocation show {CONSUMER}"]
    assert re.search(r"VCPU +\| +2 ", said["resource provider usage show $HOST"])
    assert re.search(r"IPV4_ADDRESS +\| +1 ", said["resource usage show p1"])
    assert "MEMORY_MB" not in said["resource provider allocation unset"]
    for one in _run(clouds_file, REFUSED.splitlines()):
        assert one["status"] == 1, one
        assert re.search(r"HTTP 4\d\d|Cannot|Conflict|No |not", one["err"]), one
        assert "Traceback" not in one["err"], one


def test_no_command_is_left_out() -> None:
    """The client's own list of its commands is the yardstick."""
    commands = {point.name.replace("_", " ") for point in entry_points(group="openstack.placement.v1")}
    assert len(commands) >= 30
    assert not [name for name in commands if not re.search(rf"openstack {name}\b", COMMANDS)]


def _run(clouds_file: Path, lines: list[str]) -> list[dict[str, Any]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    ran = subprocess.run(
        [sys.executable, Path(__file__).with_name("openstack_commands.py")],
        input=json.dumps(lines),
        env={**environment, "OS_CLIENT_CONFIG_FILE": str(clouds_file), "OS_CLOUD": "roost", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    done: list[dict[str, Any]] = json.loads(ran.stdout)
    return done
