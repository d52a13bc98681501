"""Calls that come together are done together, and none answers for another."""

import asyncio
from collections.abc import Sequence

import pytest

from roost.platform.batches import Batches
from roost.platform.errors import DatabaseUnavailable


class Work:
    """Doubles numbers; odd ones cannot be doubled, and zero finds the database away."""

    def __init__(self) -> None:
        self.sets: list[list[int]] = []

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.sets.append(list(items))
        await asyncio.sleep(0)
        if 0 in items:
            raise DatabaseUnavailable
        if odd := [item for item in items if item % 2]:
            raise ValueError(odd)
        return [2 * item for item in items]


async def test_what_waits_is_done_in_one_set_of_at_most_so_many() -> None:
    work = Work()
    batches = Batches(work, most=3)
    assert await asyncio.gather(*(batches.do(item) for item in (2, 4, 6, 8, 10))) == [4, 8, 12, 16, 20]
    assert work.sets == [[2, 4, 6], [8, 10]]
    assert await batches.do(2) == 4


async def test_one_that_fails_takes_no_other_with_it() -> None:
    batches = Batches(Work(), most=8)
    answers = await asyncio.gather(*(batches.do(item) for item in (2, 3, 4)), return_exceptions=True)
    assert answers[0] == 4
    assert str(answers[1]) == "[3]"
    assert answers[2] == 8


async def test_nothing_is_tried_again_while_the_database_is_away() -> None:
    work = Work()
    batches = Batches(work, most=8)
    answers = await asyncio.gather(*(batches.do(item) for item in (2, 0)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [DatabaseUnavailable, DatabaseUnavailable]
    assert work.sets == [[2, 0]]


async def test_a_caller_that_goes_away_harms_nobody() -> None:
    batches = Batches(Work(), most=8)
    gone, kept = (asyncio.create_task(batches.do(item)) for item in (2, 4))
    await asyncio.sleep(0)
    gone.cancel()
    assert await kept == 8
    with pytest.raises(asyncio.CancelledError):
        await gone
