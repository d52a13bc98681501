"""What the driver writes, and what holds where it cannot be written: on no QEMU."""

import asyncio
import os
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from tests.agent.qemu.orders import OWN_ACCOUNT, SERVER_ID, make_order, make_port
from tests.agent.qemu.test_qmp import monitor

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.programs import ProgramFailed
from roost.agent.drivers.qemu import upkeep
from roost.agent.drivers.qemu.command import GuestFiles, Machine
from roost.agent.drivers.qemu.driver import QemuDriver, QemuOptions
from roost.agent.drivers.qemu.guest import Guest, GuestMeta
from roost.agent.drivers.qemu.host_network import HostNetwork
from roost.agent.drivers.qemu.moves import CONTROL, MeetingPoint, Offer, Said, connect, hear, say
from roost.agent.drivers.qemu.nics import NicPlan, plan_nics
from roost.agent.drivers.qemu.qmp import QmpError
from roost.agent.drivers.qemu.upkeep import find_guest
from roost.agent.lease import now_s
from roost.seams.guests import MemorySource

MACHINE = Machine(accel="tcg", type="pc-q35-7.2", cpu="qemu64", cpu_name="qemu64")
BRIDGES = {"rack1": "br0"}
TAP = "rt0a1b2c3d4e5f"
KEY = (SERVER_ID, "h1")


class NotedNetwork(HostNetwork):
    """Notes which rules it would make, and for whom DHCP is needed."""

    def __init__(self, directory: Path, driver: QemuDriver) -> None:
        super().__init__(directory, driver._nics, kernel_is_new=False)
        self.tables: list[str] = []
        self.needed: list[tuple[NicPlan, ...]] = []

    async def apply(self, needed: object = ()) -> None:
        self.tables.append(self._table())
        self.needed.append(needed)  # type: ignore[arg-type]


class NotedDriver(QemuDriver):
    """Has one guest that runs, as far as it knows."""

    def __init__(self, directory: Path) -> None:
        options = QemuOptions(host="h1", directory=directory, bridges=BRIDGES, machine=MACHINE, account=OWN_ACCOUNT)
        super().__init__(options)
        self.network = self._network = NotedNetwork(directory, self)
        order = make_order()
        meta = GuestMeta(order=order, state="running", machine=MACHINE, is_made=True)
        self.guest = Guest(meta, self._files(SERVER_ID), plan_nics(order, BRIDGES), self._look)
        self.guest.keep(meta)
        self.guest.nics_up = True
        self._guests[KEY] = self.guest

    @property
    def is_up(self) -> bool:
        return f'elements = {{ "{TAP}"' in self.network.tables[-1].split("flags timeout")[1].split("}")[0]


async def test_a_later_end_holds_also_where_it_cannot_be_written(tmp_path: Path) -> None:
    driver = NotedDriver(tmp_path)
    (tmp_path / "nics-end.new").mkdir()  # as unwritable as on a full disk
    with pytest.raises(OSError, match="directory"):
        driver.end_nics(now_s() + 100.0)
    await asyncio.sleep(0)
    assert f'"{TAP}" timeout' in driver.network.tables[-1]
    assert driver.nics_end_s() is not None


async def test_a_guest_that_is_cut_off_is_down_before_a_later_end_holds_and_for_the_next_agent(tmp_path: Path) -> None:
    driver = NotedDriver(tmp_path)
    driver.cut_off(KEY, attempt=0)
    driver.end_nics(None)
    await asyncio.sleep(0)
    assert driver.is_up, "of a higher attempt"
    driver.network.tables.clear()
    driver.cut_off(KEY, attempt=1)
    driver.end_nics(now_s() + 100.0)
    await asyncio.sleep(0)
    assert driver.network.tables
    assert not any(f'"{TAP}" timeout' in table for table in driver.network.tables)
    (listed,) = driver.list_guests()
    assert not any(nic.up for nic in listed.nics)
    assert msgspec.json.decode(driver.guest.files.meta.read_bytes(), type=GuestMeta).cut_off


async def test_a_guest_that_an_agent_cannot_write_about_is_found_all_the_same(tmp_path: Path) -> None:
    driver = NotedDriver(tmp_path)
    driver.guest.files.meta.with_suffix(".new").mkdir()
    with capture_logs() as logs:
        await find_guest(driver.guest, driver._settle, driver._remove)
    assert [guest.state for guest in driver.list_guests()] == ["stopped"]
    assert [line["event"] for line in logs] == ["what a guest did is not written"]


def test_what_is_known_of_a_guest_is_on_its_disk_before_it_takes_the_place_of_what_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system may write names before contents: after a loss of power the file would be empty."""
    driver, written = NotedDriver(tmp_path), []
    before = driver.guest.files.meta.read_bytes()

    def note(fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        written.append((path.name, path.stat().st_size > 0, driver.guest.files.meta.read_bytes() == before))

    monkeypatch.setattr(os, "fsync", note)
    driver._keep(driver.guest, state="paused")
    assert written == [("sequence.new", True, True), ("meta.new", True, True)]


async def test_what_an_agent_finds_half_made_takes_no_others_nics_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = NotedDriver(tmp_path)
    first = SERVER_ID.replace("5", "0")
    order = make_order(server_id=first, ports=(make_port(port_id=first),))
    half = Guest(GuestMeta(order=order, state="running", machine=MACHINE), driver._files(first), (), driver._look)
    half.keep(half.meta)
    driver._guests.clear()

    async def ask(guest: Guest) -> str:
        while guest.meta.is_made and not driver.network.tables:  # the other goes first
            await asyncio.sleep(0)
        return "running"

    monkeypatch.setattr(upkeep, "find_status", ask)
    await driver.open()
    await driver.close()
    assert not half.files.folder.exists()
    assert len(driver.network.tables) == 2
    assert all(f'elements = {{ "{TAP}" }}' in table for table in driver.network.tables)


async def test_one_guest_that_cannot_be_ended_keeps_no_other_from_being_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A QEMU may wait for a dead file server, which no signal ends."""
    driver = NotedDriver(tmp_path)
    half = replace(driver.guest.meta, is_made=False, order=make_order(server_id=SERVER_ID.replace("5", "0")))
    Guest(half, driver._files(half.order.server_id), (), driver._look).keep(half)
    driver._guests.clear()
    monkeypatch.setattr(Guest, "kill", AsyncMock(side_effect=ProgramFailed("process 7 did not end")))
    monkeypatch.setattr(upkeep, "find_status", AsyncMock(return_value="running"))
    with capture_logs() as logs:
        await driver.open()
    assert [guest.server_id for guest in driver.list_guests()] == [SERVER_ID]
    assert [line["event"] for line in logs] == ["a guest is not found again"]
    await driver.close()


async def test_a_guest_goes_down_whatever_becomes_of_its_dhcp(tmp_path: Path) -> None:
    driver = NotedDriver(tmp_path)
    await driver._set_nics(driver.guest, up=True)
    await driver._set_nics(driver.guest, up=False)
    assert driver.network.needed == [driver.guest.nics, ()]


async def test_who_removes_a_guest_leaves_the_one_that_was_launched_meanwhile(tmp_path: Path) -> None:
    driver = NotedDriver(tmp_path)
    former = Guest(driver.guest.meta, driver.guest.files, (), driver._look)
    await driver._remove(former)
    assert driver._guests[KEY] is driver.guest
    assert driver.guest.files.meta.exists()


async def test_how_a_guest_ended_its_last_qemu_says(tmp_path: Path) -> None:
    """One that shut itself down may be killed the next time that it runs."""
    driver = NotedDriver(tmp_path)
    guest, reasons = driver.guest, ["guest-shutdown"]
    guest.files = GuestFiles(tmp_path / "guest", tmp_path / "disk.qcow2")
    guest.files.run.mkdir(parents=True)

    def answer(said: dict[str, Any]) -> list[dict[str, Any]]:
        events = [{"event": "SHUTDOWN", "data": {"guest": True, "reason": reasons.pop()}}] if reasons else []
        return [*events, {"id": said["id"], "return": {}}]

    async with monitor(guest.files.qmp, answer):
        for power_state in (None, "crashed"):
            driver._keep(guest, state="running")
            await guest.connect()
            await guest.qmp.execute("query-status")
            with pytest.raises(QmpError):
                await guest.qmp.execute("quit")
            assert (guest.meta.state, guest.meta.power_state) == ("stopped", power_state)
            await guest.disconnect()
            assert await driver.own_changes() == {KEY}


async def test_what_a_guest_does_while_something_is_asked_of_it_is_seen_afterwards(tmp_path: Path) -> None:
    driver = NotedDriver(tmp_path)
    with driver.guest.at_work():
        driver.guest._note_event({"event": "STOP"})
        assert driver.guest.meta.state == "running"
    assert driver.guest.meta.state == "paused"
    assert await driver.own_changes() == {KEY}


class SlowSending:
    """A copy of memory that takes its time to end."""

    is_over = has_begun = True

    def __init__(self, guest: Guest) -> None:
        self.guest, self.ends = guest, asyncio.Event()

    async def cancel(self) -> None:
        await self.ends.wait()


async def test_a_migration_begins_once_the_one_before_is_over(tmp_path: Path) -> None:
    driver = NotedDriver(tmp_path)
    sending: Any = SlowSending(driver.guest)
    driver._sendings[KEY] = sending
    watching, sent = [asyncio.create_task(driver._forget_sending(KEY)) for _ in range(2)]
    await asyncio.wait([watching, sent], timeout=0.05)
    assert not sent.done(), "who watches it had begun to end it"
    sending.ends.set()
    await asyncio.gather(watching, sent)
    assert driver._sendings == {}


class HeldSending(SlowSending):
    """A copy of memory that does not come near its end. has_begun: its disk is copied."""

    is_over = has_begun = False

    def __init__(self, guest: Guest, source: MemorySource, *_others: Any) -> None:
        super().__init__(guest)
        self.source = source
        self.ends.set()

    async def wait_near(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_stop_hands_over_the_memory_that_is_on_its_way_however_much_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_begun: bool
) -> None:
    driver = NotedDriver(tmp_path)
    handed_over: list[Any] = []
    monkeypatch.setattr("roost.agent.drivers.qemu.driver.Sending", HeldSending)
    monkeypatch.setattr(driver, "_hand_over", AsyncMock(side_effect=lambda _guest, sent: handed_over.append(sent)))
    meeting = MemorySource(address="h2:1", token="t")
    monkeypatch.setattr(HeldSending, "has_begun", has_begun)
    copying = asyncio.create_task(driver.change(make_order(meeting=meeting)))
    await asyncio.wait([copying], timeout=0.05)
    sending = driver._sendings[KEY]
    copying.cancel()  # as the agent does when the order to stop overtakes it
    await asyncio.wait([copying])
    stopping = driver.change(make_order("stopped", meeting=meeting))
    if has_begun:
        await stopping
        assert handed_over == [sending]
    else:
        with pytest.raises(LaunchFailed, match="on its way nowhere"):
            await stopping
        assert (handed_over, driver._sendings) == ([], {})
    for task in driver._tasks:
        task.cancel()


async def test_a_source_is_told_why_its_guest_cannot_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = NotedDriver(tmp_path)
    monkeypatch.setattr("roost.agent.drivers.qemu.driver.run_program", AsyncMock(return_value="pc-q35-7.2 a machine"))
    monkeypatch.setattr(
        "roost.agent.drivers.qemu.driver.ensure_image", AsyncMock(side_effect=ProgramFailed("there is no image"))
    )
    driver._point = MeetingPoint("127.0.0.1")
    await driver._point.open()
    order = make_order("incoming", attempt=2)
    source = await driver.expect(order)
    assert source is not None
    driver.guest.change_order(order, driver.guest.nics)
    receiving = asyncio.create_task(driver._receive(driver.guest))
    reader, writer = await connect(source, CONTROL, None)
    try:
        say(writer, Offer(machine=MACHINE, disk_gb=0))
        with pytest.raises(LaunchFailed, match="cannot be migrated live: there is no image"):
            await receiving
        assert await hear(reader, Said, "that it takes the guest", within_s=5) == Said(refused="there is no image")
    finally:
        writer.close()
        await driver._point.close()


async def test_a_stop_takes_no_part_in_a_migration_that_is_being_ended(tmp_path: Path) -> None:
    driver = NotedDriver(tmp_path)
    sending: Any = SlowSending(driver.guest)
    driver._sendings[KEY] = sending
    sending.ends.set()
    with pytest.raises(LaunchFailed, match="on its way nowhere"):
        await driver.change(make_order("stopped", meeting=MemorySource(address="h2:1", token="t")))
    driver._sendings[KEY] = sending
    assert driver.guest.meta.state == "running"
    await driver.change(make_order("stopped"))
    assert (driver.guest.meta.state, driver.guest.meta.leaving, driver._sendings) == ("stopped", False, {})


async def test_a_guest_is_suspended_once_its_nics_are_plugged(tmp_path: Path) -> None:
    driver = NotedDriver(tmp_path)
    guest = driver.guest
    guest.files = GuestFiles(tmp_path / "guest", tmp_path / "disk.qcow2")
    guest.files.run.mkdir(parents=True)
    async with monitor(guest.files.qmp) as heard:
        await guest.connect()
        async with guest.plugging:
            suspending = asyncio.create_task(driver.change(make_order("suspended")))
            await asyncio.wait([suspending], timeout=0.05)
            began, said = (guest.works, guest.nics_up), {item["execute"] for item in heard}
            suspending.cancel()
        await asyncio.wait([suspending], timeout=5)
        await guest.disconnect()
    assert (began, "stop" in said) == ((1, True), False), "one that stands lets no NIC go"
    assert (guest.works, guest.meta.state) == (0, "running")


def test_a_guest_is_at_work_until_the_last_work_on_it_is_done(tmp_path: Path) -> None:
    guest = NotedDriver(tmp_path).guest
    with guest.at_work():
        with guest.at_work():
            pass
        assert guest.works, "what its QEMU does was asked of it"
    assert not guest.works
