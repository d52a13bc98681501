"""Tags of networks, segments, subnets and ports: one operation reads and changes them."""

from collections.abc import Callable, Sequence

from roost.network.errors import TagResourceNotFound
from roost.network.model.networks import Kind
from roost.network.service import Networks
from roost.network.store import resources as store

Tags = tuple[str, ...]


async def change_tags(
    networks: Networks, kind: Kind, resource_id: str, decide: Callable[[Tags], Sequence[str]]
) -> Tags:
    """Set the tags to what `decide` makes of the present ones; return them.

    Raises TagResourceNotFound, and what `decide` raises.
    """
    async with networks.database.transaction() as tx:
        has = await store.lock_tags(tx, kind, resource_id)
        if has is None:
            raise TagResourceNotFound(f"{kind}s", resource_id)
        tags = tuple(decide(has))
        if tags != has:
            await store.update_tags(tx, kind, resource_id, tags)
    return tags
