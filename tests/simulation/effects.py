"""Conductors whose calls go wrong: at the n-th one they die, sleep through their lease, or lose the call or its answer.

A call is one of the conductor to any service, the compute service among them: leasing, reading guests, withdrawing
them, and the transaction that writes where its servers stand. Requests of users die at calls to the ledger.
"""

import asyncio
import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import replace
from enum import Enum
from functools import wraps
from typing import Any, cast
from unittest.mock import patch

from tests.conductor.world import KilledHere

import roost.conductor
from roost.compute.service import Compute
from roost.conductor.context import Conductor
from roost.conductor.pipeline import run_once
from roost.network.model.ports import Port, PortRequest
from roost.network.service import Networks, creations
from roost.platform.database import Connection, Database
from roost.platform.errors import DatabaseUnavailable, RoostError


class Fate(Enum):
    """What becomes of one call."""

    DIES_BEFORE = "dies before"
    DIES_AFTER = "dies after"
    SLEEPS_BEFORE = "sleeps before"
    SLEEPS_AFTER = "sleeps after"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"


SLEEPS = (Fate.SLEEPS_BEFORE, Fate.SLEEPS_AFTER)


class Partition:
    """A service that conductors do not reach, for so many of their calls."""

    def __init__(self, service: str, calls_left: int) -> None:
        self.service, self.calls_left = service, calls_left

    def check(self, service: str) -> None:
        """Raise DatabaseUnavailable if the call gets lost, as the services' clients do."""
        if service == self.service and self.calls_left:
            self.calls_left -= 1
            raise DatabaseUnavailable(f"{service} cannot be reached")


class Plan:
    """One conductor's bad luck. server_ids: its batch. partition: who cannot be reached, whatever fate is.

    at: which of its calls, counted from 1, past the last one nothing happens; only: of those by this name.
    """

    def __init__(self, fate: Fate | None, at: int, *, only: str | None = None) -> None:
        self.fate, self.at, self.only = fate, at, only
        self.partition = Partition("", 0)
        self.calls = 0
        self.met = ""
        self.died = False
        self.server_ids: list[str] = []
        self.asleep, self.woken = asyncio.Event(), asyncio.Event()

    async def call(self, service: str, name: str, real: Callable[[], Awaitable[Any]]) -> Any:
        """Make a call, or what fate makes of it."""
        self.partition.check(service)
        counts = self.only in (None, name)
        self.calls += counts
        if self.fate is None or not counts or self.calls != self.at:
            return await real()
        self.met = name
        if self.fate is Fate.DIES_BEFORE:
            self.died = True
            raise KilledHere
        if self.fate is Fate.REQUEST_LOST:
            raise DatabaseUnavailable("the request was lost")
        if self.fate is Fate.SLEEPS_BEFORE:
            await self._sleep()
        answer = await real()
        if self.fate is Fate.DIES_AFTER:
            self.died = True
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

    def __init__(self, service: str, client: Any, plan: Plan) -> None:
        self._service, self._client, self._plan = service, client, plan

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def call(*arguments: Any, **more: Any) -> Any:
            return await self._plan.call(self._service, name, lambda: method(*arguments, **more))

        return call


_plans: dict[int, Plan] = {}
"""id of what a conductor knows as the compute service -> its plan, for as long as its batch runs."""


def _counted(real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    name = getattr(real, "__name__", "call")

    @wraps(real)
    async def call(compute: Compute, *arguments: Any, **more: Any) -> Any:
        plan = _plans.get(id(compute))
        if plan is None:
            return await real(compute, *arguments, **more)

        async def made() -> Any:
            answer = await real(compute, *arguments, **more)
            if name == "lease_work":
                plan.server_ids = [work.server_id for work in answer]
            return answer

        return await plan.call("compute", name, made)

    return call


@contextmanager
def calls_planned() -> Iterator[None]:
    """Have the conductors' calls of the compute service, which is in their process, count as calls."""
    names = [module.name for module in pkgutil.iter_modules(roost.conductor.__path__)]
    modules = [importlib.import_module(f"roost.conductor.{name}") for name in names]
    with ExitStack() as stack:
        for module in modules:
            for name, real in list(vars(module).items()):
                is_of_compute = getattr(real, "__module__", "").startswith("roost.compute.")
                if is_of_compute and inspect.iscoroutinefunction(real):
                    stack.enter_context(patch.object(module, name, _counted(real)))
        yield


async def run_planned(conductor: Conductor, plan: Plan) -> str:
    """Carry one batch under the plan; how it ended: done, nothing, died or cut off."""
    network, compute = Planned("network", conductor.network, plan), replace(conductor.compute)
    placement = Planned("placement", conductor.placement, plan)
    unlucky = replace(conductor, compute=compute, placement=placement, network=network, moves=network)
    _plans[id(compute)] = plan
    try:
        return "done" if await run_once(unlucky) else "nothing"
    except KilledHere:
        return "died"
    except DatabaseUnavailable:
        return "cut off"
    finally:
        del _plans[id(compute)]


class Mortal:
    """A database as a process has it that may die: then nothing of it gets there any more, not even what tidies up."""

    def __init__(self, database: Database, plan: Plan) -> None:
        self._database, self._plan = database, plan

    def transaction(self, *, snapshot: bool = False) -> AbstractAsyncContextManager[Connection]:
        """See Database."""
        self._refuse_dead()
        return self._database.transaction(snapshot=snapshot)

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """See Database."""
        self._refuse_dead()
        return self._database.connection()

    def _refuse_dead(self) -> None:
        if self._plan.died:
            raise DatabaseUnavailable("the process is dead")


class AtOnce:
    """Makes each port by itself: a process that dies must not leave a task behind for which others wait."""

    def __init__(self, networks: Networks) -> None:
        self._networks = networks

    async def do(self, request: PortRequest) -> Port | RoostError:
        """Make the port, or say why not."""
        (made,) = await creations.make(self._networks, [request], whole=False)
        return made


def mortal(networks: Networks, plan: Plan) -> Networks:
    """Return the network service as a process has it whose calls to the ledger go as planned."""
    database, placement = Mortal(networks.database, plan), Planned("placement", networks.placement, plan)
    dying = replace(networks, database=cast(Database, database), placement=cast(Any, placement))
    dying.creations = cast(Any, AtOnce(dying))
    return dying
