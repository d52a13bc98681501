"""Conductors whose calls go wrong: at the n-th one they die, sleep through their lease, or lose the call or its answer.

A call is one of the conductor to another service, or the transaction that writes where its servers stand.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import Any
from unittest.mock import patch

from tests.conductor.world import KilledHere

from roost.conductor.context import Conductor, Lease
from roost.conductor.pipeline import run_once
from roost.platform.errors import DatabaseUnavailable


class Fate(Enum):
    """What becomes of one call."""

    DIES_BEFORE = "dies before"
    DIES_AFTER = "dies after"
    SLEEPS_BEFORE = "sleeps before"
    SLEEPS_AFTER = "sleeps after"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"


class Plan:
    """One conductor's bad luck. at: which of its calls; past the last one nothing happens."""

    def __init__(self, fate: Fate | None, at: int) -> None:
        self.fate, self.at = fate, at
        self.calls = 0
        self.met = ""
        self.asleep, self.woken = asyncio.Event(), asyncio.Event()

    async def call(self, name: str, real: Callable[[], Awaitable[Any]]) -> Any:
        """Make a call, or what fate makes of it."""
        self.calls += 1
        if self.fate is None or self.calls != self.at:
            return await real()
        self.met = name
        if self.fate is Fate.DIES_BEFORE:
            raise KilledHere
        if self.fate is Fate.REQUEST_LOST:
            raise DatabaseUnavailable("the request was lost")
        if self.fate is Fate.SLEEPS_BEFORE:
            await self._sleep()
        answer = await real()
        if self.fate is Fate.DIES_AFTER:
            raise KilledHere
        if self.fate is Fate.ANSWER_LOST:
            raise DatabaseUnavailable("the answer was lost")
        if self.fate is Fate.SLEEPS_AFTER:
            await self._sleep()
        return answer

    async def _sleep(self) -> None:
        self.asleep.set()
        await self.woken.wait()


class Planned:
    """A client of another service, each of whose calls the plan may spoil."""

    def __init__(self, client: Any, plan: Plan) -> None:
        self._client, self._plan = client, plan

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def call(*arguments: Any, **more: Any) -> Any:
            return await self._plan.call(name, lambda: method(*arguments, **more))

        return call


_plans: dict[int, Plan] = {}
"""id of a conductor -> its plan, for as long as its batch runs."""


@contextmanager
def advances_planned() -> Iterator[None]:
    """Have the transactions that move servers on count as calls."""
    advance = Lease.advance

    async def planned(lease: Lease, *arguments: Any, **more: Any) -> Any:
        plan = _plans.get(id(lease.conductor))
        if plan is None:
            return await advance(lease, *arguments, **more)
        return await plan.call("advance", lambda: advance(lease, *arguments, **more))

    with patch.object(Lease, "advance", planned):
        yield


async def run_planned(conductor: Conductor, plan: Plan) -> str:
    """Carry one batch under the plan; how it ended: done, nothing, died or cut off."""
    network = Planned(conductor.network, plan)
    unlucky = replace(conductor, placement=Planned(conductor.placement, plan), network=network, moves=network)
    _plans[id(unlucky)] = plan
    try:
        return "done" if await run_once(unlucky) else "nothing"
    except KilledHere:
        return "died"
    except DatabaseUnavailable:
        return "cut off"
    finally:
        del _plans[id(unlucky)]
