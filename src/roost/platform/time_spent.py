"""Counts where a request's time goes, by phase, which the line of a slow one tells (request_log.py).

Work that several requests share is counted by itself, and added to what each of them waited for.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_seconds: ContextVar[dict[str, float] | None] = ContextVar("seconds", default=None)


@contextmanager
def count_phases() -> Iterator[dict[str, float]]:
    """Count the phases within the block, and in the tasks it starts; gives phase -> seconds."""
    seconds: dict[str, float] = {}
    token = _seconds.set(seconds)
    try:
        yield seconds
    finally:
        _seconds.reset(token)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Count the block's time to this phase, if anybody counts."""
    begun_s = time.perf_counter()
    try:
        yield
    finally:
        add_phases({name: time.perf_counter() - begun_s})


def add_phases(added: Mapping[str, float]) -> None:
    """Count what was spent elsewhere, if anybody counts."""
    seconds = _seconds.get()
    if seconds is not None:
        for name, added_s in added.items():
            seconds[name] = seconds.get(name, 0.0) + added_s
