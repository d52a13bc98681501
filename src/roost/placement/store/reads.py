"""SQL of reads that the index does not answer: a provider's generation, and what a project holds."""

from roost.placement.model import TypeUsage
from roost.platform.database import Connection

FIND_PROVIDER_GENERATION = """-- placement.find_provider_generation
SELECT generation FROM placement.provider WHERE uuid = $1
"""


async def find_provider_generation(tx: Connection, provider_uuid: str) -> int | None:
    """Return a provider's generation, None when there is no such provider."""
    generation: int | None = await tx.fetchval(FIND_PROVIDER_GENERATION, provider_uuid)
    return generation


LIST_PROJECT_USAGES = """-- placement.list_project_usages
WITH held AS (
    SELECT c.consumer_type, c.uuid, a.resource_class_id, a.used
    FROM placement.consumer c JOIN placement.allocation a ON a.consumer_uuid = c.uuid
    WHERE c.project_id = $1 AND ($2::text IS NULL OR c.user_id = $2)
), counted AS (
    SELECT consumer_type, count(DISTINCT uuid) AS consumers FROM held GROUP BY consumer_type
)
SELECT held.consumer_type, counted.consumers, r.name, sum(held.used)::bigint
FROM held
JOIN counted ON counted.consumer_type IS NOT DISTINCT FROM held.consumer_type
JOIN placement.resource_class r ON r.id = held.resource_class_id
GROUP BY held.consumer_type, counted.consumers, r.id, r.name ORDER BY held.consumer_type, r.id
"""


async def list_project_usages(tx: Connection, project_id: str, user_id: str | None) -> list[TypeUsage]:
    """Return what a project holds, or one user of it, by consumer type."""
    usages: dict[str | None, TypeUsage] = {}
    for consumer_type, consumers, name, used in await tx.fetch(LIST_PROJECT_USAGES, project_id, user_id):
        usages.setdefault(consumer_type, TypeUsage(consumer_type, consumers, {})).resources[name] = used
    return list(usages.values())
