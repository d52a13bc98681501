"""QMP against a socket that says what a script says."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from roost.agent.drivers.qemu.qmp import Qmp, QmpError

GREETING = {"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}}, "capabilities": []}}
Answer = Callable[[dict[str, Any]], list[dict[str, Any]]]


def _agree(said: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"return": {}, "id": said["id"]}]


@contextlib.asynccontextmanager
async def monitor(path: Path, answer: Answer = _agree, *, greets: bool = True) -> AsyncIterator[list[dict[str, Any]]]:
    """Serve one connection after the other; yield what was said to it."""
    heard: list[dict[str, Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if greets:
            writer.write(json.dumps(GREETING).encode() + b"\r\n")
        while line := await reader.readline():
            heard.append(json.loads(line))
            if heard[-1]["execute"] == "quit":
                break
            answers = _agree(heard[-1]) if heard[-1]["execute"] == "qmp_capabilities" else answer(heard[-1])
            writer.write(b"".join(json.dumps(item).encode() + b"\r\n" for item in answers))
        writer.close()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield heard
    finally:
        server.close()


async def test_a_command_gets_its_answer(tmp_path: Path) -> None:
    def status(said: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"event": "STOP"}, {"return": {"status": "running"}, "id": said["id"]}]

    async with monitor(tmp_path / "qmp", status) as heard:
        qmp = await Qmp.connect(tmp_path / "qmp")
        events: list[str] = []
        qmp.on_event = lambda event: events.append(event["event"])
        answer = await qmp.execute("migrate-set-parameters", {"max-bandwidth": 8192, "a_b": 1})
        assert answer == {"status": "running"}
        assert events == ["STOP"]
        assert heard[1]["arguments"] == {"max-bandwidth": 8192, "a_b": 1}
        await qmp.close()


async def test_answers_in_another_order_find_who_asked(tmp_path: Path) -> None:
    said_first: list[dict[str, Any]] = []

    def backwards(said: dict[str, Any]) -> list[dict[str, Any]]:
        said_first.append(said)
        return [{"return": item["execute"], "id": item["id"]} for item in reversed(said_first)][
            : 2 * (len(said_first) - 1)
        ]

    async with monitor(tmp_path / "qmp", backwards):
        qmp = await Qmp.connect(tmp_path / "qmp")
        assert await asyncio.gather(qmp.execute("one"), qmp.execute("two")) == ["one", "two"]
        await qmp.close()


async def test_a_refusal_is_qemus_sentence(tmp_path: Path) -> None:
    def refuse(said: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"error": {"class": "GenericError", "desc": "Device 'n9' not found"}, "id": said["id"]}]

    async with monitor(tmp_path / "qmp", refuse):
        qmp = await Qmp.connect(tmp_path / "qmp")
        with pytest.raises(QmpError, match="Device 'n9' not found"):
            await qmp.execute("device_del", {"id": "n9"})
        await qmp.close()


async def test_the_end_of_qemu_is_told_once_and_fails_who_waits(tmp_path: Path) -> None:
    async with monitor(tmp_path / "qmp"):
        qmp = await Qmp.connect(tmp_path / "qmp")
        ends: list[bool] = []
        qmp.on_close = lambda: ends.append(True)
        with pytest.raises(QmpError, match="QEMU closed the connection"):
            await qmp.execute("quit")
        with pytest.raises(QmpError, match="closed"):
            await qmp.execute("query-status")
        await qmp.close()
        assert ends == [True]


async def test_a_close_of_our_own_is_told_to_nobody(tmp_path: Path) -> None:
    async with monitor(tmp_path / "qmp"):
        qmp = await Qmp.connect(tmp_path / "qmp")
        ends: list[bool] = []
        qmp.on_close = lambda: ends.append(True)
        await qmp.close()
        assert not ends


async def test_a_silent_qemu_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roost.agent.drivers.qemu.qmp.CONNECT_S", 0.05)
    async with monitor(tmp_path / "qmp", greets=False):
        with pytest.raises(QmpError, match="took too long"):
            await Qmp.connect(tmp_path / "qmp")
    with pytest.raises(QmpError, match="does not answer at"):
        await Qmp.connect(tmp_path / "nothing")


async def test_a_qemu_that_begins_just_now_is_waited_for(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "qmp"))  # and does not listen yet
    connecting = asyncio.create_task(Qmp.connect(tmp_path / "qmp"))
    await asyncio.sleep(0.05)
    listener.listen()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(json.dumps(GREETING).encode() + b"\n")
            connection.sendall(_answer_of(connection.recv(65536)))

    await asyncio.to_thread(serve)
    await (await connecting).close()
    listener.close()


async def test_a_command_without_an_answer_ends(tmp_path: Path) -> None:
    async with monitor(tmp_path / "qmp", lambda _said: []):
        qmp = await Qmp.connect(tmp_path / "qmp")
        with pytest.raises(QmpError, match="did not answer query-status within"):
            await qmp.execute("query-status", timeout_s=0.05)
        await qmp.close()


async def test_a_file_goes_with_its_command(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "qmp"))
    listener.listen()

    def serve() -> str:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(json.dumps(GREETING).encode() + b"\n")
            connection.sendall(_answer_of(connection.recv(65536)))
            first, fds, _, _ = socket.recv_fds(connection, 65536, 1)
            rest = b"" if first.endswith(b"\n") else connection.recv(65536)
            connection.sendall(_answer_of(first + rest))
            with os.fdopen(fds[0]) as file:
                return file.read()

    serving = asyncio.create_task(asyncio.to_thread(serve))
    (tmp_path / "memory").write_text("its memory")
    qmp = await Qmp.connect(tmp_path / "qmp")
    with (tmp_path / "memory").open() as file:
        await qmp.send_file("memory", file.fileno())
    assert await serving == "its memory"
    await qmp.close()
    listener.close()


def _answer_of(line: bytes) -> bytes:
    return json.dumps({"return": {}, "id": json.loads(line)["id"]}).encode() + b"\n"
