"""The driver with real guests, on hosts that are network namespaces."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.qemu.orders import MAC, SERVER_ID, SUBNET, SUBNET_V6, make_network, make_order, make_port
from tests.agent.qemu.site import Failed, Host, Site
from tests.authority import Authority

from roost.seams.agent import GuestOrder
from roost.seams.guests import DiskKept, MemorySource, NicSegment

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

ADDRESS = "10.1.0.2"
ADDRESS_V6 = "2001:db8::5054:ff:fe00:2"
BOTH: dict[str, Any] = {
    "disk_gb": 1,
    "ports": (make_port(addresses=(ADDRESS, ADDRESS_V6)),),
    "networks": (make_network(subnets=(SUBNET, SUBNET_V6)),),
}
"""A disk, and a NIC with an address of each version: by DHCP, and from an advertised prefix."""


class Client:
    """Someone who holds a TCP connection to a guest's echo port, and counts."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stopped = False
        self.rounds = 0
        self.worst_s = 0.0
        self._task = asyncio.create_task(asyncio.to_thread(self._talk))

    def abandon(self) -> None:
        """End it where it is, if it was not stopped."""
        self._stopped = True
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _talk(self) -> None:
        self._connection.settimeout(60)
        while not self._stopped:
            words, began_s = f"{self.rounds}\n".encode(), time.monotonic()
            self._connection.sendall(words)
            answer = b""
            while len(answer) < len(words):
                part = self._connection.recv(100)
                assert part, "the connection was closed"
                answer += part
            assert answer == words
            self.rounds += 1
            self.worst_s = max(self.worst_s, time.monotonic() - began_s)
            time.sleep(0.02)

    async def goes_on(self) -> None:
        """Wait until it has been answered again, some times."""
        before = self.rounds
        async with asyncio.timeout(60):
            while self.rounds < before + 5:
                await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """End it; raises what went wrong."""
        self._stopped = True
        try:
            await asyncio.wait_for(self._task, 25)
        finally:
            self._connection.close()


@pytest.fixture
async def clients() -> AsyncIterator[list[Client]]:
    """Give a list of clients, which are ended."""
    clients: list[Client] = []
    yield clients
    for client in clients:
        client.abandon()


def on(host: Host, desired: str = "running", **other: Any) -> GuestOrder:
    return make_order(desired, host=host.name, **other)


async def test_a_guest_lives_through_its_states_and_its_agents_death(site: Site) -> None:
    host = site.add_host("a")
    bridge = host.call("cat", "/sys/class/net/br0/address").stdout
    await host.start()
    await host.launch(on(host, **BOTH))
    await site.wait_ping(ADDRESS)
    assert host.call("cat", "/sys/class/net/br0/address").stdout == bridge
    await site.wait_ping(ADDRESS_V6)
    said = await host.wait_console(SERVER_ID, ADDRESS)
    assert f"eth0 {MAC} {ADDRESS}/24 web" in said
    assert len(host.taps()) == 1
    pid = host.pid(SERVER_ID)
    assert _account_of(pid) != "0"

    await host.kill()  # of the agent: the guest goes on, and is found, also where its bridge is made anew meanwhile
    assert site.pings(ADDRESS)
    host.call("ip", "link", "delete", "br0")
    host.make_bridge()
    await host.start()
    assert await site.list_problems(host) == []
    assert await host.states() == {SERVER_ID: ("running", "running")}
    assert host.pid(SERVER_ID) == pid

    await host.change(on(host, "paused", **BOTH))
    assert not site.pings(ADDRESS)
    assert await host.states() == {SERVER_ID: ("paused", "paused")}
    await host.change(on(host, **BOTH))
    await site.wait_ping(ADDRESS)

    connection = site.connect(ADDRESS)
    await host.change(on(host, "suspended", **BOTH))
    assert not host.taps()
    assert not _is_alive(pid)
    await host.change(on(host, **BOTH))
    connection.sendall(b"after")
    assert connection.recv(5) == b"after"  # its memory is what it was
    connection.close()

    pid = host.pid(SERVER_ID)
    own = host.ask("own")
    os.kill(pid, signal.SIGKILL)
    assert await asyncio.wait_for(own, 5) == [[SERVER_ID, "a"]]
    assert await host.states() == {SERVER_ID: ("stopped", "crashed")}
    assert not host.taps()

    await host.change(on(host, **BOTH))
    await site.wait_ping(ADDRESS)
    began_s = time.monotonic()
    await host.change(on(host, "stopped", soft=True, **BOTH))
    assert time.monotonic() - began_s < 50  # it shut down when it was asked to
    assert await host.states() == {SERVER_ID: ("stopped", "shutdown")}
    assert await site.list_problems(None) == []

    disk = host.state / "disks" / f"{SERVER_ID}.a.qcow2"
    disk.rename(disk.with_suffix(".away"))
    with pytest.raises(Failed, match=r"the server's disk is gone from its host: .*a.qcow2"):
        await host.change(on(host, **BOTH))
    disk.with_suffix(".away").rename(disk)
    host.call("ip", "link", "set", "br0", "name", "br1")
    with pytest.raises(Failed, match="this host has no bridge br0"):
        await host.change(on(host, **BOTH))
    assert await host.states() == {SERVER_ID: ("stopped", "shutdown")}
    assert not host.taps()

    await host.destroy(SERVER_ID)
    assert await host.states() == {}
    assert not (host.state / "guests" / SERVER_ID).exists()
    assert not list((host.state / "segments").iterdir())
    assert "roost: started\n" in (host.state / "consoles" / f"{SERVER_ID}-1.log").read_text()


async def test_nics_go_down_by_themselves_when_their_time_is_over(site: Site) -> None:
    host = site.add_host("a")
    await host.start()
    await host.ask("limit", s=3600)
    await host.launch(on(host))
    await site.wait_ping(ADDRESS)
    await host.ask("end", s=2.0)
    await asyncio.sleep(0.5)
    await host.kill()  # they go down also when the agent is dead
    await asyncio.sleep(2.0)
    assert not site.pings(ADDRESS)
    await host.start()
    assert not (await host.ask("list"))[0]["nics"][0]["up"]
    assert not site.pings(ADDRESS)
    await host.ask("end", s=None)
    await site.wait_ping(ADDRESS, within_s=5)


@pytest.mark.parametrize("after_s", [0.0, 0.15, 0.3])
async def test_a_launch_that_was_half_done_leaves_nothing(site: Site, after_s: float) -> None:
    host = site.add_host("a")
    await host.start()
    launching = host.ask("launch", order=on(host))
    await asyncio.sleep(after_s)
    done = launching.done()
    await host.kill()
    await host.start()
    present = await host.states()
    assert present in ({}, {SERVER_ID: ("running", "running")})
    assert present or not done
    if not present:
        assert not list((host.state / "guests").iterdir())
        assert not host.taps()
    await host.launch(on(host, attempt=2))
    assert await host.states() == {SERVER_ID: ("running", "running")}


@pytest.mark.long
async def test_an_agent_may_die_at_any_instant_of_a_change(site: Site) -> None:
    """Longer than `test_a_launch_that_was_half_done_leaves_nothing`: every change, at instants that a seed draws."""
    host, chance = site.add_host("a"), random.Random(42)
    await host.start()
    await host.launch(on(host))
    for desired in ("paused", "running", "suspended", "running", "stopped", "running") * 3:
        changing = host.ask("change", order=on(host, desired))
        await asyncio.sleep(chance.uniform(0, 0.6))
        await host.kill()
        changing.cancel()
        await host.start()
        assert list(await host.states()) == [SERVER_ID], "none is lost"
        if (await host.states())[SERVER_ID][0] != desired:
            await host.change(on(host, desired))
        assert (await host.states())[SERVER_ID][0] == desired
        alive = _qemus_of(host)
        assert len(alive) == (desired in ("running", "paused")), "none is doubled"
        assert bool(host.taps()) == bool(alive)
    await site.wait_ping(ADDRESS)


def _qemus_of(host: Host) -> list[int]:
    """Return the processes of QEMU on a host, whatever its driver knows of them."""
    running = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes()
            if words.startswith(b"qemu-system") and str(host.state).encode() in words:
                running.append(int(folder.name))
    return running


async def _meet(source: Host, dest: Host, **other: Any) -> tuple[Any, GuestOrder]:
    """Begin a live migration; return what the destination's launch becomes, and the source's order."""
    order = on(dest, "incoming", attempt=2, disk=DiskKept(host=source.name), **other)
    answer = await dest.ask("expect", order=order)
    launching = dest.ask("launch", order=order)
    meeting = MemorySource(**answer)
    assert meeting.address.startswith(f"{dest.address}:")
    return launching, on(source, meeting=meeting, **other)


async def test_a_live_migration_keeps_a_connection(site: Site, clients: list[Client], tmp_path: Path) -> None:
    """Its disk is copied, and all of it goes under TLS."""
    source, dest = site.add_host("a"), site.add_host("b")
    authority = Authority(tmp_path)
    for host in (source, dest):
        host.tls = (authority.cert, *authority.sign(host.name, host.address))
    await asyncio.gather(source.start(), dest.start())
    await source.launch(on(source, disk_gb=1))
    await site.wait_ping(ADDRESS)
    clients.append(client := Client(await asyncio.to_thread(site.connect, ADDRESS)))

    launching, order = await _meet(source, dest, disk_gb=1)  # an abort, before the source is stopped
    await asyncio.gather(launching, source.change(order))
    await dest.destroy(SERVER_ID, attempt=2)
    assert await dest.states() == {}
    assert await source.states() == {SERVER_ID: ("running", "running")}
    await client.goes_on()

    launching, order = await _meet(source, dest, disk_gb=1)
    await asyncio.gather(launching, source.change(order))
    assert await dest.states() == {SERVER_ID: ("incoming", None)}
    assert not dest.taps()
    await client.goes_on()  # the source runs on while it is held
    assert await site.list_problems(source) == []
    client.worst_s = 0
    await source.change(on(source, "stopped", disk_gb=1))
    assert not source.taps()
    await dest.change(on(dest, attempt=2, disk_gb=1))
    await client.goes_on()
    assert await site.list_problems(dest) == []
    await client.stop()
    sys.stderr.write(f"live migration: {client.rounds} rounds, the longest {client.worst_s:.2f} s\n")
    await source.destroy(SERVER_ID)
    assert site.pings(ADDRESS)


async def test_whoever_hurries_gets_the_whole_disk_and_the_memory_as_it_is(site: Site, clients: list[Client]) -> None:
    """It is told to before anything is copied, of a guest that changes its memory faster than that is."""
    source, dest = site.add_host("a"), site.add_host("b")
    await asyncio.gather(source.start(), dest.start())
    guest: dict[str, Any] = {"disk_gb": 1, "ram_mb": 384}
    await source.launch(on(source, **guest))
    await site.wait_ping(ADDRESS)
    await _write(site, MARK)
    await site.shell(ADDRESS, "mkdir /m; mount -t tmpfs -o size=90% none /m; yes | dd of=/m/a bs=100k count=1024")
    await site.shell(ADDRESS, "(while :; do dd if=/m/a of=/m/b bs=1M conv=notrunc; done) >/dev/null 2>&1 </dev/null &")
    clients.append(client := Client(await asyncio.to_thread(site.connect, ADDRESS)))

    launching, order = await _meet(source, dest, **guest)
    await dest.ask("hurry", server=SERVER_ID, host="b")
    sending = source.ask("change", order=order)
    await asyncio.wait_for(launching, 60)
    assert await dest.states() == {SERVER_ID: ("incoming", None)}
    await source.change(on(source, "stopped", **guest))
    await sending
    await dest.change(on(dest, attempt=2, **guest))
    await client.goes_on()
    await client.stop()
    assert await site.list_problems(dest) == []
    await source.destroy(SERVER_ID)
    assert await _read(site) == MARK


async def test_an_abort_after_the_source_was_stopped_leaves_it_running(site: Site, clients: list[Client]) -> None:
    source, dest = site.add_host("a"), site.add_host("b")
    await asyncio.gather(source.start(), dest.start())
    await source.launch(on(source))
    await site.wait_ping(ADDRESS)
    clients.append(client := Client(await asyncio.to_thread(site.connect, ADDRESS)))
    launching, order = await _meet(source, dest)
    await asyncio.gather(launching, source.change(order))
    await source.change(on(source, "stopped"))
    await dest.kill()
    await source.change(on(source))
    await client.stop()
    assert await source.states() == {SERVER_ID: ("running", "running")}

    await dest.start()
    launching, order = await _meet(source, dest)  # in the place of what the agent before had there
    await dest.destroy(SERVER_ID, attempt=2)
    launching.cancel()
    with pytest.raises(Failed, match=r"ended the migration|is not reached"):
        await source.change(order)
    assert site.pings(ADDRESS)


# Disks.

MARK, SECOND = "first", "other"


async def _write(site: Site, mark: str) -> None:
    await site.shell(ADDRESS, f"printf {mark} | dd of=/dev/vda conv=notrunc 2>/dev/null; sync")


async def _read(site: Site) -> str:
    await site.wait_ping(ADDRESS)
    return await site.shell(ADDRESS, "dd if=/dev/vda bs=5 count=1 2>/dev/null")


def _names(folder: Path) -> list[str]:
    return sorted(path.name.removeprefix(f"{SERVER_ID}.") for path in folder.iterdir())


async def test_a_disk_goes_on_through_attempts_and_from_host_to_host(site: Site) -> None:
    source, dest = site.add_host("a"), site.add_host("b")
    await asyncio.gather(source.start(), dest.start())
    await source.launch(on(source, disk_gb=1))
    await site.wait_ping(ADDRESS)
    await _write(site, MARK)

    larger: dict[str, Any] = {"disk_gb": 2, "disk": DiskKept(host="a")}
    await source.launch(on(source, attempt=2, soft=True, **larger))  # as a reboot, or a resize on its host
    assert await _read(site) == MARK
    assert await site.shell(ADDRESS, "cat /sys/block/vda/size") == str(2 << 21)
    vxlan = make_network(segment=NicSegment(id="x", network_type="vxlan"))
    with pytest.raises(Failed, match="vxlan"):
        await source.launch(on(source, attempt=3, networks=(vxlan,), **larger))
    await source.destroy(SERVER_ID, attempt=3, disk=False)
    assert _names(source.state / "disks") == ["a.qcow2"], "a launch that fails takes no disk with it that was there"
    await source.launch(on(source, "stopped", attempt=3, **larger))

    order = on(dest, attempt=4, **larger)  # a cold migration
    meeting = MemorySource(**await dest.ask("expect", order=order))
    launching = dest.ask("launch", order=order)
    await source.change(on(source, "stopped", attempt=3, meeting=meeting, **larger))
    await launching
    assert await _read(site) == MARK
    await _write(site, SECOND)
    await dest.destroy(SERVER_ID, attempt=4)  # its revert
    assert _names(dest.state / "disks") == []
    await source.change(on(source, attempt=3, **larger))
    assert await _read(site) == MARK

    (source.state / "disks" / f"{SERVER_ID}.a.qcow2").unlink()
    with pytest.raises(Failed, match="root disk is not on this host any more: a rebuild begins it anew"):
        await source.launch(on(source, attempt=5, **larger))
    await source.launch(on(source, "stopped", attempt=6, disk_gb=2))
    await source.destroy(SERVER_ID, attempt=6)
    assert _names(source.state / "disks") == []


async def test_a_shared_disk_is_found_by_whoever_needs_it(site: Site) -> None:
    source, dest = site.add_host("a"), site.add_host("b")
    shared = source.disks = dest.disks = site.folder / "shared"
    shared.mkdir(mode=0o711)
    await asyncio.gather(source.start(), dest.start())
    await source.launch(on(source, disk_gb=1))
    await site.wait_ping(ADDRESS)
    await _write(site, MARK)

    launching, order = await _meet(source, dest, disk_gb=1)
    await asyncio.gather(launching, source.change(order))
    assert _names(shared) == ["a.qcow2", "b.qcow2"]
    await source.change(on(source, "stopped", disk_gb=1))
    await dest.change(on(dest, attempt=2, disk_gb=1))
    await source.destroy(SERVER_ID)
    assert _names(shared) == ["b.qcow2"]
    assert await _read(site) == MARK
    await _write(site, SECOND)

    await dest.kill()  # of the whole host
    os.kill(dest.pid(SERVER_ID), signal.SIGKILL)
    await source.launch(on(source, attempt=3, disk_gb=1, disk=DiskKept(host="b", needed=False)))
    assert await _read(site) == SECOND
    await dest.start()
    await dest.destroy(SERVER_ID, attempt=2)
    assert _names(shared) == ["a.qcow2"]


async def test_what_cannot_be_here_is_refused_in_a_sentence(site: Site) -> None:
    host = site.add_host("a")
    await host.start()
    vxlan = make_network(segment=NicSegment(id="x", network_type="vxlan"))
    with pytest.raises(Failed, match="network public is of type vxlan: expected flat or vlan"):
        await host.launch(on(host, networks=(vxlan,)))
    host.call("ip", "link", "set", "br0", "name", "br1")
    with pytest.raises(Failed, match="this host has no bridge br0"):
        await host.launch(on(host))
    await host.destroy(SERVER_ID)
    assert await host.states() == {}


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() != b""


def _account_of(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text().split("Uid:")[1].split()[0]
