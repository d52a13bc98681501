"""Networks, segments, subnets with their pools, hosts, and what stands behind each resource provider.

Lock order of the whole wing: networks, ports, intents, subnets; each by id.
"""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec.structs import replace

from roost.network.model.networks import (
    Holdings,
    Host,
    Link,
    ListQuery,
    Network,
    NetworkOwner,
    Provider,
    ProviderSource,
    Segment,
    Subnet,
)
from roost.network.rules import addressing
from roost.network.store import lists
from roost.network.store.addresses import HOLDING, range_columns
from roost.network.store.resources import COLUMNS
from roost.platform.database import Connection
from roost.platform.grouping import grouped
from roost.platform.rows import columns_of, encode, read_row
from roost.platform.structs import copy_as

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
    """Return the networks with these ids that exist, by id. ids: None for all."""
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
    return {row.id: NetworkOwner(*row.values) for row in rows}


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


async def lock_network_ids(tx: Connection, ids: Sequence[str], stays: Stays) -> set[str]:
    """Lock the networks that exist; return their ids."""
    return {row["id"] for row in await tx.fetch(LOCK_NETWORKS[stays], ids)}


async def lock_networks(tx: Connection, ids: Sequence[str], stays: Stays = "all") -> dict[str, Network]:
    """Lock the networks that exist; return them by id. existence: a delete waits for this transaction (R13)."""
    await lock_network_ids(tx, ids, stays)
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


LIST_SUBNETS = f"""
-- network.list_subnets
SELECT {", ".join(f"s.{name}" for name in COLUMNS["subnet"])},
    ARRAY(SELECT p.first_address FROM network.pool p WHERE p.subnet_id = s.id ORDER BY p.first_address) AS firsts,
    ARRAY(SELECT p.last_address FROM network.pool p WHERE p.subnet_id = s.id ORDER BY p.first_address) AS lasts
FROM network.subnet s
WHERE ($1::uuid[] IS NULL OR s.id = ANY($1)) AND ($2::uuid[] IS NULL OR s.network_id = ANY($2))
    AND ($3::uuid[] IS NULL OR s.provider_uuid = ANY($3)) AND (NOT $4 OR s.spreading)
ORDER BY s.id
"""  # noqa: S608 - names of fields


async def list_subnets(
    tx: Connection,
    ids: Sequence[str] | None = None,
    *,
    network_ids: Sequence[str] | None = None,
    provider_uuids: Sequence[str] | None = None,
    spreading: bool = False,
) -> list[Subnet]:
    """Return the subnets with these ids, of these networks and of these providers, by id. None is any.

    spreading: only those of which older ports are still to get addresses.
    """
    return [_subnet(row) for row in await tx.fetch(LIST_SUBNETS, ids, network_ids, provider_uuids, spreading)]


FINISH_SPREADING = """
-- network.finish_spreading
UPDATE network.subnet SET spreading = false WHERE id = $1
"""


async def finish_spreading(tx: Connection, subnet_id: str) -> None:
    """Write that all ports made before the subnet have an address of it."""
    await tx.execute(FINISH_SPREADING, subnet_id)


DELETE_POOLS = """
-- network.delete_pools
DELETE FROM network.pool WHERE subnet_id = $1
"""

INSERT_POOLS = """
-- network.insert_pools
INSERT INTO network.pool (subnet_id, first_address, last_address)
SELECT * FROM unnest($1::uuid[], $2::inet[], $3::inet[])
"""


async def insert_pools(tx: Connection, subnets: Sequence[Subnet]) -> None:
    """Write the pools of subnets that have none yet."""
    pools = [(subnet.id, pool) for subnet in subnets for pool in subnet.pools]
    await tx.execute(INSERT_POOLS, *range_columns(pools))


async def set_pools(tx: Connection, subnet: Subnet) -> None:
    """Write the pools of a locked subnet, in place of those that it had."""
    await tx.execute(DELETE_POOLS, subnet.id)
    await insert_pools(tx, [subnet])


FIND_GATEWAY_PORT = """
-- network.find_gateway_port
SELECT p.id FROM network.address a JOIN network.port p ON p.id = a.port_id
WHERE a.subnet_id = $1 AND a.address = $2 AND p.device_owner LIKE 'network:%router%'
"""


async def find_gateway_port(tx: Connection, subnet: Subnet) -> str | None:
    """Return the router's port that holds the subnet's gateway address, if any."""
    if subnet.gateway_ip is None:
        return None
    port_id: str | None = await tx.fetchval(FIND_GATEWAY_PORT, subnet.id, subnet.gateway_ip)
    return port_id


PROVIDERS = """(
SELECT id AS provider_uuid, true AS routed, physical_network, NULL AS cell, coalesce(nullif(name, ''), id::text) AS name
FROM network.segment
UNION ALL SELECT id, false, physical_network, NULL, coalesce(nullif(name, ''), id::text) FROM network.network
UNION ALL SELECT id, false, NULL, cell, cell FROM network.subnet WHERE cell IS NOT NULL
)"""
"""Every provider that there can be, with its name for people; of a pool, the name is its cell."""

LIST_PROVIDERS = f"""
-- network.list_providers
SELECT p.provider_uuid, p.name, p.routed, p.physical_network, p.cell FROM {PROVIDERS} AS p
WHERE $1::uuid[] IS NULL OR p.provider_uuid = ANY($1)
"""  # noqa: S608 - a constant of this file


async def list_providers(tx: Connection, provider_uuids: Sequence[str] | None = None) -> dict[str, Provider]:
    """Return these providers, or all that there can be, by UUID."""
    return {row["provider_uuid"]: Provider(**row) for row in await tx.fetch(LIST_PROVIDERS, provider_uuids)}


LIST_HOLDINGS = f"""
-- network.list_holdings
SELECT a.subnet_id,
    count(*) FILTER (WHERE a.claimed AND a.in_pool) AS claimed_inside,
    count(*) FILTER (WHERE a.claimed AND NOT a.in_pool) AS claimed_outside,
    count(*) FILTER (WHERE NOT a.claimed) AS unclaimed_inside
FROM network.subnet s JOIN network.address a ON a.subnet_id = s.id
WHERE ($1::uuid[] IS NULL OR s.provider_uuid = ANY($1))
    AND CASE
        -- What servers have of a flat network's pools, they claim themselves.
        WHEN s.cell IS NOT NULL
        THEN a.in_pool AND a.port_id IN (SELECT p.id FROM network.port p WHERE {HOLDING})
        -- Claimed addresses of a pool count apart only where the subnet may be no capacity any more.
        ELSE a.claimed <> a.in_pool OR (a.claimed AND s.service_types <> '{{}}')
    END
GROUP BY a.subnet_id
"""  # noqa: S608 - a constant of addresses.py


async def list_sources(tx: Connection, provider_uuids: Sequence[str] | None = None) -> list[ProviderSource]:
    """Return these providers, or all, that have subnets, with what their capacity follows from.

    Holdings are left out of subnets whose capacity is their pools alone: what ports hold inside is claimed, and nothing
    outside is.
    """
    providers = await list_providers(tx, provider_uuids)
    subnets = grouped(
        (subnet.provider_uuid, subnet) for subnet in await list_subnets(tx, provider_uuids=provider_uuids)
    )
    holdings = {
        subnet_id: Holdings(claimed_inside=inside, claimed_outside=outside, unclaimed_inside=unclaimed)
        for subnet_id, inside, outside, unclaimed in await tx.fetch(LIST_HOLDINGS, provider_uuids)
    }
    return [
        copy_as(
            ProviderSource,
            providers[uuid],
            subnets=tuple(of_provider),
            holdings={subnet.id: holdings[subnet.id] for subnet in of_provider if subnet.id in holdings},
        )
        for uuid, of_provider in subnets.items()
    ]


def _subnet(row: Any) -> Subnet:
    fields = dict(row)
    pools = tuple(map(addressing.parse_range, fields.pop("firsts"), fields.pop("lasts")))
    return read_row(Subnet, fields, "host_routes", pools=pools)


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
    """Return (agent id, host), by the host's name. ids: of agents, names: of hosts; None for all."""
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
