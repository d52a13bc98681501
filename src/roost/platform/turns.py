"""Long work on the event loop in turns: short requests of the process go before it.

Whoever asks for pages of thousands keeps no core from the others: while a short request is at work, long works rest.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec

TURN_S = 0.0005
"""After so long others have their turn, for 3 % more CPU: a short request waits for a turn several times."""
REST_S = 0.002
"""How long long works rest after a turn while a short request is at work: beside many they take five times as long."""

T = TypeVar("T")
R = TypeVar("R")

_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""Where long works of an event loop wait for their next turn: one of them has one at a time, however many there are."""
_requests: set[object] = set()
_works: set[object] = set()
"""The requests of this process that are at work, and the long works of some of them."""


@contextmanager
def at_work() -> Iterator[None]:
    """Have long works rest for as long as the block runs, unless it comes to a long work itself."""
    with _counted(_requests):
        yield


@contextmanager
def _counted(members: set[object]) -> Iterator[None]:
    member = object()
    members.add(member)
    try:
        yield
    finally:
        members.discard(member)


async def in_turns(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return what the work makes of each item. Of a few items it is done at once."""
    results: list[R] = []
    queue = _queues.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    over_at_s = time.perf_counter() + TURN_S
    with _counted(_works):
        for item in items:
            results.append(work(item))
            if time.perf_counter() >= over_at_s:
                async with queue:
                    await asyncio.sleep(REST_S if len(_requests) > len(_works) else 0)
                over_at_s = time.perf_counter() + TURN_S
    return results


async def encode_in_turns(show: Callable[[T], Any], items: Iterable[T]) -> list[msgspec.Raw]:
    """Return the items as they are shown, in JSON: putting those of a page together takes no time then."""
    return await in_turns(lambda item: msgspec.Raw(msgspec.json.encode(show(item))), items)
