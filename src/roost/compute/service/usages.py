"""How long servers have run: read for who bills by it."""

from roost.compute.errors import FilterInvalid
from roost.compute.model.usages import ServerUsage, UsageFilter
from roost.compute.service.context import Compute
from roost.compute.store import usages as store


async def list_usages(compute: Compute, only: UsageFilter, *, marker: str | None, limit: int) -> list[ServerUsage]:
    """Return a page of the servers that were there in the period, behind the server `marker`.

    It reads every server of the project, or of all projects, and what was deleted since the period began. Raises
    FilterInvalid for an unknown marker.
    """
    async with compute.database.connection() as connection:
        after = None
        if marker is not None:
            launched_at = await store.find_launch(connection, marker)
            if launched_at is None:
                raise FilterInvalid(f"Marker {marker} could not be found.")
            after = (launched_at, marker)
        return await store.list_usages(connection, only, after=after, limit=limit)
