"""Lists as clients ask for them, page by page."""

from roost.network.service import reading
from roost.network.store import lists as store

FILTERS, SORTED, KEYS = store.FILTERS, store.SORTED, store.KEYS

list_rows = reading(store.list_rows)
