"""Real hosts on one machine: for each a namespace with an agent in it, whose guests are QEMU's.

The API stays where it is; a relay has it answer on 127.0.0.1 of each host's namespace too. What runs in a namespace,
guests as well, ends with it.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from roost.agent.drivers.programs import ProgramFailed, find_process, run_program
from roost.agent.drivers.qemu.check import HostAsked, choose_accel, gather_facts, judge_host
from roost.agent.drivers.qemu.dhcp import SegmentFiles
from roost.agent.drivers.qemu.image import CACHE, ensure_image
from roost.agent.drivers.qemu.moves import relay
from roost.cli.asking.cloudfile import Cloud
from roost.cli.asking.local_cloud import LocalCloud
from roost.cli.asking.real_network import (
    RealFailed,
    RealHost,
    RealNetwork,
    built_network,
    listening_socket,
    plan_network,
)
from roost.platform.errors import reason_of

FOLDER = "hosts"
"""Of the data directory: there each host has its guests' files."""


@dataclass(frozen=True)
class RealHosts:
    """Hosts that run. local: the cloud, with the agents among its processes."""

    network: RealNetwork
    directory: Path
    local: LocalCloud

    async def kill(self, name: str) -> None:
        """Have the host die: its agent, its guests and all else that runs there. Raises ProgramFailed."""
        host = next(host for host in self.network.hosts if host.name == name)
        await kill_all(host, self.directory / name)


@contextlib.asynccontextmanager
async def running_hosts(cloud: Cloud, local: LocalCloud, directory: Path) -> AsyncIterator[RealHosts]:
    """Run the hosts of a cloud for as long as the block runs. directory: of the cloud's data. Raises RealFailed."""
    network = plan_network(cloud, prefix=f"roost-{os.getpid()}")
    folder = directory / FOLDER
    folder.mkdir(mode=0o711, exist_ok=True)
    try:
        await ensure_image()
        accel = await choose_accel(CACHE)
    except ProgramFailed as error:
        raise RealFailed(str(error)) from error
    url, agent_url = urlsplit(local.url), urlsplit(await local.client.agent_url())
    targets = {at.port or 80: (at.hostname or "", at.port or 80) for at in (url, agent_url)}
    async with built_network(network), contextlib.AsyncExitStack() as stack:
        agents: dict[str, asyncio.subprocess.Process] = {}
        for host in network.hosts:
            await stack.enter_async_context(_relayed(host, targets))
            agent = local.running_agent(*agent_command(host, folder, url.port or 80, accel), namespace=host.namespace)
            agents[f"roost agent of {host.name}"] = await stack.enter_async_context(agent)
            stack.push_async_callback(kill_all, host, folder / host.name)
        yield RealHosts(network, folder, replace(local, processes={**local.processes, **agents}))


def check_machine(cloud: Cloud, directory: Path) -> None:
    """Raise RealFailed with what this machine lacks, in the sentences of `roost agent --check`, and what helps."""
    host_asked = HostAsked(bridges={}, accel="tcg", cpu=None, migrate_listen="")
    longest = max((name for hosts in cloud.hosts for name in hosts.names()), key=len, default="")
    facts = gather_facts(host_asked, directory / FOLDER / longest, accel="tcg")
    if lacks := judge_host(host_asked, facts).lacks:
        raise RealFailed("\n".join(lacks))


def agent_command(host: RealHost, folder: Path, port: int, accel: str) -> list[str]:
    """Return what `roost` is told to be the agent of a host. port: of the API, on 127.0.0.1 of its namespace."""
    bridges = [f"{network}={bridge}" for network, bridge in host.bridges.items()]
    return [
        *("agent", "--driver", "qemu", "--host", host.name, "--api", f"http://127.0.0.1:{port}"),
        *("--state", str(folder / host.name), "--migrate-listen", host.address, "--accel", accel),
        *(word for bridge in bridges for word in ("--bridge", bridge)),
        "--until-stdin-ends",
    ]


@contextlib.asynccontextmanager
async def _relayed(host: RealHost, targets: Mapping[int, tuple[str, int]]) -> AsyncIterator[None]:
    """Have ports on 127.0.0.1 of a host's namespace lead to addresses of this one. Raises RealFailed."""
    async with contextlib.AsyncExitStack() as stack:
        for port, target in targets.items():

            async def carry(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: tuple[str, int] = target
            ) -> None:
                with contextlib.suppress(OSError):
                    await relay((reader, writer), await asyncio.open_connection(*target))
                writer.close()

            try:
                server = await asyncio.start_server(carry, sock=listening_socket(host.namespace, port))
            except OSError as error:
                raise RealFailed(f"host {host.name} cannot reach the API: {reason_of(error)}") from error
            stack.callback(server.close)
        yield


async def kill_all(host: RealHost, state: Path) -> None:
    """Kill all that runs on a host, until nothing does. Raises ProgramFailed."""
    while pids := {*await _list_processes(host), *_find_dhcp(state)}:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                group = os.getpgid(pid)
                (os.killpg if group == pid else os.kill)(pid, signal.SIGKILL)  # with the programs that it runs
        await asyncio.sleep(0.05)


async def _list_processes(host: RealHost) -> list[int]:
    return [int(pid) for pid in (await run_program("ip", "netns", "pids", host.namespace)).split()]


def _find_dhcp(state: Path) -> Iterator[int]:
    """Yield the servers of addresses, which are in namespaces of their own."""
    for folder in state.glob("segments/*"):
        files = SegmentFiles(folder)
        pid = find_process(files.pid, "dnsmasq", f"--conf-file={files.configuration}")
        if pid is not None:
            yield pid
