"""NICs of a QEMU that says what a script says."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest
from msgspec.structs import replace
from tests.agent.qemu.orders import make_order
from tests.agent.qemu.test_qmp import monitor

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.qemu import plugs as plugging
from roost.agent.drivers.qemu import upkeep
from roost.agent.drivers.qemu.command import NICS_SPARE, GuestFiles, Machine, Plug, plan_plugs
from roost.agent.drivers.qemu.guest import Guest, GuestMeta
from roost.agent.drivers.qemu.nics import plan_nics
from roost.agent.drivers.qemu.plugs import replug
from roost.agent.drivers.qemu.qmp import QmpError
from roost.agent.drivers.qemu.upkeep import keep_up

MACHINE = Machine(accel="tcg", type="pc-q35-7.2", cpu="qemu64", cpu_name="qemu64")
OLD = Plug(tap="rtold", mac="52:54:00:00:00:09", mtu=1500, slot=1)


class Qemu:
    """Devices; one that is asked to let a NIC go does so, unless it is deaf."""

    def __init__(self, *devices: str, is_deaf: bool = False) -> None:
        self.devices = set(devices)
        self.is_deaf = is_deaf

    def answer(self, said: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what it says."""
        command, arguments, told = said["execute"], said.get("arguments", {}), {}
        if command == "qom-list":
            told["return"] = [{"name": name, "type": "child<virtio-net-pci>"} for name in sorted(self.devices)]
        elif command == "device_del" and arguments["id"] in self.devices:
            self.devices -= set() if self.is_deaf else {arguments["id"]}
            told["return"] = {}
        else:
            told["error"] = {"desc": f"{command} is not to be"}
        return [{"id": said["id"], **told}]


async def make_guest(tmp_path: Path, *more: Plug) -> Guest:
    """A guest whose QEMU has its order's NIC in the first slot, and more."""
    order, files = make_order(), GuestFiles(tmp_path / "guest", tmp_path / "disk.qcow2")
    nics = plan_nics(order, {"rack1": "br0"})
    meta = GuestMeta(order=order, state="running", machine=MACHINE, plugs=(*plan_plugs(nics), *more))
    guest = Guest(meta, files, nics, lambda _guest: None)
    guest.keep(meta)
    files.run.mkdir()
    return guest


async def settle(guest: Guest, *, may_plug: Callable[[], bool] = lambda: True) -> None:
    """Keep a guest up until its NICs are its order's, or its QEMU has ended."""
    find = AsyncMock()
    keeping = keep_up(guest, find, is_known=lambda: guest.is_alive and not guest.is_settled, may_plug=may_plug)
    await asyncio.wait_for(keeping, 5)


async def test_a_nic_that_is_no_orders_is_dead_before_the_guest_is_asked_to_let_it_go(tmp_path: Path) -> None:
    guest = await make_guest(tmp_path, OLD)
    qemu = Qemu(*(plug.device for plug in guest.meta.plugs))
    async with monitor(guest.files.qmp, qemu.answer) as heard:
        await guest.connect()
        assert not guest.is_settled
        await replug(guest)
        assert guest.is_settled
        said = [item["execute"] for item in heard if item["execute"] != "qom-list"]
        assert said == ["qmp_capabilities", "netdev_del", "device_del"]
        await guest.disconnect()
        await guest.connect()
        assert not guest.is_settled, "it may be another QEMU"
        await guest.disconnect()


async def test_a_guest_that_lets_nothing_go_has_a_dead_nic_and_cannot_have_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugging, "UNPLUG_S", 0.0)
    guest = await make_guest(tmp_path, OLD)
    (own, _) = guest.meta.plugs
    qemu = Qemu(own.device, OLD.device, is_deaf=True)
    async with monitor(guest.files.qmp, qemu.answer):
        await guest.connect()
        await replug(guest)
        assert [(plug.tap, plug.dead) for plug in guest.meta.plugs] == [(own.tap, False), (OLD.tap, True)]
        guest.nics = ()
        await replug(guest)
        guest.nics = plan_nics(guest.meta.order, {"rack1": "br0"})
        with pytest.raises(LaunchFailed, match=f"has not let go of the NIC {own.mac} since it lost it"):
            await replug(guest)
        qemu.devices.clear()  # at last
        await guest.note_plugs()
        assert guest.meta.plugs == ()
        await guest.disconnect()


async def test_nics_are_settled_once_that_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "UPKEEP_S", 0.0)
    guest = await make_guest(tmp_path, OLD)
    answers = iter([False, False, True])
    async with monitor(guest.files.qmp, Qemu(*(plug.device for plug in guest.meta.plugs)).answer):
        await guest.connect()
        await settle(guest, may_plug=lambda: next(answers))
        assert list(answers) == []
        assert guest.meta.plugs == plan_plugs(guest.nics)
        guest.change_order(make_order(ports=(), networks=()), ())
        assert not guest.is_settled
        await keep_up(guest, AsyncMock(), is_known=lambda: False, may_plug=lambda: True)
        assert not guest.is_settled
        await guest.disconnect()


async def test_a_guest_that_lets_nothing_go_is_asked_ever_more_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each order waits for a NIC that is being asked for."""
    monkeypatch.setattr(upkeep, "UPKEEP_S", 0.005)
    monkeypatch.setattr(plugging, "UNPLUG_S", 0.0)
    guest = await make_guest(tmp_path, OLD)
    async with monitor(
        guest.files.qmp, Qemu(*(plug.device for plug in guest.meta.plugs), is_deaf=True).answer
    ) as heard:
        await guest.connect()
        until_s = time.monotonic() + 0.5
        await keep_up(guest, AsyncMock(), is_known=lambda: time.monotonic() < until_s, may_plug=lambda: True)
        tries = [item["execute"] for item in heard].count("device_del")
        assert not guest.is_settled
        await guest.disconnect()
    assert 2 <= tries <= 7


@pytest.mark.parametrize("is_written", [False, True])
async def test_a_nic_that_could_not_be_plugged_is_plugged_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """is_written: by an agent that died before it had plugged it."""
    guest = await make_guest(tmp_path)
    (own,) = guest.meta.plugs
    if not is_written:
        guest.keep_plugs(())
    qemu, refusals = Qemu(), iter([True, False])

    async def plug(_guest: Guest, plug: Plug) -> None:
        if next(refusals):
            raise QmpError("QEMU did not answer netdev_add within 20 s")
        qemu.devices.add(plug.device)

    monkeypatch.setattr(upkeep, "UPKEEP_S", 0.0)
    monkeypatch.setattr(plugging, "_plug", plug)
    async with monitor(guest.files.qmp, qemu.answer):
        await guest.connect()
        await settle(guest)
        await guest.disconnect()
    assert (qemu.devices, guest.meta.plugs) == ({own.device}, (own,))


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_nic_comes_into_another_slot_than_the_one_that_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    """Also where the agent is started anew in between."""
    guest = await make_guest(tmp_path)
    (own,) = guest.meta.plugs
    qemu = Qemu(own.device)

    async def plug(_guest: Guest, plug: Plug) -> None:
        qemu.devices.add(plug.device)

    monkeypatch.setattr(plugging, "_plug", plug)
    slots = []
    async with monitor(guest.files.qmp, qemu.answer):
        await guest.connect()
        for number in range(NICS_SPARE + 1):
            if restarts:
                before, meta = guest, msgspec.json.decode(guest.files.meta.read_bytes(), type=GuestMeta)
                guest = Guest(meta, before.files, before.nics, before._on_change)
                guest._qmp = before._qmp
            guest.nics = tuple(replace(nic, mac=f"52:54:00:00:01:{number:02x}") for nic in guest.nics)
            await replug(guest)
            slots += [plug.slot for plug in guest.meta.plugs]
        await guest.disconnect()
    assert slots == [*range(1, NICS_SPARE), 0, 1], "a slot that was freed is used last"


async def test_a_guest_that_ends_while_its_nics_are_settled_ended_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = await make_guest(tmp_path, OLD)
    works: list[int] = []
    guest._on_change = lambda guest: works.append(guest.works)

    async def end(guest: Guest, _gone: object) -> None:
        await guest.qmp.execute("quit")

    monkeypatch.setattr(upkeep, "UPKEEP_S", 0.0)
    monkeypatch.setattr(plugging, "_unplug", end)
    async with monitor(guest.files.qmp):
        await guest.connect()
        await settle(guest)
        await guest.disconnect()
    assert works == [0]
