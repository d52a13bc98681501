"""Migration: two agents meet over TCP, and QEMU's streams go through them.

The destination listens. Who comes says a token, which is good for one meeting, and which stream it is: `control`, in
which the two agents speak, then `mem` and `nbd`, which are carried as they are: from an open file that the source gives
its QEMU, to a Unix socket of the destination's. The disk of a guest that does not run goes over `control`. Agents that
have certificates meet under TLS, with every stream. The memory's copy is held before its end by throttling it: its rate
follows what is left, so the guest runs on until the source is told to stop.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.qemu.command import Machine, Plug
from roost.agent.drivers.qemu.guest import RATE_MOST, Guest
from roost.agent.drivers.qemu.mirror import check_mirror, end_leftovers, end_mirror, mirror_disk, wait_copied
from roost.agent.drivers.qemu.qmp import QmpError, socket_name
from roost.seams.agent import NICS_UP, GuestKey
from roost.seams.guests import MemorySource

CONTROL, MEMORY, DISK = "control", "mem", "nbd"
LINE_S = 15.0
"""How long the other agent may take for a line that needs no work."""
MEET_S = 120.0
"""How long the destination waits for the source."""
READY_S = 120.0
FINISH_S = 60.0
WRITTEN_S = 600.0
"""How long a whole disk may take from the host's memory to the host's disk."""
LOOK_S = 0.05
CHUNK = 1 << 18
BOUND = 24 * 1024 * 1024
"""Bytes of memory at which the copy is held."""
RATE_LEAST = 8192
TOKEN_BYTES = 32

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


def rate_of(remaining: int) -> int:
    """Return at how many bytes a second memory is to be copied: what is left above the bound, in a second."""
    return max(RATE_LEAST, min(RATE_MOST, remaining - BOUND))


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


async def send_disk(guest: Guest, source: MemorySource, tls: Contexts | None) -> None:
    """Send the disk of a guest that was stopped for that, and stays as it is; once its memory is sent there is no more.

    Raises LaunchFailed, OSError.
    """
    if guest.meta.state in NICS_UP:
        raise LaunchFailed(
            "the server's memory is on its way nowhere: its disk was not copied yet, or the agent was started anew"
        )
    if guest.meta.leaving:
        return
    disk = guest.files.disk
    size = disk.stat().st_size if guest.meta.order.disk_gb else 0
    reader, writer = await connect(source, CONTROL, tls)
    try:
        say(writer, Offer(machine=guest.meta.machine, disk_gb=guest.meta.order.disk_gb, disk_bytes=size))
        await hear(reader, Said, "that it takes the root disk", within_s=READY_S)
        if size:
            with disk.open("rb") as file:
                while chunk := await asyncio.to_thread(file.read, CHUNK):
                    writer.write(chunk)
                    await asyncio.wait_for(writer.drain(), FINISH_S)
        await hear(reader, Said, "that it has the root disk", within_s=WRITTEN_S)
    except TimeoutError as error:
        raise LaunchFailed(f"the other host's agent took nothing of the root disk for {FINISH_S:.0f} s") from error
    finally:
        writer.close()


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

    async def open(self) -> None:
        """Listen. Raises OSError."""
        self._server = await asyncio.start_server(self._take, self._host.strip("[]"), self._port, ssl=self._tls)
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
            hello: Hello = await hear(reader, Hello, "who it is", within_s=LINE_S)
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
        await guest.qmp.execute("nbd-server-start", addr={"type": "unix", "data": {"path": str(disk)}})
        await guest.qmp.execute("block-export-add", type="nbd", id="far", node_name="disk", name="disk", writable=True)
        meeting.sockets[DISK] = disk
    await guest.qmp.execute("migrate-incoming", uri=f"unix:{memory}")
    meeting.sockets[MEMORY] = memory
    meeting.answer(Said(ready=True, has_disk=has_disk))


async def end_receiving(guest: Guest) -> None:
    """Have the guest be whole here: its memory has come. Raises LaunchFailed."""
    await guest.wait_migration("completed", within_s=FINISH_S)
    if guest.meta.order.disk_gb:
        with contextlib.suppress(QmpError):  # it was stopped before, or did not come
            await guest.qmp.execute("nbd-server-stop")


class Sending:
    """A guest's memory on its way to another host, by a task that leaves nothing of it where it fails.

    source: the meeting. is_over: it ends, or has ended, without success.
    """

    def __init__(self, guest: Guest, source: MemorySource, tls: Contexts | None = None) -> None:
        self.source = source
        self.guest = guest
        self._tls = tls
        self._begun, self._near, self._last = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.is_over = self._mirrors = self._hurries = False
        self._relays: set[asyncio.Task[Any]] = set()
        self._listening: asyncio.Task[None] | None = None
        self._control: Streams | None = None
        self._failure: BaseException | None = None
        self._task = asyncio.create_task(self._run())

    async def wait_begun(self) -> None:
        """Wait until memory is copied; its disk is by then, where it must be. Raises LaunchFailed."""
        await self._wait(self._begun)

    async def wait_near(self) -> None:
        """Wait until what is left is below the bound, where it is held. Raises LaunchFailed."""
        await self._wait(self._near)

    async def finish(self) -> None:
        """Send what is left of a guest whose NICs are down, which stands then. Raises LaunchFailed."""
        self._last.set()
        await self._wait(asyncio.Event())

    async def cancel(self) -> None:
        """Leave nothing of it; the guest is as it was.

        It is done once, and whoever asks waits for that: done again, it would end the guest's next migration.
        """
        if not self.is_over:
            self.is_over = True  # R53
            self._task.cancel()
        await asyncio.wait([self._task])

    async def _wait(self, event: asyncio.Event) -> None:
        """Wait for an event of the task, or its end. Raises LaunchFailed where it fails first."""
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if isinstance(self._failure, asyncio.CancelledError):
            raise LaunchFailed("the migration was ended before the memory was copied")
        if self._failure is not None:
            raise self._failure

    async def _run(self) -> None:
        try:
            await self._copy()
        except BaseException as error:  # whoever waits raises it
            self._failure, self.is_over = error, True
            self._close()  # first: QEMU ends nothing that waits for the other end
            await end_leftovers(self.guest)
        finally:
            self._close()

    async def _copy(self) -> None:
        """Copy, hold what is left until the last of it is to be sent, and send that. Raises LaunchFailed."""
        reader, writer = self._control = await connect(self.source, CONTROL, self._tls)
        async with self.guest.plugging:  # what is plugged is said, and stays so
            await self._begin(reader, writer)
        self._begun.set()
        self._listening = asyncio.create_task(self._listen(reader))
        await wait_copied(self._keep_rate, "memory")
        say(writer, Said(near=True))
        self._near.set()
        while not self._last.is_set():
            await self._keep_rate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._last.wait(), LOOK_S)
        await self._send_last()

    async def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        guest, order = self.guest, self.guest.meta.order
        await guest.note_plugs()
        say(writer, Offer(machine=guest.meta.machine, disk_gb=order.disk_gb, plugs=guest.meta.plugs))
        answer: Said = await hear(reader, Said, "that it takes the guest", within_s=READY_S)
        if not answer.ready:
            raise LaunchFailed(f"the server cannot be migrated live: {answer.refused}")
        await end_leftovers(guest)
        self._mirrors = bool(order.disk_gb) and not answer.has_disk
        if self._mirrors:
            await self._open(DISK)
            await mirror_disk(guest, DISK)
        await self._open(MEMORY)
        await guest.begin_migration(f"fd:{MEMORY}", pauses=True, max_bandwidth=RATE_LEAST, downtime_limit=1)

    async def _keep_rate(self) -> int | None:
        """Have the rate follow what is left; return how much was sent, None near the end. Raises LaunchFailed."""
        migration = await self.guest.find_migration()
        if self._mirrors:
            await check_mirror(self.guest)
        ram = migration.get("ram", {})
        sent: int = ram.get("transferred", 0)
        if migration.get("status") == "active" and sent:
            await self.guest.qmp.execute("migrate-set-parameters", max_bandwidth=rate_of(ram["remaining"]))
        is_near = sent and (self._hurries or self._last.is_set() or ram["remaining"] <= 2 * BOUND)
        return None if is_near or migration.get("status") in ("pre-switchover", "completed") else sent

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Take note that the destination is told to hurry."""
        with contextlib.suppress(LaunchFailed):
            answer: Said = await hear(reader, Said, "that it hurries", within_s=None)
            self._hurries = answer.hurry

    async def _send_last(self) -> None:
        qmp = self.guest.qmp
        await qmp.execute("stop")
        if self._mirrors:
            await end_mirror(self.guest)
        await qmp.execute("migrate-set-parameters", max_bandwidth=RATE_MOST, downtime_limit=int(FINISH_S) * 1000)
        if await self.guest.wait_migration("pre-switchover", "completed", within_s=FINISH_S) == "pre-switchover":
            await qmp.execute("migrate-continue", state="pre-switchover")
            await self.guest.wait_migration("completed", within_s=FINISH_S)
        if self._relays:
            await asyncio.wait(self._relays, timeout=LINE_S)

    def _close(self) -> None:
        for task in self._relays:
            task.cancel()
        if self._listening is not None:
            self._listening.cancel()
        if self._control is not None:
            self._control[1].close()

    async def _open(self, channel: str) -> None:
        """Give QEMU a stream to the destination, as an open file that it calls by the channel's name."""
        far = await connect(self.source, channel, self._tls)
        own, qemus = socket.socketpair()
        with qemus:
            self._relays.add(asyncio.create_task(relay(await asyncio.open_connection(sock=own), far)))
            await self.guest.qmp.send_file(channel, qemus.fileno())
