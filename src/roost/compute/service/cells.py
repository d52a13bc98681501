"""Cells and their conductors: who is there, and which hosts get no servers because nobody is.

A conductor says that it is there as often as agents do; `silence.py` looks who has fallen silent.
"""

from collections.abc import Sequence

from roost.compute.model.work import WORK_CHANNEL, Credentials
from roost.compute.rules.events import of_hosts
from roost.compute.service.context import Compute
from roost.compute.service.events import record
from roost.compute.service.hosts import publish_hosts
from roost.compute.store import cells as store
from roost.platform.database import reading

list_heartbeats = reading(store.list_heartbeats)
count_silent_cells = reading(store.count_silent_cells)


async def beat(compute: Compute, conductor_id: str, cells: Sequence[str], credentials: Credentials) -> None:
    """Record that a conductor of these cells is there; hosts of silent cells get servers again. cells: none for all."""
    async with compute.database.transaction() as tx:
        names = await store.beat(tx, conductor_id, cells, credentials)
        recorded = await record(tx, of_hosts("open", sorted(names), "a conductor of its cell is there again"))
    recorded.tell()
    if names:
        await publish_hosts(compute, names)
        compute.wake(WORK_CHANNEL)
