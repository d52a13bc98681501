"""Networks, segments, subnets with their pools, and hosts.

Lock order of the whole wing: networks, ports, intents, subnets; each by id.
"""

from collections.abc import Sequence
from typing import Any

from roost.network import addressing
from roost.network.model import AddressRange, Host, Network, ProviderSource, Segment, Subnet
from roost.platform.database import Connection

_NETWORK = """
    n.id, n.name, n.project_id, n.description, n.network_type, n.physical_network, n.segmentation_id, n.revision,
    n.created_at, n.updated_at,
    ARRAY(SELECT s.id FROM network.subnet s WHERE s.network_id = n.id ORDER BY s.id) AS subnet_ids,
    EXISTS (SELECT FROM network.segment g WHERE g.network_id = n.id) AS segmented
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
    (id, name, project_id, description, network_type, physical_network, segmentation_id, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
"""


async def insert_network(tx: Connection, network: Network) -> None:
    """A new network."""
    await tx.execute(
        INSERT_NETWORK, network.id, network.name, network.project_id, network.description,
        network.network_type, network.physical_network, network.segmentation_id, network.created_at,
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
SELECT id, network_id, name, description, network_type, physical_network, segmentation_id, revision, created_at,
    updated_at
FROM network.segment
WHERE ($1::uuid[] IS NULL OR id = ANY($1)) AND ($2::uuid[] IS NULL OR network_id = ANY($2))
ORDER BY id
"""


async def list_segments(
    tx: Connection, ids: Sequence[str] | None = None, *, network_ids: Sequence[str] | None = None
) -> list[Segment]:
    """Segments by id, of networks, or all of them."""
    return [Segment(**row) for row in await tx.fetch(LIST_SEGMENTS, ids, network_ids)]


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


LIST_SUBNETS = """
-- network.list_subnets
SELECT s.id, s.network_id, s.segment_id, s.name, s.description, s.project_id, s.ip_version, s.cidr, s.gateway_ip,
    s.enable_dhcp, s.deleting, s.revision, s.created_at, s.updated_at,
    ARRAY(SELECT p.first_address FROM network.pool p WHERE p.subnet_id = s.id ORDER BY p.first_address) AS firsts,
    ARRAY(SELECT p.last_address FROM network.pool p WHERE p.subnet_id = s.id ORDER BY p.first_address) AS lasts
FROM network.subnet s
WHERE ($1::uuid[] IS NULL OR s.id = ANY($1)) AND ($2::uuid[] IS NULL OR s.network_id = ANY($2))
ORDER BY s.id
"""


async def list_subnets(
    tx: Connection, ids: Sequence[str] | None = None, *, network_ids: Sequence[str] | None = None
) -> list[Subnet]:
    """Subnets by id, of networks, or all of them."""
    return [_subnet(row) for row in await tx.fetch(LIST_SUBNETS, ids, network_ids)]


INSERT_SUBNET = """
-- network.insert_subnet
INSERT INTO network.subnet
    (id, network_id, segment_id, name, description, project_id, ip_version, cidr, gateway_ip, enable_dhcp,
    created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)
"""

INSERT_POOLS = """
-- network.insert_pools
WITH pools AS (
    INSERT INTO network.pool (subnet_id, first_address, last_address)
    SELECT $1, p.first, p.last FROM unnest($2::inet[], $3::inet[]) AS p (first, last)
)
INSERT INTO network.free_range (subnet_id, first_address, last_address)
SELECT $1, p.first, p.last FROM unnest($2::inet[], $3::inet[]) AS p (first, last)
"""


async def insert_subnet(tx: Connection, subnet: Subnet) -> None:
    """A new subnet; all of its pools are free."""
    await tx.execute(
        INSERT_SUBNET, subnet.id, subnet.network_id, subnet.segment_id, subnet.name, subnet.description,
        subnet.project_id, subnet.ip_version, subnet.cidr, subnet.gateway_ip, subnet.enable_dhcp, subnet.created_at,
    )  # fmt: skip
    firsts = [addressing.show(pool.first) for pool in subnet.pools]
    await tx.execute(INSERT_POOLS, subnet.id, firsts, [addressing.show(pool.last) for pool in subnet.pools])


MARK_SUBNET = """
-- network.mark_subnet
UPDATE network.subnet SET deleting = $2, updated_at = now() WHERE id = $1
"""


async def mark_subnet(tx: Connection, subnet_id: str, *, deleting: bool) -> None:
    """Whether the subnet's pools still count in inventory."""
    await tx.execute(MARK_SUBNET, subnet_id, deleting)


DELETE_SUBNET = """
-- network.delete_subnet
DELETE FROM network.subnet WHERE id = $1
"""


async def delete_subnet(tx: Connection, subnet_id: str) -> None:
    """The subnet with its pools; no port may have an address in it."""
    await tx.execute(DELETE_SUBNET, subnet_id)


LIST_SUBNETS_DELETING = """
-- network.list_subnets_deleting
SELECT id FROM network.subnet WHERE deleting ORDER BY id
"""


async def list_subnets_deleting(tx: Connection) -> list[str]:
    """Subnets on their way out."""
    return [row["id"] for row in await tx.fetch(LIST_SUBNETS_DELETING)]


LIST_SOURCES = """
-- network.list_sources
SELECT g.id AS provider_uuid, true AS routed, g.physical_network,
    ARRAY(SELECT p.first_address FROM network.pool p JOIN network.subnet s ON s.id = p.subnet_id
        WHERE s.segment_id = g.id AND NOT s.deleting ORDER BY p.first_address) AS firsts,
    ARRAY(SELECT p.last_address FROM network.pool p JOIN network.subnet s ON s.id = p.subnet_id
        WHERE s.segment_id = g.id AND NOT s.deleting ORDER BY p.first_address) AS lasts
FROM network.segment g WHERE $1::uuid[] IS NULL OR g.id = ANY($1)
UNION ALL
SELECT n.id, false, n.physical_network,
    ARRAY(SELECT p.first_address FROM network.pool p JOIN network.subnet s ON s.id = p.subnet_id
        WHERE s.network_id = n.id AND NOT s.deleting ORDER BY p.first_address),
    ARRAY(SELECT p.last_address FROM network.pool p JOIN network.subnet s ON s.id = p.subnet_id
        WHERE s.network_id = n.id AND NOT s.deleting ORDER BY p.first_address)
FROM network.network n
WHERE ($1::uuid[] IS NULL OR n.id = ANY($1))
    AND NOT EXISTS (SELECT FROM network.segment g WHERE g.network_id = n.id)
"""


async def list_sources(tx: Connection, provider_uuids: Sequence[str] | None = None) -> list[ProviderSource]:
    """What stands behind these providers, or behind all; those with nothing behind them are left out."""
    rows = await tx.fetch(LIST_SOURCES, provider_uuids)
    return [
        ProviderSource(
            provider_uuid=row["provider_uuid"],
            routed=row["routed"],
            physical_network=row["physical_network"],
            pools=_ranges(row),
        )
        for row in rows
    ]


LIST_PHYSICAL_NETWORKS = """
-- network.list_physical_networks
SELECT id, physical_network FROM network.segment WHERE id = ANY($1::uuid[])
UNION ALL
SELECT id, physical_network FROM network.network WHERE id = ANY($1::uuid[])
"""


async def list_physical_networks(tx: Connection, provider_uuids: Sequence[str]) -> dict[str, str | None]:
    """Provider UUID -> its physical network, None when every host reaches it."""
    rows = await tx.fetch(LIST_PHYSICAL_NETWORKS, provider_uuids)
    return {row["id"]: row["physical_network"] for row in rows}


LIST_PROVIDER_NAMES = """
-- network.list_provider_names
SELECT id, coalesce(nullif(name, ''), id::text) AS name FROM network.segment WHERE id = ANY($1::uuid[])
UNION ALL
SELECT id, coalesce(nullif(name, ''), id::text) FROM network.network WHERE id = ANY($1::uuid[])
"""


async def list_provider_names(tx: Connection, provider_uuids: Sequence[str]) -> dict[str, str]:
    """Provider UUID -> what people call the segment or network."""
    return {row["id"]: row["name"] for row in await tx.fetch(LIST_PROVIDER_NAMES, provider_uuids)}


LIST_HOSTS = """
-- network.list_hosts
SELECT name, physical_networks FROM network.host WHERE $1::text[] IS NULL OR name = ANY($1) ORDER BY name
"""


async def list_hosts(tx: Connection, names: Sequence[str] | None = None) -> list[Host]:
    """Hosts by name, or all of them."""
    return [Host(row["name"], frozenset(row["physical_networks"])) for row in await tx.fetch(LIST_HOSTS, names)]


SET_HOSTS = """
-- network.set_hosts
INSERT INTO network.host (name, physical_networks)
SELECT h.name, ARRAY(SELECT jsonb_array_elements_text(h.physical_networks))
FROM unnest($1::text[], $2::jsonb[]) AS h (name, physical_networks)
ORDER BY h.name
ON CONFLICT (name) DO UPDATE SET physical_networks = excluded.physical_networks, updated_at = now()
WHERE network.host.physical_networks <> excluded.physical_networks
"""


async def set_hosts(tx: Connection, names: Sequence[str], physical_networks: Sequence[str]) -> None:
    """What the hosts reach; physical_networks: for each host, a JSON array of names."""
    await tx.execute(SET_HOSTS, names, physical_networks)


def _network(row: Any) -> Network:
    fields = dict(row)
    fields["subnet_ids"] = tuple(fields["subnet_ids"])
    return Network(**fields)


def _subnet(row: Any) -> Subnet:
    fields = dict(row)
    del fields["firsts"], fields["lasts"]
    return Subnet(**fields, pools=_ranges(row))


def _ranges(row: Any) -> tuple[AddressRange, ...]:
    pairs = zip(row["firsts"], row["lasts"], strict=True)
    return tuple(AddressRange(addressing.parse(first), addressing.parse(last)) for first, last in pairs)
