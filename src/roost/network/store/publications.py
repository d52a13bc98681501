"""Which segments, and networks without segments, the ledger must still be told about; one publisher at a time."""

from collections.abc import Mapping, Sequence

from roost.platform.database import Connection

WANT = """
-- network.want_publication
INSERT INTO network.publication AS p (provider_uuid)
SELECT DISTINCT id FROM unnest($1::uuid[]) AS w (id) ORDER BY id
ON CONFLICT (provider_uuid) DO UPDATE SET wanted = p.wanted + 1
"""


async def want(tx: Connection, provider_uuids: Sequence[str]) -> None:
    """What the ledger knows of these is not true any more once this transaction is committed."""
    await tx.execute(WANT, provider_uuids)


LEASE = """
-- network.lease_publications
UPDATE network.publication p
SET lease_owner = $2, lease_until = clock_timestamp() + make_interval(secs => $3)
FROM (
    SELECT provider_uuid FROM network.publication
    WHERE ($1::uuid[] IS NULL OR provider_uuid = ANY($1)) AND wanted > published
        AND (lease_until IS NULL OR lease_until < now())
    ORDER BY provider_uuid LIMIT $4 FOR UPDATE SKIP LOCKED
) due
WHERE p.provider_uuid = due.provider_uuid
RETURNING p.provider_uuid, p.wanted
"""


async def lease(
    tx: Connection, provider_uuids: Sequence[str] | None, *, owner: str, lease_s: float, limit: int
) -> dict[str, int]:
    """Take those of the publications that are due and that nobody has (R10). Returns provider UUID -> state wanted.

    The lease runs from this statement, not from the start of the transaction: its owner takes the time before it.
    """
    rows = await tx.fetch(LEASE, provider_uuids, owner, lease_s, limit)
    return {row["provider_uuid"]: row["wanted"] for row in rows}


IS_LEASED = """
-- network.is_publication_leased
SELECT EXISTS (
    SELECT FROM network.publication WHERE provider_uuid = ANY($1::uuid[]) AND lease_until >= clock_timestamp()
)
"""


async def is_leased(tx: Connection, provider_uuids: Sequence[str]) -> bool:
    """Return whether somebody publishes one of these, whose rows are locked."""
    return bool(await tx.fetchval(IS_LEASED, provider_uuids))


LOCK = """
-- network.lock_publications
SELECT FROM network.publication WHERE provider_uuid = ANY($1::uuid[]) ORDER BY provider_uuid FOR UPDATE
"""


async def lock(tx: Connection, provider_uuids: Sequence[str]) -> None:
    """Before several statements about these, each about some of them: whoever wants them locks them by id."""
    await tx.execute(LOCK, provider_uuids)


FINISH = """
-- network.finish_publications
WITH done AS (SELECT * FROM unnest($1::uuid[], $2::bigint[]) AS d (provider_uuid, wanted))
UPDATE network.publication p
SET published = done.wanted, lease_owner = NULL, lease_until = NULL
FROM done WHERE p.provider_uuid = done.provider_uuid AND p.lease_owner = $3
RETURNING p.provider_uuid
"""

# A publisher that lost its lease may have written over what a later one said: it has to be said again.
REPEAT = """
-- network.repeat_publications
UPDATE network.publication SET wanted = wanted + 1 WHERE provider_uuid = ANY($1::uuid[])
"""


async def finish(tx: Connection, wanted: Mapping[str, int], *, owner: str) -> None:
    """The ledger knows this state of these."""
    rows = await tx.fetch(FINISH, list(wanted), list(wanted.values()), owner)
    lost = set(wanted) - {row["provider_uuid"] for row in rows}
    await tx.execute(REPEAT, list(lost))


GIVE_UP = """
-- network.give_up_publications
UPDATE network.publication p SET lease_owner = NULL, lease_until = NULL
FROM (SELECT provider_uuid FROM network.publication WHERE lease_owner = $1 ORDER BY provider_uuid FOR UPDATE) mine
WHERE p.provider_uuid = mine.provider_uuid
"""


async def give_up(tx: Connection, *, owner: str) -> None:
    """What the owner still has is to be published by whoever comes next."""
    await tx.execute(GIVE_UP, owner)


FORGET = """
-- network.forget_publications
DELETE FROM network.publication WHERE provider_uuid = ANY($1::uuid[]) AND wanted = published
"""


async def forget(tx: Connection, provider_uuids: Sequence[str]) -> None:
    """Nothing stands behind these any more, and the ledger knows it."""
    await tx.execute(FORGET, provider_uuids)


LIST_DUE = """
-- network.list_due_publications
SELECT provider_uuid FROM network.publication
WHERE ($1::uuid[] IS NULL OR provider_uuid = ANY($1)) AND wanted > published
"""


async def list_due(tx: Connection, provider_uuids: Sequence[str] | None = None) -> set[str]:
    """Those of the providers, or of all, that the ledger must still be told about."""
    return {row["provider_uuid"] for row in await tx.fetch(LIST_DUE, provider_uuids)}
