"""`roost dev`: a Roost to try things on, in one terminal: it serves, loads a cloud file and plays the file's hosts."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

from roost.cli.asking.cloudfile import Cloud
from roost.cli.asking.loading import Progress, load, wait_for_hosts
from roost.cli.asking.local_cloud import LocalCloud, running_cloud
from roost.cli.asking.story_output import load_text
from roost.cli.plurals import is_or_are, many


async def run_dev(
    cloud: Cloud,
    *,
    data_dir: Path,
    listen: str,
    servers: bool,
    progress: Progress,
    say: Callable[[str], None],
    ready: Callable[[str], None],
) -> None:
    """Run until SIGINT or SIGTERM. servers: boot the file's too. ready: called with the address once hosts are up.

    Raises CloudRefused, LocalCloudFailed.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)

    async def fill(local: LocalCloud) -> None:
        loaded = await load(local.client, cloud, servers=servers, progress=progress)
        say(load_text(loaded.created, loaded.existing))
        hosts = await wait_for_hosts(local.client, cloud, timeout_s=None)
        say(f"{many(hosts, 'host')} {is_or_are(hosts)} up.")
        ready(local.url)

    async def until_it_fails() -> None:
        async with running_cloud(data_dir, listen=listen, log_file=data_dir / "roost.log") as local:
            say(f"Roost serves at {local.url}; its log is {data_dir / 'roost.log'}.")
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
