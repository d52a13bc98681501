"""What is kept of deleted servers, for how long, and how much of it."""

from functools import partial

import structlog

from roost.compute.service.context import Compute
from roost.compute.service.events import EVENTS
from roost.compute.store import history as store
from roost.platform.database import reading
from roost.platform.purging import purge

BATCH_MAX = 1000
"""Servers, or actions, that one transaction deletes."""

log = structlog.get_logger()

find_deleted_server = reading(store.find_server)


async def purge_history(compute: Compute) -> int:
    """Delete what is older than `keep_history_days`, and the oldest above `keep_history_rows`; return how many rows.

    What is kept of deleted servers goes first; then the oldest actions of others, if that is not enough. Of events as
    many rows are kept besides: a flood of refusals takes no server's history away.
    """
    settings, database = compute.settings, compute.database
    purge_old = partial(store.purge_servers, older_than_days=settings.keep_history_days)
    purged = await purge(database, purge_old, batch=BATCH_MAX)
    async with database.connection() as connection:
        excess = await store.count_rows(connection) - settings.keep_history_rows
    if excess > 0:
        purge_oldest = partial(store.purge_servers, older_than_days=0)
        freed = await purge(database, purge_oldest, batch=BATCH_MAX, most=excess)
        freed += await purge(database, store.purge_actions, batch=BATCH_MAX, most=excess - freed)
        purged += freed
    purged += await EVENTS.purge(database, keep_days=settings.keep_history_days, keep_rows=settings.keep_history_rows)
    if purged:
        log.info("history was purged", rows=purged)
    return purged
