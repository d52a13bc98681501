"""Intent rows, written before a claim, and release rows, written when a claim is to be cut down to the addresses."""

from collections.abc import Mapping, Sequence

from roost.platform.database import Connection

INSERT_INTENTS = """
-- network.insert_intents
INSERT INTO network.intent (port_id, expires_at)
SELECT id, now() + make_interval(secs => $2) FROM unnest($1::uuid[]) WITH ORDINALITY AS p (id, turn) ORDER BY turn
ON CONFLICT DO NOTHING
RETURNING port_id, ticket
"""


async def insert_intents(tx: Connection, port_ids: Sequence[str], lives_s: float) -> dict[str, int]:
    """Insert intents to claim for these ports; return port id -> ticket, without ports that have an intent already."""
    return {row["port_id"]: row["ticket"] for row in await tx.fetch(INSERT_INTENTS, port_ids, lives_s)}


DELETE_INTENTS = """
-- network.delete_intents
DELETE FROM network.intent i USING unnest($1::uuid[], $2::bigint[]) AS d (port_id, ticket)
WHERE i.port_id = d.port_id AND i.ticket = d.ticket RETURNING i.port_id
"""


async def delete_intents(tx: Connection, tickets: Mapping[str, int]) -> set[str]:
    """Delete the ports' intents with these tickets; return the ports whose intent was there. Later intents stay."""
    rows = await tx.fetch(DELETE_INTENTS, list(tickets), list(tickets.values()))
    return {row["port_id"] for row in rows}


LIST_EXPIRED_INTENTS = """
-- network.list_expired_intents
SELECT port_id, ticket FROM network.intent WHERE expires_at < now() ORDER BY port_id LIMIT $1
"""


async def list_expired_intents(tx: Connection, limit: int) -> dict[str, int]:
    """Return port id -> ticket of the intents that have expired.

    None of them is prolonged, and a later intent of the port has another ticket: to delete by ticket hits only these.
    """
    return {row["port_id"]: row["ticket"] for row in await tx.fetch(LIST_EXPIRED_INTENTS, limit)}


LIST_BUSY = """
-- network.list_busy_ports
SELECT port_id, NULL AS ticket FROM network.release WHERE port_id = ANY($1::uuid[])
UNION ALL
SELECT port_id, ticket FROM network.intent WHERE port_id = ANY($1::uuid[])
"""


async def list_busy(tx: Connection, port_ids: Sequence[str]) -> tuple[set[str], dict[str, int]]:
    """Return the ports with a release row, and port id -> the ticket of its open intent.

    While the intent is there, nobody else has claimed for the port.
    """
    rows = await tx.fetch(LIST_BUSY, port_ids)
    tickets = {row["port_id"]: row["ticket"] for row in rows if row["ticket"] is not None}
    return {row["port_id"] for row in rows if row["ticket"] is None}, tickets


INSERT_RELEASES = """
-- network.insert_releases
INSERT INTO network.release (port_id) SELECT unnest($1::uuid[])
"""


async def insert_releases(tx: Connection, port_ids: Sequence[str]) -> None:
    """Insert release rows: the claims are to be as the addresses are. This transaction locks or deletes the ports."""
    await tx.execute(INSERT_RELEASES, port_ids)


RELEASE_HANGING = """
-- network.release_hanging
INSERT INTO network.release (port_id)
SELECT c.id FROM unnest($1::uuid[]) AS c (id) LEFT JOIN network.port p ON p.id = c.id
WHERE (p.id IS NULL OR p.reserved_from IS NULL)
    AND NOT EXISTS (SELECT FROM network.intent i WHERE i.port_id = c.id)
    AND NOT EXISTS (SELECT FROM network.release r WHERE r.port_id = c.id)
RETURNING port_id
"""


async def release_hanging(tx: Connection, port_ids: Sequence[str]) -> list[str]:
    """Insert release rows for the locked ports, and for ports that do not exist; return those ports.

    Left out are ports that a server's build holds, and ports with an intent or a release row.
    """
    return [row["port_id"] for row in await tx.fetch(RELEASE_HANGING, port_ids)]


LOCK_RELEASES = """
-- network.lock_releases
SELECT id, port_id FROM network.release ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
"""

LOCK_PORT_RELEASES = """
-- network.lock_port_releases
SELECT id, port_id FROM network.release WHERE port_id = ANY($1::uuid[]) ORDER BY id FOR UPDATE
"""


async def lock_releases(tx: Connection, port_ids: Sequence[str] | None, limit: int) -> dict[int, str]:
    """Lock the ports' release rows; for None, the oldest that nobody has locked. Return row id -> port id."""
    if port_ids is None:
        rows = await tx.fetch(LOCK_RELEASES, limit)
    else:
        rows = await tx.fetch(LOCK_PORT_RELEASES, port_ids)
    return {row["id"]: row["port_id"] for row in rows}


DELETE_RELEASES = """
-- network.delete_releases
DELETE FROM network.release WHERE id = ANY($1::bigint[])
"""


async def delete_releases(tx: Connection, ids: Sequence[int]) -> None:
    """Delete release rows whose claims are released."""
    await tx.execute(DELETE_RELEASES, ids)
