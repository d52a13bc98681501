"""Lists as clients ask for them, page by page."""

from roost.network.store import lists as store
from roost.platform.database import reading

FILTERS, FIXED_IPS, SORTED, KEYS = store.FILTERS, store.FIXED_IPS, store.SORTED, store.KEYS
list_rows = reading(store.list_rows)
