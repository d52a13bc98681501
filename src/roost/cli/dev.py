"""`roost dev`: a Roost to try things on, in one terminal: it serves, loads a cloud file and plays the file's hosts."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

from roost.cli.cloud_client import CloudClient
from roost.cli.cloudfile import Cloud
from roost.cli.loading import Progress, load
from roost.cli.local_cloud import LocalCloud, running_cloud
from roost.cli.plurals import is_or_are, many
from roost.cli.story_output import load_text

POLL_S = 0.1


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
        say(load_text(loaded.created, loaded.found))
        names = {name for hosts in cloud.hosts for name in hosts.names()}
        await _wait_for_hosts(local.client, names)
        say(f"{many(len(names), 'host')} {is_or_are(len(names))} up.")
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


async def _wait_for_hosts(client: CloudClient, names: set[str]) -> None:
    """Return once all of these hosts are up: their agent was heard."""
    while True:
        services = await client.list_all("/compute/v2.1/os-services", "services")
        if names <= {one["host"] for one in services if one["state"] == "up"}:
            return
        await asyncio.sleep(POLL_S)
