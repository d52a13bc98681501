"""SQL of what Neutron tells the ledger: networks of segments, and who claims their addresses."""

from collections.abc import Collection, Mapping, Sequence

from roost.placement.model import AddressClaim
from roost.platform.database import Connection

LIST_ADDRESS_CLAIMS = """-- placement.list_address_claims
SELECT c.uuid, CASE WHEN c.consumer_type = 'PORT' THEN c.user_id ELSE '' END, c.generation, p.uuid, a.used,
    greatest(extract(epoch FROM now() - c.updated_at), 0)::float8
FROM placement.allocation a
JOIN placement.provider p ON p.id = a.provider_id
JOIN placement.consumer c ON c.uuid = a.consumer_uuid
WHERE p.uuid = ANY($1::uuid[]) AND a.resource_class_id = $2
"""


async def list_address_claims(
    tx: Connection, segment_uuids: Sequence[str], *, resource_class_id: int
) -> list[AddressClaim]:
    """Return who claims addresses of these segments."""
    return [
        AddressClaim(
            consumer_uuid=uuid, server_uuid=server_uuid, generation=generation, segment_uuid=segment_uuid,
            amount=amount, age_s=age_s,
        )
        for uuid, server_uuid, generation, segment_uuid, amount, age_s in await tx.fetch(
            LIST_ADDRESS_CLAIMS, segment_uuids, resource_class_id
        )
    ]  # fmt: skip


LIST_KNOWN_SEGMENTS = """-- placement.list_known_segments
SELECT uuid FROM placement.provider WHERE network_id IS NOT NULL
"""


async def list_known_segments(tx: Connection) -> set[str]:
    """Return the UUIDs of the providers that a round knew as segments of a network. Cost: reads all providers."""
    return {uuid for (uuid,) in await tx.fetch(LIST_KNOWN_SEGMENTS)}


SET_NETWORKS = """-- placement.set_networks
WITH change AS (INSERT INTO placement.change (reshaped, provider_ids) VALUES (true, $1::bigint[]))
UPDATE placement.provider AS held SET network_id = new.network_id
FROM unnest($1::bigint[], $2::uuid[]) AS new (id, network_id) WHERE held.id = new.id
"""


async def set_networks(tx: Connection, network_by_provider_id: Mapping[int, str]) -> None:
    """Write of which networks locked providers are segments."""
    await tx.execute(SET_NETWORKS, list(network_by_provider_id), list(network_by_provider_id.values()))


LEAVE_NETWORK = """-- placement.leave_network
WITH gone AS (
    UPDATE placement.provider SET network_id = NULL
    WHERE id = $1 AND NOT EXISTS (SELECT FROM placement.allocation WHERE provider_id = $1) RETURNING id
), change AS (
    INSERT INTO placement.change (reshaped, provider_ids) SELECT true, array_agg(id) FROM gone HAVING count(*) > 0
)
SELECT count(*) FROM gone
"""


async def leave_network(tx: Connection, provider_id: int) -> bool:
    """Write that a locked provider is of no network; return False, and change nothing, while something is claimed."""
    return bool(await tx.fetchval(LEAVE_NETWORK, provider_id))


LOCK_POLL = """-- placement.lock_poll
SELECT pg_try_advisory_lock(5931046453580398595)
"""


async def lock_poll(connection: Connection) -> bool:
    """Take the lock of the one process that polls, until the connection ends; returns whether it is ours."""
    return bool(await connection.fetchval(LOCK_POLL))


UNLOCK_POLL = """-- placement.unlock_poll
SELECT pg_advisory_unlock(5931046453580398595)
"""


async def unlock_poll(connection: Connection) -> None:
    """Release the lock, so that another process polls."""
    await connection.execute(UNLOCK_POLL)


SET_FIGURES = """-- placement.set_neutron_figures
INSERT INTO placement.neutron_figures AS kept (figures, ended_at) VALUES ($1::text::jsonb, clock_timestamp())
ON CONFLICT (single) DO UPDATE SET ended_at = excluded.ended_at,
    figures = CASE WHEN kept.figures = excluded.figures THEN kept.figures ELSE excluded.figures END
"""


async def set_figures(connection: Connection, figures: str) -> None:
    """Keep the figures of a round that ends now, a JSON document; a long one is not written where it is as before."""
    await connection.execute(SET_FIGURES, figures)


CHANGE_FIGURES = """-- placement.change_neutron_figures
INSERT INTO placement.neutron_figures (figures) VALUES ($1::text::jsonb)
ON CONFLICT (single) DO UPDATE SET figures = excluded.figures
"""


async def change_figures(connection: Connection, figures: str) -> None:
    """Keep other figures, a JSON document, without saying that a round has ended."""
    await connection.execute(CHANGE_FIGURES, figures)


GET_FIGURES = """-- placement.get_neutron_figures
SELECT figures::text,
    CASE WHEN ended_at IS NOT NULL THEN greatest(extract(epoch FROM clock_timestamp() - ended_at), 0)::float8 END
FROM placement.neutron_figures
"""


async def get_figures(connection: Connection) -> tuple[str, float | None] | None:
    """Return the last round's figures, and how many seconds ago it ended; None before the first.

    The seconds are None where none has ended, or a release polls that does not write when.
    """
    row = await connection.fetchrow(GET_FIGURES)
    return None if row is None else (row[0], row[1])


NOTE_SEARCHES = """-- placement.note_searches
INSERT INTO placement.searches_seen (names_segments, seen_at) SELECT kind, now() FROM unnest($1::boolean[]) AS kind
ON CONFLICT (names_segments) DO UPDATE SET seen_at = excluded.seen_at
"""


async def note_searches(connection: Connection, kinds: Collection[bool]) -> None:
    """Keep that searches were seen just now. kinds: whether they name segments; both, where both were seen."""
    await connection.execute(NOTE_SEARCHES, sorted(kinds))


LIST_SEARCHES = """-- placement.list_searches_seen
SELECT names_segments, greatest(extract(epoch FROM clock_timestamp() - seen_at), 0)::float8
FROM placement.searches_seen
"""


async def list_searches_seen(connection: Connection) -> dict[bool, float]:
    """Return for searches that name segments, and those that do not, how many seconds ago one was seen; none: never."""
    return {row[0]: row[1] for row in await connection.fetch(LIST_SEARCHES)}
