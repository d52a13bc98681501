"""Hosts as network namespaces with a bridge each, cabled to a switch on which a router has the gateway's address."""

import asyncio
import ctypes
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec
import pytest
from tests.agent.qemu.orders import MAC
from tests.cluster import _template

from roost.agent.drivers.programs import ProgramFailed
from roost.agent.drivers.qemu.command import find_versioned
from roost.agent.drivers.qemu.image import ensure_image
from roost.cli.asking.real_world import NicKnown, list_world_problems, look_at_world
from roost.seams.agent import GuestOrder

ROOT = Path(__file__).parents[3]
ACCOUNT = 60902
"""A number that no account has."""
PROGRAMS = ("qemu-system-x86_64", "qemu-img", "nft", "dnsmasq", "ip", "unshare", "setpriv", "busybox")
IMAGE = "an image"
CLONE_NEWNET = 0x40000000
T = TypeVar("T")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


def find_lack() -> str | None:
    """Return what this machine lacks for real guests, None if nothing."""
    if os.geteuid() != 0:
        return "root"
    for program in PROGRAMS:
        if shutil.which(program, path=PATH) is None:
            return program
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun"
    name = f"rq{os.getpid()}"
    if call("ip", "netns", "add", name, check=False).returncode != 0:
        return "ip netns add"
    call("ip", "netns", "delete", name)
    table = "table bridge roost {\n\tchain x {\n\t\ttype filter hook prerouting priority -300\n\t}\n}\n"
    nft = ["unshare", "--net", "nft", "-f", "-"]
    if subprocess.run(nft, input=table, text=True, capture_output=True, env={"PATH": PATH}).returncode != 0:
        return "nft's bridge tables"
    return None


def find_lack_of_vlans() -> str | None:
    """Return what this machine's kernel lacks for VLAN segments, None if nothing."""
    link = "ip link add br0 type bridge && ip link add link br0 name br0.7 type vlan id 7"
    made = subprocess.run(["unshare", "--net", "sh", "-c", link], capture_output=True, env={"PATH": PATH})
    return None if made.returncode == 0 else "a kernel with 802.1Q (its module 8021q)"


async def find_lack_of_image() -> str | None:
    """Return why there is no built-in image, None if there is one."""
    try:
        await ensure_image()
    except ProgramFailed as error:
        return f"{IMAGE}: {error}"
    return None


def skip_for(lack: str) -> NoReturn:
    """Skip the test; where continuous integration could have installed what lacks, that is a failure."""
    could = "CI" in os.environ and os.geteuid() == 0 and shutil.which("apt-get") is not None
    could = could and (lack in PROGRAMS or lack.startswith(IMAGE))
    (pytest.fail if could else pytest.skip)(f"real guests need {lack}")


def prepare_whole_roost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a whole Roost find the programs that real guests need, and its database made ready; skip for what lacks."""
    if lack := find_lack() or asyncio.run(find_lack_of_image()):
        skip_for(lack)
    monkeypatch.setenv("PATH", PATH)
    monkeypatch.setenv("ROOST_PG_TEMPLATE", _template())


def call(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": PATH}
    result = subprocess.run(arguments, text=True, capture_output=True, env=environment)
    if check and result.returncode != 0:
        raise AssertionError(f"{' '.join(arguments)}: {result.stderr}")
    return result


def run_in(namespace: str, work: Callable[[], T]) -> T:
    """Return what work returns in another network namespace: its sockets and taps stay there."""

    def enter() -> T:
        with Path("/run/netns", namespace).open() as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        return work()

    with ThreadPoolExecutor(1) as threads:  # a thread of its own, which ends there
        return threads.submit(enter).result()


class Failed(Exception):
    """The driver raised LaunchFailed."""


class Site:
    """Two hosts, a and b, on one switch, whose namespace is also the router."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rq", dir="/tmp"))
        self.folder.chmod(0o711)
        self._names = f"rq{os.getpid()}"
        self.router = f"{self._names}-r"
        self.hosts: list[Host] = []
        call("ip", "netns", "add", self.router)
        self.in_router("ip", "link", "add", "br0", "type", "bridge")
        self.in_router("ip", "address", "add", "10.1.0.1/24", "dev", "br0")
        self.in_router("ip", "address", "add", "192.0.2.1/24", "dev", "br0")
        self.in_router("ip", "address", "add", "2001:db8::1/64", "dev", "br0", "nodad")
        for link in ("lo", "br0"):
            self.in_router("ip", "link", "set", link, "up")
        self.machine = find_versioned(call("qemu-system-x86_64", "-machine", "help").stdout) or "q35"

    def add_host(self, name: str) -> "Host":
        namespace = f"{self._names}-{name}"
        call("ip", "netns", "add", namespace)
        peer = f"to-{name}"
        mac = f"fe:ff:ff:ff:ff:{len(self.hosts):02x}"  # no bridge takes that of itself, with a tap beside it
        self.in_router(*f"ip link add {peer} type veth peer name rack1 address {mac} netns {namespace}".split())
        self.in_router("ip", "link", "set", peer, "master", "br0", "up")
        host = Host(self, name, namespace, f"192.0.2.{10 + len(self.hosts)}")
        host.call("ip", "link", "set", "lo", "up")
        host.make_bridge()
        self.hosts.append(host)
        return host

    def in_router(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return call("ip", "netns", "exec", self.router, *arguments, check=check)

    def pings(self, address: str, *, count: int = 1, wait_s: int = 1) -> bool:
        """Return whether the address answers the router."""
        return self.in_router("ping", "-c", str(count), "-W", str(wait_s), address, check=False).returncode == 0

    def connect(self, address: str, port: int = 7) -> socket.socket:
        """Return a connection from the router."""
        connection = run_in(self.router, lambda: socket.create_connection((address, port), timeout=10))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    async def shell(self, address: str, command: str) -> str:
        """Return what a command prints in a guest."""
        with await asyncio.to_thread(self.connect, address, 23) as connection:
            connection.sendall(f"{command}\nexit\n".encode())
            return await asyncio.to_thread(lambda: connection.makefile().read().strip())

    async def wait_ping(self, address: str, *, within_s: float = 180.0) -> None:
        async with asyncio.timeout(within_s):
            while not await asyncio.to_thread(self.pings, address):
                await asyncio.sleep(0.2)

    async def list_problems(self, on: "Host | None") -> list[str]:
        """Return what is wrong from outside, where the one guest, of the usual order, is to run there or nowhere."""
        name = None if on is None else on.name
        nic = NicKnown(server="web", tap="rt0a1b2c3d4e5f", mac=MAC, addresses=("10.1.0.2",), host=name)
        namespaces = {host.name: host.namespace for host in self.hosts}
        return list_world_problems([nic], await look_at_world(self.router, ["10.1.0.0/24"], namespaces, [nic]))

    async def close(self) -> None:
        for host in self.hosts:
            await host.close()
        for host in self.hosts:
            call("ip", "netns", "delete", host.namespace, check=False)
        call("ip", "netns", "delete", self.router, check=False)
        shutil.rmtree(self.folder)


class Host:
    """A host, whose driver is a process."""

    def __init__(self, site: Site, name: str, namespace: str, address: str) -> None:
        self.site = site
        self.name = name
        self.namespace = namespace
        self.address = address
        self.state = site.folder / name
        self.disks: Path | None = None
        self.tls: tuple[str, ...] = ()
        self._process: asyncio.subprocess.Process | None = None
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._reading: asyncio.Task[None] | None = None

    def call(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return call("ip", "netns", "exec", self.namespace, *arguments, check=check)

    def make_bridge(self) -> None:
        """Make its bridge, with its cable to the switch and its address."""
        self.call("ip", "link", "add", "br0", "type", "bridge")
        self.call("ip", "link", "set", "rack1", "master", "br0", "up")
        self.call("ip", "address", "add", f"{self.address}/24", "dev", "br0")
        self.call("ip", "link", "set", "br0", "up")

    async def start(self, *, crash_at: str = "") -> None:
        """Start the driver, and wait until it is open, or has died at the crash point."""
        driving = [sys.executable, "-m", "tests.agent.qemu.driving", self.name, str(self.state), self.address]
        self._process = await asyncio.create_subprocess_exec(
            *("ip", "netns", "exec", self.namespace, *driving),
            *(f"{ACCOUNT}:{ACCOUNT}", self.site.machine, str(self.disks or ""), *self.tls),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PATH": PATH, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "ROOST_CRASH_AT": crash_at},
        )
        opened = self._answers[0] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read())
        await asyncio.wait([opened], timeout=60)
        assert opened.done()
        assert crash_at or not opened.cancelled()

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            told = json.loads(line)
            answered = self._answers.pop(told["id"])
            if answered.done():
                sys.stderr.write(f"host {self.name} answers when nobody waits any more: {told}\n")
            elif "error" in told:
                answered.set_exception(Failed(told["error"]))
            else:
                answered.set_result(told.get("ok"))
        for answered in self._answers.values():
            answered.cancel()

    def ask(self, do: str, **words: Any) -> "asyncio.Future[Any]":
        """Have the driver do something; its answer comes later, Failed where it raises LaunchFailed."""
        assert self._process is not None
        assert self._process.stdin is not None
        number = next(self._ids)
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[number] = answered
        words = {name: msgspec.to_builtins(word) for name, word in words.items()}
        self._process.stdin.write(json.dumps({"id": number, "do": do, **words}).encode() + b"\n")
        return answered

    async def launch(self, order: GuestOrder) -> None:
        await asyncio.wait_for(self.ask("launch", order=order), 120)

    async def change(self, order: GuestOrder) -> None:
        await asyncio.wait_for(self.ask("change", order=order), 180)  # longer than the driver waits for another's

    async def destroy(self, server: str, attempt: int = 1, *, disk: bool = True) -> None:
        destroying = self.ask("destroy", server=server, host=self.name, attempt=attempt, disk=disk)
        await asyncio.wait_for(destroying, 60)

    async def states(self) -> dict[str, tuple[str, str]]:
        """Return server -> (state, power state)."""
        return {guest["server_id"]: (guest["state"], guest.get("power_state")) for guest in await self.ask("list")}

    def pid(self, server: str) -> int:
        return int((self.state / "guests" / server / "pid").read_text())

    def console(self, server: str) -> str:
        path = self.state / "guests" / server / "console.log"
        return path.read_text(errors="replace") if path.exists() else ""

    async def wait_console(self, server: str, text: str, *, within_s: float = 60.0) -> str:
        async with asyncio.timeout(within_s):
            while text not in (said := self.console(server)):
                await asyncio.sleep(0.2)
        return said

    def taps(self) -> list[str]:
        """Return the taps of the host that are up."""
        links = json.loads(self.call("ip", "-json", "link").stdout)
        return [link["ifname"] for link in links if link["ifname"].startswith("rt") and "UP" in link["flags"]]

    @property
    def is_dead(self) -> bool:
        """Return whether the driver's process has ended."""
        return self._reading is None or self._reading.done()

    async def kill(self) -> None:
        """Kill the driver's process."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()
        if self._reading is not None:
            await asyncio.wait([self._reading])

    async def close(self) -> None:
        """Leave no process behind."""
        await self.kill()
        for pid in self._processes():
            os.kill(pid, signal.SIGKILL)

    def _processes(self) -> Iterator[int]:
        for path in [*self.state.glob("guests/*/pid"), *self.state.glob("segments/*/pid")]:
            pid = int(path.read_text().strip() or 0)
            if pid and str(self.state) in _command_line(pid):
                yield pid


def _command_line(pid: int) -> str:
    path = Path(f"/proc/{pid}/cmdline")
    return path.read_bytes().decode(errors="replace") if path.exists() else ""
