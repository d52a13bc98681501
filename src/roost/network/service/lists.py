"""Lists as clients ask for them, page by page."""

from roost.network.model.networks import Kind, ListQuery, ListRow
from roost.network.service import Networks
from roost.network.store import lists as store

FILTERS, SORTED = store.FILTERS, store.SORTED


async def list_rows(networks: Networks, kind: Kind, query: ListQuery) -> list[ListRow]:
    """Return a page, in the order in which it is shown."""
    async with networks.database.connection() as connection:
        return await store.list_rows(connection, kind, query)
