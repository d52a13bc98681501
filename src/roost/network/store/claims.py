"""Intent rows, written before a claim, and release rows, written when one is to be made equal to the addresses."""

from collections.abc import Sequence

from roost.platform.database import Connection

INSERT_INTENT = """
-- network.insert_intent
INSERT INTO network.intent (port_id, expires_at)
VALUES ($1, now() + make_interval(secs => $2))
ON CONFLICT DO NOTHING
RETURNING ticket
"""


async def insert_intent(tx: Connection, port_id: str, lives_s: float) -> int | None:
    """Somebody is about to claim for the port; returns the ticket, None when somebody else is already."""
    ticket: int | None = await tx.fetchval(INSERT_INTENT, port_id, lives_s)
    return ticket


LIST_TICKETS = """
-- network.list_tickets
SELECT port_id, ticket FROM network.intent WHERE port_id = ANY($1::uuid[])
"""


async def list_tickets(tx: Connection, port_ids: Sequence[str]) -> dict[str, int]:
    """Return the tickets of the ports' open intents: while one is there, nobody else has claimed for its port."""
    return {row["port_id"]: row["ticket"] for row in await tx.fetch(LIST_TICKETS, port_ids)}


DELETE_INTENT = """
-- network.delete_intent
DELETE FROM network.intent WHERE port_id = $1 AND ticket = $2 RETURNING port_id
"""


async def delete_intent(tx: Connection, port_id: str, ticket: int) -> bool:
    """Whether it was there still; another's of the same port stays."""
    return await tx.fetchval(DELETE_INTENT, port_id, ticket) is not None


INSERT_INTENTS = """
-- network.insert_intents
INSERT INTO network.intent (port_id, expires_at)
SELECT unnest($1::uuid[]), now() + make_interval(secs => $2)
"""


async def insert_intents(tx: Connection, port_ids: Sequence[str], lives_s: float) -> None:
    """Somebody is about to claim for these ports, which do not exist yet."""
    if port_ids:
        await tx.execute(INSERT_INTENTS, port_ids, lives_s)


DELETE_INTENTS = """
-- network.delete_intents
DELETE FROM network.intent WHERE port_id = ANY($1::uuid[]) RETURNING port_id
"""


async def delete_intents(tx: Connection, port_ids: Sequence[str]) -> set[str]:
    """The same for new ports, which nobody else has an intent for. Returns those whose intent was still there."""
    return {row["port_id"] for row in await tx.fetch(DELETE_INTENTS, port_ids)}


LIST_EXPIRED_INTENTS = """
-- network.list_expired_intents
SELECT port_id FROM network.intent WHERE expires_at < now() ORDER BY port_id LIMIT $1
"""


async def list_expired_intents(tx: Connection, limit: int) -> list[str]:
    """Ports for which somebody was about to claim and then did not come back."""
    return [row["port_id"] for row in await tx.fetch(LIST_EXPIRED_INTENTS, limit)]


DELETE_EXPIRED_INTENTS = """
-- network.delete_expired_intents
DELETE FROM network.intent WHERE port_id = ANY($1::uuid[]) AND expires_at < now() RETURNING port_id
"""


async def delete_expired_intents(tx: Connection, port_ids: Sequence[str]) -> list[str]:
    """Those of the intents that are still expired vanish; the ports are locked."""
    return [row["port_id"] for row in await tx.fetch(DELETE_EXPIRED_INTENTS, port_ids)]


LIST_BUSY = """
-- network.list_busy_ports
SELECT port_id, true AS releasing FROM network.release WHERE port_id = ANY($1::uuid[])
UNION ALL
SELECT port_id, false FROM network.intent WHERE port_id = ANY($1::uuid[])
"""


async def list_busy(tx: Connection, port_ids: Sequence[str]) -> tuple[set[str], set[str]]:
    """The ports whose claim is still being given back, and those for which somebody is about to claim."""
    rows = await tx.fetch(LIST_BUSY, port_ids)
    releasing = {row["port_id"] for row in rows if row["releasing"]}
    return releasing, {row["port_id"] for row in rows if not row["releasing"]}


INSERT_RELEASES = """
-- network.insert_releases
INSERT INTO network.release (port_id) SELECT unnest($1::uuid[])
"""


async def insert_releases(tx: Connection, port_ids: Sequence[str]) -> None:
    """The ports' claims are to be as their addresses are; the ports are locked or deleted by this transaction."""
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
    """Record for release what these ports hold in the ledger beyond their addresses; the ports are locked.

    One that does not exist needs nothing unless somebody is about to make it; one that a server's build holds, and one
    that somebody is about to claim for is left alone. Returns the ports concerned.
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
    """Release rows, id -> port: those of the ports, after whoever has them; or the oldest that nobody has."""
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
    """The claims are given back."""
    await tx.execute(DELETE_RELEASES, ids)
