"""What the source of a migration sends: a guest's memory, with its root disk where that must go too, or the disk alone.

The memory's copy is held before its end by throttling it: its rate follows what is left, so the guest runs on until the
source is told to stop. The disk's copy follows every write until it is ended; its job stays in QEMU when it is over, so
that whoever ends it sees whether the destination's disk is whole.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.qemu.guest import RATE_MOST, Guest
from roost.agent.drivers.qemu.moves import (
    CHUNK,
    CONTROL,
    DISK,
    FINISH_S,
    LINE_S,
    MEMORY,
    Contexts,
    Offer,
    Said,
    Streams,
    connect,
    hear,
    relay,
    say,
)
from roost.agent.drivers.qemu.qmp import QmpError
from roost.seams.agent import NICS_UP
from roost.seams.guests import MemorySource

READY_S = 120.0
WRITTEN_S = 600.0
"""How long a whole disk may take from the host's memory to the host's disk."""
BOUND = 24 * 1024 * 1024
"""Bytes of memory at which the copy is held."""
RATE_LEAST = 8192
END_S = 60.0
STALL_S = 60.0
"""How long a copy may stand."""
LOOK_S = 0.05


class Sending:
    """A guest's memory on its way to another host, by a task that leaves nothing of it where it fails.

    source: the meeting. has_begun: memory is copied; its disk is by then, where it must be. is_over: it ends, or has
    ended, without success.
    """

    def __init__(self, guest: Guest, source: MemorySource, tls: Contexts | None = None) -> None:
        self.source = source
        self.guest = guest
        self._tls = tls
        self._near, self._last = asyncio.Event(), asyncio.Event()
        self.has_begun = self.is_over = self._mirrors = self._hurries = False
        self._relays: set[asyncio.Task[Any]] = set()
        self._listening: asyncio.Task[None] | None = None
        self._control: Streams | None = None
        self._failure: BaseException | None = None
        self._task = asyncio.create_task(self._run())

    async def wait_near(self) -> None:
        """Wait until what is left is below the bound, where it is held. Raises LaunchFailed."""
        await self._wait(self._near)

    async def finish(self) -> None:
        """Send what is left of a guest whose NICs are down, which stands then. Raises LaunchFailed."""
        self._last.set()
        await self._wait(asyncio.Event())  # which nobody sets: its end

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
        self.has_begun = True
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
        await guest.begin_migration(f"fd:{MEMORY}", {"max-bandwidth": RATE_LEAST, "downtime-limit": 1}, pauses=True)

    async def _keep_rate(self) -> int | None:
        """Have the rate follow what is left; return how much was sent, None near the end. Raises LaunchFailed."""
        migration = await self.guest.find_migration()
        if self._mirrors:
            await check_mirror(self.guest)
        ram = migration.get("ram", {})
        sent: int = ram.get("transferred", 0)
        if migration.get("status") == "active" and sent:
            await self.guest.qmp.execute("migrate-set-parameters", {"max-bandwidth": rate_of(ram["remaining"])})
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
        await qmp.execute(
            "migrate-set-parameters", {"max-bandwidth": RATE_MOST, "downtime-limit": int(FINISH_S) * 1000}
        )
        if await self.guest.wait_migration("pre-switchover", "completed", within_s=FINISH_S) == "pre-switchover":
            await qmp.execute("migrate-continue", {"state": "pre-switchover"})
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


def rate_of(remaining: int) -> int:
    """Return at how many bytes a second memory is to be copied: what is left above the bound, in a second."""
    return max(RATE_LEAST, min(RATE_MOST, remaining - BOUND))


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


async def mirror_disk(guest: Guest, stream: str) -> None:
    """Have the destination's disk be as this one, and stay so. stream: to it, as QEMU calls it. Raises LaunchFailed."""
    server = {"type": "fd", "str": stream}
    await guest.qmp.execute(
        "blockdev-add", {"driver": "nbd", "node-name": "far", "server": server, "export": "disk", "discard": "unmap"}
    )
    await guest.qmp.execute(
        "blockdev-mirror",
        {"job-id": "mirror", "device": "disk", "target": "far", "sync": "full", "auto-dismiss": False},
    )
    await wait_copied(partial(check_mirror, guest), "root disk")


async def check_mirror(guest: Guest) -> int | None:
    """Return a number that grows while the disk is copied, None once the destination's is as this one.

    Raises LaunchFailed, also where the copy is over.
    """
    job = await _find_job(guest)
    if job is None or job["status"] == "concluded":
        raise _not_copied(job)
    if job["ready"]:
        return None
    # The job does not count the zeros, which go first.
    nodes = await guest.qmp.execute("query-blockstats", {"query-nodes": True})
    zeros: int = sum(node["stats"]["wr_highest_offset"] for node in nodes if node.get("node-name") == "far")
    return int(job["offset"]) + zeros


async def wait_copied(look: Callable[[], Awaitable[int | None]], what: str) -> None:
    """Look until there is nothing to wait for. Raises LaunchFailed where as much is copied as STALL_S before.

    look: returns how many bytes were copied, and None at the end.
    """
    before, since_s = -1, time.monotonic()
    while (copied := await look()) is not None:
        if copied != before:
            before, since_s = copied, time.monotonic()
        elif time.monotonic() > since_s + STALL_S:
            raise LaunchFailed(f"the {what} was not copied: for {STALL_S:.0f} s there were {copied} bytes of it")
        await asyncio.sleep(LOOK_S)


async def end_mirror(guest: Guest, *, force: bool = False) -> None:
    """Have the destination's disk as it is now, and no more; with force, it may lack something.

    Raises LaunchFailed, also where it lacks something.
    """
    deadline_s = time.monotonic() + END_S
    with contextlib.suppress(QmpError):  # it is over, by itself
        await guest.qmp.execute("block-job-cancel", {"device": "mirror", "force": force})
    while (job := await _find_job(guest)) is not None and job["status"] != "concluded":
        if time.monotonic() > deadline_s:
            raise LaunchFailed(f"the root disk's copy did not end within {END_S:.0f} s: it is {job['status']}")
        await asyncio.sleep(LOOK_S)
    if job is not None:
        await guest.qmp.execute("job-dismiss", {"id": "mirror"})
    await guest.qmp.execute("blockdev-del", {"node-name": "far"})
    if not force and (job is None or "error" in job):
        raise _not_copied(job)


async def end_leftovers(guest: Guest) -> None:
    """Have a guest's QEMU send neither memory nor disk, whoever had it do so."""
    await guest.cancel_migration()
    with contextlib.suppress(LaunchFailed):
        if guest.meta.order.disk_gb:
            await end_mirror(guest, force=True)


def _not_copied(job: dict[str, Any] | None) -> LaunchFailed:
    reason = (job or {}).get("error", "its copy is gone")
    return LaunchFailed(f"the root disk was not copied: {reason}")


async def _find_job(guest: Guest) -> dict[str, Any] | None:
    jobs: list[dict[str, Any]] = await guest.qmp.execute("query-block-jobs")
    return next((job for job in jobs if job["device"] == "mirror"), None)
