"""Starts the processes of `roost serve`: a fork server imports once what all of them need, and forks each of them.

Both ends are here. The fork server has no event loop and no threads. It is a child of the supervisor, and Roost's
processes are its children; what it knows of them goes to the supervisor, over a socket that each process has as its
standard input. Whoever of the three dies, the others see the end of a socket, and a process outlives the fork server.
"""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

PID = b"pid "
FORK_SERVER = b"fork-server"
NAME_BYTES_MAX = 64
WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1"}
"""NumPy's algebra, which Roost does not use, starts one for each core when it is imported."""


class ForkedProcess:
    """A process of a fork server, as the supervisor sees it. pid: 0 if it died before it said it."""

    def __init__(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.stdin = writer
        self._end = asyncio.create_task(self._read_status(reader))

    async def _read_status(self, reader: asyncio.StreamReader) -> int | None:
        try:
            return int(await reader.read() or b"")
        except (ValueError, ConnectionError):
            return None
        finally:
            self.stdin.close()

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.pid and not self._end.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def wait(self) -> int | None:
        """Return the exit status, below zero for a signal, once it ends; None if no fork server was there to see it."""
        return await asyncio.shield(self._end)


class ForkServer:
    """The fork server of `services`, which is started when it is needed, and again when it has died."""

    def __init__(self, services: Sequence[str]) -> None:
        self._services = services
        self._process: asyncio.subprocess.Process | None = None
        self._requests: socket.socket | None = None
        self._starting = asyncio.Lock()

    async def fork(self, name: str) -> ForkedProcess:
        """Start a process, which waits for its configuration on standard input; the kernel knows it by `name`."""
        ours, theirs = socket.socketpair()
        with theirs:
            requests = await self._ensure_running()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it dies now, and so does this process
                socket.send_fds(requests, [name.encode()], [theirs.fileno()])
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            line = await reader.readline()
        except asyncio.CancelledError:
            writer.close()  # which ends it
            raise
        return ForkedProcess(int(line.removeprefix(PID)) if line.startswith(PID) else 0, reader, writer)

    async def _ensure_running(self) -> socket.socket:
        async with self._starting:
            if self._requests is not None and self._process is not None and self._process.returncode is None:
                return self._requests
            if self._requests is not None:
                self._requests.close()
            self._requests, theirs = socket.socketpair()
            with theirs:
                self._process = await start_program(self._services, theirs)
            return self._requests

    async def close(self) -> None:
        """End the fork server; processes that it started go on."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._requests is not None:
            self._requests.close()


async def start_program(services: Sequence[str], requests: socket.socket) -> asyncio.subprocess.Process:
    """Start the program of a fork server, which takes requests from that socket."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "roost.cli.serving.process", *services,
        stdin=requests.fileno(),
        stdout=sys.stderr.fileno(),
        env={**os.environ, **WITHOUT_THREADS},
        start_new_session=True,  # a terminal's Ctrl-C is for the supervisor
    )  # fmt: skip


def fork_on_request() -> None:
    """Be a fork server until the supervisor is gone; return in each process that it asks for."""
    _name_process(FORK_SERVER)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nor does it end a process that does not listen to it yet
    gc.freeze()  # so that no collection writes to pages that all processes share
    channels: dict[int, socket.socket] = {}
    signal.signal(signal.SIGCHLD, lambda *_: _tell_ends(channels))
    requests = socket.socket(fileno=os.dup(0))
    while True:
        name, descriptors, _, _ = socket.recv_fds(requests, NAME_BYTES_MAX, 1)
        if not name:
            raise SystemExit
        channel = socket.socket(fileno=descriptors[0])
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # until a process that ends at once is known
        pid = os.fork()
        if pid == 0:
            break
        channels[pid] = channel
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    os.setsid()
    os.dup2(channel.fileno(), 0)
    for open_socket in (requests, channel, *channels.values()):
        open_socket.close()
    _name_process(name)
    with contextlib.suppress(OSError):  # the supervisor is gone
        os.write(0, PID + b"%d\n" % os.getpid())


def _name_process(name: bytes) -> None:
    """Have `ps -o comm` show that name, on Linux: the command lines of all forks are the same."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_bytes(name)


def _tell_ends(channels: dict[int, socket.socket]) -> None:
    """Send the supervisor how processes ended."""
    while channels:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with channels.pop(pid) as channel, contextlib.suppress(OSError):
            channel.send(b"%d" % os.waitstatus_to_exitcode(status))
