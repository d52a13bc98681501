"""What `openstack server` and openstacksdk do to a server that is there, as released, on real processes.

The agent is restarted, and killed, in between: what a server was asked to be, it is and stays.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openstack import exceptions
from openstack.config import OpenStackConfig
from openstack.connection import Connection
from tests.clients.running import ROOT, openstack, refused, write_clouds_file
from tests.cluster import Cluster, cluster, settle

CLOUD = (ROOT / "examples" / "three-racks.yaml").read_text()
WAIT_S = 30
CREATE = "openstack server create --flavor small --network public --block-device boot_index=0"
SHOW = "openstack server show web -f json"

pytestmark = [
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedFieldWarning"),
]


@pytest.fixture(scope="module")
def served() -> Iterator[Cluster]:
    """Three racks, without an agent."""
    with cluster() as made:
        made.serve("all")
        made.load(CLOUD)
        yield made


@pytest.fixture(scope="module")
def clouds_file(served: Cluster) -> Path:
    return write_clouds_file(served)


@pytest.fixture
def roost(served: Cluster, clouds_file: Path) -> Iterator[Cluster]:
    """The three racks, without a server and without an agent before and afterwards."""
    yield served
    openstack(clouds_file, "openstack server delete web")
    asyncio.run(settle(served))
    for process in [process for process in served.processes if "agent" in process.args]:
        served.stop(process)


@pytest.fixture
def cloud(clouds_file: Path) -> Iterator[Connection]:
    """A connection of openstacksdk."""
    config = OpenStackConfig(config_files=[str(clouds_file)], load_envvars=False)
    with Connection(config=config.get_one("roost")) as opened:
        yield opened


def wait(cloud: Connection, status: str) -> Any:
    server = cloud.compute.find_server("web", ignore_missing=False)
    return cloud.compute.wait_for_server(server, status=status, wait=WAIT_S, interval=0.2)


def create(cloud: Connection, clouds_file: Path) -> Any:
    openstack(clouds_file, f"{CREATE} web")
    return wait(cloud, "ACTIVE")


def test_power_over_restarts_of_the_agent(roost: Cluster, cloud: Connection, clouds_file: Path) -> None:
    agent = roost.agent(state="agent-1")
    create(cloud, clouds_file)
    openstack(clouds_file, "openstack server stop web")
    stopped = wait(cloud, "SHUTOFF")
    assert (stopped.vm_state, stopped.power_state) == ("stopped", 4)
    roost.stop(agent)
    agent = roost.agent(state="agent-1")
    assert "while it is in vm_state stopped" in refused(clouds_file, "openstack server stop web")
    assert json.loads(openstack(clouds_file, SHOW)[0])["status"] == "SHUTOFF"
    openstack(clouds_file, "openstack server start web")
    wait(cloud, "ACTIVE")
    for there, back, status in (("pause", "unpause", "PAUSED"), ("suspend", "resume", "SUSPENDED")):
        openstack(clouds_file, f"openstack server {there} web")
        wait(cloud, status)
        roost.stop(agent)
        agent = roost.agent(state="agent-1")
        wait(cloud, status)
        openstack(clouds_file, f"openstack server {back} web")
        wait(cloud, "ACTIVE")
    launches = len(roost.launches())
    openstack(clouds_file, "openstack server reboot --wait web", "openstack server reboot --hard web")
    wait(cloud, "ACTIVE")
    assert len(roost.launches()) == launches + 2
    events, show = openstack(
        clouds_file,
        "openstack --os-compute-api-version 2.62 server event list web -f json",
        "openstack --os-compute-api-version 2.62 server show web -f json",
    )
    actions = [event["Action"] for event in json.loads(events)]
    assert actions == ["reboot", "reboot", "resume", "suspend", "unpause", "pause", "start", "stop", "create"]
    stop = next(event for event in json.loads(events) if event["Action"] == "stop")
    [event] = openstack(
        clouds_file, f"openstack --os-compute-api-version 2.62 server event show web {stop['Request ID']} -f json"
    )
    assert "compute_stop_instance" in event
    assert "Success" in event
    assert json.loads(show)["OS-EXT-SRV-ATTR:host"] in event


def test_an_agent_killed_behind_a_change_says_it_later(roost: Cluster, cloud: Connection, clouds_file: Path) -> None:
    """Two changes, each killed between the guest and the report; the guest is changed once."""
    agent = roost.agent(state="agent-1")
    create(cloud, clouds_file)
    for command, status in (("stop", "SHUTOFF"), ("start", "ACTIVE")):
        roost.stop(agent)
        agent = roost.agent(state="agent-1", environment={"ROOST_CRASH_AT": "agent.after-change"})
        openstack(clouds_file, f"openstack server {command} web")
        assert agent.wait(30) == -9
        roost.stop(agent)
        agent = roost.agent(state="agent-1")
        wait(cloud, status)
    asyncio.run(settle(roost))


def test_a_host_that_is_down_does_it_once_it_is_back(roost: Cluster, cloud: Connection, clouds_file: Path) -> None:
    agent = roost.agent(state="agent-1")
    create(cloud, clouds_file)
    roost.stop(agent)
    openstack(clouds_file, "openstack server reboot --hard web")
    assert json.loads(openstack(clouds_file, SHOW)[0])["status"] == "HARD_REBOOT"
    assert "in task_state rebooting_hard" in refused(clouds_file, "openstack server stop web")
    roost.agent(state="agent-1")
    wait(cloud, "ACTIVE")
    asyncio.run(settle(roost))


def test_names_locks_properties_and_tags(roost: Cluster, cloud: Connection, clouds_file: Path) -> None:
    roost.agent()
    new = "openstack --os-compute-api-version 2.73"
    openstack(clouds_file, f"{new} {CREATE.removeprefix('openstack ').replace('public', 'public --tag red')} web")
    wait(cloud, "ACTIVE")
    openstack(
        clouds_file,
        "openstack server set --name db --property role=db --property rack=1 web",
        "openstack server unset --property rack db",
        f"{new} server set --description main --tag blue db",
        f"{new} server unset --tag red db",
        f"{new} server lock --reason audit db",
    )
    shown = json.loads(openstack(clouds_file, f"{new} server show db -f json")[0])
    assert (shown["name"], shown["properties"], shown["description"]) == ("db", {"role": "db"}, "main")
    assert (shown["tags"], shown["locked"], shown["locked_reason"]) == (["blue"], True, "audit")
    assert re.search(r"\bdb\b", openstack(clouds_file, f"{new} server list --tags blue --locked")[0])
    openstack(clouds_file, "openstack server unlock db", "openstack server set --name web db")
    openstack(clouds_file, "openstack server set --auto-approve --state error web")
    assert json.loads(openstack(clouds_file, SHOW)[0])["status"] == "ERROR"
    openstack(clouds_file, "openstack server set --auto-approve --state active web")
    wait(cloud, "ACTIVE")


def test_the_sdk_rebuilds(roost: Cluster, cloud: Connection, clouds_file: Path) -> None:
    """`openstack server rebuild` asks the image service first, which Roost has none of."""
    roost.agent()
    before = create(cloud, clouds_file)
    image = "11111111-1111-4111-8111-111111111111"
    asked = cloud.compute.rebuild_server(before, image=image, name="web", metadata={"a": "b"})
    assert (asked.status, asked.image.id) == ("REBUILD", image)
    after = wait(cloud, "ACTIVE")
    assert (after.id, after.compute_host) == (before.id, before.compute_host)
    assert after.addresses["public"][0]["addr"] == before.addresses["public"][0]["addr"]
    assert (after.image.id, after.metadata) == (image, {"a": "b"})
    with pytest.raises(exceptions.HttpException, match="rescue: no driver"):
        cloud.compute.rescue_server(after)
    with pytest.raises(exceptions.HttpException, match="createImage: no driver"):
        cloud.compute.create_server_image(after, "copy")
    asyncio.run(settle(roost))
