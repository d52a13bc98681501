"""SQL of the network's audit: what it looks at and nobody else reads, and rows that no foreign key checks."""

from collections.abc import Sequence

from roost.network.model.ports import Address, FreeState
from roost.network.rules.uses import class_of
from roost.network.store.addresses import AUTOMATIC, list_ranges
from roost.network.store.networks import PROVIDERS
from roost.platform.database import Connection

LIST_CLAIMS = """
-- network.audit_claims
SELECT a.port_id, s.provider_uuid, family(a.address) AS ip_version, count(*)
FROM network.address a JOIN network.subnet s ON s.id = a.subnet_id
WHERE a.claimed AND a.port_id = ANY($1::uuid[]) GROUP BY 1, 2, 3
"""


async def list_claims(tx: Connection, port_ids: Sequence[str]) -> dict[str, dict[str, dict[str, int]]]:
    """Return port id -> its claim as it should be, see capacity.claim_of; ports that need none are left out."""
    claims: dict[str, dict[str, dict[str, int]]] = {}
    for port_id, provider_uuid, ip_version, count in await tx.fetch(LIST_CLAIMS, port_ids):
        claims.setdefault(port_id, {}).setdefault(provider_uuid, {})[class_of(ip_version)] = count
    return claims


LIST_UNREACHED = f"""
-- network.audit_unreached
SELECT p.id, p.name, p.host, a.address, r.physical_network
FROM network.port p
JOIN network.address a ON a.port_id = p.id
JOIN network.subnet s ON s.id = a.subnet_id
JOIN {PROVIDERS} AS r ON r.provider_uuid = s.provider_uuid
LEFT JOIN network.host h ON h.name = p.host
WHERE p.host IS NOT NULL AND r.physical_network IS NOT NULL -- of a host that reaches nothing, ALL is true of NULL too
    AND r.physical_network <> ALL (coalesce(h.physical_networks, '{{}}'))
ORDER BY p.id, a.address LIMIT $1
"""  # noqa: S608 - a constant of networks.py


async def list_unreached(tx: Connection, *, limit: int) -> list[tuple[str, str, str, str, str]]:
    """Return (port id, the port's name, host, address, physical network) of the first addresses on unreached segments.

    Every host reaches a segment or network without a physical network.
    """
    return [tuple(row) for row in await tx.fetch(LIST_UNREACHED, limit)]


# A row and the row that it is joined with are written in one transaction, so that one statement sees both.
LIST_STRAYS = """
-- network.audit_addresses
SELECT a.subnet_id, a.address, a.port_id, a.in_pool, a.claimed, a.assigned_for,
    coalesce(s.provider_uuid::text, '') AS provider_uuid
FROM network.address a
LEFT JOIN network.port p ON p.id = a.port_id
LEFT JOIN network.subnet s ON s.id = a.subnet_id
WHERE (p.id IS NULL OR s.id IS NULL) AND ($2::uuid[] IS NULL OR a.port_id = ANY($2))
ORDER BY a.subnet_id, a.address LIMIT $1
"""


async def list_strays(tx: Connection, *, limit: int, port_ids: Sequence[str] | None = None) -> list[Address]:
    """Return the first addresses whose port or subnet does not exist. Their provider is "" without a subnet.

    Reads every address, or those of the ports.
    """
    return [Address(**row) for row in await tx.fetch(LIST_STRAYS, limit, port_ids)]


LIST_FREE = f"""
-- network.audit_free_ranges
SELECT s.id AS subnet_id, s.name,
    (SELECT count(*) FROM network.pool p
        JOIN network.address a ON a.subnet_id = s.id AND a.address BETWEEN p.first_address AND p.last_address
        WHERE p.subnet_id = s.id AND (a.in_pool OR NOT {AUTOMATIC})) AS count_held,
    (SELECT count(*) FROM network.address a CROSS JOIN LATERAL (
        SELECT last_address FROM network.free_range f WHERE f.subnet_id = s.id AND f.first_address <= a.address
        ORDER BY f.first_address DESC LIMIT 1
    ) below WHERE a.subnet_id = s.id AND (a.in_pool OR NOT {AUTOMATIC}) AND below.last_address >= a.address
    ) AS overlapping
FROM network.subnet s
WHERE ($1::uuid IS NULL OR s.id > $1) AND ($3::uuid[] IS NULL OR s.id = ANY($3))
ORDER BY s.id LIMIT $2
"""  # noqa: S608 - a constant of addresses.py


async def list_free(tx: Connection, *, after: str, limit: int, ids: Sequence[str] | None = None) -> list[FreeState]:
    """Return a page of subnets, by id. ids: only these. As of one instant if they are locked."""
    rows = await tx.fetch(LIST_FREE, after or None, limit, ids)
    read = [row["subnet_id"] for row in rows]
    pools, free = await list_ranges(tx, "pool", read), await list_ranges(tx, "free_range", read)
    return [
        FreeState(**row, pools=tuple(pools.get(subnet_id, ())), free=tuple(free.get(subnet_id, ())))
        for subnet_id, row in zip(read, rows, strict=True)
    ]
