from pathlib import Path

import pytest

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers import fake as module
from roost.agent.drivers.fake import FakeDriver, Faults, StateInUse, list_guests, list_launches
from roost.seams.agent import GuestOrder


def order(server_id: str, *, attempt: int = 1) -> GuestOrder:
    return GuestOrder(server_id=server_id, host="h", attempt=attempt, desired="running")


async def test_a_restarted_driver_knows_its_guests(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    for server_id in ("a", "b"):
        await driver.launch(order(server_id))
    await driver.destroy(("a", "h"), attempt=1)
    await driver.close()
    assert FakeDriver(tmp_path).attempts_by_guest() == {("b", "h"): 1} == list_guests(tmp_path)


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
    assert driver.attempts_by_guest() == {("a", "h"): 2}
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
