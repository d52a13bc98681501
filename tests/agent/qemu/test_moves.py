"""Where two agents meet, without guests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.qemu.command import Machine
from roost.agent.drivers.qemu.moves import CONTROL, MEMORY, Hello, Meeting, MeetingPoint, Offer, Said, hear, say
from roost.seams.guests import MemorySource

KEY = ("server", "h1")
OFFER = Offer(machine=Machine(accel="tcg", type="pc-q35-7.2", cpu="qemu64", cpu_name="qemu64"), disk_gb=1)


@contextlib.asynccontextmanager
async def point() -> AsyncIterator[tuple[MeetingPoint, MemorySource, Meeting]]:
    meeting_point = MeetingPoint("127.0.0.1")
    await meeting_point.open()
    try:
        source = meeting_point.expect(KEY)
        meeting = meeting_point.find(KEY)
        assert meeting is not None
        yield meeting_point, source, meeting
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
        assert await hear(reader, Said, within_s=5) == Said(ready=True)
        near = asyncio.create_task(meeting.wait_near())
        say(writer, Said(near=True))
        await asyncio.wait_for(near, 5)


async def test_whoever_hurries_does_not_wait() -> None:
    async with point() as (_, source, meeting), connection(source, CONTROL) as (_, writer):
        say(writer, OFFER)
        await meeting.wait_offer()
        meeting.hurried.set()
        await asyncio.wait_for(meeting.wait_near(), 5)


async def test_the_end_of_the_source_is_the_end() -> None:
    async with point() as (_, source, meeting):
        async with connection(source, CONTROL) as (_, writer):
            say(writer, OFFER)
            await meeting.wait_offer()
        with pytest.raises(LaunchFailed, match="ended the live migration"):
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
