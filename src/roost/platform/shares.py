"""How many of a process's connections the requests of one project may have at once: half of them.

Who fills a process with slow requests waits for them alone; everybody else's find the other half.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from contextvars import ContextVar
from weakref import WeakValueDictionary

from roost.platform.errors import DatabaseUnavailable

WAIT_S = 15.0
_project_id: ContextVar[str | None] = ContextVar("project_id", default=None)
"""The project that the running request is counted for; None: for nobody."""


def count_for(project_id: str | None) -> None:
    """Have what the running request does be counted for the project; None: for nobody."""
    _project_id.set(project_id)


class ShareUsed(DatabaseUnavailable):
    """The project's requests have all the connections that one project may have; it can be repeated."""


class Shares:
    """The shares of one pool. connections_max: those that one project may have at once."""

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        self._by_project: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def hold(self) -> AbstractAsyncContextManager[None]:
        """Hold one connection's part of the running request's project. Raises ShareUsed after WAIT_S."""
        project_id = _project_id.get()
        return nullcontext() if project_id is None else self._hold(project_id)

    @asynccontextmanager
    async def _hold(self, project_id: str) -> AsyncIterator[None]:
        share = self._by_project.get(project_id)
        if share is None:
            share = self._by_project[project_id] = asyncio.Semaphore(self._connections_max)
        try:
            async with asyncio.timeout(WAIT_S):
                await share.acquire()
        except TimeoutError as error:
            text = (
                f"the project {project_id} has {self._connections_max} requests at work in this process, the most of "
                f"one project, and none came to its end within {WAIT_S:g} s: ask for less at once"
            )
            raise ShareUsed(text) from error
        try:
            yield
        finally:
            share.release()
