import asyncio
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers import fake as module
from roost.agent.drivers.fake import FakeDriver, Faults, list_guests, list_launches
from roost.agent.drivers.state import StateInUse
from roost.agent.lease import now_s
from roost.seams.agent import GuestNic, GuestOrder, ListedGuest
from roost.seams.compute import ServerPort


def order(server_id: str, *, attempt: int = 1) -> GuestOrder:
    return GuestOrder(server_id=server_id, host="h", attempt=attempt, desired="running")


async def test_a_restarted_driver_knows_its_guests(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    for server_id in ("a", "b"):
        await driver.launch(order(server_id))
    await driver.destroy(("a", "h"), attempt=1)
    await driver.close()
    assert FakeDriver(tmp_path).guests_by_key().keys() == {("b", "h")} == list_guests(tmp_path).keys()


async def test_a_line_cut_short_is_dropped_and_the_journal_goes_on(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    await driver.launch(order("a"))
    await driver.close()
    with (tmp_path / "guests.journal").open("ab") as journal:
        journal.write(b'{"server_id":"b","ho')
    driver = FakeDriver(tmp_path)
    await driver.launch(order("c"))
    assert list_guests(tmp_path) == {("a", "h"): 1, ("c", "h"): 1}
    await driver.close()


async def test_a_lower_attempt_destroys_nothing(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    await driver.launch(order("a", attempt=2))
    await driver.destroy(("a", "h"), attempt=1)
    assert list_guests(tmp_path) == {("a", "h"): 2}
    await driver.destroy(("nobody", "h"), attempt=1)
    await driver.close()


async def test_the_journal_is_rewritten_when_most_of_it_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STALE_LINES_MAX", 50)
    driver = FakeDriver(tmp_path)
    await driver.launch(order("kept"))
    for number in range(100):
        await driver.launch(order(f"s{number}"))
        await driver.destroy((f"s{number}", "h"), attempt=1)
    assert len((tmp_path / "guests.journal").read_bytes().splitlines()) < 60
    assert list_guests(tmp_path) == {("kept", "h"): 1}
    assert len(list_launches(tmp_path)) == 101
    sequence_before = driver.guests_by_key()["kept", "h"].sequence
    await driver.close()
    driver = FakeDriver(tmp_path)
    assert driver.guests_by_key()["kept", "h"].sequence == sequence_before
    await driver.launch(order("last"))
    assert driver.guests_by_key()["last", "h"].sequence == 202, "what was destroyed had sequences too"
    await driver.close()


async def test_a_failing_launch_leaves_no_guest_but_is_on_record(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path, Faults(fail_first=1))
    with pytest.raises(LaunchFailed, match="fake driver: told to fail"):
        await driver.launch(order("a"))
    await driver.launch(order("b"))
    assert list_guests(tmp_path) == {("b", "h"): 1}
    assert [line.server_id for line in list_launches(tmp_path)] == ["a", "b"]
    await driver.close()


async def test_two_drivers_do_not_share_a_state_directory(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    with pytest.raises(StateInUse):
        FakeDriver(tmp_path)
    await driver.close()


PORT_ID, NETWORK_ID = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
PORT = ServerPort(
    port_id=PORT_ID,
    tag="",
    network_id=NETWORK_ID,
    network_name="public",
    mac_address="fa:16:3e:00:00:01",
    addresses=("10.0.0.9", "fd00::9"),
    preserve_on_delete=False,
)


async def test_a_list_has_what_the_driver_was_told_also_after_a_restart(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    full = msgspec.structs.replace(
        order("a"), name="web", project_id="p", vcpus=2, ram_mb=512, disk_gb=3, ports=(PORT,)
    )
    await driver.launch(full)
    nic = GuestNic(mac_address=PORT.mac_address, addresses=PORT.addresses, port_id=PORT_ID, network_id=NETWORK_ID)
    listed = ListedGuest(
        server_id="a", host="h", attempt=1, state="running", power_state="running", sequence=1, nics=(nic,),
        name="web", project_id="p", vcpus=2, ram_mb=512, disk_gb=3, nics_version=0,
    )  # fmt: skip
    assert driver.list_guests() == [listed]
    await driver.close()
    driver = FakeDriver(tmp_path)
    assert driver.list_guests() == [listed]
    await driver.close()


@pytest.mark.parametrize(
    ("state", "power_state", "up"),
    [("running", "running", True), ("paused", "paused", True), ("stopped", "shutdown", False),
     ("suspended", "suspended", False), ("incoming", None, False)],
)  # fmt: skip
async def test_nics_are_up_as_the_state_and_the_promise_say(
    tmp_path: Path, state: Any, power_state: str | None, up: bool
) -> None:
    driver = FakeDriver(tmp_path)
    await driver.launch(msgspec.structs.replace(order("a"), desired=state, ports=(PORT,)))
    (guest,) = driver.list_guests()
    assert (guest.power_state, guest.nics[0].up) == (power_state, up)
    driver.end_nics(now_s() - 1)
    assert not driver.list_guests()[0].nics[0].up
    await driver.close()


@pytest.mark.parametrize(
    ("before", "fate", "state", "power_state"),
    [
        ("running", "shutdown", "stopped", "shutdown"),
        ("running", "crashed", "stopped", "crashed"),
        ("running", "paused", "paused", "paused"),
        ("stopped", "running", "running", "running"),
        ("paused", "running", "running", "running"),
    ],
)
async def test_guests_do_by_themselves_what_the_file_says(
    tmp_path: Path, before: Any, fate: str, state: str, power_state: str
) -> None:
    file = tmp_path / "die"
    driver = FakeDriver(tmp_path, Faults(die_file=file))
    for server_id in ("a", "b"):
        await driver.launch(msgspec.structs.replace(order(server_id), desired=before))
    file.write_text(f"{fate} b\n")
    assert await driver.own_changes() == {("b", "h")}
    first, second = driver.list_guests()
    assert (first.state, first.sequence) == (before, 1)
    assert (second.state, second.power_state, second.sequence) == (state, power_state, 3)
    file.write_text(f"{fate} all\n")
    assert await driver.own_changes() == {("a", "h")}, "b has done so already"
    await driver.change(order("b"))
    assert driver.list_guests()[1].power_state == "running"
    await driver.close()


async def test_an_unknown_fate_is_none_and_what_is_ordered_is_not_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "die"
    driver = FakeDriver(tmp_path, Faults(die_file=file))
    await driver.launch(order("a"))
    file.write_text("vanished a\n")
    await driver.change(msgspec.structs.replace(order("a"), desired="stopped"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(driver.own_changes(), 0.5)
    assert not file.exists()
    await driver.close()


async def test_under_another_kernel_guests_are_stopped_at_the_start_and_those_that_ran_may_run_again(
    tmp_path: Path,
) -> None:
    kernel = tmp_path / "kernel-now"
    kernel.write_text("one")
    driver = FakeDriver(tmp_path)
    for server_id, state in (("a", "running"), ("b", "paused"), ("c", "suspended"), ("d", "stopped")):
        await driver.launch(msgspec.structs.replace(order(server_id), desired=state))
    await driver.close()
    for start in ("one", "two", "two"):
        kernel.write_text(start)
        driver = FakeDriver(tmp_path)
        states = {guest.server_id: (guest.state, guest.resume) for guest in driver.list_guests()}
        if start == "one":
            assert states["a"] == ("running", False)
        else:
            assert states == {
                "a": ("stopped", True), "b": ("stopped", False), "c": ("suspended", False), "d": ("stopped", False),
            }  # fmt: skip
        await driver.close()
    driver = FakeDriver(tmp_path)
    await driver.change(order("a"))
    assert not driver.list_guests()[0].resume
    await driver.close()
