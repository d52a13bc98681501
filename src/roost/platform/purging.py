"""Deletes what is not kept any longer, in transactions of one batch: nobody waits long for their locks."""

from collections.abc import Awaitable, Callable

from roost.platform.database import Connection, Database


async def purge(
    database: Database, delete: Callable[[Connection, int], Awaitable[int]], *, batch: int, most: int | None = None
) -> int:
    """Delete batches until one is not full, or `most` rows have gone; return how many rows went.

    delete: takes a transaction and a limit; returns how many rows it deleted: the limit or more, if there are as many.
    """
    purged = 0
    while most is None or purged < most:
        limit = batch if most is None else min(batch, most - purged)
        async with database.transaction() as tx:
            gone = await delete(tx, limit)
        purged += gone
        if gone < limit:
            break
    return purged
