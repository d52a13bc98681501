"""Real hosts on one machine: for each a namespace with an agent in it, whose guests are QEMU's.

The API stays where it is; a relay has it answer on 127.0.0.1 of each host's namespace too. What runs in a namespace,
guests as well, ends with it.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from roost.agent.drivers.programs import ProgramFailed
from roost.agent.drivers.qemu.check import HostAsked, choose_accel, gather_facts, judge_host
from roost.agent.drivers.qemu.image import CACHE, ensure_image
from roost.agent.drivers.qemu.moves import relay
from roost.cli.asking.cloudfile import Cloud
from roost.cli.asking.local_cloud import LocalCloud
from roost.cli.asking.real_marks import kill_all, mark_of, marked, remove_leftovers
from roost.cli.asking.real_network import (
    RealFailed,
    RealHost,
    RealNetwork,
    built_network,
    listening_socket,
    plan_network,
)
from roost.platform.errors import reason_of

ACCOUNT = "60902"
"""Whom the guests of such hosts run as: nobody has to make an account for it.

Source: systemd's UIDS-GIDS: 60706 to 61183 are nobody's; Debian's policy gives what it has there to no package.
"""
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
        await kill_all(host.namespace, self.directory / name)


@contextlib.asynccontextmanager
async def running_hosts(
    cloud: Cloud, local: LocalCloud, directory: Path, *, temporary: bool
) -> AsyncIterator[RealHosts]:
    """Run the hosts of a cloud for as long as the block runs. directory: of the cloud's data. Raises RealFailed.

    temporary: the directory goes with them, also when this run is killed: the next one removes it.
    """
    prefix = f"roost-{os.getpid()}"
    network = plan_network(cloud, prefix=prefix)
    folder = directory / FOLDER
    folder.mkdir(mode=0o711, exist_ok=True)
    try:
        await ensure_image()
        accel = await choose_accel(CACHE)
    except ProgramFailed as error:
        raise RealFailed(str(error)) from error
    url, agent_url = urlsplit(local.url), urlsplit(await local.client.agent_url())
    targets = {at.port or 80: (at.hostname or "", at.port or 80) for at in (url, agent_url)}
    mark = mark_of(folder, local.log_file, temporary=directory if temporary else None)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(marked(prefix, mark))
        await stack.enter_async_context(built_network(network))
        agents: dict[str, asyncio.subprocess.Process] = {}
        for host in network.hosts:
            await stack.enter_async_context(relayed(host.namespace, targets))
            agent = local.running_agent(*agent_command(host, folder, url.port or 80, accel), namespace=host.namespace)
            agents[f"roost agent of {host.name}"] = await stack.enter_async_context(agent)
            stack.push_async_callback(kill_all, host.namespace, folder / host.name)
        yield RealHosts(network, folder, replace(local, processes={**local.processes, **agents}))


async def prepare_machine(cloud: Cloud, directory: Path) -> list[str]:
    """Remove what dead runs left behind; return the prefixes of their namespaces.

    Raises RealFailed for a cloud that one machine does not play, and with what this machine lacks, in the sentences of
    `roost agent --check`, and what helps.
    """
    plan_network(cloud, prefix="")
    host_asked = HostAsked(bridges={}, accel="tcg", cpu=None, migrate_listen="", account=ACCOUNT)
    longest = max((name for hosts in cloud.hosts for name in hosts.names()), key=len, default="")
    facts = gather_facts(host_asked, directory / FOLDER / longest, accel="tcg")
    if lacks := judge_host(host_asked, facts).lacks:
        raise RealFailed("\n".join(lacks))
    try:
        return await remove_leftovers()
    except (OSError, ProgramFailed) as error:
        raise RealFailed(f"what an earlier run left behind cannot be removed: {reason_of(error)}") from error


def leftovers_text(prefixes: Sequence[str]) -> list[str]:
    """Return a sentence for each dead run whose leftovers were removed."""
    return [f"What a run that was killed had left behind was removed: namespaces {prefix}-*." for prefix in prefixes]


def agent_command(host: RealHost, folder: Path, port: int, accel: str) -> list[str]:
    """Return what `roost` is told to be the agent of a host. port: of the API, on 127.0.0.1 of its namespace."""
    bridges = [f"{network}={bridge}" for network, bridge in host.bridges.items()]
    return [
        *("agent", "--driver", "qemu", "--host", host.name, "--api", f"http://127.0.0.1:{port}"),
        *("--state", str(folder / host.name), "--migrate-listen", host.address, "--accel", accel),
        *("--account", ACCOUNT),
        *(word for bridge in bridges for word in ("--bridge", bridge)),
        "--until-stdin-ends",
    ]


@contextlib.asynccontextmanager
async def relayed(namespace: str, targets: Mapping[int, tuple[str, int]]) -> AsyncIterator[None]:
    """Have ports on 127.0.0.1 of a namespace lead to addresses of this one. Raises RealFailed."""
    async with contextlib.AsyncExitStack() as stack:
        for port, target in targets.items():

            async def carry(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: tuple[str, int] = target
            ) -> None:
                with contextlib.suppress(OSError):
                    await relay((reader, writer), await asyncio.open_connection(*target))
                writer.close()

            try:
                server = await asyncio.start_server(carry, sock=listening_socket(namespace, port))
            except OSError as error:
                raise RealFailed(f"{namespace} cannot reach the API: {reason_of(error)}") from error
            stack.callback(server.close)
        yield
