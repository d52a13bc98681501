"""SQL of the tags of networks, segments, subnets and ports: a column of each."""
# ruff: noqa: S608 - what is put into a statement are constants of this file.

from collections.abc import Sequence
from typing import get_args

from roost.network.model.networks import Kind
from roost.platform.database import Connection

LOCK_TAGS = {
    kind: f"""
-- network.lock_{kind}_tags
SELECT tags FROM network.{kind} WHERE id = $1 {"AND nic_tag IS NULL" if kind == "port" else ""} FOR NO KEY UPDATE
"""
    for kind in get_args(Kind)
}

# A build compares the revision of the port that it holds: a tag must not end it.
UPDATE_TAGS = {
    kind: f"""
-- network.update_{kind}_tags
UPDATE network.{kind} SET tags = $2, updated_at = now(),
    revision = revision + {"(reserved_from IS NULL)::integer" if kind == "port" else 1}
WHERE id = $1
"""
    for kind in get_args(Kind)
}


async def lock_tags(tx: Connection, kind: Kind, resource_id: str) -> tuple[str, ...] | None:
    """Lock and return the tags of a resource; None when it does not exist."""
    tags = await tx.fetchval(LOCK_TAGS[kind], resource_id)
    return None if tags is None else tuple(tags)


async def update_tags(tx: Connection, kind: Kind, resource_id: str, tags: Sequence[str]) -> None:
    """Write the tags of a locked resource."""
    await tx.execute(UPDATE_TAGS[kind], resource_id, tags)
