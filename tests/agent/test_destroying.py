"""Guests that cannot go yet: nothing else waits for them, and their NICs are down first."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from tests.agent.cloud import compute_of, declare_hosts, order_guests, serving, until, until_true
from tests.agent.qemu.orders import make_order
from tests.ports import free_port

from roost.agent.agent import Agent, run
from roost.agent.connection import Connection
from roost.agent.drivers.fake import FakeDriver, list_present
from roost.agent.old_agents import AgentPorts
from roost.compute.service import Compute
from roost.platform.database import Database
from roost.seams.agent import GuestKey, GuestOrder, Refusal, ReportAnswer
from roost.seams.guests import MemorySource

HERE, ELSEWHERE = "h0", "h1"
STAGE_COUNT = "SELECT count(*) FROM compute.work WHERE stage = $1"


class StuckDriver(FakeDriver):
    """Notes what it is told to do; nothing goes before `free`, nor is it written while `full`."""

    def __init__(self, state: Path, *, full: bool = False) -> None:
        super().__init__(state)
        self.calls: list[str] = []
        self.free = asyncio.Event()
        self._full = full

    def cut_off(self, key: GuestKey, *, attempt: int) -> None:
        self.calls.append("cut off")
        super().cut_off(key, attempt=attempt)
        if self._full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def end_nics(self, at_s: float | None, *, but_on: frozenset[str] = frozenset()) -> None:  # type: ignore[override]
        self.calls.append("end")
        super().end_nics(at_s, but_on=but_on)

    async def destroy(self, key: GuestKey, *, attempt: int, disk: bool = True) -> None:
        self.calls.append("destroy")
        await self.free.wait()
        await super().destroy(key, attempt=attempt, disk=disk)


@pytest.fixture
async def compute(database: Database) -> Compute:
    await declare_hosts(database, [HERE, ELSEWHERE])
    return compute_of(database)


@asynccontextmanager
async def running(compute: Compute, driver: FakeDriver) -> AsyncIterator[asyncio.Task[None]]:
    stop = asyncio.Event()
    async with serving(compute, free_port()) as url:
        task = asyncio.create_task(run(api_url=url, hosts=None, driver=driver, stop=stop, fence_after_s=100.0))
        yield task
        stop.set()
        await task


async def _evacuate(compute: Compute, state: Path) -> str:
    """Have a guest be here whose server was made anew elsewhere."""
    (server_id,) = await order_guests(compute, [HERE])
    async with running(compute, FakeDriver(state)):
        await until(compute, STAGE_COUNT, "settle", gives=1)
    async with compute.database.transaction() as tx:
        await tx.execute("UPDATE compute.guest SET host = $1, attempt = 2, begun_at = now()", ELSEWHERE)
    return server_id


async def test_a_guest_that_cannot_go_keeps_nothing_else_waiting_and_has_no_nics(
    compute: Compute, tmp_path: Path
) -> None:
    stuck = await _evacuate(compute, tmp_path)
    driver = StuckDriver(tmp_path)
    async with running(compute, driver):
        await until_true(lambda: "destroy" in driver.calls)
        assert list_present(tmp_path)[stuck, HERE].state == "stopped"
        await order_guests(compute, [HERE])
        await until(compute, STAGE_COUNT, "settle", gives=2)
        assert (stuck, HERE) in list_present(tmp_path)
        driver.free.set()
        await until_true(lambda: (stuck, HERE) not in list_present(tmp_path))
    assert driver.calls.index("cut off") < driver.calls.index("end"), "R40: no NIC is up for longer before"


async def test_nics_are_up_no_longer_while_an_agent_after_this_one_would_have_the_guests_up(
    compute: Compute, tmp_path: Path
) -> None:
    await _evacuate(compute, tmp_path)
    driver = StuckDriver(tmp_path, full=True)
    async with running(compute, driver):
        await until_true(lambda: "cut off" in driver.calls)
        await order_guests(compute, [HERE])
        await until_true(lambda: driver.calls.count("cut off") > 1)
    assert "end" not in driver.calls
    assert driver.calls.count("destroy") == 1


async def test_an_order_for_a_guest_that_goes_waits_until_it_is_gone(compute: Compute, tmp_path: Path) -> None:
    server_id = await _evacuate(compute, tmp_path)
    driver = StuckDriver(tmp_path)
    async with running(compute, driver):
        await until_true(lambda: "destroy" in driver.calls)
        async with compute.database.transaction() as tx:
            await tx.execute(
                "INSERT INTO compute.guest (server_id, host, attempt, desired) VALUES ($1, $2, 1, 'absent')",
                server_id, HERE,
            )  # fmt: skip
        await order_guests(compute, [HERE])  # whose launch shows that the orders have come
        await until(compute, STAGE_COUNT, "settle", gives=2)
        assert driver.calls.count("destroy") == 1
        driver.free.set()
        await until_true(lambda: driver.calls.count("destroy") == 2)


class StaleDriver(StuckDriver):
    """Its disks are on a file server that is gone."""

    async def expect(self, order: GuestOrder) -> MemorySource | None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))


class RefusedAgent(Agent):
    """Whatever it is about to do, the API refuses."""

    async def _report(self, order: GuestOrder, *_words: object, **_more: object) -> ReportAnswer:
        return ReportAnswer(server_id=order.server_id, host=order.host, accepted=False, refusal=Refusal.SUPERSEDED)


async def test_a_launch_that_may_not_begin_touches_nothing_where_its_disks_cannot_be_seen(tmp_path: Path) -> None:
    driver = StaleDriver(tmp_path)
    agent = RefusedAgent(cast("Connection", None), None, driver, AgentPorts(None, service_version=9), 9)
    await agent._launch(make_order())
    assert driver.calls == []
    await driver.close()


async def test_disks_that_cannot_be_seen_fail_the_launch_alone(compute: Compute, tmp_path: Path) -> None:
    await order_guests(compute, [HERE])
    driver = StaleDriver(tmp_path)
    driver.free.set()
    async with running(compute, driver) as task:
        await until(compute, STAGE_COUNT, "retry", gives=1)
        assert not task.done()
