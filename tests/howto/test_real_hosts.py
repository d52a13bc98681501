"""How to run real guests, followed literally on two machines that are network namespaces, with a router."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.agent.qemu.site import ACCOUNT, call, find_lack, find_lack_of_image, skip_for
from tests.cluster import _template
from tests.howto.rehearsal import follow_machines, rehearsal
from tests.howto.test_operators import HOWTO

from roost.cli.asking.real_marks import kill_all

NODES = {"node1": "192.0.2.11", "node2": "192.0.2.12"}
OUTSIDE = "it needs the world outside, or changes this machine"
pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.fixture
def namespaces(data_dir: Path) -> Iterator[dict[str, str]]:
    """Give machine -> namespace; what runs there ends with the test."""
    if lack := find_lack() or asyncio.run(find_lack_of_image()):
        skip_for(lack)
    names = {name: f"rh{os.getpid()}-{name}" for name in ("router", *NODES)}
    try:
        for name in names.values():
            call("ip", "netns", "add", name)
            call("ip", "-n", name, "link", "set", "lo", "up")
        router = ("ip", "-n", names["router"])
        for switch in ("management", "rack1"):
            call(*router, "link", "add", switch, "type", "bridge")
            call(*router, "link", "set", switch, "up")
        call(*router, "address", "add", "203.0.113.1/24", "dev", "rack1")
        for node, address in NODES.items():
            inside = ("ip", "-n", names[node])
            for nic, switch in (("eth0", "management"), ("eth1", "rack1")):
                far = f"{node}-{nic}"
                call(*inside, "link", "add", nic, "type", "veth", "peer", "name", far, "netns", names["router"])
                call(*router, "link", "set", far, "master", switch, "up")
            call(*inside, "address", "add", f"{address}/24", "dev", "eth0")
            call(*inside, "link", "set", "eth0", "up")
        yield names
    finally:
        for node, name in names.items():
            if Path("/run/netns", name).exists():
                asyncio.run(kill_all(name, data_dir / node / "agent" / node))
                call("ip", "netns", "delete", name)


def test_a_guest_runs_on_two_machines_as_it_is_printed(data_dir: Path, namespaces: dict[str, str]) -> None:
    document = (HOWTO / "real-hosts.md").read_text()
    replaced = {
        "--driver qemu ": f"--driver qemu --account {ACCOUNT} --accel tcg ",
        "scp nodes.token node2:": "cp nodes.token ../node2",
    }
    words = ("apt ", "python3 -m", "/opt/", "export PATH", "useradd ")
    commands = [line for line in document.splitlines() if line.startswith(words)]
    assert len(commands) == len(words)
    with ExitStack() as stack:
        machines = {}
        for name in (*NODES, "router"):
            folder = data_dir / name
            folder.mkdir(mode=0o711)
            desk = rehearsal(
                folder,
                replaced=replaced,
                skipped=dict.fromkeys(commands, OUTSIDE),
                before=("ip", "netns", "exec", namespaces[name]),
                openstack=name == "node1",
                ROOST_PG_TEMPLATE=_template(),
            )
            machines[name] = stack.enter_context(desk)
        follow_machines(machines, document)
