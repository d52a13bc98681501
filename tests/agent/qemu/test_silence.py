"""A driver that is started anew while a guest's QEMU does not answer: the guest is not killed, and is known later."""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.qemu.orders import OWN_ACCOUNT, SERVER_ID, make_order
from tests.agent.qemu.test_qmp import monitor

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.qemu import guest as guests
from roost.agent.drivers.qemu import qmp, upkeep
from roost.agent.drivers.qemu.command import GuestFiles, Machine, monitor_option
from roost.agent.drivers.qemu.driver import QemuDriver, QemuOptions
from roost.agent.drivers.qemu.guest import Guest, GuestMeta

MACHINE = Machine(accel="tcg", type="pc-q35-7.2", cpu="qemu64", cpu_name="qemu64")
KEY = (SERVER_ID, "h1")
ORDER = make_order(ports=(), networks=())


class Scene:
    """A guest whose process lives, and a driver that finds it. status: what its QEMU says once it answers."""

    def __init__(self, folder: Path) -> None:
        self.options = QemuOptions(
            host="h1", directory=folder, bridges={}, machine=MACHINE, account=OWN_ACCOUNT, migrate_listen="127.0.0.1"
        )
        self.files = GuestFiles(folder / "guests" / SERVER_ID, folder / "disk.qcow2")
        meta = GuestMeta(order=ORDER, state="running", machine=MACHINE, is_made=True)
        Guest(meta, self.files, (), lambda _guest: None).keep(meta)
        self.files.run.mkdir()
        self.status = "running"

    @contextlib.asynccontextmanager
    async def process(self) -> AsyncIterator[asyncio.subprocess.Process]:
        words = ("-uuid", SERVER_ID, monitor_option(self.files))
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(600)", *words)
        self.files.pid.write_text(f"{process.pid}\n")
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    @contextlib.asynccontextmanager
    async def driver(self) -> AsyncIterator[QemuDriver]:
        driver = QemuDriver(self.options)
        await driver.open()
        try:
            yield driver
        finally:
            await driver.close()

    def answer(self, said: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what its QEMU says."""
        told: Any = {"status": self.status} if said["execute"] == "query-status" else {}
        return [{"id": said["id"], "return": [] if said["execute"] == "qom-list" else told}]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Have programs that need a host's rights do nothing, and nobody wait long for a monitor."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("nft", "ip"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(qmp, "CONNECT_S", 0.1)
    monkeypatch.setattr(guests, "QUIT_S", 0.1)
    monkeypatch.setattr(upkeep, "UPKEEP_S", 0.01)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a socket's path is short
        yield Scene(Path(folder))


@pytest.mark.parametrize("desired", ["running", "paused", "suspended"])
async def test_a_guest_that_does_not_answer_is_not_killed_for_a_change(scene: Scene, desired: Any) -> None:
    order = make_order(desired, ports=(), networks=(), nics_version=7)
    async with scene.process() as process, monitor(scene.files.qmp, greets=False), scene.driver() as driver:
        with pytest.raises(LaunchFailed, match="QEMU runs and does not answer"):
            await driver.change(order)
        assert process.returncode is None
        assert driver.guests_by_key()[KEY].state == "running"


async def test_a_guest_that_does_not_answer_can_be_stopped(scene: Scene) -> None:
    async with scene.process() as process, monitor(scene.files.qmp, greets=False), scene.driver() as driver:
        await driver.change(make_order("stopped", ports=(), networks=()))
        assert await process.wait() != 0
        assert driver.guests_by_key()[KEY].state == "stopped"


async def test_an_order_finds_a_guest_that_answers_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "UPKEEP_S", 600)
    async with scene.process() as process:
        async with monitor(scene.files.qmp, greets=False), scene.driver() as driver:
            await asyncio.sleep(0.2)
            scene.files.qmp.unlink(missing_ok=True)
            async with monitor(scene.files.qmp, scene.answer) as heard:
                await driver.change(make_order("paused", ports=(), networks=(), nics_version=7))
                assert "stop" in [item["execute"] for item in heard]
        assert process.returncode is None


@pytest.mark.parametrize(("status", "state"), [("running", "running"), ("io-error", "paused")])
async def test_a_guest_that_answers_again_is_known_again(scene: Scene, status: str, state: str) -> None:
    scene.status = status
    async with scene.process(), monitor(scene.files.qmp, greets=False), scene.driver() as driver:
        scene.files.qmp.unlink()
        async with monitor(scene.files.qmp, scene.answer):
            assert await asyncio.wait_for(driver.own_changes(), 10) == {KEY}
            assert driver.guests_by_key()[KEY].state == state
            await driver._guests[KEY].qmp.execute("query-status")


async def test_the_end_of_a_guest_that_did_not_answer_is_told(scene: Scene) -> None:
    async with scene.process() as process, monitor(scene.files.qmp, greets=False), scene.driver() as driver:
        process.kill()
        assert await asyncio.wait_for(driver.own_changes(), 10) == {KEY}
        guest = driver.guests_by_key()[KEY]
        assert (guest.state, guest.power_state) == ("stopped", "crashed")


async def test_a_guest_that_is_destroyed_is_not_asked_for_any_more(scene: Scene) -> None:
    async with scene.process() as process, monitor(scene.files.qmp, greets=False), scene.driver() as driver:
        await driver.destroy(KEY, attempt=1, disk=True)
        await process.wait()
        assert driver.guests_by_key() == {}
        assert not scene.files.folder.exists()
