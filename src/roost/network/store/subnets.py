"""Subnets with their pools, and what stands behind each resource provider."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from roost.network.model.networks import AddressRange, HostRoute, ProviderSource, Subnet, SubnetChange
from roost.network.rules import addressing
from roost.network.store.addresses import OF_UNKNOWN_GUEST
from roost.platform.database import Connection

_SUBNET = [name for name in Subnet.__struct_fields__ if name not in ("pools", "leaving")]

LIST_SUBNETS = f"""
-- network.list_subnets
SELECT {", ".join(f"s.{name}" for name in _SUBNET)},
    ARRAY(SELECT p.first_address FROM network.pool p WHERE p.subnet_id = s.id ORDER BY p.first_address) AS firsts,
    ARRAY(SELECT p.last_address FROM network.pool p WHERE p.subnet_id = s.id ORDER BY p.first_address) AS lasts,
    ARRAY(SELECT p.leaving FROM network.pool p WHERE p.subnet_id = s.id ORDER BY p.first_address) AS leaving
FROM network.subnet s
WHERE ($1::uuid[] IS NULL OR s.id = ANY($1)) AND ($2::uuid[] IS NULL OR s.network_id = ANY($2))
    AND ($3::uuid[] IS NULL OR s.provider_uuid = ANY($3))
ORDER BY s.id
"""  # noqa: S608 - names of fields


async def list_subnets(
    tx: Connection,
    ids: Sequence[str] | None = None,
    *,
    network_ids: Sequence[str] | None = None,
    provider_uuids: Sequence[str] | None = None,
) -> list[Subnet]:
    """Return subnets, by id: those of the ids, of the networks, of the providers; None is any."""
    return [_subnet(row) for row in await tx.fetch(LIST_SUBNETS, ids, network_ids, provider_uuids)]


INSERT_SUBNET = f"""
-- network.insert_subnet
INSERT INTO network.subnet ({", ".join(_SUBNET)}, spreading)
SELECT {", ".join(_SUBNET)}, $2::boolean FROM json_populate_record(NULL::network.subnet, $1)
"""  # noqa: S608 - names of fields

INSERT_POOLS = """
-- network.insert_pools
WITH pools AS (
    INSERT INTO network.pool (subnet_id, first_address, last_address)
    SELECT $1, p.first, p.last FROM unnest($2::inet[], $3::inet[]) AS p (first, last)
)
INSERT INTO network.free_range (subnet_id, first_address, last_address)
SELECT $1, p.first, p.last FROM unnest($2::inet[], $3::inet[]) AS p (first, last)
"""


async def insert_subnet(tx: Connection, subnet: Subnet, *, spreading: bool = False) -> None:
    """Insert a subnet; all of its pools are free. spreading: ports that are there are still to get addresses of it."""
    await tx.execute(INSERT_SUBNET, msgspec.json.encode(subnet).decode(), spreading)
    firsts = [addressing.show(pool.first) for pool in subnet.pools]
    await tx.execute(INSERT_POOLS, subnet.id, firsts, [addressing.show(pool.last) for pool in subnet.pools])


LIST_SPREADING = """
-- network.list_spreading_subnets
SELECT id FROM network.subnet WHERE spreading AND NOT deleting ORDER BY id
"""


async def list_spreading(tx: Connection) -> list[Subnet]:
    """Return subnets of which ports that were there before are still to get addresses."""
    ids = [row["id"] for row in await tx.fetch(LIST_SPREADING)]
    return await list_subnets(tx, ids) if ids else []


FINISH_SPREADING = """
-- network.finish_spreading
UPDATE network.subnet SET spreading = false WHERE id = $1
"""


async def finish_spreading(tx: Connection, subnet_id: str) -> None:
    """Write that all ports have an address of the subnet."""
    await tx.execute(FINISH_SPREADING, subnet_id)


MARK_SUBNET = """
-- network.mark_subnet
UPDATE network.subnet SET deleting = $2 WHERE id = $1 AND deleting <> $2
"""


async def mark_subnet(tx: Connection, subnet_id: str, *, deleting: bool) -> None:
    """Write whether the subnet is being deleted, and its pools count in no inventory."""
    await tx.execute(MARK_SUBNET, subnet_id, deleting)


FIND_MARK = """
-- network.find_mark
SELECT marks FROM network.subnet WHERE id = $1
"""


async def find_mark(tx: Connection, subnet_id: str) -> int | None:
    """Return a number that changes whenever the delete mark is set again (R38); None where there is no subnet."""
    mark: int | None = await tx.fetchval(FIND_MARK, subnet_id)
    return mark


DELETE_SUBNETS = """
-- network.delete_subnets
DELETE FROM network.subnet WHERE id = ANY($1::uuid[])
"""


async def delete_subnets(tx: Connection, ids: Sequence[str]) -> None:
    """Delete the locked subnets with their pools; no port may have an address in them."""
    await tx.execute(DELETE_SUBNETS, ids)


LIST_SUBNETS_DELETING = """
-- network.list_subnets_deleting
SELECT id FROM network.subnet WHERE deleting ORDER BY id
"""


async def list_subnets_deleting(tx: Connection) -> list[str]:
    """Return the ids of subnets that are being deleted."""
    return [row["id"] for row in await tx.fetch(LIST_SUBNETS_DELETING)]


LIST_POOLS = """
-- network.list_pools
SELECT subnet_id, first_address, last_address FROM network.pool WHERE subnet_id = ANY($1::uuid[]) AND NOT leaving
ORDER BY subnet_id, first_address
"""


async def list_pools(tx: Connection, subnet_ids: Sequence[str]) -> dict[str, list[AddressRange]]:
    """Return subnet id -> its pools in order, without what leaves them; a subnet without any is left out."""
    pools_by_subnet: dict[str, list[AddressRange]] = {}
    for row in await tx.fetch(LIST_POOLS, subnet_ids):
        pool = AddressRange(addressing.parse(row["first_address"]), addressing.parse(row["last_address"]))
        pools_by_subnet.setdefault(row["subnet_id"], []).append(pool)
    return pools_by_subnet


LIST_SOURCES = """
-- network.list_sources
SELECT g.id AS provider_uuid, true AS routed, g.physical_network, NULL AS cell
FROM network.segment g
WHERE ($1::uuid[] IS NULL OR g.id = ANY($1)) AND EXISTS (SELECT FROM network.subnet s WHERE s.segment_id = g.id)
UNION ALL
SELECT n.id, false, n.physical_network, NULL
FROM network.network n
WHERE ($1::uuid[] IS NULL OR n.id = ANY($1))
    AND NOT n.flat AND EXISTS (SELECT FROM network.subnet s WHERE s.network_id = n.id AND s.segment_id IS NULL)
UNION ALL
SELECT s.id, false, NULL, s.cell FROM network.subnet s
WHERE s.cell IS NOT NULL AND ($1::uuid[] IS NULL OR s.id = ANY($1))
"""


LIST_RESERVED = f"""
-- network.list_reserved
SELECT s.provider_uuid, a.subnet_id, count(*) AS reserved
FROM network.port p JOIN network.address a ON a.port_id = p.id JOIN network.subnet s ON s.id = a.subnet_id
WHERE {OF_UNKNOWN_GUEST} AND a.in_pool AND ($1::uuid[] IS NULL OR s.provider_uuid = ANY($1))
    AND EXISTS (SELECT FROM network.pool o
        WHERE o.subnet_id = s.id AND NOT o.leaving AND a.address BETWEEN o.first_address AND o.last_address)
GROUP BY s.provider_uuid, a.subnet_id
"""  # noqa: S608 - a constant of addresses.py


async def list_reserved(tx: Connection, provider_uuids: Sequence[str] | None = None) -> dict[str, dict[str, int]]:
    """Return provider UUID -> subnet id -> how many addresses of its pools unknown guests hold; others are left out."""
    reserved: dict[str, dict[str, int]] = {}
    for row in await tx.fetch(LIST_RESERVED, provider_uuids):
        reserved.setdefault(row["provider_uuid"], {})[row["subnet_id"]] = row["reserved"]
    return reserved


async def list_sources(tx: Connection, provider_uuids: Sequence[str] | None = None) -> list[ProviderSource]:
    """Return what stands behind these providers, or behind all; those with nothing behind them are left out."""
    rows = await tx.fetch(LIST_SOURCES, provider_uuids)
    subnets: dict[str, tuple[Subnet, ...]] = {}
    for subnet in await list_subnets(tx, provider_uuids=provider_uuids):
        subnets[subnet.provider_uuid] = (*subnets.get(subnet.provider_uuid, ()), subnet)
    reserved = await list_reserved(tx, provider_uuids)
    return [
        ProviderSource(
            **row, subnets=subnets.get(row["provider_uuid"], ()), reserved=reserved.get(row["provider_uuid"], {})
        )
        for row in rows
    ]


LIST_PROVIDERS = """
-- network.list_providers
SELECT id, physical_network, coalesce(nullif(name, ''), id::text) AS name, NULL AS cell
FROM network.segment WHERE id = ANY($1::uuid[])
UNION ALL
SELECT id, physical_network, coalesce(nullif(name, ''), id::text), NULL FROM network.network WHERE id = ANY($1::uuid[])
UNION ALL
SELECT id, NULL, cell, cell FROM network.subnet WHERE id = ANY($1::uuid[]) AND cell IS NOT NULL
"""


class Provider(Struct, frozen=True):
    """Where a provider is, by its physical network or cell, and what people call it: of a pool, its cell."""

    id: str
    physical_network: str | None
    name: str
    cell: str | None


async def list_providers(tx: Connection, provider_uuids: Sequence[str]) -> dict[str, Provider]:
    """Return those of the providers that there are, by UUID."""
    return {row["id"]: Provider(**row) for row in await tx.fetch(LIST_PROVIDERS, provider_uuids)}


LIST_PLAIN_NETWORKS = """
-- network.list_plain_networks
SELECT n.physical_network, array_agg(n.id) AS ids FROM network.network n
WHERE NOT n.flat AND EXISTS (SELECT FROM network.subnet s WHERE s.network_id = n.id AND s.segment_id IS NULL)
GROUP BY n.physical_network
"""


async def list_plain_networks(tx: Connection) -> dict[str | None, list[str]]:
    """Return physical network, None for every host -> the networks with subnets that belong to no segment."""
    return {row["physical_network"]: row["ids"] for row in await tx.fetch(LIST_PLAIN_NETWORKS)}


def _subnet(row: Any) -> Subnet:
    fields = dict(row)
    del fields["firsts"], fields["lasts"]
    ranges = list(zip(_ranges(row), fields.pop("leaving"), strict=True))
    if fields["change"] is not None:
        fields["change"] = msgspec.json.decode(fields["change"], type=SubnetChange)
    for name in ("dns_nameservers", "service_types", "tags"):
        fields[name] = tuple(fields[name])
    fields["host_routes"] = msgspec.json.decode(fields["host_routes"], type=tuple[HostRoute, ...])
    pools = tuple(item for item, leaving in ranges if not leaving)
    return Subnet(**fields, pools=pools, leaving=tuple(item for item, leaving in ranges if leaving))


def _ranges(row: Any) -> tuple[AddressRange, ...]:
    pairs = zip(row["firsts"], row["lasts"], strict=True)
    return tuple(AddressRange(addressing.parse(first), addressing.parse(last)) for first, last in pairs)
