"""Periodic work goes on over its failures, and ends when it is cancelled, whatever its ending makes of that."""

import asyncio

import pytest
from structlog.testing import capture_logs

from roost.platform.errors import DatabaseUnavailable
from roost.platform.repeat import repeat


async def test_work_whose_connection_fails_as_it_is_cancelled_ends_all_the_same() -> None:
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            raise DatabaseUnavailable("another operation is in progress")

    task = asyncio.create_task(repeat(work, "working", interval_s=3600))
    await began.wait()
    task.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait([task])
    assert task.cancelled()


async def test_work_is_done_again_after_tasks_of_it_failed_together() -> None:
    rounds, again = 0, asyncio.Event()

    async def fail() -> None:
        raise DatabaseUnavailable

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        if rounds > 2:
            again.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())

    task = asyncio.create_task(repeat(work, "working", interval_s=0))
    async with asyncio.timeout(10):
        await asyncio.wait([task, asyncio.create_task(again.wait())], return_when=asyncio.FIRST_COMPLETED)
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


class ServiceUnavailable(DatabaseUnavailable):
    """Another service is waited for."""

    service = "that service"


class Refused(ServiceUnavailable):
    """Who raises it has said so."""

    is_logged = True


@pytest.mark.parametrize(
    ("error", "events"),
    [
        (DatabaseUnavailable, ["periodic work waits for the database"]),
        (ServiceUnavailable, ["periodic work waits for that service"]),
        (Refused, []),
    ],
)
async def test_the_log_says_what_work_waits_for_once_a_minute(
    error: type[DatabaseUnavailable], events: list[str]
) -> None:
    rounds, done = 3, asyncio.Event()

    async def work() -> None:
        nonlocal rounds
        rounds -= 1
        if not rounds:
            done.set()
        raise error

    with capture_logs() as logs:
        task = asyncio.create_task(repeat(work, "working", interval_s=0))
        await done.wait()
        task.cancel()
        await asyncio.wait([task])
    assert [line["event"] for line in logs] == events
