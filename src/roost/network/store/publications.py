"""Which segments, and networks without segments, the ledger must still be told about; one publisher at a time."""

from collections.abc import Mapping, Sequence

from roost.platform.database import Connection

WANT = """
-- network.want_publication
INSERT INTO network.publication AS p (provider_uuid)
SELECT DISTINCT id FROM unnest($1::uuid[]) AS w (id) ORDER BY id
ON CONFLICT (provider_uuid) DO UPDATE SET wanted = p.wanted + 1
RETURNING lease_until >= clock_timestamp() AS is_leased
"""


async def want(tx: Connection, provider_uuids: Sequence[str]) -> bool:
    """Record that these must be published: this transaction makes the ledger's state of them wrong.

    Locks their rows. Return whether one of them is leased.
    """
    return any(row["is_leased"] for row in await tx.fetch(WANT, provider_uuids))


LEASE = """
-- network.lease_publications
UPDATE network.publication p
SET lease_owner = $2, lease_until = clock_timestamp() + make_interval(secs => $3)
FROM (
    SELECT provider_uuid FROM network.publication
    WHERE provider_uuid = ANY($1::uuid[]) AND wanted > published AND (lease_until IS NULL OR lease_until < now())
    ORDER BY provider_uuid LIMIT $4 FOR UPDATE SKIP LOCKED
) due
WHERE p.provider_uuid = due.provider_uuid
RETURNING p.provider_uuid, p.wanted
"""


async def lease(
    tx: Connection, provider_uuids: Sequence[str], *, owner: str, lease_s: float, limit: int
) -> dict[str, int]:
    """Lease those of the due publications that nobody has leased (R10); return provider UUID -> the state wanted.

    The lease runs from this statement, not from the start of the transaction: its owner reads its clock before it.
    """
    rows = await tx.fetch(LEASE, provider_uuids, owner, lease_s, limit)
    return {row["provider_uuid"]: row["wanted"] for row in rows}


# A publisher that lost its lease may have written over what a later one said: it has to be said again.
FINISH = """
-- network.finish_publications
UPDATE network.publication p
SET published = CASE WHEN p.lease_owner = $3 THEN done.state ELSE p.published END,
    wanted = CASE WHEN p.lease_owner = $3 THEN p.wanted ELSE p.wanted + 1 END,
    lease_owner = nullif(p.lease_owner, $3),
    lease_until = CASE WHEN p.lease_owner = $3 THEN NULL ELSE p.lease_until END
FROM (
    SELECT provider_uuid, state FROM network.publication AS locked
    JOIN unnest($1::uuid[], $2::bigint[]) AS d (provider_uuid, state) USING (provider_uuid)
    ORDER BY provider_uuid FOR UPDATE OF locked
) done
WHERE p.provider_uuid = done.provider_uuid
"""


async def finish(tx: Connection, states: Mapping[str, int], *, owner: str) -> None:
    """Record which state of each is published, and end the leases; 0 for one that is still to be published.

    One whose lease was lost is published again (R10).
    """
    await tx.execute(FINISH, list(states), list(states.values()), owner)


FORGET = """
-- network.forget_publications
DELETE FROM network.publication p WHERE provider_uuid = ANY($1::uuid[]) AND wanted = published
    AND NOT EXISTS (SELECT FROM network.subnet s WHERE s.provider_uuid = p.provider_uuid)
"""


async def forget(tx: Connection, provider_uuids: Sequence[str]) -> None:
    """Delete the publications of providers that have no subnet any more, once the ledger has been told so."""
    await tx.execute(FORGET, provider_uuids)


LIST_DUE = """
-- network.list_due_publications
SELECT provider_uuid FROM network.publication
WHERE ($1::uuid[] IS NULL OR provider_uuid = ANY($1)) AND wanted > published
"""


async def list_due(tx: Connection, provider_uuids: Sequence[str] | None = None) -> set[str]:
    """Return the providers that must still be published: of these, or of all."""
    return {row["provider_uuid"] for row in await tx.fetch(LIST_DUE, provider_uuids)}
