"""Migration: two agents meet over TCP, and QEMU's streams go through them.

The destination listens. Who comes says a token, which is good for one meeting, and which stream it is: `control`, in
which the two agents speak, then `mem` and `nbd`, which are carried as they are: from an open file that the source gives
its QEMU, to a Unix socket of the destination's. The disk of a guest that does not run goes over `control`. Agents that
have certificates meet under TLS, with every stream.
"""

import asyncio
import contextlib
import os
import secrets
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.qemu.command import Machine, Plug
from roost.agent.drivers.qemu.guest import Guest
from roost.agent.drivers.qemu.qmp import QmpError, socket_name
from roost.seams.agent import GuestKey
from roost.seams.guests import MemorySource

CONTROL, MEMORY, DISK = "control", "mem", "nbd"
LINE_S = 15.0
"""How long the other agent may take for a line that needs no work."""
MEET_S = 120.0
"""How long the destination waits for the source."""
FINISH_S = 60.0
CHUNK = 1 << 18
TOKEN_BYTES = 32
STRANGERS_MAX = 256
"""Connections at once that have not said who they are: of more the oldest is closed, since an agent says so at once."""

log = structlog.get_logger()

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Hello(Struct, frozen=True, kw_only=True):
    """The first line of each connection."""

    token: str
    channel: str


class Offer(Struct, frozen=True, kw_only=True):
    """What the source says of its guest. disk_bytes: of a guest that does not run, how many follow.

    plugs: the NICs that its memory knows.
    """

    machine: Machine
    disk_gb: int
    disk_bytes: int = 0
    plugs: tuple[Plug, ...] = ()


class Said(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What agents say to each other then. ready: send; has_disk: but the disk. refused: why not.

    near: the memory is nearly there, or the disk is. hurry: it is to be so once the memory moves.
    """

    ready: bool = False
    has_disk: bool = False
    refused: str = ""
    near: bool = False
    hurry: bool = False


Contexts = tuple[ssl.SSLContext, ssl.SSLContext]
"""What an agent listens with, and what it connects with."""


async def relay(one: Streams, other: Streams) -> None:
    """Carry bytes both ways until both are closed, which they are afterwards, however it ends."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(CHUNK):
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    await asyncio.gather(pump(one[0], other[1]), pump(other[0], one[1]))


def say(writer: asyncio.StreamWriter, line: Struct) -> None:
    """Send a line."""
    writer.write(msgspec.json.encode(line) + b"\n")


async def hear(reader: asyncio.StreamReader, kind: Any, what: str, *, within_s: float | None) -> Any:
    """Return the next line. what: it says. Raises LaunchFailed when it does not come."""
    try:
        async with asyncio.timeout(within_s):
            line = await reader.readline()
        return msgspec.json.decode(line, type=kind)
    except TimeoutError as error:
        raise LaunchFailed(f"the other host's agent did not say {what} in time") from error
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise LaunchFailed(f"the other host's agent ended the migration before it said {what}") from error


async def connect(source: MemorySource, channel: str, tls: Contexts | None) -> Streams:
    """Return a connection to the destination's agent. Raises LaunchFailed."""
    host, _, port = source.address.rpartition(":")
    try:
        async with asyncio.timeout(LINE_S):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls and tls[1])
    except (OSError, ValueError) as error:
        why = f" under TLS: {error}" if isinstance(error, ssl.SSLError) else ""
        raise LaunchFailed(f"the destination's agent is not reached at {source.address}{why}") from error
    say(writer, Hello(token=source.token, channel=channel))
    return reader, writer


class Meeting:
    """One live migration that its destination awaits. sockets: where QEMU takes the streams, as their names there."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.sockets: dict[str, Path] = {}
        self.hurried = asyncio.Event()
        self._met: asyncio.Future[Streams] = asyncio.get_running_loop().create_future()

    def meet(self, control: Streams) -> bool:
        """Take the source's connection; return whether it is the first."""
        if self._met.done():
            return False
        self._met.set_result(control)
        return True

    async def wait_offer(self) -> Offer:
        """Return what the source says of its guest. Raises LaunchFailed."""
        try:
            reader, _ = await asyncio.wait_for(asyncio.shield(self._met), MEET_S)
        except TimeoutError:
            raise LaunchFailed(f"the source's agent did not come within {MEET_S:.0f} s") from None
        offer: Offer = await hear(reader, Offer, "which guest it sends", within_s=LINE_S)
        return offer

    def answer(self, said: Said) -> None:
        """Say to the source whether it is to send."""
        say(self._met.result()[1], said)

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Say to the source why the guest cannot come, where that is raised, and raise it."""
        try:
            yield
        except LaunchFailed as error:
            self.answer(Said(refused=str(error)))
            raise LaunchFailed(f"the server cannot be migrated live: {error}") from error

    async def receive_disk(self, path: Path) -> bool:
        """Write the disk that the source has; return whether it has one. Raises LaunchFailed, OSError."""
        remaining = (await self.wait_offer()).disk_bytes
        self.answer(Said(ready=True))
        with path.open("wb") as file:
            while remaining:
                try:
                    chunk = await asyncio.wait_for(self._met.result()[0].read(min(CHUNK, remaining)), FINISH_S)
                except TimeoutError as error:
                    raise LaunchFailed(f"nothing came of the root disk for {FINISH_S:.0f} s") from error
                if not chunk:
                    raise LaunchFailed("the source's agent ended the migration before the whole root disk was here")
                remaining -= await asyncio.to_thread(file.write, chunk)
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
        self.answer(Said(near=True))
        return path.stat().st_size > 0

    async def wait_near(self) -> None:
        """Wait until the source says that its memory is nearly there; it is told to hurry. Raises LaunchFailed."""

        async def tell() -> None:
            await self.hurried.wait()
            self.answer(Said(hurry=True))

        telling = asyncio.create_task(tell())
        try:
            await hear(self._met.result()[0], Said, "that its memory is near", within_s=None)
        finally:
            telling.cancel()

    def close(self) -> None:
        """End the conversation."""
        if not self._met.cancel():
            self._met.result()[1].close()


class MeetingPoint:
    """Where this host's agent awaits others. address: HOST or HOST:PORT, as others reach it; of IPv6 in brackets.

    tls: None to speak without.
    """

    def __init__(self, address: str, tls: Contexts | None = None) -> None:
        self._tls = tls and tls[0]
        host, colon, port = address.rpartition(":")
        self._host, self._port = (host, int(port)) if colon and not address.endswith("]") else (address, 0)
        self._server: asyncio.Server | None = None
        self._meetings: dict[GuestKey, Meeting] = {}
        self._strangers: dict[asyncio.StreamWriter, None] = {}

    async def open(self) -> None:
        """Listen. Raises OSError."""
        host, tls = self._host.strip("[]"), self._tls
        handshake_s = LINE_S if tls else None
        self._server = await asyncio.start_server(
            self._take, host, self._port, ssl=tls, ssl_handshake_timeout=handshake_s
        )
        self._port = self._server.sockets[0].getsockname()[1]

    def expect(self, key: GuestKey) -> MemorySource:
        """Return where the memory of a guest is awaited from now on, with a new token."""
        self.forget(key)
        meeting = self._meetings[key] = Meeting(secrets.token_urlsafe(TOKEN_BYTES))
        return MemorySource(address=f"{self._host}:{self._port}", token=meeting.token)

    def get(self, key: GuestKey) -> Meeting:
        """Return the meeting of a guest. Raises LaunchFailed."""
        if (meeting := self._meetings.get(key)) is None:
            raise LaunchFailed("the agent was started anew since it said where it awaits the guest")
        return meeting

    def forget(self, key: GuestKey) -> None:
        """End the meeting of a guest, if there is one."""
        if (meeting := self._meetings.pop(key, None)) is not None:
            meeting.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection from whoever has a token."""
        try:
            hello = await self._greet(reader, writer)
            token = hello.token.encode()
            meetings = [item for item in self._meetings.values() if secrets.compare_digest(item.token.encode(), token)]
            if meetings and hello.channel == CONTROL and meetings[0].meet((reader, writer)):
                return
            if meetings and (path := meetings[0].sockets.pop(hello.channel, None)) is not None:
                with socket_name(path) as name:
                    local = await asyncio.open_unix_connection(name)
                return await relay((reader, writer), local)
            log.warning("a stranger wants to send memory", channel=hello.channel)
        except (LaunchFailed, OSError) as error:
            log.warning("a stream of a live migration ends", error=str(error))
        writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Hello:
        """Return who it is. Raises LaunchFailed."""
        self._strangers[writer] = None
        if len(self._strangers) > STRANGERS_MAX:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.transport.abort()
        try:
            hello: Hello = await hear(reader, Hello, "who it is", within_s=LINE_S)
            return hello
        finally:
            self._strangers.pop(writer, None)

    async def close(self) -> None:
        """Listen no more."""
        for key in list(self._meetings):
            self.forget(key)
        if self._server is not None:
            self._server.close()


async def prepare_receiving(guest: Guest, meeting: Meeting, *, has_disk: bool) -> None:
    """Have a waiting QEMU take what the source sends, with its disk or but for it. Raises LaunchFailed."""
    memory, disk = guest.files.run / MEMORY, guest.files.run / DISK
    for path in (memory, disk):
        path.unlink(missing_ok=True)
    if guest.meta.order.disk_gb and not has_disk:
        await guest.qmp.execute("nbd-server-start", {"addr": {"type": "unix", "data": {"path": str(disk)}}})
        await guest.qmp.execute(
            "block-export-add", {"type": "nbd", "id": "far", "node-name": "disk", "name": "disk", "writable": True}
        )
        meeting.sockets[DISK] = disk
    await guest.qmp.execute("migrate-incoming", {"uri": f"unix:{memory}"})
    meeting.sockets[MEMORY] = memory
    meeting.answer(Said(ready=True, has_disk=has_disk))


async def end_receiving(guest: Guest) -> None:
    """Have the guest be whole here: its memory has come. Raises LaunchFailed."""
    await guest.wait_migration("completed", within_s=FINISH_S)
    if guest.meta.order.disk_gb:
        with contextlib.suppress(QmpError):  # it was stopped before, or did not come
            await guest.qmp.execute("nbd-server-stop")
