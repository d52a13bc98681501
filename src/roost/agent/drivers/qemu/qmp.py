"""A client of QEMU's monitor protocol: one connection to one guest, over a Unix socket.

Source: QEMU's docs/interop/qmp-spec: one JSON object a line; events come between answers.
"""

import asyncio
import contextlib
import itertools
import os
import socket
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import structlog

from roost.agent.drivers import LaunchFailed

ANSWER_S = 20.0
CONNECT_S = 10.0
LOOK_S = 0.02
CHUNK = 65536
LINE_MAX = 16 * 1024 * 1024
GREETING = 0
"""What is waited for in the place of an answer: it has no number."""

log = structlog.get_logger()

Event = Mapping[str, Any]


class QmpError(LaunchFailed):
    """QEMU refuses a command, or does not answer; the text is its sentence."""


class Qmp:
    """A connection that is open. on_event: called with each event, on the event loop; on_close: once, when it ends."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._sending = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self.on_event: Callable[[Event], None] = lambda _event: None
        self.on_close: Callable[[], None] = lambda: None
        self.is_open = True

    @classmethod
    async def connect(cls, path: Path) -> "Qmp":
        """Return a connection whose greeting is over. Raises QmpError."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        sock.setblocking(False)
        qmp = cls(sock)
        try:
            async with asyncio.timeout(CONNECT_S):
                await _connect(sock, path)
                greeted = qmp._answers[GREETING] = asyncio.get_running_loop().create_future()
                qmp._reader = asyncio.create_task(qmp._read())
                await greeted
                await qmp.execute("qmp_capabilities")
        except (OSError, TimeoutError, QmpError) as error:
            await qmp.close()
            raise QmpError(f"QEMU does not answer at {path}: {str(error) or 'it took too long'}") from error
        return qmp

    async def execute(
        self,
        command: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        fds: Sequence[int] = (),
        timeout_s: float = ANSWER_S,
    ) -> Any:
        """Return what QEMU returns. fds: files that go with the command. Raises QmpError."""
        if not self.is_open:
            raise QmpError("the connection to QEMU is closed")
        number = next(self._ids)
        body = {"execute": command, "arguments": arguments or {}, "id": number}
        answered = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._send(msgspec.json.encode(body) + b"\n", fds)
                return await answered
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise QmpError(f"QEMU did not answer {command} within {timeout_s:.0f} s") from None
            raise QmpError(f"the connection to QEMU is closed: {error.strerror}") from error
        finally:
            self._answers.pop(number, None)

    async def send_file(self, name: str, fd: int) -> None:
        """Give QEMU an open file, which a later command calls by that name. Raises QmpError."""
        await self.execute("getfd", {"fdname": name}, fds=(fd,))

    async def _send(self, line: bytes, fds: Sequence[int]) -> None:
        async with self._sending:
            if fds:  # the files go with the line's first byte
                socket.send_fds(self._sock, [line[:1]], list(fds))
                line = line[1:]
            await asyncio.get_running_loop().sock_sendall(self._sock, line)

    async def _read(self) -> None:
        rest = b""
        try:
            while chunk := await asyncio.get_running_loop().sock_recv(self._sock, CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._take(msgspec.json.decode(line))
                if len(rest) > LINE_MAX:
                    log.error("QEMU's line is too long: expected JSON objects, one a line", bytes=len(rest))
                    break
        except OSError:
            pass
        except msgspec.DecodeError as error:
            log.error("QEMU says what is no JSON", error=str(error))
        finally:
            self._end()

    def _take(self, message: dict[str, Any]) -> None:
        if "event" in message:
            self.on_event(message)
        elif (answered := self._answers.get(message.get("id", GREETING))) is not None and not answered.done():
            if "error" in message:
                answered.set_exception(QmpError(message["error"].get("desc", "QEMU gives no reason")))
            else:
                answered.set_result(message.get("return"))

    def _end(self) -> None:
        """Fail whoever waits, and say that it is over."""
        if not self.is_open:
            return
        self.is_open = False
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_exception(QmpError("QEMU closed the connection"))
        self.on_close()

    async def close(self) -> None:
        """Close the connection, of which nobody is told; the guest goes on."""
        self.on_close = lambda: None
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        self._end()
        self._sock.close()


async def _connect(sock: socket.socket, path: Path) -> None:
    """Connect to a QEMU that may have begun just now: its socket is there before it listens."""
    while True:
        try:
            with socket_name(path) as name:
                return await asyncio.get_running_loop().sock_connect(sock, name)
        except ConnectionRefusedError:
            await asyncio.sleep(LOOK_S)


@contextlib.contextmanager
def socket_name(path: Path) -> Iterator[str]:
    """Give a name under which the socket itself is connected to, whatever takes its place meanwhile.

    It is in a folder that QEMU's account can write: a guest that has broken out may put a link there, to a socket that
    only root reaches. Raises OSError, also where a link or anything else is in its place.
    """
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise OSError(f"{path} is no socket")
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)
