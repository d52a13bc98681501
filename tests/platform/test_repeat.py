"""Periodic work goes on over its failures, and ends when it is cancelled, whatever its ending makes of that."""

import asyncio

import pytest
from structlog.testing import capture_logs

from roost.platform.errors import Conflict, DatabaseUnavailable
from roost.platform.repeat import KEYS_LOGGED_MAX, at_once, repeat


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


MANY = [str(number) for number in range(KEYS_LOGGED_MAX + 1)]


@pytest.mark.parametrize(
    ("keys", "error", "done", "logged"),
    [
        pytest.param([], None, [], [], id="nothing is due"),
        pytest.param(["a", "b"], None, [["a", "b"]], [], id="done"),
        pytest.param(MANY, Conflict("no"), [MANY], [(MANY[:-1], len(MANY), "no")], id="left to the next round"),
        pytest.param(["a"], TimeoutError("late"), [["a"]], [(["a"], 1, "late")], id="too late"),
    ],
)
async def test_what_is_due_is_done_at_once_or_in_the_next_round(
    keys: list[str], error: Exception | None, done: list[list[str]], logged: list[tuple[list[str], int, str]]
) -> None:
    calls: list[list[str]] = []

    async def work(_context: None, keys: list[str]) -> None:
        calls.append(keys)
        if error is not None:
            raise error

    with capture_logs() as logs:
        await at_once(work, "working")(None, keys)
    assert calls == done
    assert [(line["of"], line["count"], line["reason"]) for line in logs] == logged
    assert all(line["event"] == "working failed; the next round retries" for line in logs)


async def test_a_bug_of_what_is_done_at_once_is_not_left_to_the_next_round() -> None:
    async def work(_context: None, _keys: list[str]) -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        await at_once(work, "working")(None, ["a"])
