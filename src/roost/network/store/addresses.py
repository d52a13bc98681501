"""Addresses and free ranges. Every change of them is made under the locks of their subnets, taken by id.

`assigned_for` alone is changed under the lock of the port, without the subnet's. So whoever changes addresses that stay
locks them first, by subnet and address.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from roost.network.model.networks import AddressCounts, AddressRange, SubnetKind
from roost.network.model.ports import HELD_OWNER, Address, FreeChange, Given, Mismarked
from roost.network.rules import addressing
from roost.platform.database import Connection
from roost.platform.grouping import grouped
from roost.platform.rows import columns_of, read_row

HOLDING = f"p.device_owner = '{HELD_OWNER}' AND p.nic_tag IS NOT NULL"
"""On a row `p` of network.port: it is hidden and holds addresses for a guest (HELD_OWNER). Clients can hide no port."""
OF_UNKNOWN_GUEST = f"({HOLDING} AND p.left_at IS NULL)"
"""The same, for a guest that the records do not know. The others hold what the guest of a known server still has."""

# EUI-64 addresses are in no pool, even within the range of one.
AUTOMATIC = """(coalesce(s.ipv6_address_mode, '') IN ('slaac', 'dhcpv6-stateless')
    OR coalesce(s.ipv6_ra_mode, '') IN ('slaac', 'dhcpv6-stateless'))"""

LOCK_SUBNETS = f"""
-- network.lock_subnets
SELECT {", ".join(SubnetKind.__struct_fields__)} FROM network.subnet
WHERE id = ANY($1::uuid[]) OR provider_uuid = ANY($2::uuid[]) OR network_id = ANY($3::uuid[])
ORDER BY id FOR NO KEY UPDATE
"""  # noqa: S608 - names of fields


async def lock_subnets(
    tx: Connection, ids: Collection[str], provider_uuids: Sequence[str] = (), network_ids: Sequence[str] = ()
) -> dict[str, SubnetKind]:
    """Lock these subnets, and all of the providers and of the networks; return those that exist, by id."""
    rows = await tx.fetch(LOCK_SUBNETS, list(ids), provider_uuids, network_ids)
    return {row["id"]: read_row(SubnetKind, row) for row in rows}


async def lock_provider_subnets(
    tx: Connection, provider_uuids: Sequence[str], network_ids: Sequence[str] = ()
) -> dict[str, tuple[SubnetKind, ...]]:
    """Lock all subnets of the providers, and of the networks; return provider UUID -> its subnets, by id."""
    locked = (await lock_subnets(tx, (), provider_uuids, network_ids)).values()
    return {uuid: tuple(subnets) for uuid, subnets in grouped((item.provider_uuid, item) for item in locked).items()}


LIST_FREE = """
-- network.list_free_ranges
SELECT w.subnet_id, f.first_address, f.last_address
FROM unnest($1::uuid[], $2::integer[], $5::inet[]) AS w (subnet_id, wanted, start)
CROSS JOIN LATERAL (
    (SELECT 0 AS turn, first_address, last_address FROM network.free_range r
    WHERE r.subnet_id = w.subnet_id AND first_address <= w.start ORDER BY first_address DESC LIMIT 1)
    UNION ALL
    (SELECT 1, first_address, last_address FROM network.free_range r
    WHERE r.subnet_id = w.subnet_id AND first_address > w.start ORDER BY first_address LIMIT w.wanted)
    UNION ALL
    (SELECT 2, first_address, last_address FROM network.free_range r
    WHERE r.subnet_id = w.subnet_id AND (w.start IS NULL OR first_address <= w.start)
    ORDER BY first_address LIMIT w.wanted)
    ORDER BY turn, first_address LIMIT w.wanted + 1
) f
UNION
SELECT w.subnet_id, f.first_address, f.last_address
FROM unnest($3::uuid[], $4::inet[]) AS w (subnet_id, address)
CROSS JOIN LATERAL (
    SELECT first_address, last_address FROM network.free_range r
    WHERE r.subnet_id = w.subnet_id AND r.first_address <= w.address ORDER BY first_address DESC LIMIT 1
) f
WHERE f.last_address >= w.address
"""


async def list_free(
    tx: Connection, wanted: Mapping[str, int], named: Sequence[tuple[str, int]], starts: Mapping[str, int]
) -> dict[str, list[AddressRange]]:
    """Return of each subnet `wanted` + 1 free ranges, and the ranges that hold the named (subnet id, address).

    starts: subnet id -> the address from which ranges are taken, then on from the lowest; without: from the lowest.
    """
    starts_wanted = [addressing.show(starts[subnet_id]) if subnet_id in starts else None for subnet_id in wanted]
    rows = await tx.fetch(LIST_FREE, list(wanted), list(wanted.values()), *_pairs(named), starts_wanted)
    return _by_subnet(rows)


LIST_RANGES = {
    table: f"""
-- network.list_all_{table}s
SELECT subnet_id, first_address, last_address FROM network.{table} WHERE subnet_id = ANY($1::uuid[])
ORDER BY subnet_id, first_address
"""  # noqa: S608 - one of these two
    for table in ("pool", "free_range")
}


async def list_ranges(
    tx: Connection, table: Literal["pool", "free_range"], subnet_ids: Sequence[str]
) -> dict[str, list[AddressRange]]:
    """Return subnet id -> all its pools or free ranges, in order; a subnet without any is left out."""
    return _by_subnet(await tx.fetch(LIST_RANGES[table], subnet_ids))


LIST_HELD = f"""
-- network.list_held
SELECT a.address FROM network.address a JOIN network.subnet s ON s.id = a.subnet_id
WHERE s.id = $1 AND (a.in_pool OR NOT {AUTOMATIC})
"""  # noqa: S608 - a constant of this file


async def list_held(tx: Connection, subnet_id: str) -> list[int]:
    """Return every held address of the subnet that a free range may know: all but EUI-64 ones."""
    return [addressing.parse(row["address"]) for row in await tx.fetch(LIST_HELD, subnet_id)]


DELETE_FREE = """
-- network.delete_free_ranges
DELETE FROM network.free_range f USING unnest($1::uuid[], $2::inet[]) AS d (subnet_id, first_address)
WHERE f.subnet_id = d.subnet_id AND f.first_address = d.first_address
"""

INSERT_FREE = """
-- network.insert_free_ranges
INSERT INTO network.free_range (subnet_id, first_address, last_address)
SELECT subnet_id, first_address, last_address
FROM unnest($1::uuid[], $2::inet[], $3::inet[]) AS a (subnet_id, first_address, last_address)
"""


async def change_free(tx: Connection, change: FreeChange) -> None:
    """Write a change of free ranges."""
    await tx.execute(DELETE_FREE, *_pairs([(subnet_id, item.first) for subnet_id, item in change.removed]))
    await tx.execute(INSERT_FREE, *range_columns(change.added))


INSERT_ADDRESSES = """
-- network.insert_addresses
INSERT INTO network.address (subnet_id, address, port_id, in_pool, claimed, assigned_for)
SELECT subnet_id, address, port_id, in_pool, claimed,
    (SELECT p.device_id::uuid FROM network.port p WHERE p.id = a.port_id AND $6)
FROM unnest($1::uuid[], $2::inet[], $3::uuid[], $4::boolean[], $5::boolean[])
    AS a (subnet_id, address, port_id, in_pool, claimed)
ON CONFLICT DO NOTHING RETURNING subnet_id, address
"""


async def insert(tx: Connection, addresses_given: Sequence[Given], *, building: bool = False) -> list[Given]:
    """Insert the addresses of ports; return those that no port held. building: for builds of the ports' servers."""
    if not addresses_given:
        return []
    new = [
        (item.subnet_id, addressing.show(item.address), item.port_id, item.in_pool, item.claimed)
        for item in addresses_given
    ]
    rows = await tx.fetch(INSERT_ADDRESSES, *columns_of(new), building)
    inserted = {(row["subnet_id"], addressing.parse(row["address"])) for row in rows}
    return [item for item in addresses_given if (item.subnet_id, item.address) in inserted]


MOVE_ADDRESSES = """
-- network.move_addresses
UPDATE network.address a SET port_id = n.port_id, claimed = n.claimed
FROM unnest($1::uuid[], $2::inet[], $3::uuid[], $4::boolean[]) AS n (subnet_id, address, port_id, claimed)
WHERE a.subnet_id = n.subnet_id AND a.address = n.address
"""


async def move(tx: Connection, addresses: Sequence[Address]) -> None:
    """Write the port and the claimed mark of each address. The ports and the subnets are locked."""
    rows = [(item.subnet_id, item.address, item.port_id, item.claimed) for item in addresses]
    await tx.execute(MOVE_ADDRESSES, *columns_of(rows, 4))


GIVE_UP = f"""
-- network.give_up_addresses
WITH dropped AS (
    SELECT * FROM unnest($1::uuid[], $2::inet[]) AS d (subnet_id, address)
), heir AS (
    SELECT DISTINCT ON (l.subnet_id, l.address) l.subnet_id, l.address, l.port_id
    FROM dropped JOIN network.listed_address l USING (subnet_id, address) JOIN network.port p ON p.id = l.port_id
    WHERE {HOLDING} ORDER BY l.subnet_id, l.address, l.port_id
), handed AS (
    UPDATE network.address a SET port_id = heir.port_id, claimed = false, assigned_for = NULL
    FROM heir WHERE a.subnet_id = heir.subnet_id AND a.address = heir.address
    RETURNING a.subnet_id, a.in_pool, a.claimed
), deleted AS (
    DELETE FROM network.address a USING dropped d
    WHERE a.subnet_id = d.subnet_id AND a.address = d.address
        AND NOT EXISTS (SELECT FROM heir WHERE heir.subnet_id = a.subnet_id AND heir.address = a.address)
    RETURNING a.subnet_id, a.address, a.in_pool, a.claimed
)
SELECT subnet_id, address, in_pool, claimed FROM deleted
UNION ALL SELECT subnet_id, NULL, in_pool, claimed FROM handed
"""  # noqa: S608 - a constant of this file


async def give_up(tx: Connection, dropped: Sequence[tuple[str, str]]) -> list[tuple[str, str | None, bool, bool]]:
    """Give these (subnet id, address) to hidden ports that list them, and delete the others.

    Return (subnet id, address, in_pool, claimed) of each. address: None if a hidden port has it now.
    """
    return [tuple(row) for row in await tx.fetch(GIVE_UP, *columns_of(dropped, 2))]


LIST_TAKEN = """
-- network.list_taken
SELECT a.address FROM network.address a
JOIN unnest($1::uuid[], $2::inet[]) AS w (subnet_id, address) ON a.subnet_id = w.subnet_id AND a.address = w.address
"""


async def list_taken(tx: Connection, named: Sequence[tuple[str, int]]) -> list[str]:
    """Return the addresses, as text, of these (subnet id, address) that a port holds."""
    return [row["address"] for row in await tx.fetch(LIST_TAKEN, *_pairs(named))]


# Nearly all addresses are marked as in a pool. Only others need their pools read.
COUNT_HELD = """
-- network.count_held
SELECT a.subnet_id, count(*) AS held, count(*) FILTER (WHERE a.in_pool OR EXISTS (
    SELECT FROM network.pool p
    WHERE p.subnet_id = a.subnet_id AND a.address BETWEEN p.first_address AND p.last_address
    )) AS in_pools
FROM network.address a
WHERE a.subnet_id = ANY($1::uuid[]) GROUP BY a.subnet_id
"""


async def count_held(tx: Connection, subnet_ids: Sequence[str]) -> dict[str, AddressCounts]:
    """Return subnet id -> how many of its addresses ports hold; subnets without any are left out."""
    rows = await tx.fetch(COUNT_HELD, subnet_ids)
    return {row["subnet_id"]: AddressCounts(used=row["held"], used_in_pools=row["in_pools"]) for row in rows}


# Where addresses follow from MACs, the mark alone says whether one within a pool was taken from it. No port's claim
# counts those, those of a flat network, or those that are held for a guest.
MISMARKED = f"""
SELECT m.subnet_id, m.address, m.in_pool, m.claimed, w.in_pool AS in_pool_wanted, w.claimed AS claimed_wanted
FROM network.address m JOIN network.subnet s ON s.id = m.subnet_id
CROSS JOIN LATERAL (SELECT
    {AUTOMATIC} AS follows,
    EXISTS (SELECT FROM network.pool o
        WHERE o.subnet_id = s.id AND m.address BETWEEN o.first_address AND o.last_address) AS pooled) l
CROSS JOIN LATERAL (SELECT l.pooled AND (m.in_pool OR NOT l.follows) AS in_pool,
    m.claimed AND NOT l.follows AND s.cell IS NULL
        AND m.port_id NOT IN (SELECT p.id FROM network.port p WHERE {HOLDING}) AS claimed) w
WHERE ($1::uuid[] IS NULL OR m.subnet_id = ANY($1)) AND (m.in_pool, m.claimed) <> (w.in_pool, w.claimed)
ORDER BY m.subnet_id, m.address
"""  # noqa: S608 - a constant of addresses.py

MARK_ANEW = f"""
-- network.mark_anew
UPDATE network.address a SET in_pool = w.in_pool_wanted, claimed = w.claimed_wanted
FROM ({MISMARKED} FOR NO KEY UPDATE OF m) w
WHERE a.subnet_id = w.subnet_id AND a.address = w.address
"""  # noqa: S608 - a constant of this file


async def mark_anew(tx: Connection, subnet_ids: Sequence[str]) -> None:
    """Set the marks of addresses of locked subnets: `in_pool` by the pools; `claimed` ends where no port may claim."""
    await tx.execute(MARK_ANEW, subnet_ids)


LIST_MISMARKED = "-- network.list_mismarked" + MISMARKED


async def list_mismarked(tx: Connection, subnet_ids: Sequence[str] | None = None) -> list[Mismarked]:
    """Return the addresses of these subnets, or of all, that are not marked as they should be.

    Reads every address of them.
    """
    return [Mismarked(**row) for row in await tx.fetch(LIST_MISMARKED, subnet_ids)]


LIST_SUBNET_PORTS = """
-- network.list_subnet_ports
SELECT DISTINCT port_id FROM network.address WHERE subnet_id = ANY($1::uuid[]) ORDER BY port_id
"""


async def list_subnet_ports(tx: Connection, subnet_ids: Sequence[str]) -> list[str]:
    """Return the ports that hold addresses in the subnets."""
    return [row["port_id"] for row in await tx.fetch(LIST_SUBNET_PORTS, subnet_ids)]


def range_columns(ranges: Sequence[tuple[str, AddressRange]]) -> list[list[str]]:
    """Return the columns of subnets, first and last addresses."""
    return columns_of([(name, addressing.show(item.first), addressing.show(item.last)) for name, item in ranges], 3)


def _pairs(pairs: Sequence[tuple[str, int]]) -> list[list[str]]:
    """Return the columns of (subnet id, address)."""
    return columns_of([(subnet_id, addressing.show(address)) for subnet_id, address in pairs], 2)


def _by_subnet(rows: Any) -> dict[str, list[AddressRange]]:
    """Return subnet id -> its ranges. rows: of subnet, first and last address."""
    return grouped((subnet_id, addressing.parse_range(first, last)) for subnet_id, first, last in rows)
