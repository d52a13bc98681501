"""What a new agent makes of the guests that it finds: every state that was written, with all that QEMU may say."""

from pathlib import Path
from typing import Any

import pytest
from tests.agent.qemu.orders import make_order

from roost.agent.drivers.programs import ProgramFailed
from roost.agent.drivers.qemu.command import GuestFiles, Machine
from roost.agent.drivers.qemu.guest import Guest, GuestMeta
from roost.agent.drivers.qemu.upkeep import UNKNOWN, find_status, read_guest, settle_guest

MACHINE = Machine(accel="tcg", type="pc-q35-7.2", cpu="qemu64", cpu_name="qemu64")


class ScriptedGuest(Guest):
    """A guest whose QEMU says yes to everything, and remembers what was asked of it."""

    def __init__(self, meta: GuestMeta, files: GuestFiles) -> None:
        super().__init__(meta, files, (), lambda _guest: None)
        self.asked_for: list[str] = []
        self._qmp = self  # type: ignore[assignment]
        self.is_open = True

    async def execute(self, command: str, *_arguments: Any) -> Any:
        self.asked_for.append(command)
        return {}

    async def kill(self) -> None:
        self.asked_for.append("kill")


@pytest.mark.parametrize(
    ("state", "status", "memory", "found", "did"),
    [
        ("running", "running", False, "running", []),
        ("running", "paused", False, "running", ["migrate_cancel", "query-migrate", "cont"]),
        ("running", "postmigrate", True, "running", ["migrate_cancel", "query-migrate", "cont"]),
        ("running", "io-error", False, "paused", []),
        ("running", "", False, "stopped", ["kill"]),
        ("running", "", True, "suspended", ["kill"]),
        ("running", UNKNOWN, False, "running", []),
        ("paused", "running", False, "paused", ["migrate_cancel", "query-migrate", "stop"]),
        ("paused", "", False, "stopped", ["kill"]),
        ("stopped", "", False, "stopped", ["kill"]),
        ("stopped", "prelaunch", False, "stopped", ["kill"]),
        ("stopped", "running", False, "running", []),
        ("suspended", "", True, "suspended", ["kill"]),
        ("suspended", "inmigrate", True, "suspended", ["kill"]),
        ("suspended", "running", True, "running", []),
        ("incoming", "paused", False, "incoming", []),
        ("incoming", "running", False, "running", []),
        ("leaving", "postmigrate", False, "stopped", ["migrate_cancel", "query-migrate", "stop"]),
        ("leaving", "", False, "stopped", ["kill"]),
    ],
)
async def test_a_guest_is_what_was_reported_unless_it_runs(
    tmp_path: Path, state: Any, status: str, memory: bool, found: str, did: list[str]
) -> None:
    leaving = state == "leaving"
    meta = GuestMeta(
        order=make_order(), state="stopped" if leaving else state, machine=MACHINE, is_made=True, leaving=leaving
    )
    guest = ScriptedGuest(meta, GuestFiles(tmp_path, tmp_path / "disk"))
    if memory:
        guest.files.memory.write_text("")
    guest.files.memory_half.write_text("what an agent that died had begun")
    assert await settle_guest(guest, status) == found
    assert guest.asked_for == did
    assert guest.files.memory.exists() == (memory and found == "suspended")
    assert guest.files.memory_half.exists() == (status == UNKNOWN)


async def test_a_folder_in_which_nothing_was_made_is_deleted(tmp_path: Path) -> None:
    files = GuestFiles(tmp_path / "guest", tmp_path / "disk")
    files.run.mkdir(parents=True)
    assert read_guest(files, {}, lambda _guest: None) is None
    assert not files.folder.exists()


async def test_what_is_written_is_read(tmp_path: Path) -> None:
    files = GuestFiles(tmp_path / "guest", tmp_path / "disk")
    meta = GuestMeta(order=make_order(), state="running", machine=MACHINE, sequence=7, is_made=True)
    Guest(meta, files, (), lambda _guest: None).keep(meta)
    guest = read_guest(files, {"rack1": "br0"}, lambda _guest: None)
    assert guest is not None
    assert guest.meta == meta
    assert [nic.tap for nic in guest.nics] == ["rt0a1b2c3d4e5f"]
    assert await find_status(guest) == ""


async def test_what_cannot_be_read_is_kept_and_said(tmp_path: Path) -> None:
    files = GuestFiles(tmp_path / "guest", tmp_path / "disk.qcow2")
    files.run.mkdir(parents=True)
    files.meta.write_text("{}")
    with pytest.raises(ProgramFailed, match=r"server guest is on this host, and .*/meta.json cannot be read: .*order"):
        read_guest(files, {}, lambda _guest: None)
    assert files.meta.exists()
