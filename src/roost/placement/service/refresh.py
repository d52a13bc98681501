"""Keeps a process's index as fresh as the database: what was committed before a request came, the request sees."""

import asyncio
import gc
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import structlog

from roost.placement.model import ProviderRow
from roost.placement.search.index import Delta, Index
from roost.placement.store import index as index_store
from roost.placement.store import providers as providers_store
from roost.platform.database import Database
from roost.platform.errors import DatabaseAway, DatabaseUnavailable
from roost.platform.purging import purge
from roost.platform.time_spent import phase

log = structlog.get_logger()

CHANGES_KEPT = timedelta(minutes=10)
PRUNE_BATCH = 10_000
PRUNE_MAX = 10_000_000
SILENCE_S = 2.0
"""A database that has not answered for so long is away. No request waits longer for it where the index may answer."""
KEEP_S = 5.0
"""Between two refreshes that nobody asks for: as much may be missing in the index when the database goes away."""
FROZEN_FROM = 1000
"""Providers: the collection that comes first takes as long as all of the process is large, some 0.1 s."""


class IndexRefresher:
    """One index and its refreshes; of many requests that wait, one reads for all.

    A request that comes while a refresh is under way waits for the next one: that one's snapshot is younger than the
    request, the running one's may not be. recent_s: how old the index may be while the database is away.
    """

    def __init__(
        self, database: Database, *, whole_classes: frozenset[str] = frozenset(), recent_s: float = 0.0
    ) -> None:
        self._database = database
        self._whole_classes = whole_classes
        self._recent_s = recent_s
        self._index = Index(whole_classes=whole_classes)
        self._seen = index_store.NOTHING
        self._refreshed_at_s: float | None = None
        self._outage: DatabaseUnavailable | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._served: list[asyncio.Future[None]] = []
        self._running: asyncio.Task[None] | None = None
        self._silence: asyncio.TimerHandle | None = None

    async def fresh(self) -> Index:
        """Return the index as of now or later. It changes with later refreshes: use it before the next await.

        Raises DatabaseUnavailable. Cost: one short statement when no provider was reshaped.
        """
        index = await self.recent()
        self.check_fresh()
        return index

    async def recent(self) -> Index:
        """Return the same, or while the database is away the index as it is, if that is recent.

        What such an index says is there, is a hint. That something is not there only the database can say: who finds
        nothing calls check_fresh. Raises DatabaseUnavailable.
        """
        with phase("index"):
            if self._outage is None or self._running is None or self._running.done():
                await self._wait_for_refresh()  # else the last refresh failed, or has no answer yet
            if not self.is_recent():
                self.check_fresh()
            return self._index

    def is_recent(self) -> bool:
        """Return whether the index may be answered from, whether the database is away or not."""
        _, age_s = self.figures()
        return age_s is not None and age_s <= self._recent_s

    def check_fresh(self) -> None:
        """Raise DatabaseUnavailable if the last refresh failed, and the index that was returned is of before."""
        if self._outage is not None:
            raise type(self._outage)(str(self._outage)) from self._outage

    def find_name(self, uuid: str) -> str | None:
        """Return what a provider is called, by the index as it is; None where it does not know it."""
        row = self._index.find_row(uuid)
        return None if row is None else self._index.names[row]

    def figures(self) -> tuple[int, float | None]:
        """Return how many providers the index has, and the seconds since its last refresh, None before the first."""
        age_s = None if self._refreshed_at_s is None else time.monotonic() - self._refreshed_at_s
        return len(self._index), age_s

    async def _wait_for_refresh(self) -> None:
        """Return once a refresh that begins from now on is over, or takes longer than SILENCE_S."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._refresh_for_all())
        await waiter

    async def _refresh_for_all(self) -> None:
        """Refresh until nobody waits. What fails by a bug is told to those who waited for it."""
        while self._waiting:
            self._served, self._waiting = self._waiting, []
            self._silence = asyncio.get_running_loop().call_later(SILENCE_S, self._note_silence)
            bug: Exception | None = None
            try:
                await self._refresh()
                self._outage = None
            except DatabaseUnavailable as error:
                self._outage = error
            except Exception as error:
                bug = error
            finally:
                self._silence.cancel()
            for waiter in self._served:
                if waiter.done():
                    continue
                if bug is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(bug)

    def _note_silence(self) -> None:
        """Have nobody wait any more for a refresh that goes on."""
        self._outage = DatabaseAway(f"the database has not answered within {SILENCE_S:g} s")
        for waiter in (*self._served, *self._waiting):
            if not waiter.done():
                waiter.set_result(None)
        self._served, self._waiting = [], []

    async def _refresh(self) -> None:
        begun_at_s = time.monotonic()
        async with self._database.lookups() as connection:
            news = await index_store.get_news(connection, self._seen)
        if news.complete and not news.reshaped_ids:
            self._index.apply(Delta(usages=news.usages))
            self._seen = news.snapshot
        else:
            await self._read_shapes()
        self._refreshed_at_s = begun_at_s

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
                if self._silence is not None:
                    self._silence.cancel()  # all of it takes its time
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
    if horizon is not None:
        delete = partial(index_store.delete_changes, horizon=horizon)
        await purge(database, delete, batch=PRUNE_BATCH, most=PRUNE_MAX)
