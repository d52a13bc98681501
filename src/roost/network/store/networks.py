"""Networks, segments and hosts.

Lock order of the whole wing: networks, ports, intents, subnets; each by id.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from roost.network.model.networks import Host, Link, ListQuery, Network, NetworkOwner, Segment
from roost.network.store import lists
from roost.network.store.resources import COLUMNS
from roost.platform.database import Connection
from roost.platform.rows import columns_of, encode, read_row

LIST_NETWORKS = f"""
-- network.list_networks
SELECT {", ".join(f"n.{name}" for name in COLUMNS["network"])},
    ARRAY(SELECT s.id FROM network.subnet s WHERE s.network_id = n.id ORDER BY s.id) AS subnet_ids,
    ARRAY(SELECT g.id FROM network.segment g WHERE g.network_id = n.id ORDER BY g.created_at, g.id) AS segment_ids,
    EXISTS (SELECT FROM network.subnet s WHERE s.network_id = n.id AND s.segment_id IS NOT NULL) AS segmented
FROM network.network n
WHERE $1::uuid[] IS NULL OR n.id = ANY($1)
ORDER BY n.id
"""  # noqa: S608 - names of fields


async def list_networks(tx: Connection, ids: Sequence[str] | None = None) -> list[Network]:
    """Return the networks that exist, or all, by id."""
    return [read_row(Network, row) for row in await tx.fetch(LIST_NETWORKS, ids)]


FIND_NETWORK_IDS = """
-- network.find_network_ids
SELECT id, name FROM network.network WHERE id::text = ANY($1::text[]) OR name = ANY($1) ORDER BY created_at, id
"""


async def find_network_ids(tx: Connection, refs: Sequence[str]) -> list[tuple[str, str]]:
    """Return (id, name) of the networks with these ids or names, the oldest first."""
    return [(row["id"], row["name"]) for row in await tx.fetch(FIND_NETWORK_IDS, refs)]


async def list_reachable(tx: Connection, project_id: str) -> dict[str, NetworkOwner]:
    """Return network id -> owner, of the project's own, shared and external networks."""
    columns = ("o.project_id", "o.shared", "o.external")
    rows = await lists.list_rows(tx, "network", ListQuery(seen_by=project_id), columns)
    return {row.id: NetworkOwner(*owner) for row, owner in rows}


LIST_NETWORK_IDS = """
-- network.list_network_ids
SELECT id FROM network.network WHERE $2::text IS NULL OR project_id = $2 OR shared ORDER BY created_at, id LIMIT $1
"""


async def list_network_ids(tx: Connection, limit: int, project_id: str | None) -> list[str]:
    """Return the oldest networks of a project and of those that are shared; None: of all."""
    return [row["id"] for row in await tx.fetch(LIST_NETWORK_IDS, limit, project_id)]


Stays = Literal["existence", "revision", "all"]
"""What stays as it is of a locked network. all: its segments, subnets and ports too."""

LOCK_NETWORKS = {
    stays: f"""
-- network.lock_{stays}_of_networks
SELECT id FROM network.network WHERE id = ANY($1::uuid[]) ORDER BY id FOR {strength}
"""  # noqa: S608 - one of these three
    for stays, strength in (("existence", "KEY SHARE"), ("revision", "NO KEY UPDATE"), ("all", "UPDATE"))
}


async def lock_ids(tx: Connection, ids: Sequence[str], stays: Stays) -> set[str]:
    """Lock the networks that exist; return their ids."""
    return {row["id"] for row in await tx.fetch(LOCK_NETWORKS[stays], ids)}


async def lock_networks(tx: Connection, ids: Sequence[str], stays: Stays = "all") -> dict[str, Network]:
    """Lock the networks that exist; return them by id. existence: a delete waits for this transaction (R13)."""
    await lock_ids(tx, ids, stays)
    return {network.id: network for network in await list_networks(tx, ids)}


LIST_SEGMENTS = f"""
-- network.list_segments
SELECT {", ".join(COLUMNS["segment"])} FROM network.segment
WHERE ($1::uuid[] IS NULL OR id = ANY($1)) AND ($2::uuid[] IS NULL OR network_id = ANY($2))
ORDER BY id
"""  # noqa: S608 - names of fields


async def list_segments(
    tx: Connection, ids: Sequence[str] | None = None, *, network_ids: Sequence[str] | None = None
) -> list[Segment]:
    """Return the segments with these ids and of these networks, by id. None is any."""
    return [read_row(Segment, row) for row in await tx.fetch(LIST_SEGMENTS, ids, network_ids)]


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
    columns = columns_of([(link.network_type, link.physical_network, link.segmentation_id) for link in links], 3)
    return [(Link(*link), network_id) for network_id, *link in await tx.fetch(LIST_LINKS_TAKEN, *columns)]


LIST_HOSTS = """
-- network.list_hosts
SELECT agent_id, name, physical_networks, cell FROM network.host
WHERE ($1::text[] IS NULL OR name = ANY($1)) AND ($2::uuid[] IS NULL OR agent_id = ANY($2)) ORDER BY name
"""


async def list_hosts(tx: Connection, names: Sequence[str] | None = None) -> list[Host]:
    """Return hosts by name, or all of them."""
    return [host for _, host in await list_agents(tx, None, names=names)]


async def list_agents(
    tx: Connection, ids: Sequence[str] | None, *, names: Sequence[str] | None = None
) -> list[tuple[str, Host]]:
    """Return the agents with these ids, on these hosts, each with its host, by the host's name. None is any."""
    rows = await tx.fetch(LIST_HOSTS, names, ids)
    return [(agent_id, Host(name, frozenset(physical), cell)) for agent_id, name, physical, cell in rows]


SET_HOSTS = """
-- network.set_hosts
INSERT INTO network.host (name, physical_networks, cell)
SELECT name, physical_networks, cell FROM json_populate_recordset(NULL::network.host, $1) ORDER BY name
ON CONFLICT (name) DO UPDATE
SET physical_networks = excluded.physical_networks, cell = excluded.cell, updated_at = now()
WHERE (network.host.physical_networks, network.host.cell) <> (excluded.physical_networks, excluded.cell)
"""


async def set_hosts(tx: Connection, hosts: Sequence[Host]) -> None:
    """Write the hosts' cells and physical networks."""
    rows = [replace(host, physical_networks=sorted(host.physical_networks)) for host in hosts]  # equal ones alike
    await tx.execute(SET_HOSTS, encode(rows))
