"""Keeps a process's index as fresh as the database: what was committed before a request came, the request sees."""

import asyncio
import gc
import time
from collections.abc import Sequence
from datetime import timedelta

import structlog

from roost.placement.model import ProviderRow
from roost.placement.search.index import Delta, Index
from roost.placement.store import index as index_store
from roost.placement.store import providers as providers_store
from roost.platform.database import Database
from roost.platform.time_spent import phase

log = structlog.get_logger()

CHANGES_KEPT = timedelta(minutes=10)
PRUNE_BATCH = 10_000
PRUNE_BATCHES_MAX = 1000
FROZEN_FROM = 1000
"""Providers: the collection that comes first takes as long as all of the process is large, some 0.1 s."""


class IndexRefresher:
    """One index and its refreshes; of many requests that wait, one reads for all.

    A request that comes while a refresh is under way waits for the next one: that one's snapshot is younger than the
    request, the running one's may not be.
    """

    def __init__(self, database: Database, *, whole_classes: frozenset[str] = frozenset()) -> None:
        self._database = database
        self._whole_classes = whole_classes
        self._index = Index(whole_classes=whole_classes)
        self._seen = index_store.NOTHING
        self._refreshed_at_s: float | None = None
        self._running: asyncio.Task[Index] | None = None
        self._next: asyncio.Task[Index] | None = None

    async def fresh(self) -> Index:
        """Return the index as of now or later. It changes with later refreshes: use it before the next await.

        Raises DatabaseUnavailable. Cost: one short statement when no provider was reshaped.
        """
        with phase("index"):
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
        async with self._database.lookups() as connection:
            news = await index_store.get_news(connection, self._seen)
        if news.complete and not news.reshaped_ids:
            self._index.apply(Delta(usages=news.usages))
            self._seen = news.snapshot
        else:
            await self._read_shapes()
        self._refreshed_at_s = time.monotonic()
        return self._index

    def figures(self) -> tuple[int, float | None]:
        """Return how many providers the index has, and the seconds since its last refresh, None before the first."""
        age_s = None if self._refreshed_at_s is None else time.monotonic() - self._refreshed_at_s
        return len(self._index), age_s

    async def _read_shapes(self) -> None:
        """Refresh by several statements in one snapshot: providers were reshaped, or all of them are news."""
        async with (
            self._database.lookups() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            news = await index_store.get_news(connection, self._seen)
            if news.complete:
                rows_read = await providers_store.read_some(connection, news.reshaped_ids)
            else:
                rows_read = await providers_store.read_all(connection)
        providers = providers_store.build_rows(rows_read)
        if news.complete:
            deleted = set(news.reshaped_ids).difference(provider.id for provider in providers)
            self._index.apply(Delta(deleted=list(deleted), providers=providers, usages=news.usages))
        else:
            self._load(providers)
        self._seen = news.snapshot

    def _load(self, providers: Sequence[ProviderRow]) -> None:
        self._index = Index(whole_classes=self._whole_classes)
        self._index.apply(Delta(providers=providers))
        self._index.trees()
        self._index.sharing()
        if len(providers) >= FROZEN_FROM:
            gc.unfreeze()
            gc.collect()
            gc.freeze()  # ten thousand providers are no garbage: the collector need not look at them again
        log.info("index loaded", providers=len(self._index))


async def prune_changes(database: Database) -> None:
    """Shorten the journal of changes, if it is time; any number of processes may. An index that slept loads anew.

    Given up are the changes of transactions that were over for CHANGES_KEPT: an index that was refreshed since then
    misses none, however long some transaction takes.
    """
    async with database.transaction() as tx:
        horizon = await index_store.move_horizon(tx, kept=CHANGES_KEPT)
    if horizon is None:
        return
    for _ in range(PRUNE_BATCHES_MAX):
        async with database.transaction() as tx:
            if await index_store.delete_changes(tx, horizon=horizon, limit=PRUNE_BATCH) < PRUNE_BATCH:
                return
