"""Periodic work ends when it is cancelled, whatever its ending makes of that."""

import asyncio

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
