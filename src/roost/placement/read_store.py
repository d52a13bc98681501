"""SQL of the reads that the index does not answer: who holds what."""

from collections import defaultdict
from collections.abc import Sequence

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


LIST_UNKNOWN_CLASSES = """-- placement.list_unknown_classes
SELECT name FROM unnest($1::text[]) AS asked (name)
WHERE NOT EXISTS (SELECT FROM placement.resource_class r WHERE r.name = asked.name)
"""

LIST_UNKNOWN_TRAITS = """-- placement.list_unknown_traits
SELECT name FROM unnest($1::text[]) AS asked (name)
WHERE NOT EXISTS (SELECT FROM placement.trait t WHERE t.name = asked.name)
"""


async def list_unknown_classes(tx: Connection, names: Sequence[str]) -> list[str]:
    """Those of the names that no resource class has."""
    return [row[0] for row in await tx.fetch(LIST_UNKNOWN_CLASSES, names)]


async def list_unknown_traits(tx: Connection, names: Sequence[str]) -> list[str]:
    """Those of the names that no trait has."""
    return [row[0] for row in await tx.fetch(LIST_UNKNOWN_TRAITS, names)]
