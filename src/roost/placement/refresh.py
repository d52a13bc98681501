"""Keeps a process's index as fresh as the database: what was committed before a request came, the request sees."""

import asyncio
import gc

import structlog

from roost.placement import index_store
from roost.placement.index import Index
from roost.platform.database import Database

log = structlog.get_logger()


class IndexRefresher:
    """One index and its refreshes; of many requests that wait, one reads for all.

    A request that comes while a refresh is under way waits for the next one: that one's snapshot is younger than the
    request, the running one's may not be.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._index = Index()
        self._seen: index_store.Snapshot | None = None
        self._running: asyncio.Task[Index] | None = None
        self._next: asyncio.Task[Index] | None = None

    async def fresh(self) -> Index:
        """The index as of now or later. It changes with later refreshes: use it before the next await.

        Raises DatabaseUnavailable. Cost: two short statements when nothing has changed.
        """
        if self._next is not None:
            return await asyncio.shield(self._next)
        if self._running is not None and not self._running.done():
            self._next = asyncio.create_task(self._refresh(self._running))
            return await asyncio.shield(self._next)
        self._running = asyncio.create_task(self._refresh(None))
        return await asyncio.shield(self._running)

    async def _refresh(self, before: "asyncio.Task[Index] | None") -> Index:
        if before is not None:
            await asyncio.wait([before])  # its failure is told to those who waited for it
            self._running, self._next = self._next, None
        async with self._database.transaction(snapshot=True) as tx:
            snapshot = await index_store.get_snapshot(tx)
            known = self._seen is not None and self._seen.server == snapshot.server
            since_xmin = self._seen.xmin if known and self._seen else index_store.EVERYTHING
            if known and self._seen == snapshot:
                return self._index
            delta = await index_store.get_delta(tx, since_xmin)
        if since_xmin == index_store.EVERYTHING:
            # Rows without an id of a transaction that this server knows: nothing that was read before counts.
            self._index = Index()
        self._index.apply(delta)
        if since_xmin == index_store.EVERYTHING:
            self._index.trees()
            self._index.sharing()
            del delta
            gc.unfreeze()
            gc.collect()
            gc.freeze()  # ten thousand providers are no garbage: the collector need not look at them again
            log.info("index loaded", providers=len(self._index))
        self._seen = snapshot
        return self._index
