"""Where two agents meet, without guests."""

import asyncio
import contextlib
import os
import random
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.agent.qemu.orders import make_order
from tests.authority import Authority

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.qemu.command import GuestFiles, Machine
from roost.agent.drivers.qemu.guest import Guest, GuestMeta
from roost.agent.drivers.qemu.moves import (
    CONTROL,
    MEMORY,
    Contexts,
    Hello,
    Meeting,
    MeetingPoint,
    Offer,
    Said,
    connect,
    hear,
    relay,
    say,
)
from roost.agent.drivers.qemu.sending import send_disk
from roost.platform.tls import peer_contexts
from roost.seams.guests import MemorySource

KEY = ("server", "h1")
OFFER = Offer(machine=Machine(accel="tcg", type="pc-q35-7.2", cpu="qemu64", cpu_name="qemu64"), disk_gb=1)


@contextlib.asynccontextmanager
async def point(tls: Contexts | None = None) -> AsyncIterator[tuple[MeetingPoint, MemorySource, Meeting]]:
    meeting_point = MeetingPoint("127.0.0.1", tls)
    await meeting_point.open()
    try:
        source = meeting_point.expect(KEY)
        yield meeting_point, source, meeting_point.get(KEY)
    finally:
        await meeting_point.close()


@contextlib.asynccontextmanager
async def connection(
    source: MemorySource, channel: str, *, token: str | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = source.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    say(writer, Hello(token=source.token if token is None else token, channel=channel))
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_two_agents_agree_on_a_guest() -> None:
    async with point() as (_, source, meeting), connection(source, CONTROL) as (reader, writer):
        say(writer, OFFER)
        assert await meeting.wait_offer() == OFFER
        meeting.answer(Said(ready=True))
        assert await hear(reader, Said, "that it takes the guest", within_s=5) == Said(ready=True)
        near = asyncio.create_task(meeting.wait_near())
        say(writer, Said(near=True))
        await asyncio.wait_for(near, 5)


async def test_the_source_is_told_to_hurry_and_says_when_the_memory_moves() -> None:
    async with point() as (_, source, meeting), connection(source, CONTROL) as (reader, writer):
        say(writer, OFFER)
        await meeting.wait_offer()
        near = asyncio.create_task(meeting.wait_near())
        meeting.hurried.set()
        assert await hear(reader, Said, "that it hurries", within_s=5) == Said(hurry=True)
        assert not near.done()
        say(writer, Said(near=True))
        await asyncio.wait_for(near, 5)


async def test_the_end_of_the_source_is_the_end() -> None:
    async with point() as (_, source, meeting):
        async with connection(source, CONTROL) as (_, writer):
            say(writer, OFFER)
            await meeting.wait_offer()
        with pytest.raises(LaunchFailed, match="ended the migration"):
            await meeting.wait_near()


async def test_a_token_is_good_for_one_meeting_and_each_stream_for_once(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        writer.close()

    server = await asyncio.start_unix_server(echo, tmp_path / "mem")
    async with point() as (meeting_point, source, meeting):
        async with connection(source, MEMORY) as (reader, _):
            assert await reader.read() == b"", "nobody awaits memory yet"
        meeting.sockets[MEMORY] = tmp_path / "mem"
        async with connection(source, MEMORY, token="guessed") as (reader, _):
            assert await reader.read() == b""
        async with connection(source, MEMORY) as (reader, writer):
            writer.write(b"pages")
            assert await reader.read() == b"pages"
        async with connection(source, MEMORY) as (reader, _):
            assert await reader.read() == b"", "it was taken"
        async with connection(source, CONTROL), connection(source, CONTROL) as (reader, _):
            assert await reader.read() == b"", "there is one source"
        later = meeting_point.expect(KEY)
        assert later.token != source.token
        async with connection(source, CONTROL) as (reader, _):
            assert await reader.read() == b"", "its token is of a meeting that was before"
    server.close()


async def test_strangers_that_say_nothing_keep_no_agent_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would hold a file of the agent's for a while: the oldest of too many are closed."""
    monkeypatch.setattr("roost.agent.drivers.qemu.moves.STRANGERS_MAX", 3)
    async with point() as (_, source, meeting), contextlib.AsyncExitStack() as strangers:
        host, _, port = source.address.rpartition(":")

        async def come() -> asyncio.StreamReader:
            reader, writer = await asyncio.open_connection(host, int(port))
            strangers.callback(writer.close)
            return reader

        for reader in [await come() for _ in range(5)][:2]:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
        async with connection(source, CONTROL) as (reader, writer):
            say(writer, OFFER)
            assert await asyncio.wait_for(meeting.wait_offer(), 5) == OFFER
            for _ in range(5):
                await come()
            meeting.answer(Said(ready=True))
            assert await hear(reader, Said, "that it takes the guest", within_s=5) == Said(ready=True)


@pytest.mark.parametrize(
    ("address", "host"), [("127.0.0.1", "127.0.0.1:"), ("127.0.0.1:0", "127.0.0.1:"), ("[::1]", "[::1]:")]
)
async def test_others_are_told_where_the_agent_listens(address: str, host: str) -> None:
    meeting_point = MeetingPoint(address)
    await meeting_point.open()
    told = meeting_point.expect(KEY).address
    assert told.startswith(host)
    assert int(told.removeprefix(host)) > 0
    await meeting_point.close()


# Disks of guests that do not run.


def stopped_guest(folder: Path, content: bytes, *, disk_gb: int = 1) -> Guest:
    disk = folder / "disk.qcow2"
    disk.write_bytes(content)
    meta = GuestMeta(order=make_order("stopped", disk_gb=disk_gb), state="stopped", machine=OFFER.machine, is_made=True)
    return Guest(meta, GuestFiles(folder, disk), (), lambda _guest: None)


@pytest.mark.parametrize(("size", "disk_gb", "has_disk"), [(3_000_001, 1, True), (9, 0, False)])
async def test_a_disk_comes_as_it_is(tmp_path: Path, size: int, disk_gb: int, has_disk: bool) -> None:
    content = random.Random(1).randbytes(size)
    async with point() as (_, source, meeting):
        sending = asyncio.create_task(send_disk(stopped_guest(tmp_path, content, disk_gb=disk_gb), source, None))
        assert await meeting.receive_disk(tmp_path / "here") is has_disk
        await sending
    assert (tmp_path / "here").read_bytes() == (content if has_disk else b"")


async def test_a_disk_is_written_out_whole_while_the_agent_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, bool]] = []

    def sync(fd: int) -> None:
        synced.append((os.fstat(fd).st_size, threading.current_thread() is threading.main_thread()))

    monkeypatch.setattr("os.fsync", sync)
    async with point() as (_, source, meeting):
        sending = asyncio.create_task(send_disk(stopped_guest(tmp_path, b"x" * 100), source, None))
        assert await meeting.receive_disk(tmp_path / "here")
        await sending
    assert synced == [(100, False)]


async def test_a_disk_that_is_slow_to_be_written_out_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("moves", "sending"):
        monkeypatch.setattr(f"roost.agent.drivers.qemu.{module}.FINISH_S", 0.2)
    monkeypatch.setattr("os.fsync", lambda _fd: time.sleep(0.5))
    async with point() as (_, source, meeting):
        sending = asyncio.create_task(send_disk(stopped_guest(tmp_path, b"x" * 100), source, None))
        assert await meeting.receive_disk(tmp_path / "here")
        await sending


async def test_a_disk_that_comes_in_part_is_none(tmp_path: Path) -> None:
    async with point() as (_, source, meeting):
        async with connection(source, CONTROL) as (_, writer):
            say(writer, Offer(machine=OFFER.machine, disk_gb=1, disk_bytes=100))
            writer.write(b"half")
        with pytest.raises(LaunchFailed, match="before the whole root disk was here"):
            await meeting.receive_disk(tmp_path / "here")


async def test_a_destination_that_gives_up_is_told_by_its_source(tmp_path: Path) -> None:
    async with point() as (meeting_point, source, meeting):
        sending = asyncio.create_task(send_disk(stopped_guest(tmp_path, b"x"), source, None))
        await meeting.wait_offer()
        meeting_point.forget(KEY)
        with pytest.raises(LaunchFailed, match="ended the migration"):
            await sending


async def test_what_takes_nothing_of_a_disk_and_what_sends_nothing_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("moves", "sending"):
        monkeypatch.setattr(f"roost.agent.drivers.qemu.{module}.FINISH_S", 0.2)
    async with point() as (_, source, meeting):
        sending = asyncio.create_task(send_disk(stopped_guest(tmp_path, b"x" * (64 << 20)), source, None))
        await meeting.wait_offer()
        meeting.answer(Said(ready=True))  # and reads no more
        with pytest.raises(LaunchFailed, match="took nothing of the root disk for 0 s"):
            await asyncio.wait_for(sending, 10)
    async with point() as (_, source, meeting), connection(source, CONTROL) as (_, writer):
        say(writer, Offer(machine=OFFER.machine, disk_gb=1, disk_bytes=100))
        with pytest.raises(LaunchFailed, match="nothing came of the root disk for 0 s"):
            await asyncio.wait_for(meeting.receive_disk(tmp_path / "here"), 10)


async def test_a_line_that_does_not_come_is_named() -> None:
    async with point() as (_, source, _), connection(source, CONTROL) as (reader, _):
        with pytest.raises(LaunchFailed, match="did not say that it takes the guest in time"):
            await hear(reader, Said, "that it takes the guest", within_s=0.1)


async def test_a_relay_that_is_ended_closes_both_its_ends() -> None:
    far: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far.append((reader, writer))

    server = await asyncio.start_server(take, "127.0.0.1")
    near = [await asyncio.open_connection(*server.sockets[0].getsockname()) for _ in range(2)]
    relaying = asyncio.create_task(relay(near[0], near[1]))
    await asyncio.wait([relaying], timeout=0.05)
    relaying.cancel()
    await asyncio.wait([relaying])
    for reader, writer in far:
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
    server.close()


# TLS.


async def test_agents_that_have_certificates_meet_under_tls_alone(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    tls = peer_contexts(authority.cert, *authority.sign("dest"))
    source_tls = peer_contexts(authority.cert, *authority.sign("source"))
    async with point(tls) as (_, source, meeting):
        sending = asyncio.create_task(send_disk(stopped_guest(tmp_path, b"secret" * 100_000), source, source_tls))
        assert await meeting.receive_disk(tmp_path / "here")
        await sending
        assert (tmp_path / "here").read_bytes() == b"secret" * 100_000
    stranger = (tls[0], peer_contexts(authority.cert, *other.sign("stranger"))[1])
    async with point(tls) as (_, source, meeting):
        for contexts in (None, stranger):  # who shows no certificate, and who shows one that nobody trusts
            with pytest.raises((LaunchFailed, OSError)):
                await asyncio.wait_for(send_disk(stopped_guest(tmp_path, b"x"), source, contexts), 10)
        elsewhere = MemorySource(address=source.address.replace("127.0.0.1", "localhost"), token=source.token)
        with pytest.raises(LaunchFailed, match=r"is not reached at localhost:.* under TLS: .*certificate"):
            await connect(elsewhere, CONTROL, source_tls)
        assert not meeting._met.done()
    async with point() as (_, source, _):
        with pytest.raises(LaunchFailed, match="is not reached"):
            await connect(source, CONTROL, source_tls)
