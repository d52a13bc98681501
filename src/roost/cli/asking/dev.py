"""`roost dev`: a Roost to try things on, in one terminal: it serves, loads a cloud file and plays the file's hosts."""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from pathlib import Path

from roost.cli.asking.cloudfile import Cloud
from roost.cli.asking.loading import Progress, boot_servers, load, wait_for_hosts
from roost.cli.asking.local_cloud import LocalCloud, running_cloud
from roost.cli.asking.real_hosts import leftovers_text, prepare_machine, running_hosts
from roost.cli.asking.story_output import load_text
from roost.cli.plurals import is_or_are, many


async def run_dev(
    cloud: Cloud,
    *,
    data_dir: Path,
    listen: str,
    servers: bool,
    real: bool,
    progress: Progress,
    say: Callable[[str], None],
    ready: Callable[[str], None],
) -> None:
    """Run until SIGINT or SIGTERM. servers: boot the file's too. ready: called with the address once hosts are up.

    real: the hosts are namespaces with guests of QEMU, and do not pretend.
    Raises CloudRefused, LocalCloudFailed, RealFailed.
    """
    if real:
        for sentence in leftovers_text(await prepare_machine(cloud, data_dir)):
            say(sentence)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)

    async def fill(local: LocalCloud) -> None:
        loaded = await load(local.client, cloud, servers=False, progress=progress)
        playing = running_hosts(cloud, local, data_dir, temporary=False)
        async with playing if real else contextlib.nullcontext() as hosts:
            async with asyncio.TaskGroup() as group:
                if hosts is not None:
                    group.create_task(hosts.local.wait())
                if servers:
                    await boot_servers(local.client, cloud, loaded, progress)
                say(load_text(loaded.created, loaded.existing))
                count = await wait_for_hosts(local.client, cloud, timeout_s=None)
                say(f"{many(count, 'host')} {is_or_are(count)} up.")
                if hosts is not None:
                    say(f"The router is a network namespace: ip netns exec {hosts.network.fabric} ping ADDRESS")
                ready(local.url)

    async def until_it_fails() -> None:
        log_file = data_dir / "roost.log"
        async with running_cloud(data_dir, listen=listen, log_file=log_file, pretends=not real) as local:
            say(f"Roost serves at {local.url}; its log is {log_file}.")
            async with asyncio.TaskGroup() as group:
                group.create_task(local.wait())
                group.create_task(fill(local))

    serving, stopped = asyncio.create_task(until_it_fails()), asyncio.create_task(stopping.wait())
    await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if serving.done():
        serving.result()
    serving.cancel()
    await asyncio.wait((serving,))
