import asyncio
from typing import Any, cast

from roost.compute.model.work import CHANNELS, GUEST_CHANNEL
from roost.compute.service.poll_waits import PollWaits
from roost.platform.wakeup import Wakeups

LONG_S = 60.0


def wakeups() -> Wakeups:
    return Wakeups(cast("Any", None), CHANNELS)  # those of this process need no database


async def test_only_polls_whose_hosts_have_orders_are_woken() -> None:
    heard, looks, orders = wakeups(), 0, set[str]()

    async def look() -> set[str]:
        nonlocal looks
        looks += 1
        return set(orders)

    waits = PollWaits(heard, look)
    first = asyncio.create_task(waits.wait(["h1", "h2", "h1"], LONG_S, since=0))
    others = [asyncio.create_task(waits.wait([f"x{number}"], LONG_S, since=0)) for number in range(100)]
    while looks < 1:
        await asyncio.sleep(0)
    orders.add("h2")
    heard.send(GUEST_CHANNEL)
    await asyncio.wait_for(first, LONG_S)
    assert looks == 2
    assert not any(other.done() for other in others)
    orders.update(f"x{number}" for number in range(100))
    heard.send(GUEST_CHANNEL)
    await asyncio.wait_for(asyncio.gather(*others), LONG_S)
    assert looks == 3


async def test_a_wake_up_between_a_polls_look_and_its_wait_is_not_missed() -> None:
    heard = wakeups()
    heard.send(GUEST_CHANNEL)

    async def look() -> set[str]:
        return set()

    await asyncio.wait_for(PollWaits(heard, look).wait(["h1"], LONG_S, since=0), 1)


async def test_a_poll_whose_time_is_over_returns_and_leaves_nothing() -> None:
    async def look() -> set[str]:
        return set()

    waits = PollWaits(wakeups(), look)
    await waits.wait(["h1"], 0.01, since=0)
    assert waits._polls_by_host == {}


async def test_where_the_look_fails_each_poll_looks_for_itself() -> None:
    async def look() -> set[str]:
        raise RuntimeError("the database is away")

    waits = PollWaits(wakeups(), look)
    await asyncio.wait_for(asyncio.gather(*(waits.wait([name], LONG_S, since=0) for name in "ab")), 5)
