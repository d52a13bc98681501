"""Networks, segments and hosts.

Lock order of the whole wing: networks, ports, intents, subnets; each by id.
"""

from collections.abc import Sequence
from typing import Any

from roost.network.model import Host, Network, Segment
from roost.platform.database import Connection

_NETWORK = """
    n.id, n.name, n.project_id, n.description, n.network_type, n.physical_network, n.segmentation_id,
    n.admin_state_up, n.shared, n.external, n.mtu, n.tags, n.revision, n.created_at, n.updated_at,
    ARRAY(SELECT s.id FROM network.subnet s WHERE s.network_id = n.id ORDER BY s.id) AS subnet_ids,
    ARRAY(SELECT g.id FROM network.segment g WHERE g.network_id = n.id ORDER BY g.created_at, g.id) AS segment_ids,
    EXISTS (SELECT FROM network.subnet s WHERE s.network_id = n.id AND s.segment_id IS NOT NULL) AS segmented,
    n.flat
"""

LIST_NETWORKS = f"""
-- network.list_networks
SELECT {_NETWORK} FROM network.network n WHERE $1::uuid[] IS NULL OR n.id = ANY($1) ORDER BY n.id
"""  # noqa: S608 - only column names of this file


async def list_networks(tx: Connection, ids: Sequence[str] | None = None) -> list[Network]:
    """Networks by id, or all of them."""
    return [_network(row) for row in await tx.fetch(LIST_NETWORKS, ids)]


LIST_NETWORK_IDS = """
-- network.list_network_ids
SELECT id FROM network.network ORDER BY created_at, id LIMIT $1
"""


async def list_network_ids(tx: Connection, limit: int) -> list[str]:
    """The oldest networks."""
    return [row["id"] for row in await tx.fetch(LIST_NETWORK_IDS, limit)]


LOCK_NETWORKS = """
-- network.lock_networks
SELECT id FROM network.network WHERE id = ANY($1::uuid[]) ORDER BY id FOR KEY SHARE
"""


async def keep_networks(tx: Connection, ids: Sequence[str]) -> list[Network]:
    """Networks that nobody can delete until this transaction ends."""
    await tx.fetch(LOCK_NETWORKS, ids)
    return await list_networks(tx, ids)


LOCK_NETWORK = """
-- network.lock_network
SELECT id FROM network.network WHERE id = $1 FOR UPDATE
"""


async def lock_network(tx: Connection, network_id: str) -> Network | None:
    """The network, with its segments, subnets and ports held as they are."""
    await tx.fetch(LOCK_NETWORK, network_id)
    found = await list_networks(tx, [network_id])
    return found[0] if found else None


INSERT_NETWORK = """
-- network.insert_network
INSERT INTO network.network
    (id, name, project_id, description, network_type, physical_network, segmentation_id, admin_state_up, shared,
    external, mtu, tags, flat, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14)
"""


async def insert_network(tx: Connection, network: Network) -> None:
    """A new network."""
    await tx.execute(
        INSERT_NETWORK, network.id, network.name, network.project_id, network.description,
        network.network_type, network.physical_network, network.segmentation_id,
        network.admin_state_up, network.shared, network.external, network.mtu, network.tags, network.flat,
        network.created_at,
    )  # fmt: skip


DELETE_NETWORK = """
-- network.delete_network
DELETE FROM network.network WHERE id = $1
"""


async def delete_network(tx: Connection, network_id: str) -> None:
    """The network itself; what belongs to it must be gone."""
    await tx.execute(DELETE_NETWORK, network_id)


LIST_SEGMENTS = """
-- network.list_segments
SELECT id, network_id, name, description, network_type, physical_network, segmentation_id, tags, revision, created_at,
    updated_at
FROM network.segment
WHERE ($1::uuid[] IS NULL OR id = ANY($1)) AND ($2::uuid[] IS NULL OR network_id = ANY($2))
ORDER BY id
"""


async def list_segments(
    tx: Connection, ids: Sequence[str] | None = None, *, network_ids: Sequence[str] | None = None
) -> list[Segment]:
    """Segments by id, of networks, or all of them."""
    rows = await tx.fetch(LIST_SEGMENTS, ids, network_ids)
    return [Segment(**{**row, "tags": tuple(row["tags"])}) for row in rows]


INSERT_SEGMENT = """
-- network.insert_segment
INSERT INTO network.segment
    (id, network_id, name, description, network_type, physical_network, segmentation_id, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
"""


async def insert_segment(tx: Connection, segment: Segment) -> None:
    """A new segment."""
    await tx.execute(
        INSERT_SEGMENT, segment.id, segment.network_id, segment.name, segment.description,
        segment.network_type, segment.physical_network, segment.segmentation_id, segment.created_at,
    )  # fmt: skip


DELETE_SEGMENTS = """
-- network.delete_segments
DELETE FROM network.segment WHERE id = ANY($1::uuid[])
"""


async def delete_segments(tx: Connection, ids: Sequence[str]) -> None:
    """Segments without subnets."""
    await tx.execute(DELETE_SEGMENTS, ids)


LIST_PROVIDER_NAMES = """
-- network.list_provider_names
SELECT id, coalesce(nullif(name, ''), id::text) AS name FROM network.segment WHERE id = ANY($1::uuid[])
UNION ALL
SELECT id, coalesce(nullif(name, ''), id::text) FROM network.network WHERE id = ANY($1::uuid[])
UNION ALL
SELECT id, cell FROM network.subnet WHERE id = ANY($1::uuid[]) AND cell IS NOT NULL
"""


async def list_provider_names(tx: Connection, provider_uuids: Sequence[str]) -> dict[str, str]:
    """Provider UUID -> what people call the segment, the network, or the cell of a flat network's pool."""
    return {row["id"]: row["name"] for row in await tx.fetch(LIST_PROVIDER_NAMES, provider_uuids)}


LIST_HOSTS = """
-- network.list_hosts
SELECT name, physical_networks, cell FROM network.host WHERE $1::text[] IS NULL OR name = ANY($1) ORDER BY name
"""


async def list_hosts(tx: Connection, names: Sequence[str] | None = None) -> list[Host]:
    """Hosts by name, or all of them."""
    rows = await tx.fetch(LIST_HOSTS, names)
    return [Host(row["name"], frozenset(row["physical_networks"]), row["cell"]) for row in rows]


SET_HOSTS = """
-- network.set_hosts
INSERT INTO network.host (name, physical_networks, cell)
SELECT h.name, ARRAY(SELECT jsonb_array_elements_text(h.physical_networks)), h.cell
FROM unnest($1::text[], $2::jsonb[], $3::text[]) AS h (name, physical_networks, cell)
ORDER BY h.name
ON CONFLICT (name) DO UPDATE
SET physical_networks = excluded.physical_networks, cell = excluded.cell, updated_at = now()
WHERE (network.host.physical_networks, network.host.cell) <> (excluded.physical_networks, excluded.cell)
"""


async def set_hosts(
    tx: Connection, names: Sequence[str], physical_networks: Sequence[str], cells: Sequence[str]
) -> None:
    """What the hosts reach, and their cells; physical_networks: for each host, a JSON array of names."""
    await tx.execute(SET_HOSTS, names, physical_networks, cells)


def _network(row: Any) -> Network:
    fields = dict(row)
    for name in ("tags", "subnet_ids", "segment_ids"):
        fields[name] = tuple(fields[name])
    return Network(**fields)
