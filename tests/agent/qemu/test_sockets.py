"""What a guest that has broken out of its QEMU puts into the folder that its account can write."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from tests.agent.qemu.orders import SERVER_ID, make_order
from tests.agent.qemu.test_moves import OFFER, connection, point
from tests.agent.qemu.test_qmp import monitor

from roost.agent.drivers.programs import find_process
from roost.agent.drivers.qemu.command import GuestFiles, monitor_option
from roost.agent.drivers.qemu.guest import Guest, GuestMeta
from roost.agent.drivers.qemu.moves import MEMORY
from roost.agent.drivers.qemu.qmp import Qmp, QmpError, socket_name


def _put(kind: str, path: Path, target: Path) -> None:
    if kind == "link":
        path.symlink_to(target)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()


async def test_a_monitor_that_is_a_link_is_not_connected_to(tmp_path: Path) -> None:
    async with monitor(tmp_path / "roots") as heard:
        await (await Qmp.connect(tmp_path / "roots")).close()
        heard.clear()
        (tmp_path / "qmp").symlink_to(tmp_path / "roots")
        with pytest.raises(QmpError, match="qmp is no socket"):
            await Qmp.connect(tmp_path / "qmp")
        assert heard == []


async def test_a_stream_goes_to_no_link(tmp_path: Path) -> None:
    came: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_unix_server(take, tmp_path / "roots")
    (tmp_path / "mem").symlink_to(tmp_path / "roots")
    async with point() as (_, source, meeting):
        meeting.sockets[MEMORY] = tmp_path / "mem"
        async with connection(source, MEMORY) as (reader, writer):
            writer.write(b"words for root")
            assert await asyncio.wait_for(reader.read(), 5) == b""
    server.close()
    assert came == []


async def test_a_socket_is_meant_also_when_it_is_replaced(tmp_path: Path) -> None:
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"the first")
        writer.close()

    server = await asyncio.start_unix_server(greet, tmp_path / "mem")
    with socket_name(tmp_path / "mem") as name:
        (tmp_path / "mem").rename(tmp_path / "before")
        (tmp_path / "mem").symlink_to(tmp_path / "roots")
        reader, writer = await asyncio.open_unix_connection(name)
        assert await reader.read() == b"the first"
        writer.close()
    server.close()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "nothing"])
async def test_what_is_no_file_names_no_process_and_goes_with_the_guest(tmp_path: Path, kind: str) -> None:
    files = GuestFiles(tmp_path, tmp_path / "disk.qcow2")
    files.run.mkdir()
    meta = GuestMeta(order=make_order(), state="running", machine=OFFER.machine, is_made=True)
    guest = Guest(meta, files, (), lambda _guest: None)
    words = ("-uuid", SERVER_ID, monitor_option(files))
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(600)", *words)
    (tmp_path / "other").write_text(f"{process.pid}\n")
    try:
        assert find_process(tmp_path / "other", *words) == process.pid
        assert not files.pid.is_relative_to(files.run), "that folder is the guest's"
        _put(kind, files.pid, tmp_path / "other")
        assert guest.find_process() is None
        await guest.kill()
        assert not files.run.exists()
    finally:
        process.kill()
        await process.wait()
