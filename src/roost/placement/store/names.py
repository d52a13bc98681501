"""SQL of resource classes and traits: the names that inventories and providers use."""

from collections.abc import Sequence

import asyncpg

from roost.platform.database import Connection

LIST_CLASS_IDS = """-- placement.list_class_ids
SELECT name, id FROM placement.resource_class WHERE name = ANY($1::text[])
"""

LIST_RESOURCE_CLASSES = """-- placement.list_resource_classes
SELECT name FROM placement.resource_class ORDER BY id
"""

INSERT_RESOURCE_CLASSES = """-- placement.insert_resource_classes
INSERT INTO placement.resource_class (name)
SELECT name FROM unnest($1::text[]) WITH ORDINALITY AS new (name, number)
WHERE NOT EXISTS (SELECT FROM placement.resource_class held WHERE held.name = new.name)
ORDER BY number ON CONFLICT DO NOTHING RETURNING name
"""

RENAME_RESOURCE_CLASS = """-- placement.rename_resource_class
UPDATE placement.resource_class SET name = $2 WHERE name = $1 RETURNING id
"""

LIST_CLASS_PROVIDERS = """-- placement.list_class_providers
SELECT DISTINCT provider_id FROM placement.inventory WHERE resource_class_id = $1
"""

LOCK_CLASS_NAMES = """-- placement.lock_class_names
SELECT pg_advisory_xact_lock(5931046453580398593)
"""

LOCK_CLASS_NAMES_SHARED = """-- placement.lock_class_names_shared
SELECT pg_advisory_xact_lock_shared(5931046453580398593)
"""

LOCK_CLASS = """-- placement.lock_class
SELECT id FROM placement.resource_class WHERE name = $1 FOR UPDATE
"""

LOCK_CLASSES_SHARED = """-- placement.lock_classes_shared
SELECT name, id FROM placement.resource_class WHERE name = ANY($1::text[]) ORDER BY id FOR KEY SHARE
"""

DELETE_CLASS = """-- placement.delete_class
DELETE FROM placement.resource_class WHERE id = $1
"""


async def list_class_ids(tx: Connection, names: Sequence[str]) -> dict[str, int]:
    """Those of the resource classes that exist: name -> id."""
    return {row[0]: row[1] for row in await tx.fetch(LIST_CLASS_IDS, names)}


async def lock_class_ids(tx: Connection, names: Sequence[str]) -> dict[str, int]:
    """Those of the resource classes that exist, name -> id; none of them is deleted before this transaction ends."""
    return {row[0]: row[1] for row in await tx.fetch(LOCK_CLASSES_SHARED, names)}


async def list_resource_classes(tx: Connection) -> list[str]:
    """Every resource class, the standard ones in their own order first."""
    return [row[0] for row in await tx.fetch(LIST_RESOURCE_CLASSES)]


async def insert_resource_classes(tx: Connection, names: Sequence[str]) -> list[str]:
    """Add those that are missing, and return them."""
    return [row[0] for row in await tx.fetch(INSERT_RESOURCE_CLASSES, names)]


async def lock_class_names(tx: Connection, *, shared: bool = False) -> None:
    """Before a resource class is renamed, or, shared, before several are made: first of all that a transaction locks.

    Whoever renames waits for the new name with the old one in hand; somebody who makes the one and then uses the other
    would wait for that in turn.
    """
    await tx.execute(LOCK_CLASS_NAMES_SHARED if shared else LOCK_CLASS_NAMES)


async def rename_resource_class(tx: Connection, name: str, new_name: str) -> int | None:
    """Give a resource class another name. Returns its id, None if there is none or if the other name is taken."""
    try:
        found: int | None = await tx.fetchval(RENAME_RESOURCE_CLASS, name, new_name)
    except asyncpg.UniqueViolationError:
        return None
    return found


async def list_class_providers(tx: Connection, class_id: int) -> list[int]:
    """The providers with inventory of a resource class."""
    return [row[0] for row in await tx.fetch(LIST_CLASS_PROVIDERS, class_id)]


async def lock_class(tx: Connection, name: str) -> int | None:
    """Keep others from using a resource class for new inventory until this transaction ends. Returns its id."""
    found: int | None = await tx.fetchval(LOCK_CLASS, name)
    return found


async def delete_class(tx: Connection, class_id: int) -> None:
    """Delete a locked resource class."""
    await tx.execute(DELETE_CLASS, class_id)


LIST_TRAIT_IDS = """-- placement.list_trait_ids
SELECT name, id FROM placement.trait WHERE name = ANY($1::text[])
"""

LOCK_TRAITS_SHARED = """-- placement.lock_traits_shared
SELECT name, id FROM placement.trait WHERE name = ANY($1::text[]) ORDER BY id FOR KEY SHARE
"""

LIST_TRAITS = """-- placement.list_traits
SELECT t.name FROM placement.trait t
WHERE ($1::text[] IS NULL OR t.name = ANY($1::text[])) AND ($2::text IS NULL OR starts_with(t.name, $2))
    AND ($3::boolean IS NULL
        OR $3 = EXISTS (SELECT FROM placement.provider_trait held WHERE held.trait_id = t.id))
ORDER BY t.id
"""

INSERT_TRAITS = """-- placement.insert_traits
INSERT INTO placement.trait (name)
SELECT name FROM unnest($1::text[]) WITH ORDINALITY AS new (name, number)
WHERE NOT EXISTS (SELECT FROM placement.trait held WHERE held.name = new.name)
ORDER BY number ON CONFLICT DO NOTHING RETURNING name
"""

LOCK_TRAIT = """-- placement.lock_trait
SELECT id FROM placement.trait WHERE name = $1 FOR UPDATE
"""

IS_TRAIT_USED = """-- placement.is_trait_used
SELECT EXISTS (SELECT FROM placement.provider_trait WHERE trait_id = $1)
"""

DELETE_TRAIT = """-- placement.delete_trait
DELETE FROM placement.trait WHERE id = $1
"""


async def list_trait_ids(tx: Connection, names: Sequence[str]) -> dict[str, int]:
    """Those of the traits that exist: name -> id."""
    return {row[0]: row[1] for row in await tx.fetch(LIST_TRAIT_IDS, names)}


async def lock_trait_ids(tx: Connection, names: Sequence[str]) -> dict[str, int]:
    """Those of the traits that exist, name -> id; none of them is deleted before this transaction ends."""
    return {row[0]: row[1] for row in await tx.fetch(LOCK_TRAITS_SHARED, names)}


async def list_traits(
    tx: Connection, *, names: Sequence[str] | None = None, prefix: str | None = None, associated: bool | None = None
) -> list[str]:
    """Every trait that is one of the names, starts so, and is or is not had by some provider; None does not matter."""
    return [row[0] for row in await tx.fetch(LIST_TRAITS, names, prefix, associated)]


async def insert_traits(tx: Connection, names: Sequence[str]) -> list[str]:
    """Add those that are missing, and return them."""
    return [row[0] for row in await tx.fetch(INSERT_TRAITS, names)]


async def lock_trait(tx: Connection, name: str) -> int | None:
    """Keep others from giving a trait to providers until this transaction ends. Returns its id, None for no trait."""
    found: int | None = await tx.fetchval(LOCK_TRAIT, name)
    return found


async def is_trait_used(tx: Connection, trait_id: int) -> bool:
    """Whether some provider has a trait."""
    found: bool = await tx.fetchval(IS_TRAIT_USED, trait_id)
    return found


async def delete_trait(tx: Connection, trait_id: int) -> None:
    """Delete a locked trait."""
    await tx.execute(DELETE_TRAIT, trait_id)
