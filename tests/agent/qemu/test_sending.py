"""The copy of a root disk, whose QEMU says what a script says: what is over is not taken for whole."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.qemu.orders import make_order
from tests.agent.qemu.test_moves import OFFER, point
from tests.agent.qemu.test_qmp import monitor

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.qemu import sending as sends
from roost.agent.drivers.qemu.command import GuestFiles
from roost.agent.drivers.qemu.guest import Guest, GuestMeta
from roost.agent.drivers.qemu.moves import DISK, MEMORY, Meeting, Said
from roost.agent.drivers.qemu.qmp import Qmp
from roost.agent.drivers.qemu.sending import Sending, end_mirror, mirror_disk

READY = {"status": "ready", "ready": True}
WHOLE = {"status": "concluded", "ready": False}
FULL = {**WHOLE, "error": "No space left on device"}
STATUSES = {"migrate": "pre-switchover", "migrate-continue": "completed", "migrate_cancel": "cancelled"}
JOB_STARTED = "blockdev-mirror"


class Qemu:
    """A QEMU whose memory is nearly copied. job: of the mirror; one that is over stays until it is dismissed."""

    def __init__(self, *, job: dict[str, Any] | None = None, ends_as: dict[str, Any] = WHOLE) -> None:
        self.job, self.ends_as = job, ends_as
        self.status = "none"

    def answer(self, said: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what it says, as QEMU 7.2 does."""
        told: dict[str, Any] = {"return": {}}
        match said["execute"]:
            case "blockdev-mirror":
                assert said["arguments"]["auto-dismiss"] is False
                self.job = READY
            case "block-job-cancel" if self.job != READY:
                told = {"error": {"desc": "Job 'mirror' in state 'concluded' cannot accept command verb 'cancel'"}}
            case "block-job-cancel":
                self.job = self.ends_as
            case "job-dismiss":
                self.job = None
            case "query-block-jobs":
                told["return"] = [] if self.job is None else [{"device": "mirror", **self.job}]
            case "migrate" | "migrate-continue" | "migrate_cancel" as command:
                self.status = STATUSES[command]
            case "query-migrate":
                told["return"] = {"status": self.status, "ram": {"transferred": 1, "remaining": 0}}
        return [{"id": said["id"], **told}]


@contextlib.asynccontextmanager
async def guest_of(folder: Path, qemu: Qemu) -> AsyncIterator[tuple[Guest, list[dict[str, Any]]]]:
    files = GuestFiles(folder, folder / "disk.qcow2")
    files.run.mkdir()
    meta = GuestMeta(order=make_order(disk_gb=1), state="running", machine=OFFER.machine, is_made=True)
    guest = Guest(meta, files, (), lambda _guest: None)
    async with monitor(files.qmp, qemu.answer) as heard:
        await guest.connect()
        try:
            yield guest, heard
        finally:
            await guest.disconnect()


@pytest.mark.parametrize(
    ("job", "ends_as", "reason"),
    [
        (READY, WHOLE, None),
        (READY, FULL, "No space left on device"),
        (WHOLE, WHOLE, None),
        (FULL, WHOLE, "No space left on device"),
        (None, WHOLE, "its copy is gone"),
    ],
)
async def test_only_a_copy_that_is_whole_ends_well(
    tmp_path: Path, job: Any, ends_as: dict[str, Any], reason: str | None
) -> None:
    qemu = Qemu(job=job, ends_as=ends_as)
    async with guest_of(tmp_path, qemu) as (guest, heard):
        fails = pytest.raises(LaunchFailed, match=f"the root disk was not copied: {reason}")
        with fails if reason else contextlib.nullcontext():
            await end_mirror(guest)
        assert qemu.job is None, "nothing of it is left"
        assert heard[-1]["execute"] == "blockdev-del"
        qemu.job = job
        await end_mirror(guest, force=True)
        assert qemu.job is None


async def test_a_copy_that_stands_still_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowQemu(Qemu):
        def answer(self, said: dict[str, Any]) -> list[dict[str, Any]]:
            told = super().answer(said)
            if said["execute"] == JOB_STARTED:
                self.job = {"status": "running", "ready": False, "offset": 0}
            elif self.job is not None and self.job["offset"] < 4096:
                self.job = {**self.job, "offset": self.job["offset"] + 1024}
            return told

    monkeypatch.setattr(sends, "STALL_S", 0.2)
    async with guest_of(tmp_path, SlowQemu()) as (guest, _):
        with pytest.raises(LaunchFailed, match="the root disk was not copied: for 0 s there were 4096 bytes of it"):
            await asyncio.wait_for(mirror_disk(guest, "nbd"), 5)


async def test_a_copy_whose_zeros_take_long_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """QEMU has the other disk be empty first, and says nothing of it: it took 100 s for 10 TB."""

    class ZeroingQemu(Qemu):
        zeros = 0

        def answer(self, said: dict[str, Any]) -> list[dict[str, Any]]:
            if said["execute"] == "query-blockstats":
                self.zeros += 1024
                self.job = {"status": "running", "ready": self.zeros > 10_000, "offset": 0}
                stats = [{"node-name": "far", "stats": {"wr_highest_offset": self.zeros}}]
                return [{"id": said["id"], "return": [*stats, {"stats": {"wr_highest_offset": 7}}]}]
            told = super().answer(said)
            if said["execute"] == JOB_STARTED:
                self.job = {"status": "running", "ready": False, "offset": 0}
            return told

    monkeypatch.setattr(sends, "STALL_S", 0.2)
    async with guest_of(tmp_path, ZeroingQemu()) as (guest, _):
        await asyncio.wait_for(mirror_disk(guest, "nbd"), 5)


async def test_a_copy_that_fails_before_it_is_ready_is_told(tmp_path: Path) -> None:
    class FullQemu(Qemu):
        def answer(self, said: dict[str, Any]) -> list[dict[str, Any]]:
            told = super().answer(said)
            self.job = FULL if said["execute"] == JOB_STARTED else self.job
            return told

    async with guest_of(tmp_path, FullQemu()) as (guest, _):
        with pytest.raises(LaunchFailed, match="the root disk was not copied: No space left on device"):
            await asyncio.wait_for(mirror_disk(guest, "nbd"), 5)


async def begun(sending: Sending) -> None:
    while not sending.has_begun:
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def held(folder: Path, qemu: Qemu) -> AsyncIterator[tuple[Sending, list[dict[str, Any]], Meeting]]:
    """Give a live migration whose copy is held, near its end, with what its QEMU heard, and where it is awaited."""
    async with guest_of(folder, qemu) as (guest, heard), point() as (_, source, meeting):
        sending = Sending(guest, source)
        beginning = asyncio.create_task(begun(sending))
        await meeting.wait_offer()
        meeting.answer(Said(ready=True))
        await asyncio.wait_for(beginning, 5)
        try:
            yield sending, heard, meeting
        finally:
            await sending.cancel()


async def test_memory_that_is_far_from_its_end_is_near_once_the_destination_hurries(tmp_path: Path) -> None:
    class FarQemu(Qemu):
        def answer(self, said: dict[str, Any]) -> list[dict[str, Any]]:
            told = super().answer(said)
            self.status = "active" if said["execute"] == "migrate" else self.status
            if said["execute"] == "query-migrate":
                told[0]["return"]["ram"]["remaining"] = 1 << 40
            return told

    async with held(tmp_path, FarQemu()) as (sending, _, meeting):
        near = asyncio.create_task(meeting.wait_near())
        await asyncio.wait([near], timeout=0.2)
        assert not near.done()
        meeting.hurried.set()
        await asyncio.wait_for(asyncio.gather(near, sending.wait_near()), 5)


async def test_memory_is_not_sent_after_a_disk_that_is_not_whole(tmp_path: Path) -> None:
    qemu = Qemu()
    async with held(tmp_path, qemu) as (sending, heard, _):
        qemu.job = FULL
        with pytest.raises(LaunchFailed, match="the root disk was not copied: No space left on device"):
            await sending.finish()
        assert "migrate-continue" not in [item["execute"] for item in heard]


async def test_memory_is_sent_after_a_disk_that_is_whole(tmp_path: Path) -> None:
    qemu = Qemu()
    async with held(tmp_path, qemu) as (sending, heard, _):
        await sending.finish()
        said = [item["execute"] for item in heard]
        assert said.index("job-dismiss") < said.index("migrate-continue")


async def test_a_qemu_is_given_its_streams_and_no_place_where_it_could_replace_one(tmp_path: Path) -> None:
    async with held(tmp_path, Qemu()) as (sending, heard, _):
        files = sending.guest.files
        arguments = {item["execute"]: item.get("arguments") for item in heard}
        assert [item["arguments"]["fdname"] for item in heard if item["execute"] == "getfd"] == [DISK, MEMORY]
        assert arguments["migrate"] == {"uri": f"fd:{MEMORY}"}
        assert arguments["blockdev-add"]["server"] == {"type": "fd", "str": DISK}
        assert list(files.run.iterdir()) == [files.qmp]
        assert list(files.folder.iterdir()) == [files.run]


async def test_a_held_copy_ends_when_its_disk_does(tmp_path: Path) -> None:
    qemu = Qemu()
    async with held(tmp_path, qemu) as (sending, _, _):
        qemu.job = FULL
        async with asyncio.timeout(5):
            while not sending.is_over or qemu.status != "cancelled":  # by itself, and it leaves nothing
                await asyncio.sleep(0.01)


class WaitingQemu(Qemu):
    """A QEMU whose copy waits for the other end, and ends only when that is gone."""

    is_gone = False

    def answer(self, said: dict[str, Any]) -> list[dict[str, Any]]:
        job = self.job
        told = super().answer(said)
        if said["execute"] == "block-job-cancel" and job == READY:
            self.job = READY
        if said["execute"] == "query-block-jobs" and self.is_gone and self.job is not None:
            self.job = WHOLE
        return told


async def test_a_copy_that_does_not_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sends, "END_S", 0.1)
    async with guest_of(tmp_path, WaitingQemu(job=READY)) as (guest, _):
        with pytest.raises(LaunchFailed, match="the root disk's copy did not end within 0 s: it is ready"):
            await asyncio.wait_for(end_mirror(guest), 5)


async def test_a_copy_that_waits_for_the_other_end_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams: dict[str, int] = {}

    async def keep(_qmp: Qmp, name: str, fd: int) -> None:
        streams[name] = os.dup(fd)

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def see_end(fd: int, qemu: WaitingQemu) -> None:
        reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=fd))
        await reader.read()
        writer.close()
        qemu.is_gone = True

    monkeypatch.setattr(Qmp, "send_file", keep)
    qemu = WaitingQemu()
    server = await asyncio.start_unix_server(say_nothing, tmp_path / "stuck")
    async with guest_of(tmp_path, qemu) as (guest, _), point() as (_, source, meeting):
        sending = Sending(guest, source)
        beginning = asyncio.create_task(begun(sending))
        await meeting.wait_offer()
        meeting.sockets[DISK] = tmp_path / "stuck"
        meeting.answer(Said(ready=True))
        await asyncio.wait_for(beginning, 5)
        copying = asyncio.create_task(see_end(streams.pop(DISK), qemu))
        await asyncio.wait([copying], timeout=0.2)
        assert not copying.done()
        await asyncio.wait_for(sending.cancel(), 5)
        await asyncio.wait_for(copying, 5)
        assert qemu.job is None
    os.close(streams.pop(MEMORY))
    server.close()


async def test_a_migration_is_cancelled_once(tmp_path: Path) -> None:
    async with held(tmp_path, Qemu()) as (sending, heard, _):
        await asyncio.gather(sending.cancel(), sending.cancel())
        await sending.cancel()
        assert [item["execute"] for item in heard].count("block-job-cancel") == 2, (
            "once at its beginning, once at its end"
        )


async def test_who_cancels_a_migration_that_is_being_cancelled_waits_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, ended = asyncio.Event(), []

    async def end_leftovers(guest: Guest) -> None:
        await may_end.wait()
        ended.append(guest)

    async with held(tmp_path, Qemu()) as (sending, _, _):
        monkeypatch.setattr(sends, "end_leftovers", end_leftovers)
        first = asyncio.create_task(sending.cancel())
        await asyncio.wait([first], timeout=0.05)
        second = asyncio.create_task(sending.cancel())
        await asyncio.wait([first, second], timeout=0.05)
        assert (first.done(), second.done(), sending.is_over) == (False, False, True)
        may_end.set()
        await asyncio.wait_for(asyncio.gather(first, second), 5)
        assert ended == [sending.guest]
