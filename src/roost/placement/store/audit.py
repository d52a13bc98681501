"""SQL of the ledger's audit: what does not add up, page by page, and what puts it right under the providers' locks."""

from collections.abc import Sequence

from roost.placement.model import ProviderPlace, RootRow, StrayRow, UseRow
from roost.platform.database import Connection

LIST_PROVIDER_IDS = """-- placement.audit_provider_ids
SELECT id FROM placement.provider WHERE id > $1 ORDER BY id LIMIT $2
"""


async def list_provider_ids(tx: Connection, *, after: int, limit: int) -> list[int]:
    """Return a page of providers, in the order of their ids."""
    return [row[0] for row in await tx.fetch(LIST_PROVIDER_IDS, after, limit)]


LIST_WRONG_USES = """-- placement.audit_uses
SELECT p.id, p.uuid, p.name, r.name, i.used, coalesce(s.used, 0)
FROM placement.inventory i
JOIN placement.provider p ON p.id = i.provider_id
JOIN placement.resource_class r ON r.id = i.resource_class_id
LEFT JOIN (
    SELECT provider_id, resource_class_id, sum(used) AS used FROM placement.allocation
    WHERE provider_id > $1 AND provider_id <= $2 GROUP BY provider_id, resource_class_id
) s ON s.provider_id = i.provider_id AND s.resource_class_id = i.resource_class_id
WHERE i.provider_id > $1 AND i.provider_id <= $2 AND i.used <> coalesce(s.used, 0)
ORDER BY p.id, i.resource_class_id
"""


async def list_wrong_uses(tx: Connection, *, after: int, last: int) -> list[UseRow]:
    """Return those of providers above `after` up to `last`, as of one instant: a claim writes both sides at once."""
    return [UseRow(*row) for row in await tx.fetch(LIST_WRONG_USES, after, last)]


SUM_USES = """-- placement.sum_uses
UPDATE placement.inventory AS held SET used = coalesce(
    (SELECT sum(a.used) FROM placement.allocation a
    WHERE a.provider_id = held.provider_id AND a.resource_class_id = held.resource_class_id), 0)
WHERE held.provider_id = ANY($1::bigint[])
"""


async def sum_uses(tx: Connection, provider_ids: Sequence[int]) -> None:
    """Set the use of locked providers to the sum of their allocations."""
    await tx.execute(SUM_USES, provider_ids)


LIST_STRAYS = """-- placement.audit_strays
SELECT CASE WHEN p.id IS NULL OR c.uuid IS NULL THEN 'allocation' ELSE 'unbacked' END, a.provider_id, p.uuid, p.name,
    a.consumer_uuid, coalesce(r.name, a.resource_class_id::text)
FROM placement.allocation a
LEFT JOIN placement.provider p ON p.id = a.provider_id
LEFT JOIN placement.consumer c ON c.uuid = a.consumer_uuid
LEFT JOIN placement.inventory i ON i.provider_id = a.provider_id AND i.resource_class_id = a.resource_class_id
LEFT JOIN placement.resource_class r ON r.id = a.resource_class_id
WHERE a.provider_id > $1 AND a.provider_id <= $2 AND (p.id IS NULL OR c.uuid IS NULL OR i.provider_id IS NULL)
UNION ALL
SELECT 'inventory', i.provider_id, NULL, NULL, NULL, coalesce(r.name, i.resource_class_id::text)
FROM placement.inventory i
LEFT JOIN placement.provider p ON p.id = i.provider_id
LEFT JOIN placement.resource_class r ON r.id = i.resource_class_id
WHERE i.provider_id > $1 AND i.provider_id <= $2 AND p.id IS NULL
"""


async def list_strays(tx: Connection, *, after: int, last: int) -> list[StrayRow]:
    """Return those of providers with ids above `after` up to `last`, whether these exist or not."""
    return [StrayRow(*row) for row in await tx.fetch(LIST_STRAYS, after, last)]


DELETE_STRAY_ALLOCATIONS = """-- placement.delete_stray_allocations
DELETE FROM placement.allocation a WHERE a.provider_id = ANY($1::bigint[]) AND (
    NOT EXISTS (SELECT FROM placement.consumer c WHERE c.uuid = a.consumer_uuid)
    OR NOT EXISTS (SELECT FROM placement.provider p WHERE p.id = a.provider_id))
"""

DELETE_STRAY_ROWS = """-- placement.delete_stray_rows
WITH gone AS (
    SELECT id FROM unnest($1::bigint[]) AS w (id)
    WHERE NOT EXISTS (SELECT FROM placement.provider p WHERE p.id = w.id)
), inventories AS (DELETE FROM placement.inventory WHERE provider_id IN (SELECT id FROM gone)
), traits AS (DELETE FROM placement.provider_trait WHERE provider_id IN (SELECT id FROM gone)
), aggregates AS (DELETE FROM placement.provider_aggregate WHERE provider_id IN (SELECT id FROM gone))
SELECT id FROM gone
"""


async def delete_strays(tx: Connection, provider_ids: Sequence[int]) -> None:
    """Delete what points to no provider or no consumer; the providers are locked where they exist."""
    await tx.execute(DELETE_STRAY_ALLOCATIONS, provider_ids)
    await tx.execute(DELETE_STRAY_ROWS, provider_ids)


LIST_WRONG_ROOTS = """-- placement.audit_roots
WITH RECURSIVE tree (id, root_id) AS (
    SELECT id, id FROM placement.provider WHERE parent_id IS NULL
    UNION ALL SELECT p.id, tree.root_id FROM placement.provider p JOIN tree ON p.parent_id = tree.id
)
SELECT p.id, p.parent_id, tree.root_id, p.uuid, p.name, top.name
FROM placement.provider p JOIN tree ON tree.id = p.id JOIN placement.provider top ON top.id = tree.root_id
WHERE p.root_id <> tree.root_id ORDER BY p.id
"""


async def list_wrong_roots(tx: Connection) -> list[RootRow]:
    """Return every provider under a wrong root. Cost: a look at every provider."""
    return [RootRow(ProviderPlace(*row[:3]), *row[3:]) for row in await tx.fetch(LIST_WRONG_ROOTS)]


LIST_EMPTY_CONSUMERS = """-- placement.audit_consumers
SELECT page.uuid, NOT EXISTS (SELECT FROM placement.allocation a WHERE a.consumer_uuid = page.uuid)
FROM (SELECT uuid FROM placement.consumer WHERE $1::uuid IS NULL OR uuid > $1 ORDER BY uuid LIMIT $2) AS page
ORDER BY page.uuid
"""


async def list_consumers(tx: Connection, *, after: str, limit: int) -> list[tuple[str, bool]]:
    """Return a page of consumers by UUID, and whether each holds nothing."""
    return [(row[0], row[1]) for row in await tx.fetch(LIST_EMPTY_CONSUMERS, after or None, limit)]


DELETE_EMPTY_CONSUMERS = """-- placement.delete_empty_consumers
DELETE FROM placement.consumer c WHERE c.uuid = ANY($1::uuid[])
    AND NOT EXISTS (SELECT FROM placement.allocation a WHERE a.consumer_uuid = c.uuid)
RETURNING c.uuid
"""


async def delete_empty_consumers(tx: Connection, uuids: Sequence[str]) -> set[str]:
    """Delete those of the locked consumers that hold nothing; returns them."""
    return {row[0] for row in await tx.fetch(DELETE_EMPTY_CONSUMERS, uuids)}


LIST_NAMED = """-- placement.audit_named
SELECT uuid, name FROM placement.provider WHERE starts_with(name, $1) AND name > $2 ORDER BY name LIMIT $3
"""


async def list_named(tx: Connection, prefix: str, *, after: str, limit: int) -> dict[str, str]:
    """Return a page of the providers whose names begin so, by name: UUID -> name."""
    return {row["uuid"]: row["name"] for row in await tx.fetch(LIST_NAMED, prefix, after, limit)}
