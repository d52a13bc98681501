"""Starts `roost` and `roost-manage` for tests, as forks of one process that has imported them (tests/launcher.py).

What begins before Roost does, such as Ctrl-C during its imports, needs a real start: `subprocess`.
"""

import contextlib
import functools
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec
from tests.launcher import Launch

from roost.cli.serving.fork_server import PID, WITHOUT_THREADS

ROOT = Path(__file__).parents[1]
TIMEOUT_S = 120.0
ROOST, MANAGE = "roost.cli.entry:run_roost", "roost.cli.entry:run_manage"
AT_END: list[Callable[[], None]] = []
"""What is done when the tests of this process are over; a worker of pytest-xdist ends without `atexit`."""


class Process:
    """A process that runs, with what `subprocess.Popen` would offer of it. stdout: None unless it is a pipe to here."""

    def __init__(self, args: Sequence[str], pid: int, channel: socket.socket, stdout: IO[str] | None) -> None:
        self.args = args
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._channel = channel

    def __del__(self) -> None:
        self._channel.close()

    def poll(self) -> int | None:
        """Return the exit status, below zero for a signal; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once it ends. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if select.select([self._channel], [], [], timeout) == ([], [], []):
                raise subprocess.TimeoutExpired(f"roost, pid {self.pid}", timeout or 0)
            self.returncode = int(self._channel.recv(16, socket.MSG_PEEK))  # another thread may wait too
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def start(
    *arguments: str,
    stderr: IO[str],
    stdout: IO[str] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    program: str = ROOST,
) -> Process:
    """Start a program with these arguments. stdout: a pipe to here unless it is a file.

    environment, directory: ours unless they are given.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        socket.send_fds(_launcher(), [b"roost"], [theirs.fileno()])
    pid = int(_read_line(ours).removeprefix(PID))
    launch = Launch(
        program, list(arguments), str(directory or Path.cwd()), dict(os.environ if environment is None else environment)
    )
    reads, writes = (None, os.dup(stdout.fileno())) if stdout else os.pipe()
    with open(os.devnull) as nothing:
        socket.send_fds(ours, [msgspec.json.encode(launch)], [nothing.fileno(), writes, stderr.fileno()])
    os.close(writes)
    return Process(arguments, pid, ours, None if reads is None else os.fdopen(reads))


def run(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    program: str = ROOST,
) -> subprocess.CompletedProcess[str]:
    """Return how a program ended and what it said. Raises subprocess.TimeoutExpired."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
        process = start(
            *arguments, stderr=error, stdout=out, environment=environment, directory=directory, program=program
        )
        try:
            status = process.wait(TIMEOUT_S)
        finally:
            process.kill()
        out.seek(0)
        error.seek(0)
        return subprocess.CompletedProcess(list(arguments), status, out.read(), error.read())


def run_manage(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Return how `roost-manage` ended and what it said. Raises subprocess.TimeoutExpired."""
    return run(*arguments, environment=environment, program=MANAGE)


def _read_line(channel: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = channel.recv(1)  # what follows the line is an exit status
        assert byte, "the launcher is gone"
        line += byte
    return line


@functools.cache
def _launcher() -> socket.socket:
    """The launcher's end of a conversation, which is one for each process that runs tests."""
    ours, theirs = socket.socketpair()
    with theirs:
        launcher = subprocess.Popen(
            [sys.executable, "-m", "tests.launcher"],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, **WITHOUT_THREADS, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        )

    def end() -> None:
        ours.close()
        launcher.wait()

    AT_END.append(end)
    return ours
