"""Calls that come while one is under way are done together next: under load, a set costs little more than one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from roost.platform.errors import DatabaseUnavailable, TransactionVictim

T = TypeVar("T")
R = TypeVar("R")


class Batches(Generic[T, R]):
    """Does the work for one item at once when nothing is under way, and for all that wait when it is free again.

    work: items -> their results in order; a failure is all of theirs. A set that fails is done again one by one, so
    that no item answers for another, unless the database is away. most: items in one set.
    """

    def __init__(self, work: Callable[[Sequence[T]], Awaitable[Sequence[R]]], *, most: int) -> None:
        self._work = work
        self._most = most
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._running: asyncio.Task[None] | None = None

    async def do(self, item: T) -> R:
        """Return the result for one item. A caller that is cancelled does not stop work that has begun."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            error = await self._try(batch)
            if error is None:
                continue
            for waiting in batch:
                away = isinstance(error, DatabaseUnavailable) and not isinstance(error, TransactionVictim)
                failed = error if away or len(batch) == 1 else await self._try([waiting])
                if failed is not None and not waiting[1].done():
                    waiting[1].set_exception(failed)

    async def _try(self, batch: Sequence[tuple[T, "asyncio.Future[R]"]]) -> Exception | None:
        try:
            results = await self._work([item for item, _ in batch])
        except Exception as error:
            return error
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
        return None
