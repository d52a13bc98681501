"""SQL of single providers: make, name, move in a tree, and delete one."""

from collections.abc import Iterable, Sequence

import asyncpg

from roost.placement.errors import ProviderNameTaken
from roost.placement.model import ProviderHead, ProviderPlace
from roost.platform.database import Connection

FIND_HEAD = """-- placement.find_head
SELECT p.uuid, p.name, p.generation, parent.uuid, root.uuid
FROM placement.provider p
JOIN placement.provider root ON root.id = p.root_id
LEFT JOIN placement.provider parent ON parent.id = p.parent_id
WHERE p.uuid = $1
"""

LOCK_NAMES = """-- placement.lock_names
SELECT pg_advisory_xact_lock(5931046453580398594)
"""

LOCK_NAMES_SHARED = """-- placement.lock_names_shared
SELECT pg_advisory_xact_lock_shared(5931046453580398594)
"""

LOCK_PARENT = """-- placement.lock_parent
SELECT id, root_id FROM placement.provider WHERE uuid = $1 FOR SHARE
"""

INSERT_PROVIDER = """-- placement.insert_provider
INSERT INTO placement.provider (uuid, name, parent_id, root_id) VALUES ($1, $2, $3, $4) RETURNING id
"""

ROOT_PROVIDER = """-- placement.root_provider
UPDATE placement.provider SET root_id = id WHERE id = $1
"""


async def find_head(tx: Connection, uuid: str) -> ProviderHead | None:
    """A provider as it is now."""
    row = await tx.fetchrow(FIND_HEAD, uuid)
    return None if row is None else ProviderHead._make(row)


async def lock_names(tx: Connection, *, shared: bool = False) -> None:
    """Before providers get names or places: before any of them, or a consumer, is locked.

    Who takes several names waits for one with another in hand, and the places of a tree change together: such writers
    are alone. shared: who makes one provider, and waits for nothing once it has its name.
    """
    await tx.execute(LOCK_NAMES_SHARED if shared else LOCK_NAMES)


async def lock_parent(tx: Connection, uuid: str) -> tuple[int, int] | None:
    """(id, root id) of a provider that stays where it is until the transaction ends."""
    row = await tx.fetchrow(LOCK_PARENT, uuid)
    return None if row is None else (row[0], row[1])


async def insert_provider(tx: Connection, uuid: str, name: str, parent: tuple[int, int] | None) -> int:
    """Insert a provider below a locked parent, or as a root, and return its id. Raises ProviderNameTaken."""
    parent_id, root_id = parent or (None, 0)
    try:
        provider_id: int = await tx.fetchval(INSERT_PROVIDER, uuid, name, parent_id, root_id)
    except asyncpg.UniqueViolationError as error:
        what = f"name: {name}" if "name" in (error.constraint_name or "") else f"uuid: {uuid}"
        raise ProviderNameTaken(f"Conflicting resource provider {what} already exists.") from error
    if parent is None:
        await tx.execute(ROOT_PROVIDER, provider_id)
    return provider_id


LIST_TREES = """-- placement.list_trees
SELECT id, uuid, parent_id, root_id FROM placement.provider
WHERE root_id IN (SELECT root_id FROM placement.provider WHERE uuid = ANY($1::uuid[]))
ORDER BY id FOR NO KEY UPDATE
"""


async def lock_trees(tx: Connection, uuids: Sequence[str]) -> dict[str, ProviderPlace]:
    """Lock every provider of the trees of these providers: uuid -> place. With lock_names: no tree grows meanwhile."""
    rows = await tx.fetch(LIST_TREES, uuids)
    return {row[1]: ProviderPlace(row[0], row[2], row[3]) for row in rows}


UPDATE_NAME = """-- placement.update_name
UPDATE placement.provider SET name = $2, updated_at = now() WHERE id = $1
"""

UPDATE_PLACES = """-- placement.update_places
UPDATE placement.provider AS held SET parent_id = new.parent_id, root_id = new.root_id, updated_at = now()
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS new (id, parent_id, root_id) WHERE held.id = new.id
"""


async def update_name(tx: Connection, provider_id: int, name: str) -> None:
    """Rename a locked provider. Raises ProviderNameTaken."""
    try:
        await tx.execute(UPDATE_NAME, provider_id, name)
    except asyncpg.UniqueViolationError as error:
        raise ProviderNameTaken(f"Conflicting resource provider {name} already exists.") from error


async def update_places(tx: Connection, places: Iterable[ProviderPlace]) -> None:
    """Move locked providers."""
    await tx.execute(UPDATE_PLACES, *(list(column) for column in zip(*places, strict=True)))


HAS_CHILDREN = """-- placement.has_children
SELECT EXISTS (SELECT FROM placement.provider WHERE parent_id = $1)
"""

HAS_ALLOCATIONS = """-- placement.has_allocations
SELECT EXISTS (SELECT FROM placement.allocation WHERE provider_id = $1)
"""


async def has_children(tx: Connection, provider_id: int) -> bool:
    """Whether a provider is the parent of others."""
    found: bool = await tx.fetchval(HAS_CHILDREN, provider_id)
    return found


async def has_allocations(tx: Connection, provider_id: int) -> bool:
    """Whether somebody holds something of a provider."""
    found: bool = await tx.fetchval(HAS_ALLOCATIONS, provider_id)
    return found
