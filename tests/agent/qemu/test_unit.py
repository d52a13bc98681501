"""A real guest under the unit of `deploy/`, as tight as it is: what happens to it and to its host is in the API."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.agent.qemu.site import Host, Site
from tests.cluster import Cluster, boot, cluster, network_ids, until
from tests.faults.moving import act, servers_by_id
from tests.test_units import Machine, machine_of, skip_without_systemd, write_files

from roost.cli.asking.cloud_client import CloudClient
from roost.cli.asking.real_hosts import relayed
from roost.cli.asking.real_probes import ask_shell
from roost.cli.asking.real_world import list_world_problems, look_at_world, read_nics

__all__ = ["skip_without_systemd"]
pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

CLOUD = """
flavors: [{name: small, vcpus: 1, ram_mb: 96, disk_gb: 1}]
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, network_type: flat, subnets: [{cidr: 10.1.0.0/24}]}
hosts: [{name: h1, vcpus: 8, ram_mb: 8192, disk_gb: 100, physical_networks: [rack1]}]
"""
UNIT = "roost-agent-qemu"
STATE = "/var/lib/roost"
ROOM_MB = 64
"""Of the file system that the agent's state is on, which a test can fill."""
REPORTED_S = 5.0
"""From when a guest does something by itself until the API says so."""


@pytest.fixture
def made() -> Iterator[Cluster]:
    with cluster() as made:
        made.serve()
        made.load(CLOUD)
        yield made


class Scene:
    """A host whose agent is a unit of a systemd, and one server on it."""

    def __init__(self, client: CloudClient, site: Site, host: Host, machine: Machine) -> None:
        self.client, self.site, self.host, self.machine = client, site, host, machine
        self.server_id = self.address = ""

    @property
    def guest(self) -> Path:
        """The folder of its guest, seen from outside."""
        return self.machine.path(f"{STATE}/agent/h1/guests/{self.server_id}")

    def qemu(self) -> int:
        """Return its QEMU's process, as it is numbered outside; 0 without one."""
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes()
                if words.startswith(b"qemu-system") and self.server_id.encode() in words:
                    return int(folder.name)
        return 0

    async def unit(self, verb: str) -> None:
        await asyncio.to_thread(self.machine.systemctl, verb, UNIT)

    async def until_is(self, status: str) -> None:
        """Wait until the server has that status, and nothing is done to it."""

        async def is_so() -> bool:
            server = (await servers_by_id(self.client))[self.server_id]
            assert server["status"] != "ERROR", (server["fault"], self.machine.said()[-4000:])
            return (server["status"], server["OS-EXT-STS:task_state"]) == (status, None)

        await until(is_so, what=f"the server is not {status}")

    async def until_up(self) -> None:
        async def is_up() -> bool:
            return "h1" in await self.client.list_hosts_up()

        await until(is_up, what=f"the host is not up\n{self.machine.said()[-4000:]}")

    async def last_words(self) -> str:
        """Return what the server's last action says."""
        path = f"/compute/v2.1/servers/{self.server_id}/os-instance-actions"
        return str((await self.client.call("GET", path))["instanceActions"][0]["message"])

    async def expect_no_problems(self) -> None:
        """Fail unless the guest's NIC is as the APIs say."""
        nics = await read_nics(self.client)
        seen = await look_at_world(self.site.router, ["10.1.0.0/24"], {"h1": self.host.namespace}, nics)
        assert list_world_problems(nics, seen) == []


@asynccontextmanager
async def scene_of(made: Cluster, site: Site, folder: Path) -> AsyncIterator[Scene]:
    """Have the agent of a host be the unit, with a small file system of its own for its state."""
    host = await asyncio.to_thread(site.add_host, "a")
    write_files(folder / "files", "postgresql://nowhere", 1)
    url = urlsplit(made.url)
    options = f"--driver qemu --host h1 --bridge rack1=br0 --accel tcg --api http://127.0.0.1:{url.port}"
    (folder / "files/etc/roost/agent.env").write_text(f"AGENT_OPTIONS={options}\n")
    async with CloudClient.connect(made.url) as client:
        addresses = (url, urlsplit(await client.agent_url()))
        targets = {item.port or 0: (item.hostname or "", item.port or 0) for item in addresses}
        async with relayed(host.namespace, targets):
            with machine_of(folder, "ip", "netns", "exec", host.namespace) as machine:
                machine.run("mount", "-t", "tmpfs", "-o", f"mode=711,size={ROOM_MB}m", "tmpfs", STATE)
                yield Scene(client, site, host, machine)


async def test_the_unit_runs_a_guest_and_what_happens_to_it_is_in_the_api(
    made: Cluster, site: Site, tmp_path: Path, skip_without_systemd: None
) -> None:
    async with scene_of(made, site, tmp_path) as scene:
        await scene.unit("start")
        await scene.until_up()
        scene.server_id = await boot(scene.client, (await network_ids(scene.client))["public"])
        await scene.until_is("ACTIVE")
        [(listed,)] = (await servers_by_id(scene.client))[scene.server_id]["addresses"].values()
        scene.address = listed["addr"]
        await site.wait_ping(scene.address)
        await scene.expect_no_problems()
        await _upgrade(scene)
        await _fill_the_disk(scene)
        await _power_off(scene)
        await _restart_the_host(scene)
        await scene.unit("stop")
        assert scene.machine.property_of(UNIT, "Result") == "success"


async def _upgrade(scene: Scene) -> None:
    """Have the agent, then QEMU, be upgraded: the guest goes on, and whoever comes finds it."""
    pid = scene.qemu()
    assert _account_of(pid) == scene.machine.run("id", "-u", "roost-qemu")
    program = scene.machine.run("sh", "-c", "readlink -f $(command -v qemu-system-x86_64)")
    scene.machine.run("sh", "-c", f"cp {program} {program}.new && mv {program}.new {program}")
    await scene.unit("restart")
    await scene.until_up()
    assert scene.qemu() == pid
    assert scene.site.pings(scene.address)
    await scene.until_is("ACTIVE")


async def _fill_the_disk(scene: Scene) -> None:
    """Have the host's disk be full: the server is paused, and its action says why; it goes on once there is room.

    What QEMU could not write at once may leave room for the agent's own notes, or may not.
    """
    filler = scene.machine.path(f"{STATE}/filler")
    filler.write_bytes(bytes((ROOM_MB - 8) << 20))
    await ask_shell(scene.site.router, scene.address, "dd if=/dev/zero of=/dev/vda bs=1M count=32 >/dev/null 2>&1 &")
    await scene.until_is("PAUSED")
    words = await scene.last_words()
    assert "the server's disk halts it: the host's disk is full" in words or "No space left on device" in words
    filler.unlink()
    await act(scene.client, scene.server_id, "unpause")
    await scene.until_is("ACTIVE")
    await scene.site.wait_ping(scene.address)


async def _power_off(scene: Scene) -> None:
    """Have the guest end itself; then it is started."""
    with suppress(OSError, TimeoutError):
        await ask_shell(scene.site.router, scene.address, "poweroff -f")
    while scene.qemu():
        await asyncio.sleep(0.02)
    gone_s = time.monotonic()
    await scene.until_is("SHUTOFF")
    assert time.monotonic() - gone_s < REPORTED_S
    await scene.expect_no_problems()
    await act(scene.client, scene.server_id, "os-start")
    await scene.until_is("ACTIVE")


async def _restart_the_host(scene: Scene) -> None:
    """Have the host lose its power, and its agent start under another kernel."""
    await scene.unit("stop")
    os.kill(scene.qemu(), signal.SIGKILL)
    scene.machine.path(f"{STATE}/agent/h1/kernel-now").write_text("another start")
    await scene.unit("start")
    await scene.until_up()
    await scene.until_is("SHUTOFF")


def _account_of(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text().split("Uid:")[1].split()[0]
