"""When NICs go down by themselves: the promise on the fake driver, in the order in which an agent makes it."""

from pathlib import Path

import pytest

from roost.agent.drivers.fake import FakeDriver, read_nics_end
from roost.agent.fence import Fence
from roost.agent.lease import Lease, now_s
from roost.seams.agent import HeldElsewhere, Polled

NS = 1_000_000_000


def polled(*, lease_s: float = 20.0, elsewhere: tuple[str, ...] = ()) -> Polled:
    return Polled(
        orders=(), elsewhere=tuple(HeldElsewhere(host=host) for host in elsewhere), lease_s=lease_s, held_s=0.0,
        as_of=0.0,
    )  # fmt: skip


def renewed(lease: Lease, *, lease_s: float = 20.0, elsewhere: tuple[str, ...] = ()) -> Lease:
    lease.renew(polled(lease_s=lease_s, elsewhere=elsewhere), asked_s=now_s())
    return lease


async def test_nics_end_so_long_after_the_lease_and_the_file_says_it_when_the_agent_is_dead(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    Fence(driver, renewed(Lease()), 100.0).put_off()
    await driver.close()
    end_ns = read_nics_end(tmp_path).of("h1")
    assert end_ns is not None
    reopened = FakeDriver(tmp_path)
    assert reopened.nics_end_s == pytest.approx(now_s() + 120.0, abs=1.0)
    await reopened.close()


async def test_an_end_that_is_hardly_later_is_not_written(tmp_path: Path) -> None:
    driver, lease = FakeDriver(tmp_path), renewed(Lease())
    fence = Fence(driver, lease, 100.0)
    fence.put_off()
    first = read_nics_end(tmp_path)
    renewed(lease, lease_s=24.0)
    fence.put_off()
    assert read_nics_end(tmp_path) == first
    renewed(lease, lease_s=26.0)
    fence.put_off()
    assert (read_nics_end(tmp_path).at_ns or 0) > (first.at_ns or 0) + 5 * NS
    await driver.close()


async def test_a_host_that_another_agent_serves_keeps_its_end(tmp_path: Path) -> None:
    driver, lease = FakeDriver(tmp_path), renewed(Lease())
    fence = Fence(driver, lease, 100.0)
    fence.put_off()
    before = read_nics_end(tmp_path).of("h2")
    renewed(lease, lease_s=50.0, elsewhere=("h2",))
    fence.put_off()
    after = read_nics_end(tmp_path)
    assert (after.of("h2"), after.of("h1") != before) == (before, True)
    await driver.close()


async def test_nics_are_down_once_the_end_has_passed_and_up_again_when_it_is_put_off(tmp_path: Path) -> None:
    driver, lease = FakeDriver(tmp_path), renewed(Lease(), lease_s=-1.0)
    fence = Fence(driver, lease, 0.5)
    assert not fence.is_down
    fence.put_off()
    assert fence.is_down
    renewed(lease)
    fence.put_off()
    assert not fence.is_down
    await driver.close()


async def test_who_promises_nothing_takes_an_earlier_promise_back(tmp_path: Path) -> None:
    driver, lease = FakeDriver(tmp_path), renewed(Lease())
    Fence(driver, lease, 100.0).put_off()
    Fence(driver, lease, None).put_off()
    assert (driver.nics_end_s, read_nics_end(tmp_path).of("h1")) == (None, None)
    await driver.close()
