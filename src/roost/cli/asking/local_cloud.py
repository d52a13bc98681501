"""A whole Roost as child processes of this one: `roost serve all` and the agents of a fleet of pretended hosts."""

import asyncio
import contextlib
import fcntl
import os
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from roost.cli.asking.cloud_client import CloudClient
from roost.cli.printing import print_note
from roost.platform.errors import RoostError, reason_of

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0


class LocalCloudFailed(RoostError):
    """A process of the cloud did not start, or ended."""


@dataclass(frozen=True)
class LocalCloud:
    """A Roost that answers at `url`. processes: by their commands. log_begin: where in the file its log begins.

    log_fd: the log, open for what else belongs to it.
    """

    url: str
    client: CloudClient
    processes: Mapping[str, asyncio.subprocess.Process]
    log_file: Path
    log_begin: int
    log_fd: int

    def running_agent(
        self, *arguments: str, namespace: str
    ) -> contextlib.AbstractAsyncContextManager[asyncio.subprocess.Process]:
        """Run a `roost` command in a network namespace for as long as the block runs."""
        return _child(self.log_fd, *arguments, before=("ip", "netns", "exec", namespace))

    async def wait(self) -> None:
        """Return never; raise LocalCloudFailed with the end of the log of the first process that ends."""
        waits = {asyncio.create_task(process.wait()): name for name, process in self.processes.items()}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        raise _ended(waits[done.pop()], self.log_file, self.log_begin)


@contextlib.asynccontextmanager
async def running_cloud(
    directory: Path, *, listen: str, log_file: Path, pretends: bool = True, tells_of_stop: bool = False
) -> AsyncIterator[LocalCloud]:
    """Run a Roost for as long as the block runs, with its data in `directory`. Raises LocalCloudFailed.

    pretends: with the agents of its hosts, which pretend. tells_of_stop: say it when Ctrl-C ends the block.
    """
    log = _open_log(directory, log_file)
    serving = (
        "serve", "all", "--config", os.devnull, "--data-dir", str(directory), "--listen", listen, "--workers", "1",
        "--json", "--until-stdin-ends",
    )  # fmt: skip
    with log:
        log_begin = log.tell()
        async with contextlib.AsyncExitStack() as stack:
            try:
                serve = await stack.enter_async_context(_child(log.fileno(), *serving))
                url = await _address_of(serve, log_file, log_begin)
                processes = {"roost serve": serve}
                if pretends:
                    fleet = ("agent", "--fleet", "all", "--state", str(directory / "agent"), "--api", url)
                    agent = _child(log.fileno(), *fleet, "--until-stdin-ends")
                    processes["roost agent"] = await stack.enter_async_context(agent)
                client = await stack.enter_async_context(CloudClient.connect(url))
                yield LocalCloud(url, client, processes, log_file, log_begin, log.fileno())
            except (asyncio.CancelledError, KeyboardInterrupt):
                if tells_of_stop:
                    print_note("Stopping: this takes some seconds.")
                raise


def _open_log(directory: Path, log_file: Path) -> BinaryIO:
    try:
        directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        log = log_file.open("ab")
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)  # kept by the children, so until the last of them is gone
        return log
    except BlockingIOError as error:
        text = f"another roost works with {directory.absolute()}: stop it, or give another --data-dir"
        raise LocalCloudFailed(text) from error
    except OSError as error:
        raise LocalCloudFailed(f"the data directory {directory} cannot be used: {reason_of(error)}") from error


@contextlib.asynccontextmanager
async def _child(
    log_fd: int, *arguments: str, before: tuple[str, ...] = ()
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a `roost` command for as long as the block runs; it ends with this process, even by SIGKILL.

    before: words of another command, which becomes this one.
    """
    process = await asyncio.create_subprocess_exec(
        *before, sys.executable, "-m", "roost.cli.main", *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log_fd,
        env=_environment(), start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()


def _environment() -> Mapping[str, str]:
    """Return this process's, with the modules where it found them."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


async def _address_of(serve: asyncio.subprocess.Process, log_file: Path, log_begin: int) -> str:
    assert serve.stdout is not None
    try:
        line = await asyncio.wait_for(serve.stdout.readline(), START_TIMEOUT_S)
    except TimeoutError as error:
        raise LocalCloudFailed(f"roost serve printed no address within {START_TIMEOUT_S:.0f} s") from error
    if not line:
        raise _ended("roost serve", log_file, log_begin)
    return str(msgspec.json.decode(line)["url"])


def _ended(name: str, log_file: Path, log_begin: int) -> LocalCloudFailed:
    """Return the error of a process that ended, with its own sentence or the end of its log, this run's alone."""
    lines = log_file.read_bytes()[log_begin:].decode(errors="replace").splitlines()
    sentences = [line for line in lines if line.startswith("roost: ")]
    words = "\n".join(sentences[-1:] or lines[-5:]).removeprefix("roost: ")
    return LocalCloudFailed(f"{name} ended: {words}")
