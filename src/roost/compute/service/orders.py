"""The orders in which servers are built, written down once they are chosen."""

from collections.abc import Sequence

from roost.compute.model.work import BuildOrder
from roost.compute.service.context import Compute
from roost.compute.store import orders as store


async def write_orders(compute: Compute, orders: Sequence[tuple[str, BuildOrder]], *, owner: str) -> set[str]:
    """Write the orders of servers that `owner` still has; return the servers' ids."""
    async with compute.database.transaction() as tx:
        return await store.write_orders(tx, orders, owner=owner)
