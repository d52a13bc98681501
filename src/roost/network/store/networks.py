"""Networks, segments and hosts.

Lock order of the whole wing: networks, ports, intents, subnets; each by id.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from roost.network.model.networks import Host, Link, Network, NetworkOwner, Segment
from roost.platform.database import Connection

_NETWORK = [
    name
    for name in Network.__struct_fields__
    if name not in ("links", "subnet_ids", "segment_ids", "segmented")  # what is read of other tables
]
_SEGMENT = ", ".join(Segment.__struct_fields__)

LIST_NETWORKS = f"""
-- network.list_networks
SELECT {", ".join(f"n.{name}" for name in _NETWORK)},
    ARRAY(SELECT s.id FROM network.subnet s WHERE s.network_id = n.id ORDER BY s.id) AS subnet_ids,
    ARRAY(SELECT g.id FROM network.segment g WHERE g.network_id = n.id ORDER BY g.created_at, g.id) AS segment_ids,
    EXISTS (SELECT FROM network.subnet s WHERE s.network_id = n.id AND s.segment_id IS NOT NULL) AS segmented
FROM network.network n
WHERE $1::uuid[] IS NULL OR n.id = ANY($1)
ORDER BY n.id
"""  # noqa: S608 - names of fields


async def list_networks(tx: Connection, ids: Sequence[str] | None = None) -> list[Network]:
    """Return the networks that exist, or all, by id."""
    return [_network(row) for row in await tx.fetch(LIST_NETWORKS, ids)]


FIND_NETWORK_IDS = """
-- network.find_network_ids
SELECT id, name FROM network.network WHERE id::text = ANY($1::text[]) OR name = ANY($1) ORDER BY created_at, id
"""


async def find_network_ids(tx: Connection, refs: Sequence[str]) -> list[tuple[str, str]]:
    """Return (id, name) of the networks with these ids or names, the oldest first."""
    return [(row["id"], row["name"]) for row in await tx.fetch(FIND_NETWORK_IDS, refs)]


LIST_REACHABLE = """
-- network.list_reachable
SELECT id, project_id, shared, external FROM network.network WHERE project_id = $1 OR shared OR external ORDER BY id
"""


async def list_reachable(tx: Connection, project_id: str) -> dict[str, NetworkOwner]:
    """Return network id -> owner, of the project's own, shared and external networks."""
    rows = await tx.fetch(LIST_REACHABLE, project_id)
    return {network_id: NetworkOwner(*owner) for network_id, *owner in rows}


LIST_NETWORK_IDS = """
-- network.list_network_ids
SELECT id FROM network.network WHERE $2::text IS NULL OR project_id = $2 OR shared ORDER BY created_at, id LIMIT $1
"""


async def list_network_ids(tx: Connection, limit: int, project_id: str | None) -> list[str]:
    """Return the oldest networks of a project and of those that are shared; None: of all."""
    return [row["id"] for row in await tx.fetch(LIST_NETWORK_IDS, limit, project_id)]


# R13: a delete waits for the build, or the build finds no network.
KEEP_NETWORKS = """
-- network.keep_networks
SELECT id FROM network.network WHERE id = ANY($1::uuid[]) ORDER BY id FOR KEY SHARE
"""


async def keep(tx: Connection, ids: Sequence[str]) -> set[str]:
    """Keep these networks from being deleted until this transaction ends; return those that exist."""
    return {row["id"] for row in await tx.fetch(KEEP_NETWORKS, ids)}


async def keep_networks(tx: Connection, ids: Sequence[str]) -> list[Network]:
    """Return the networks that exist, and keep them from being deleted until this transaction ends."""
    await keep(tx, ids)
    return await list_networks(tx, ids)


LOCK_NETWORKS = """
-- network.lock_networks
SELECT id FROM network.network WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE
"""


async def lock_networks(tx: Connection, ids: Sequence[str]) -> dict[str, Network]:
    """Lock the networks that exist, and return them by id. Their segments, subnets and ports stay as they are."""
    await tx.fetch(LOCK_NETWORKS, ids)
    return {network.id: network for network in await list_networks(tx, ids)}


async def lock_network(tx: Connection, network_id: str) -> Network | None:
    """Lock and return one network; None when it does not exist."""
    return (await lock_networks(tx, [network_id])).get(network_id)


INSERT_NETWORKS = f"""
-- network.insert_networks
INSERT INTO network.network ({", ".join(_NETWORK)})
SELECT {", ".join(_NETWORK)} FROM json_populate_recordset(NULL::network.network, $1)
"""  # noqa: S608 - names of fields


async def insert_networks(tx: Connection, networks: Sequence[Network]) -> None:
    """Insert new networks."""
    await tx.execute(INSERT_NETWORKS, msgspec.json.encode(networks).decode())


UPDATE_NETWORK = """
-- network.update_network
UPDATE network.network
SET name = $2, description = $3, admin_state_up = $4, shared = $5, external = $6, mtu = $7,
    port_security_enabled = $8, revision = revision + 1, updated_at = now()
WHERE id = $1
"""


async def update_network(tx: Connection, network: Network) -> None:
    """Write what a client may change; the network is locked."""
    await tx.execute(
        UPDATE_NETWORK, network.id, network.name, network.description, network.admin_state_up, network.shared,
        network.external, network.mtu, network.port_security_enabled,
    )  # fmt: skip


HOLD_NETWORKS = """
-- network.hold_networks
SELECT id FROM network.network WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE
"""


async def hold_networks(tx: Connection, ids: Sequence[str]) -> None:
    """Lock networks before revise_networks. Ports may come and go meanwhile."""
    await tx.fetch(HOLD_NETWORKS, ids)


REVISE_NETWORKS = """
-- network.revise_networks
UPDATE network.network SET revision = revision + 1, updated_at = now() WHERE id = ANY($1::uuid[])
"""


async def revise_networks(tx: Connection, ids: Sequence[str]) -> None:
    """Raise the revisions of locked networks after a subnet of theirs was made, changed or deleted.

    Source: Neutron, neutron/db/models_v2.py: Subnet.revises_on_change.
    """
    await tx.execute(REVISE_NETWORKS, ids)


DELETE_NETWORK = """
-- network.delete_network
DELETE FROM network.network WHERE id = $1
"""


async def delete_network(tx: Connection, network_id: str) -> None:
    """Delete the network itself; what belongs to it must be gone."""
    await tx.execute(DELETE_NETWORK, network_id)


LIST_LINKS = """
-- network.list_links
SELECT network_id, network_type, physical_network, segmentation_id FROM network.segment
WHERE network_id = ANY($1::uuid[]) ORDER BY network_id, created_at, id
"""


async def list_links(tx: Connection, network_ids: Sequence[str]) -> dict[str, list[Link]]:
    """Return network id -> the links of its segments, in their order."""
    links_by_network: dict[str, list[Link]] = {}
    for row in await tx.fetch(LIST_LINKS, network_ids):
        network_id, *link = row
        links_by_network.setdefault(network_id, []).append(Link(*link))
    return links_by_network


LIST_SEGMENTS = f"""
-- network.list_segments
SELECT {_SEGMENT} FROM network.segment
WHERE ($1::uuid[] IS NULL OR id = ANY($1)) AND ($2::uuid[] IS NULL OR network_id = ANY($2))
ORDER BY id
"""  # noqa: S608 - names of fields


async def list_segments(
    tx: Connection, ids: Sequence[str] | None = None, *, network_ids: Sequence[str] | None = None
) -> list[Segment]:
    """Return the segments with these ids and of these networks, by id. None is any."""
    rows = await tx.fetch(LIST_SEGMENTS, ids, network_ids)
    return [Segment(**{**row, "tags": tuple(row["tags"])}) for row in rows]


LOCK_LINKS = """
-- network.lock_links
LOCK TABLE network.segment IN SHARE ROW EXCLUSIVE MODE
"""

# What is equal can be hashed, what is not distinct would be compared with each: hence the coalesce.
LIST_LINKS_TAKEN = """
-- network.list_links_taken
SELECT g.network_id, g.network_type, g.physical_network, g.segmentation_id
FROM network.segment g JOIN unnest($1::text[], $2::text[], $3::integer[]) AS w (type, physical_network, id)
    ON g.network_type = w.type AND coalesce(g.segmentation_id, -1) = coalesce(w.id, -1)
    AND coalesce(g.physical_network, '') = coalesce(w.physical_network, '')
    AND g.physical_network IS NOT DISTINCT FROM w.physical_network
"""


async def lock_links(tx: Connection, links: Sequence[Link]) -> list[tuple[Link, str]]:
    """Return the links that segments have already, each with its network. No segment is made meanwhile.

    The caller has locked the networks.
    """
    await tx.execute(LOCK_LINKS)
    columns = [
        [link.network_type for link in links], [link.physical_network for link in links],
        [link.segmentation_id for link in links],
    ]  # fmt: skip
    return [(Link(*link), network_id) for network_id, *link in await tx.fetch(LIST_LINKS_TAKEN, *columns)]


INSERT_SEGMENTS = f"""
-- network.insert_segments
INSERT INTO network.segment ({_SEGMENT})
SELECT {_SEGMENT} FROM json_populate_recordset(NULL::network.segment, $1)
"""  # noqa: S608 - names of fields


async def insert_segments(tx: Connection, segments: Sequence[Segment]) -> None:
    """Insert new segments. By their times they come after those that their networks have."""
    await tx.execute(INSERT_SEGMENTS, msgspec.json.encode(segments).decode())


UPDATE_SEGMENT = """
-- network.update_segment
UPDATE network.segment SET name = $2, description = $3, revision = revision + 1, updated_at = now() WHERE id = $1
"""


async def update_segment(tx: Connection, segment: Segment) -> None:
    """Write what a client may change; the segment's network is locked."""
    await tx.execute(UPDATE_SEGMENT, segment.id, segment.name, segment.description)


DELETE_SEGMENTS = """
-- network.delete_segments
DELETE FROM network.segment WHERE id = ANY($1::uuid[])
"""


async def delete_segments(tx: Connection, ids: Sequence[str]) -> None:
    """Delete segments without subnets."""
    await tx.execute(DELETE_SEGMENTS, ids)


LIST_HOSTS = """
-- network.list_hosts
SELECT name, physical_networks, cell FROM network.host WHERE $1::text[] IS NULL OR name = ANY($1) ORDER BY name
"""


async def list_hosts(tx: Connection, names: Sequence[str] | None = None) -> list[Host]:
    """Return hosts by name, or all of them."""
    rows = await tx.fetch(LIST_HOSTS, names)
    return [Host(name, frozenset(physical_networks), cell) for name, physical_networks, cell in rows]


LIST_AGENTS = """
-- network.list_agents
SELECT agent_id, name, physical_networks, cell FROM network.host WHERE agent_id = ANY($1::uuid[]) ORDER BY name
"""


async def list_agents(tx: Connection, ids: Sequence[str]) -> list[tuple[str, Host]]:
    """Return the hosts of agents, each with the agent's id."""
    rows = await tx.fetch(LIST_AGENTS, ids)
    return [(agent_id, Host(name, frozenset(physical), cell)) for agent_id, name, physical, cell in rows]


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
    """Write the hosts' cells and physical networks. physical_networks: for each host, a JSON array of names."""
    await tx.execute(SET_HOSTS, names, physical_networks, cells)


def _network(row: Any) -> Network:
    fields = dict(row)
    for name in ("tags", "subnet_ids", "segment_ids"):
        fields[name] = tuple(fields[name])
    return Network(**fields)
