"""`python -m tests.launcher`: the process that the `roost` processes of tests are forks of (tests/launching.py).

It has imported all of Roost once: an agent that begins as its fork takes a fifth of the CPU of one that begins with
Python. The fork server of a `roost serve` begins as a fork as well; one that is started again begins with Python.
"""

import asyncio
import importlib
import os
import pkgutil
import signal
import socket
import sys
import threading
from asyncio.subprocess import Process
from collections.abc import Sequence
from typing import cast

import msgspec

from roost import cli
from roost.cli.serving import fork_server, process
from roost.platform import crash

REQUEST_BYTES_MAX = 1 << 17
SERVE = "serve"
start_program = fork_server.start_program


class Launch(msgspec.Struct, frozen=True):
    """What a fork becomes. program: a function without arguments, such as `roost.cli.entry:run_roost`."""

    program: str
    arguments: list[str]
    directory: str
    environment: dict[str, str]


class ForkedServer:
    """A fork server that began as a fork, with what Roost asks of an `asyncio.subprocess.Process`."""

    def __init__(self, pid: int) -> None:
        self.returncode: int | None = None
        self._pid = pid
        self._end = asyncio.create_task(self._read_status())

    async def _read_status(self) -> None:
        _, status = await asyncio.to_thread(os.waitpid, self._pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)

    async def wait(self) -> None:
        """Return once it has ended."""
        await asyncio.shield(self._end)

    def kill(self) -> None:
        """Send SIGKILL."""
        os.kill(self._pid, signal.SIGKILL)


def main() -> None:
    """Fork on request, and become in each fork the program that is asked for, as if it had just been started."""
    for module in pkgutil.walk_packages(cli.__path__, "roost.cli."):
        importlib.import_module(module.name)
    fork_server.fork_on_request()
    with socket.socket(fileno=os.dup(0)) as channel:
        text, descriptors, _, _ = socket.recv_fds(channel, REQUEST_BYTES_MAX, 3)
    launch = msgspec.json.decode(text, type=Launch)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(launch.directory)
    os.environ.clear()
    os.environ.update(launch.environment)
    importlib.reload(crash)  # it has read the environment of the launcher
    if launch.arguments[:1] == [SERVE] and fork_ahead():
        return
    sys.argv = [launch.program, *launch.arguments]
    pkgutil.resolve_name(launch.program)()


def fork_ahead() -> bool:
    """Fork the fork server of the supervisor that this becomes. Return whether this is the fork, at its end."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        serve_forks(theirs)
        return True
    theirs.close()

    async def hand_over(services: Sequence[str], requests: socket.socket) -> Process:
        if ours.fileno() < 0:
            return await start_program(services, requests)
        with ours:
            socket.send_fds(ours, [" ".join(services).encode()], [requests.fileno()])
        return cast(Process, ForkedServer(pid))

    fork_server.start_program = hand_over
    return False


def serve_forks(channel: socket.socket) -> None:
    """Be a fork server once the supervisor has named the services; return at once if it ends before that."""
    os.setsid()
    os.dup2(2, 1)
    with channel:
        services, descriptors, _, _ = socket.recv_fds(channel, REQUEST_BYTES_MAX, 1)
    if services:
        os.dup2(descriptors[0], 0)
        os.close(descriptors[0])
        sys.argv = ["process", *services.decode().split()]
        process.main()


def end(status: int) -> None:
    """Exit at once, unless a thread still works: to free all modules first takes 40 ms of CPU."""
    sys.stdout.flush()
    sys.stderr.flush()
    if [thread for thread in threading.enumerate() if not thread.daemon] == [threading.main_thread()]:
        os._exit(status)


if __name__ == "__main__":
    try:
        main()
        end(0)
    except SystemExit as left:
        if isinstance(left.code, int):
            end(left.code)
        raise
