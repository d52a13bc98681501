"""Long work leaves others their turn, and short work is done at once."""

import asyncio
import time
from collections import Counter

import msgspec
import pytest

from roost.platform.turns import TURN_S, encode_in_turns, in_turns


@pytest.mark.parametrize(("item_s", "items", "turns"), [(0.0, 3, 0), (TURN_S, 3, 3), (TURN_S / 2, 4, 2)])
async def test_whoever_waits_has_a_turn_after_each_of_the_works(
    monkeypatch: pytest.MonkeyPatch, item_s: float, items: int, turns: int
) -> None:
    now_s, others = 0.0, 0

    def work(item: int) -> int:
        nonlocal now_s
        now_s += item_s
        return item * 2

    async def count() -> None:
        nonlocal others
        while True:
            await asyncio.sleep(0)
            others += 1

    monkeypatch.setattr(time, "perf_counter", lambda: now_s)
    waiting = asyncio.create_task(count())
    await asyncio.sleep(0)
    others = 0
    assert await in_turns(work, range(items)) == [item * 2 for item in range(items)]
    waiting.cancel()
    assert others == turns


async def test_however_many_works_there_are_one_has_a_turn_at_a_time() -> None:
    rounds, turns = 0, Counter[int]()

    def work(_item: int) -> None:
        turns[rounds] += 1
        time.sleep(TURN_S)  # it takes its turn whole

    async def count() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    counting = asyncio.create_task(count())
    await asyncio.gather(*(in_turns(work, range(20)) for _ in range(4)))
    counting.cancel()
    assert turns.total() == 80
    assert sorted(turns.values())[:-1] == [1] * (len(turns) - 1), "but for the beginning of all of them"


async def test_items_are_encoded_as_they_are_shown() -> None:
    shown = await encode_in_turns(lambda item: {"id": item}, ["a", "b"])
    assert msgspec.json.encode({"items": shown}) == b'{"items":[{"id":"a"},{"id":"b"}]}'
