"""Commands about disks, and the ring of a console."""

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.qemu.orders import SERVER_ID, make_order

from roost.agent.drivers.programs import ProgramFailed, run_program
from roost.agent.drivers.qemu.command import Account
from roost.agent.drivers.qemu.disks import GIB, Disks, find_folder_lack, size_command
from roost.agent.drivers.qemu.guest import append_ring
from roost.agent.drivers.qemu.sending import BOUND, RATE_LEAST, RATE_MOST, rate_of
from roost.seams.guests import DiskKept

ACCOUNT = Account(uid=60902, gid=60902)


def test_the_format_of_a_disk_is_always_stated() -> None:
    assert size_command("create", Path("/d"), 2) == ["qemu-img", "create", "-q", "-f", "qcow2", "/d", "2G"]
    assert size_command("resize", Path("/d"), 3) == ["qemu-img", "resize", "-q", "-f", "qcow2", "/d", "3G"]


def test_a_console_is_a_ring(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    for number in range(100):
        append_ring(path, f"{number:09}\n".encode(), 200)
        assert path.stat().st_size <= 200
    assert path.read_text().endswith("000000099\n")
    assert path.stat().st_size >= 100


@pytest.mark.parametrize(
    ("remaining", "rate"),
    [
        (0, RATE_LEAST),
        (BOUND, RATE_LEAST),
        (BOUND + RATE_LEAST + 1, RATE_LEAST + 1),
        (96 << 20, (96 << 20) - BOUND),
        (1 << 50, RATE_MOST),
    ],
)
def test_the_copy_of_memory_slows_down_before_its_end(remaining: int, rate: int) -> None:
    assert rate_of(remaining) == rate


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every account may pass through."""
    if os.geteuid() != 0 or shutil.which("qemu-img") is None:
        pytest.skip("disks of another account need root and qemu-img")
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o711)
        yield Path(made)


@pytest.mark.parametrize("is_broken_out", [False, True])
async def test_a_disk_grows_with_no_more_rights_than_its_qemus(folder: Path, is_broken_out: bool) -> None:
    disks, roots = Disks(folder, "h1", ACCOUNT), folder / "roots"
    disk = disks.path(SERVER_ID)
    options = ["-o", f"data_file={roots},data_file_raw=on"] if is_broken_out else []
    await run_program("qemu-img", "create", "-q", "-f", "qcow2", *options, str(disk), "1M")
    os.chown(disk, ACCOUNT.uid, ACCOUNT.gid)
    if is_broken_out:
        roots.chmod(0o600)
        with pytest.raises(ProgramFailed, match="Permission denied"):
            await disks.have(make_order(disk_gb=1, disk=DiskKept(host="h1")))
        assert roots.stat().st_size < GIB
    else:
        assert await disks.have(make_order(disk_gb=1, disk=DiskKept(host="h1")))
        assert "virtual size: 1 GiB" in await run_program("qemu-img", "info", str(disk))


async def test_a_folder_whose_server_is_gone_holds_up_nobody_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a launch that is cancelled meanwhile has ended once nothing of it can be written any more."""
    disks, is_asked, is_back = Disks(folder, "h2", ACCOUNT), threading.Event(), threading.Event()
    Disks(folder, "h1", ACCOUNT).path(SERVER_ID).touch()
    monkeypatch.setattr(Path, "hardlink_to", lambda _own, _path: [is_asked.set(), is_back.wait(10)])
    launching = asyncio.create_task(disks.have(make_order(disk_gb=1, disk=DiskKept(host="h1"))))
    while not is_asked.is_set():
        await asyncio.sleep(0.01)
    launching.cancel()
    await asyncio.wait([launching], timeout=0.1)
    assert not launching.done()
    is_back.set()
    with pytest.raises(asyncio.CancelledError):
        await launching


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_files_of_a_folder_cannot_have_is_found(folder: Path) -> None:
    assert find_folder_lack(folder, ACCOUNT) is None
    assert names_in(folder) == []
    assert find_folder_lack(folder / "gone", ACCOUNT) == "a place: No such file or directory"


async def test_a_disk_that_another_host_just_named_is_found_on_nfs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not there is remembered until this host changes the folder, or 30 s later."""
    disks, disk = Disks(folder, "h2", ACCOUNT), Disks(folder, "h1", ACCOUNT).path(SERVER_ID)
    await run_program(*size_command("create", folder / "hidden", 1))
    os.chown(folder / "hidden", ACCOUNT.uid, ACCOUNT.gid)

    def touch(path: Path) -> None:
        path.write_bytes(b"")
        (folder / "hidden").rename(disk)

    monkeypatch.setattr(Path, "touch", touch)
    assert await disks.have(make_order(disk_gb=1, disk=DiskKept(host="h1", needed=False)))
    assert disks.path(SERVER_ID).samefile(disk)
    assert names_in(folder) == [f"{SERVER_ID}.h1.qcow2", f"{SERVER_ID}.h2.qcow2"]
