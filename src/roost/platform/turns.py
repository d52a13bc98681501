"""Long work on the event loop in turns: short requests of the process go before it.

Whoever asks for pages of thousands keeps no core from the others: while a short request is at work, long works rest.
Several of them rest a moment longer, for the next short request: its statements find a core that is idle.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec

TURN_S = 0.0005
"""After so long others have their turn, for 3 % more CPU: a short request waits for a turn several times."""
REST_S = 0.0015
"""How long long works rest after a turn while a short request is at work: beside many they take four times as long."""
LATELY_S = 0.05
"""Several long works rest so long after the last short request too."""

T = TypeVar("T")
R = TypeVar("R")

_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""Where long works of an event loop wait for their next turn: one of them has one at a time, however many there are."""
_short_requests: set[object] = set()
_long_works: set[object] = set()
"""What is at work in this process. A request that comes to a long work is no short one from then on."""
_request: ContextVar[object] = ContextVar("request", default=None)
_short_ends_s: deque[float] = deque([float("-inf")], maxlen=1)
"""When the last short request ended."""


@contextmanager
def at_work() -> Iterator[None]:
    """Have long works rest for as long as the block runs, unless it comes to a long work itself."""
    request = object()
    _short_requests.add(request)
    before = _request.set(request)
    try:
        yield
    finally:
        _request.reset(before)
        if request in _short_requests:
            _short_requests.remove(request)
            _short_ends_s.append(time.perf_counter())


def _rest_s() -> float:
    """Return how long a long work rests after a turn."""
    is_short_expected = len(_long_works) > 1 and time.perf_counter() < _short_ends_s[-1] + LATELY_S
    return REST_S if _short_requests or is_short_expected else 0


async def in_turns(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return what the work makes of each item. Of a few items it is done at once."""
    results: list[R] = []
    queue = _queues.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    over_at_s = time.perf_counter() + TURN_S
    long_work = object()
    try:
        for item in items:
            results.append(work(item))
            if time.perf_counter() >= over_at_s:
                _short_requests.discard(_request.get())
                _long_works.add(long_work)
                async with queue:
                    await asyncio.sleep(_rest_s())
                over_at_s = time.perf_counter() + TURN_S
    finally:
        _long_works.discard(long_work)
    return results


async def encode_in_turns(show: Callable[[T], Any], items: Iterable[T]) -> list[msgspec.Raw]:
    """Return the items as they are shown, in JSON: putting those of a page together takes no time then."""
    return await in_turns(lambda item: msgspec.Raw(msgspec.json.encode(show(item))), items)
