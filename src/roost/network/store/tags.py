"""Tags of networks, segments, subnets and ports: a column of each."""

from collections.abc import Sequence

from roost.network.model.networks import Kind
from roost.platform.database import Connection

LOCK_TAGS: dict[Kind, str] = {
    "network": """
-- network.lock_network_tags
SELECT tags FROM network.network WHERE id = $1 FOR NO KEY UPDATE
""",
    "segment": """
-- network.lock_segment_tags
SELECT tags FROM network.segment WHERE id = $1 FOR NO KEY UPDATE
""",
    "subnet": """
-- network.lock_subnet_tags
SELECT tags FROM network.subnet WHERE id = $1 AND NOT deleting FOR NO KEY UPDATE
""",
    "port": """
-- network.lock_port_tags
SELECT tags FROM network.port WHERE id = $1 AND nic_tag IS NULL FOR NO KEY UPDATE
""",
}

# A build compares the revision of the port that it holds: a tag must not end it.
UPDATE_TAGS: dict[Kind, str] = {
    "network": """
-- network.update_network_tags
UPDATE network.network SET tags = $2, revision = revision + 1, updated_at = now() WHERE id = $1
""",
    "segment": """
-- network.update_segment_tags
UPDATE network.segment SET tags = $2, revision = revision + 1, updated_at = now() WHERE id = $1
""",
    "subnet": """
-- network.update_subnet_tags
UPDATE network.subnet SET tags = $2, revision = revision + 1, updated_at = now() WHERE id = $1
""",
    "port": """
-- network.update_port_tags
UPDATE network.port
SET tags = $2, revision = revision + (reserved_from IS NULL)::integer, updated_at = now()
WHERE id = $1
""",
}


async def lock_tags(tx: Connection, kind: Kind, resource_id: str) -> tuple[str, ...] | None:
    """Lock and return the tags of a resource; None when there is none."""
    tags = await tx.fetchval(LOCK_TAGS[kind], resource_id)
    return None if tags is None else tuple(tags)


async def update_tags(tx: Connection, kind: Kind, resource_id: str, tags: Sequence[str]) -> None:
    """Write the tags of a locked resource."""
    await tx.execute(UPDATE_TAGS[kind], resource_id, tags)
