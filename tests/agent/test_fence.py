"""When NICs go down by themselves: the promise on the fake driver, in the order in which an agent makes it."""

import asyncio
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.agent.cloud import compute_of, declare_hosts, serving, until
from tests.ports import free_port

from roost.agent.agent import run
from roost.agent.drivers.fake import FakeDriver, NicsEnd, read_nics_end
from roost.agent.fence import Fence, PromiseUnwritten
from roost.agent.lease import Lease, now_s
from roost.platform.database import Database
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
    assert reopened.nics_end_s() == pytest.approx(now_s() + 120.0, abs=1.0)
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
    assert (driver.nics_end_s(), read_nics_end(tmp_path).of("h1")) == (None, None)
    await driver.close()


async def test_who_takes_a_promise_back_leaves_the_end_of_hosts_that_another_agent_serves(tmp_path: Path) -> None:
    driver, lease = FakeDriver(tmp_path), renewed(Lease())
    Fence(driver, lease, 100.0).put_off()
    before = read_nics_end(tmp_path).of("h2")
    Fence(driver, renewed(Lease(), elsewhere=("h2",)), None).put_off()
    assert (read_nics_end(tmp_path).of("h1"), read_nics_end(tmp_path).of("h2")) == (None, before)
    await driver.close()


async def test_the_end_of_a_host_elsewhere_takes_no_other_down(tmp_path: Path) -> None:
    driver, lease = FakeDriver(tmp_path), renewed(Lease(), lease_s=-1.0)
    fence = Fence(driver, lease, 0.5)
    fence.put_off()
    renewed(lease, elsewhere=("h2",))
    assert fence.is_down
    fence.put_off()
    assert not fence.is_down
    renewed(lease)
    assert fence.is_down, "h2 is this agent's again: what was fenced there goes first"
    await driver.close()


async def test_on_a_full_disk_nics_stay_up_and_the_next_agent_finds_an_earlier_end(tmp_path: Path) -> None:
    driver, lease = FakeDriver(tmp_path), renewed(Lease())
    fence = Fence(driver, lease, 100.0)
    fence.put_off()
    written = read_nics_end(tmp_path)
    (tmp_path / "nics-end.new").mkdir()  # as unwritable as on a full disk
    renewed(lease, lease_s=60.0)
    with capture_logs() as logs:
        fence.put_off()
        Fence(driver, lease, None).put_off()
    assert [line["event"] for line in logs] == ["until when NICs are up is not written"] * 2
    assert driver.nics_end_s() is None
    assert read_nics_end(tmp_path) == written
    await driver.close()


async def test_what_cannot_be_written_is_not_promised(database: Database, tmp_path: Path) -> None:
    await declare_hosts(database, ["h1"])
    compute = compute_of(database)
    (tmp_path / "nics-end.new").mkdir()
    async with serving(compute, free_port()) as url:
        with pytest.raises(PromiseUnwritten, match="--fence-after cannot be promised: Is a directory"):
            await run(api_url=url, hosts=None, driver=FakeDriver(tmp_path), stop=asyncio.Event(), fence_after_s=100.0)
    async with compute.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM compute.host WHERE agent_id IS NOT NULL") == 0


@pytest.mark.parametrize("end_in_s", [None, 3600.0, 50.0])
async def test_the_driver_knows_of_a_promise_before_the_server_does(
    database: Database, tmp_path: Path, end_in_s: float | None
) -> None:
    """An agent that dies with the answer, or never gets it, has promised all the same."""
    await declare_hosts(database, ["h1"])
    compute = compute_of(database)
    if end_in_s is not None:
        driver = FakeDriver(tmp_path)
        driver.end_nics(now_s() + end_in_s)
        await driver.close()
    before = read_nics_end(tmp_path)
    stop = asyncio.Event()
    async with serving(compute, free_port()) as url, database.transaction() as tx:
        await tx.execute("LOCK TABLE compute.unknown_guest")  # no list of guests is answered
        driver = FakeDriver(tmp_path)
        task = asyncio.create_task(run(api_url=url, hosts=None, driver=driver, stop=stop, fence_after_s=100.0))
        await until(compute, "SELECT fence_after_s FROM compute.host", gives=100.0)
        end = read_nics_end(tmp_path)
        stop.set()
        await task
    assert end.at_ns is not None
    assert end.at_ns <= time.time_ns() + 100 * NS
    if end_in_s == 50.0:
        assert end == before, "what an earlier promise says is not put off"


async def test_a_limit_leaves_earlier_ends(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    driver.end_nics(now_s() + 10)
    driver.end_nics(now_s() + 1000, but_on={"h2"})
    h2_ns = read_nics_end(tmp_path).of("h2")
    driver.limit_nics(now_s() + 100)
    end = read_nics_end(tmp_path)
    assert (end.of("h2"), (end.of("h1") or 0) < time.time_ns() + 101 * NS) == (h2_ns, True)
    driver.limit_nics(now_s() + 5)
    assert (read_nics_end(tmp_path).of("h2") or 0) < (h2_ns or 0)
    await driver.close()
    assert NicsEnd() == read_nics_end(tmp_path / "elsewhere")
