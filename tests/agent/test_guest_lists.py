import asyncio
from pathlib import Path
from typing import Any

import pytest

from roost.agent import guest_lists as module
from roost.agent.drivers.fake import FakeDriver, Faults
from roost.agent.guest_lists import gather_own_changes, list_guests, own_reports, sequence_of, split_by_host
from roost.seams.agent import GuestOrder, ListedGuest


def order(server_id: str, host: str = "h", **fields: Any) -> GuestOrder:
    return GuestOrder(server_id=server_id, host=host, attempt=1, desired="running", **fields)


async def test_a_list_is_of_the_version_that_its_agent_speaks(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    await driver.launch(order("b", "h2", name="web"))
    await driver.launch(order("a", "h1"))
    (first, second) = list_guests(driver, service_version=5, resumes=False)
    assert (first.host, first.state, first.power_state, first.sequence) == ("h1", "running", "running", 2)
    assert (second.name, second.sequence) == ("web", 1)
    assert list_guests(driver, service_version=4, resumes=False)[1] == ListedGuest(server_id="b", host="h2", attempt=1)
    await driver.close()


@pytest.mark.parametrize("resumes", [True, False])
async def test_only_with_the_option_a_list_asks_for_what_the_hosts_restart_stopped(
    tmp_path: Path, resumes: bool
) -> None:
    (tmp_path / "kernel-now").write_text("one")
    driver = FakeDriver(tmp_path)
    await driver.launch(order("a"))
    await driver.close()
    (tmp_path / "kernel-now").write_text("two")
    driver = FakeDriver(tmp_path)
    (guest,) = list_guests(driver, service_version=5, resumes=resumes)
    assert (guest.state, guest.resume) == ("stopped", resumes)
    await driver.close()


async def test_what_guests_do_soon_after_each_other_is_told_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OWN_COLLECT_S", 0.5)
    file = tmp_path / "die"
    driver = FakeDriver(tmp_path, Faults(die_file=file))
    for server_id in "abc":
        await driver.launch(order(server_id))
    file.write_text("shutdown a\n")
    gathering = asyncio.create_task(gather_own_changes(driver))
    while file.exists():  # until the driver has read it
        await asyncio.sleep(0.01)
    file.write_text("crashed b\n")
    keys = await gathering
    assert keys == {("a", "h"), ("b", "h")}
    await driver.destroy(("a", "h"), attempt=1)
    (report,) = own_reports(driver, keys)
    assert (report.server_id, report.state, report.desired, report.by_itself) == ("b", "unchanged", None, True)
    assert (report.power_state, report.sequence) == ("crashed", 5)
    await driver.close()


async def test_what_a_guest_did_since_an_order_was_done_is_newer_than_the_report_of_the_order(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path, Faults(die_file=tmp_path / "die"))
    await driver.launch(order("b"))
    await driver.launch(order("a"))
    assert sequence_of(driver, ("a", "h"), "running") == 2
    (tmp_path / "die").write_text("crashed a\n")
    (key,) = await driver.own_changes()
    assert sequence_of(driver, key, "running") == 2 < driver.guests_by_key()[key].sequence
    assert sequence_of(driver, ("gone", "h"), "absent") == 0
    await driver.close()


@pytest.mark.parametrize(
    ("hosts", "size", "pages"),
    [
        ("", 2, [("", None, "")]),
        ("ab", 2, [("", None, "ab")]),
        ("abc", 2, [("", "b", "ab"), ("b", None, "c")]),
        ("abbb", 2, [("", None, "abbb")]),
        ("abbbc", 2, [("", "b", "abbb"), ("b", None, "c")]),
        ("aabbcc", 2, [("", "a", "aa"), ("a", "b", "bb"), ("b", None, "cc")]),
    ],
)
def test_a_list_of_guests_is_split_between_hosts(
    hosts: str, size: int, pages: list[tuple[str, str | None, str]]
) -> None:
    guests = [ListedGuest(server_id=str(number), host=host, attempt=1) for number, host in enumerate(hosts)]
    split = split_by_host(guests, size)
    assert [(after, until, "".join(guest.host for guest in page)) for after, until, page in split] == pages
