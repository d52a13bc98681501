"""Lists as clients ask for them, page by page."""

from roost.network.model import Kind, ListQuery
from roost.network.service import Networks
from roost.network.store import lists as store

FILTERS, SORTED = store.FILTERS, store.SORTED


async def list_ids(networks: Networks, kind: Kind, query: ListQuery) -> list[str]:
    """Return the ids of a page, in the order in which they are shown."""
    async with networks.database.connection() as connection:
        return await store.list_ids(connection, kind, query)
