"""SQL of the two tables of names, resource classes and traits, which inventories and providers use."""

from collections.abc import Sequence

import asyncpg

from roost.placement.model import NameKind
from roost.platform.database import Connection

USERS = {NameKind.RESOURCE_CLASS: "inventory", NameKind.TRAIT: "provider_trait"}
"""The tables that refer to the names."""


def _statements(template: str) -> dict[NameKind, str]:
    return {kind: template.format(kind=kind.value, users=USERS[kind]) for kind in NameKind}


LIST_IDS = _statements("""-- placement.list_{kind}_ids
SELECT name, id FROM placement.{kind} WHERE name = ANY($1::text[])
""")

LOCK_IDS = _statements("""-- placement.lock_{kind}_ids
SELECT name, id FROM placement.{kind} WHERE name = ANY($1::text[]) ORDER BY id FOR KEY SHARE
""")

LIST_NAMES = _statements("""-- placement.list_{kind}_names
SELECT n.name FROM placement.{kind} n
WHERE ($1::text[] IS NULL OR n.name = ANY($1::text[])) AND ($2::text IS NULL OR starts_with(n.name, $2))
    AND ($3::boolean IS NULL OR $3 = EXISTS (SELECT FROM placement.{users} u WHERE u.{kind}_id = n.id))
ORDER BY n.id
""")

INSERT_NAMES = _statements("""-- placement.insert_{kind}_names
INSERT INTO placement.{kind} (name)
SELECT name FROM unnest($1::text[]) WITH ORDINALITY AS new (name, number)
WHERE NOT EXISTS (SELECT FROM placement.{kind} held WHERE held.name = new.name)
ORDER BY number ON CONFLICT DO NOTHING RETURNING name
""")

LOCK_NAME = _statements("""-- placement.lock_{kind}_name
SELECT id FROM placement.{kind} WHERE name = $1 FOR UPDATE
""")

LIST_USERS = _statements("""-- placement.list_{kind}_users
SELECT DISTINCT provider_id FROM placement.{users} WHERE {kind}_id = $1
""")

DELETE_UNUSED = _statements("""-- placement.delete_unused_{kind}_names
DELETE FROM placement.{kind} n
WHERE name = ANY($1::text[]) AND NOT EXISTS (SELECT FROM placement.{users} u WHERE u.{kind}_id = n.id)
""")


async def list_ids(tx: Connection, kind: NameKind, names: Sequence[str], *, lock: bool = False) -> dict[str, int]:
    """Return those of the names that exist: name -> id. lock: none of them goes before this transaction ends."""
    return {row[0]: row[1] for row in await tx.fetch((LOCK_IDS if lock else LIST_IDS)[kind], names)}


async def list_names(
    tx: Connection,
    kind: NameKind,
    *,
    names: Sequence[str] | None = None,
    prefix: str | None = None,
    associated: bool | None = None,
) -> list[str]:
    """Return the names that are among `names`, start with the prefix and are used by a provider or by none.

    None: it does not matter. Those of the standard come first, in its order.
    """
    return [row[0] for row in await tx.fetch(LIST_NAMES[kind], names, prefix, associated)]


async def insert_names(tx: Connection, kind: NameKind, names: Sequence[str]) -> list[str]:
    """Add the names that are missing, and return them."""
    return [row[0] for row in await tx.fetch(INSERT_NAMES[kind], names)]


async def lock_name(tx: Connection, kind: NameKind, name: str) -> int | None:
    """Keep others from using a name until this transaction ends. Returns its id, None if there is none."""
    name_id: int | None = await tx.fetchval(LOCK_NAME[kind], name)
    return name_id


async def list_users(tx: Connection, kind: NameKind, name_id: int) -> list[int]:
    """Return the providers with inventory of a resource class, or with a trait."""
    return [row[0] for row in await tx.fetch(LIST_USERS[kind], name_id)]


async def delete_unused(tx: Connection, kind: NameKind, names: Sequence[str]) -> None:
    """Delete those of the locked names that no provider uses."""
    await tx.execute(DELETE_UNUSED[kind], names)


LOCK_CLASS_NAMES = """-- placement.lock_class_names
SELECT pg_advisory_xact_lock(5931046453580398593)
"""

LOCK_CLASS_NAMES_SHARED = """-- placement.lock_class_names_shared
SELECT pg_advisory_xact_lock_shared(5931046453580398593)
"""

RENAME_RESOURCE_CLASS = """-- placement.rename_resource_class
UPDATE placement.resource_class SET name = $2 WHERE name = $1 RETURNING id
"""


async def lock_class_names(tx: Connection, *, shared: bool = False) -> None:
    """Lock the names of all resource classes, before anything else: to rename one or, shared, to make several.

    Whoever renames waits for the new name with the old one in hand; somebody who makes the one and then uses the other
    would wait for that in turn.
    """
    await tx.execute(LOCK_CLASS_NAMES_SHARED if shared else LOCK_CLASS_NAMES)


async def rename_resource_class(tx: Connection, name: str, new_name: str) -> int | None:
    """Rename a resource class. Returns its id, None if there is none or if the other name is taken."""
    try:
        class_id: int | None = await tx.fetchval(RENAME_RESOURCE_CLASS, name, new_name)
    except asyncpg.UniqueViolationError:
        return None
    return class_id
