"""SQL of hidden ports that list, and so hold, what guests have and no server's port.

They are those of guests that the records do not know, until servers adopt them, and of NICs that servers have lost.
"""
# ruff: noqa: S608 - what is put into a statement are constants of the store.

from collections.abc import Collection, Sequence
from datetime import datetime

from roost.network.model.unknown_guests import AdoptedPort, LeftNic, Place
from roost.network.store.addresses import HOLDING, OF_UNKNOWN_GUEST
from roost.platform.database import Connection
from roost.platform.grouping import grouped
from roost.platform.rows import columns_of, read_row

LIST_PLACES = f"""
-- network.list_listed_places
WITH listed AS (SELECT network_id, address FROM unnest($1::uuid[], $2::inet[]) AS l (network_id, address)),
places AS (
    SELECT l.address, s.id FROM listed l
    JOIN network.subnet s ON s.network_id = l.network_id AND l.address <<= s.cidr
    UNION
    SELECT l.address, s.id FROM listed l JOIN network.subnet s ON l.address <<= s.cidr WHERE l.network_id IS NULL
)
SELECT l.address, s.id AS subnet_id, s.network_id, s.provider_uuid, s.cell,
    coalesce(g.physical_network, CASE WHEN s.segment_id IS NULL THEN n.physical_network END) AS physical_network,
    p.id AS port_id, coalesce(nullif(p.device_id, ''), p.made_for::text, '') AS server_id, p.host,
    coalesce({OF_UNKNOWN_GUEST}, false) AS of_unknown_guest
FROM places l
JOIN network.subnet s ON s.id = l.id
JOIN network.network n ON n.id = s.network_id
LEFT JOIN network.segment g ON g.id = s.segment_id
LEFT JOIN network.address a ON a.subnet_id = s.id AND a.address = l.address
LEFT JOIN network.port p ON p.id = a.port_id
ORDER BY l.address, s.id
"""


async def list_places(tx: Connection, pairs: Sequence[tuple[str | None, str]]) -> dict[str, list[Place]]:
    """Return address -> its places. pairs: (network id, address); the id is None for any network."""
    rows = await tx.fetch(LIST_PLACES, *columns_of(pairs, 2))
    return grouped((row["address"], Place(**row)) for row in rows)


LIST_HELD_PORTS = f"""
-- network.list_held_ports
SELECT p.host, p.id, l.subnet_id, l.address, EXISTS (
    SELECT FROM network.address a WHERE a.subnet_id = l.subnet_id AND a.address = l.address AND a.port_id = p.id
) AS has
FROM network.port p LEFT JOIN network.listed_address l ON l.port_id = p.id
WHERE {OF_UNKNOWN_GUEST} AND ($1::text[] IS NULL OR p.host = ANY($1)) ORDER BY p.id
"""


async def list_listed(tx: Connection, hosts: Sequence[str] | None) -> dict[str, dict[str, dict[tuple[str, str], bool]]]:
    """Return host -> hidden port -> each (subnet id, address) that its guest lists -> whether the port has it.

    hosts: None for all.
    """
    listed: dict[str, dict[str, dict[tuple[str, str], bool]]] = {}
    for host, port_id, subnet_id, address, has in await tx.fetch(LIST_HELD_PORTS, hosts):
        pairs = listed.setdefault(host, {}).setdefault(port_id, {})
        if address is not None:
            pairs[subnet_id, address] = has
    return listed


SET_LISTED = """
-- network.set_listed_addresses
WITH listed AS (
    SELECT * FROM unnest($2::uuid[], $3::inet[], $4::uuid[]) AS w (subnet_id, address, port_id)
), dropped AS (
    DELETE FROM network.listed_address l WHERE l.port_id = ANY($1::uuid[])
        AND (l.subnet_id, l.address, l.port_id) NOT IN (SELECT subnet_id, address, port_id FROM listed)
)
INSERT INTO network.listed_address (subnet_id, address, port_id)
SELECT subnet_id, address, port_id FROM listed ON CONFLICT DO NOTHING
"""


async def set_listed(tx: Connection, port_ids: Collection[str], listed: Sequence[tuple[str, str, str]]) -> None:
    """Write what the guests of these hidden ports list: (subnet id, address, port id), in locked subnets."""
    await tx.execute(SET_LISTED, list(port_ids), *columns_of(listed, 3))


NOTE_AS_OF = """
-- network.note_guests_as_of
WITH noted AS (
    UPDATE network.host SET guests_as_of = $2 WHERE name = $1 AND coalesce(guests_as_of <= $2, true) RETURNING name
)
SELECT EXISTS (SELECT FROM noted) OR NOT EXISTS (SELECT FROM network.host WHERE name = $1)
"""


async def is_newest(tx: Connection, host: str, as_of: datetime) -> bool:
    """Note `as_of` of the host, and so lock it; return False where something later is known of its guests (R46).

    An unknown host has nothing later.
    """
    return bool(await tx.fetchval(NOTE_AS_OF, host, as_of))


COUNT_HELD = f"""
-- network.count_held_by_unknown_guests
SELECT s.network_id, count(*) AS amount
FROM network.port p JOIN network.address a ON a.port_id = p.id JOIN network.subnet s ON s.id = a.subnet_id
WHERE {OF_UNKNOWN_GUEST} AND a.in_pool AND s.network_id = ANY($1::uuid[]) GROUP BY s.network_id
"""


async def count_held(tx: Connection, network_ids: Sequence[str]) -> dict[str, int]:
    """Return network id -> how many addresses of its pools unknown guests hold; networks without any are left out.

    What all ports hold is counted by store/addresses.py.
    """
    return {row["network_id"]: row["amount"] for row in await tx.fetch(COUNT_HELD, network_ids)}


# While a notice stands, compute has not asked the guest's host for its NICs.
LIST_LEFT = f"""
-- network.list_left_ports
SELECT p.id AS port_id, p.made_for AS server_id, p.host,
    ARRAY(SELECT l.subnet_id FROM network.listed_address l WHERE l.port_id = p.id) AS subnet_ids
FROM network.port p WHERE {HOLDING} AND p.left_at IS NOT NULL AND ($1::uuid[] IS NULL OR p.made_for = ANY($1))
    AND NOT EXISTS (SELECT FROM network.notice n WHERE n.server_id = p.made_for)
ORDER BY p.left_at, p.id
"""


async def list_left(tx: Connection, server_ids: Sequence[str] | None) -> list[LeftNic]:
    """Return the NICs that guests of these servers may still have. server_ids: None for all.

    A server is left out while compute has a notice of it to receive.
    """
    return [read_row(LeftNic, row) for row in await tx.fetch(LIST_LEFT, server_ids)]


LIST_PLUGGED = """
-- network.list_plugged_ports
SELECT a.port_id, p.made_for AS server_id, p.host
FROM network.address a JOIN network.listed_address l USING (subnet_id, address) JOIN network.port p ON p.id = l.port_id
WHERE a.port_id = ANY($1::uuid[]) AND p.left_at IS NOT NULL
"""


async def list_plugged(tx: Connection, port_ids: Sequence[str]) -> list[LeftNic]:
    """Return the NICs that servers lost and whose guests may still have addresses of these ports."""
    return [LeftNic(**row) for row in await tx.fetch(LIST_PLUGGED, port_ids)]


ADOPT_PORTS = """
-- network.adopt_ports
WITH known AS (DELETE FROM network.listed_address WHERE port_id = ANY($1::uuid[]))
UPDATE network.port p
SET id = n.id, project_id = $5, device_id = $6, device_owner = $7, nic_tag = n.nic_tag, revision = revision + 1,
    made_for = CASE WHEN n.made THEN p.made_for END,
    ip_allocation = CASE WHEN n.made THEN 'deferred' ELSE 'immediate' END, updated_at = now()
FROM unnest($1::uuid[], $2::uuid[], $3::boolean[], $4::text[]) AS n (hidden_id, id, made, nic_tag)
WHERE p.id = n.hidden_id
"""


async def adopt(
    tx: Connection, adopted: Sequence[AdoptedPort], *, project_id: str, server_id: str, device_owner: str
) -> None:
    """Make these locked hidden ports the server's. Their addresses have the ports' old ids still."""
    columns = columns_of([(port.hidden_id, port.id, port.made_by_roost, port.nic_tag) for port in adopted], 4)
    await tx.execute(ADOPT_PORTS, *columns, project_id, server_id, device_owner)
