"""What is kept of deleted servers, for how long, and how much of it."""

import structlog

from roost.compute.service.context import Compute, reading
from roost.compute.service.events import EVENTS
from roost.compute.store import history as store

BATCH_MAX = 1000
"""Servers, or actions, that one transaction deletes."""

log = structlog.get_logger()

find_deleted_server = reading(store.find_server)


async def purge_history(compute: Compute) -> int:
    """Delete what is older than `keep_history_days`, and the oldest above `keep_history_rows`; return how many rows.

    What is kept of deleted servers goes first; then the oldest actions of others, if that is not enough. Of events as
    many rows are kept besides: a flood of refusals takes no server's history away.
    """
    settings = compute.settings
    purged = await _purge_older(compute, settings.keep_history_days, most=None)
    async with compute.database.connection() as connection:
        excess = await store.count_rows(connection) - settings.keep_history_rows
    if excess > 0:
        freed = await _purge_older(compute, 0, most=excess)
        while freed < excess:
            async with compute.database.transaction() as tx:
                gone = await store.purge_actions(tx, limit=min(excess - freed, BATCH_MAX))
            if not gone:
                break
            freed += gone
        purged += freed
    purged += await EVENTS.purge(
        compute.database, keep_days=settings.keep_history_days, keep_rows=settings.keep_history_rows
    )
    if purged:
        log.info("history was purged", rows=purged)
    return purged


async def _purge_older(compute: Compute, days: float, *, most: int | None) -> int:
    """Delete deleted servers older than that, the oldest first, until `most` rows or more have gone."""
    purged = 0
    while most is None or purged < most:
        limit = BATCH_MAX if most is None else min(BATCH_MAX, most - purged)
        async with compute.database.transaction() as tx:
            gone = await store.purge_servers(tx, older_than_days=days, limit=limit)
        if not gone:
            break
        purged += gone
    return purged
