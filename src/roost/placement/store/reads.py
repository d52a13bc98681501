"""SQL of the reads that the index does not answer: who holds what."""

from collections import defaultdict

from msgspec import Struct

from roost.platform.database import Connection


class HeldResources(Struct, frozen=True):
    """What a consumer holds on one provider. generation: the other side's, the provider's or the consumer's."""

    generation: int
    consumer_type: str | None
    resources: dict[str, int]


class ConsumerHead(Struct, frozen=True):
    """A consumer without what it holds."""

    generation: int
    consumer_type: str | None
    project_id: str
    user_id: str


LIST_PROVIDER_ALLOCATIONS = """-- placement.list_provider_allocations
SELECT c.uuid, c.generation, c.consumer_type, r.name, a.used
FROM placement.allocation a
JOIN placement.provider p ON p.id = a.provider_id
JOIN placement.consumer c ON c.uuid = a.consumer_uuid
JOIN placement.resource_class r ON r.id = a.resource_class_id
WHERE p.uuid = $1
"""


async def list_provider_allocations(tx: Connection, provider_uuid: str) -> dict[str, HeldResources]:
    """Consumer UUID -> what it holds there, with the consumer's generation."""
    held: dict[str, HeldResources] = {}
    for uuid, generation, consumer_type, name, used in await tx.fetch(LIST_PROVIDER_ALLOCATIONS, provider_uuid):
        held.setdefault(uuid, HeldResources(generation, consumer_type, {})).resources[name] = used
    return held


FIND_PROVIDER_GENERATION = """-- placement.find_provider_generation
SELECT generation FROM placement.provider WHERE uuid = $1
"""


async def find_provider_generation(tx: Connection, provider_uuid: str) -> int | None:
    """A provider's generation, None when there is no such provider."""
    found: int | None = await tx.fetchval(FIND_PROVIDER_GENERATION, provider_uuid)
    return found


LIST_CONSUMER_ALLOCATIONS = """-- placement.list_consumer_allocations
SELECT c.generation, c.consumer_type, c.project_id, c.user_id, p.uuid, p.generation, r.name, a.used
FROM placement.consumer c
JOIN placement.allocation a ON a.consumer_uuid = c.uuid
JOIN placement.provider p ON p.id = a.provider_id
JOIN placement.resource_class r ON r.id = a.resource_class_id
WHERE c.uuid = $1
"""


async def find_consumer(
    tx: Connection, consumer_uuid: str
) -> tuple[ConsumerHead | None, dict[str, tuple[int, dict[str, int]]]]:
    """A consumer, None when it holds nothing; by provider UUID the provider's generation and what is held there."""
    head = None
    generations: dict[str, int] = {}
    resources: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for row in await tx.fetch(LIST_CONSUMER_ALLOCATIONS, consumer_uuid):
        head = ConsumerHead(*row[:4])
        generations[row[4]] = row[5]
        resources[row[4]][row[6]] = row[7]
    return head, {uuid: (generation, resources[uuid]) for uuid, generation in generations.items()}


class TypeUsage(Struct, frozen=True):
    """What the consumers of one type hold together."""

    consumer_type: str | None
    consumers: int
    resources: dict[str, int]


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
    """What a project holds, or one user of it, by consumer type."""
    usages: dict[str | None, TypeUsage] = {}
    for consumer_type, consumers, name, used in await tx.fetch(LIST_PROJECT_USAGES, project_id, user_id):
        usages.setdefault(consumer_type, TypeUsage(consumer_type, consumers, {})).resources[name] = used
    return list(usages.values())
