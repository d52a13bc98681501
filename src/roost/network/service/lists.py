"""Lists as clients ask for them, page by page."""

from roost.network.model.networks import ListKind, ListQuery, ListRow
from roost.network.service import Networks
from roost.network.store import lists as store

FILTERS, SORTED, KEYS = store.FILTERS, store.SORTED, store.KEYS


async def list_rows(networks: Networks, kind: ListKind, query: ListQuery) -> list[ListRow]:
    """Return a page, in the order in which it is shown."""
    async with networks.database.connection() as connection:
        return [row for row, _ in await store.list_rows(connection, kind, query)]
