"""A guest that goes on, whose monitor is scripted: what its disk does to it."""

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.agent.qemu.orders import OWN_ACCOUNT, make_order
from tests.agent.qemu.test_qmp import monitor

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.programs import ProgramFailed
from roost.agent.drivers.qemu.command import GuestFiles, Machine, monitor_option
from roost.agent.drivers.qemu.guest import Guest, GuestMeta
from roost.agent.drivers.qemu.image import BootFiles

MACHINE = Machine(accel="tcg", type="pc-q35-7.2", cpu="qemu64", cpu_name="qemu64")


class ScriptedGuest(Guest):
    """A guest that its disk has halted, with a QEMU that says so."""

    def __init__(self, folder: Path, *, io_status: str, halts_again: bool, disk_gb: int = 0) -> None:
        order = make_order(disk_gb=disk_gb)
        meta = GuestMeta(order=order, state="paused", machine=MACHINE, is_made=True)
        super().__init__(meta, GuestFiles(folder, folder / "disk.qcow2"), (), lambda _guest: None)
        self._qmp = self  # type: ignore[assignment]
        self.is_open, self._halts_again = True, halts_again
        self._io_status = io_status
        self.halted = True

    async def execute(self, command: str, *_arguments: Any) -> Any:
        if command == "cont":
            self._note_event({"event": "RESUME"})
        elif command == "announce-self" and self._halts_again:
            self._note_event({"event": "STOP"})
        return {"query-status": {"status": "io-error"}, "query-block": [{"io-status": self._io_status}]}.get(command)

    async def kill(self) -> None:
        pass


@pytest.mark.parametrize(
    ("io_status", "reason"),
    [
        ("nospace", "the host's disk is full"),
        ("failed", "the host cannot write it"),
        ("ok", "QEMU gives no reason"),
    ],
)
async def test_a_guest_that_its_disk_halts_again_is_said_not_to_go_on(
    tmp_path: Path, io_status: str, reason: str
) -> None:
    guest = ScriptedGuest(tmp_path, io_status=io_status, halts_again=True)
    with pytest.raises(LaunchFailed, match=f"the server's disk halts it: {reason}"):
        await guest.go_on()


async def test_a_guest_goes_on_once_its_disk_lets_it(tmp_path: Path) -> None:
    guest = ScriptedGuest(tmp_path, io_status="ok", halts_again=False)
    await guest.go_on()
    assert not guest.halted


async def test_a_disk_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    guest = ScriptedGuest(tmp_path, io_status="ok", halts_again=False, disk_gb=1)
    with pytest.raises(ProgramFailed, match="the server's disk is gone from its host"):
        await guest.start(BootFiles(tmp_path, tmp_path), OWN_ACCOUNT)
    assert not guest.files.disk.exists()


async def test_what_is_known_of_a_guest_is_known_also_where_it_cannot_be_written(tmp_path: Path) -> None:
    guest = ScriptedGuest(tmp_path, io_status="ok", halts_again=False)
    (tmp_path / "meta.new").mkdir()  # as unwritable as on a full disk
    meta = GuestMeta(order=make_order(), state="stopped", machine=MACHINE)
    with pytest.raises(OSError, match="directory"):
        guest.keep(meta)
    assert guest.meta.state == "stopped"


@pytest.mark.parametrize(
    ("statuses", "reason"),
    [
        (["active", "failed"], "the memory was not copied: No space left on device"),
        (["active", "active", "cancelling", "cancelled"], "the memory was not copied within 0 s"),
        (["completed"], None),
    ],
)
async def test_memory_that_cannot_be_written_leaves_no_file_and_no_migration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statuses: list[str], reason: str | None
) -> None:
    if reason and "within" in reason:
        monkeypatch.setattr("roost.agent.drivers.qemu.guest.MEMORY_S", 0.01)

    def answer(said: dict[str, Any]) -> list[dict[str, Any]]:
        told: Any = [] if said["execute"] == "qom-list" else {}
        if said["execute"] == "query-migrate":
            is_cancelled = any(item["execute"] == "migrate_cancel" for item in heard)
            if statuses[1:] and (is_cancelled or statuses[1] == "failed"):
                statuses.pop(0)
            told = {"status": statuses[0], "error-desc": "No space left on device"}
        return [{"id": said["id"], "return": told}]

    files = GuestFiles(tmp_path, tmp_path / "disk.qcow2")
    files.run.mkdir()
    meta = GuestMeta(order=make_order(), state="running", machine=MACHINE, is_made=True)
    guest = Guest(meta, files, (), lambda _guest: None)
    async with monitor(files.qmp, answer) as heard:
        await guest.connect()
        with pytest.raises(LaunchFailed, match=reason) if reason else contextlib.nullcontext():
            await guest.write_memory()
        cancels = [item["execute"] for item in heard].count("migrate_cancel")
        [capabilities] = [item["arguments"] for item in heard if item["execute"] == "migrate-set-capabilities"]
        assert capabilities == {"capabilities": [{"capability": "pause-before-switchover", "state": False}]}
        await guest.disconnect()
    assert cancels == (reason is not None)
    assert statuses[0] in ("failed", "cancelled", "completed"), "it is over"
    assert files.memory.exists() == (reason is None)
    assert not files.memory_half.exists()


@pytest.mark.parametrize("place", ["pid", "run/pid"])
def test_a_process_is_found_by_its_number_also_where_an_older_agent_had_it(tmp_path: Path, place: str) -> None:
    guest = ScriptedGuest(tmp_path, io_status="ok", halts_again=False)
    words = ["-uuid", guest.meta.order.server_id, monitor_option(guest.files)]
    (tmp_path / "run").mkdir()
    program = [sys.executable, "-c", "print(flush=True); input()", *words]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert guest.find_process() is None
        (tmp_path / place).write_text(f"{process.pid}\n")
        assert guest.find_process() == process.pid
