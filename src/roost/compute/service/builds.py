"""Servers that are being built, deleted or rolled back at the moment."""

from roost.compute.model.work import Build
from roost.compute.service.context import Compute
from roost.compute.store import builds as store
from roost.platform.database import reading


async def list_builds(compute: Compute, *, limit: int) -> tuple[list[Build], int]:
    """Return the oldest `limit` servers whose work is not done, and how many there are in all."""
    async with compute.database.transaction(snapshot=True) as tx:
        builds = await store.list_builds(tx, limit=limit)
        return builds, await store.count_builds(tx)


count_builds_by_age = reading(store.count_by_age)
