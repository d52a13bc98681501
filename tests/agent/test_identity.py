"""What an agent keeps of who it is."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from roost.agent.drivers.fake import FakeDriver, Faults
from roost.agent.identity import keep_mark, make_identity


async def test_a_mark_that_cannot_be_written_is_told_all_the_same(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    agent = keep_mark(driver, make_identity(driver, service_version=1, fence_after_s=None), "first")
    assert keep_mark(driver, agent, "") == keep_mark(driver, agent, "first") == agent
    (tmp_path / "mark.new").mkdir()  # as unwritable as on a full disk
    with capture_logs() as logs:
        assert keep_mark(driver, agent, "second").mark == "second"
    assert [line["event"] for line in logs] == ["the API's mark is not written"]
    assert driver.read_mark() == "first"
    await driver.close()


@pytest.mark.parametrize("keeps_disks", [False, True])
async def test_an_agent_says_whether_its_guests_have_disks(tmp_path: Path, keeps_disks: bool) -> None:
    driver = FakeDriver(tmp_path, Faults(keeps_disks=keeps_disks))
    assert make_identity(driver, service_version=6, fence_after_s=None).keeps_disks is keeps_disks
    await driver.close()
