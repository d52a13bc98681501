"""Resource classes and traits: the names that there are. Standard ones cannot change; custom ones come and go."""

import re
from collections.abc import Mapping, Sequence, Set

from roost.placement.errors import (
    ResourceClassInUse,
    ResourceClassMissing,
    ResourceClassNotFound,
    ResourceClassStandard,
    ResourceClassTaken,
    TraitInUse,
    TraitMissing,
    TraitNotFound,
    TraitStandard,
)
from roost.placement.service.ledger import STANDARD_CLASSES, STANDARD_TRAITS, Ledger
from roost.placement.store import names as names_store
from roost.placement.store import providers as providers_store
from roost.platform.database import Connection

NOT_FOUND_CLASS = "No such resource class {}."
NOT_FOUND_TRAIT = "No such trait(s): {}."


async def find_class_ids(ledger: Ledger, tx: Connection, names: Set[str]) -> Mapping[str, int]:
    """Those of the resource classes that exist: name -> id."""
    custom = sorted(names - ledger.standard_class_ids.keys())
    if not custom:
        return ledger.standard_class_ids
    return {**ledger.standard_class_ids, **await names_store.list_class_ids(tx, custom)}


async def keep_class_ids(ledger: Ledger, tx: Connection, names: Set[str]) -> Mapping[str, int]:
    """The resource classes, name -> id, which stay until the transaction ends. Raises ResourceClassNotFound.

    Whoever makes inventory asks here: a class that has none can be deleted at any moment.
    """
    ids: Mapping[str, int] = ledger.standard_class_ids
    if custom := sorted(names - ids.keys()):
        ids = {**ids, **await names_store.lock_class_ids(tx, custom)}
    if unknown := sorted(names - ids.keys()):
        raise ResourceClassNotFound(NOT_FOUND_CLASS.format(", ".join(unknown)))
    return ids


async def keep_trait_ids(ledger: Ledger, tx: Connection, names: Set[str]) -> Mapping[str, int]:
    """The traits, name -> id, which stay until the transaction ends. Raises TraitNotFound."""
    ids: Mapping[str, int] = ledger.standard_trait_ids
    if custom := sorted(names - ids.keys()):
        ids = {**ids, **await names_store.lock_trait_ids(tx, custom)}
    if unknown := sorted(names - ids.keys()):
        raise TraitNotFound(f"No such trait {', '.join(unknown)}")
    return ids


async def check_resource_classes(ledger: Ledger, names: Set[str]) -> None:
    """Raise ResourceClassNotFound for names that no resource class has."""
    custom = sorted(names - STANDARD_CLASSES)
    if not custom:
        return
    async with ledger.database.connection() as connection:
        known = await names_store.list_class_ids(connection, _possible(custom))
    if unknown := [name for name in custom if name not in known]:
        raise ResourceClassNotFound(NOT_FOUND_CLASS.format(", ".join(unknown)))


async def check_traits(ledger: Ledger, names: Set[str]) -> None:
    """Raise TraitNotFound for names that no trait has."""
    custom = sorted(names - STANDARD_TRAITS)
    if not custom:
        return
    async with ledger.database.connection() as connection:
        known = set(await names_store.list_traits(connection, names=_possible(custom)))
    if unknown := [name for name in custom if name not in known]:
        raise TraitNotFound(NOT_FOUND_TRAIT.format(", ".join(unknown)))


def _possible(names: Sequence[str]) -> list[str]:
    """Names that something may have: a query string may hold any text, which the database may not even accept."""
    return [name for name in names if re.fullmatch("[A-Z0-9_]{1,255}", name)]


async def list_resource_classes(ledger: Ledger) -> list[str]:
    """Every resource class, the standard ones first."""
    async with ledger.database.connection() as connection:
        return await names_store.list_resource_classes(connection)


async def get_resource_class(ledger: Ledger, name: str) -> str:
    """The name of a resource class that exists. Raises ResourceClassMissing."""
    async with ledger.database.connection() as connection:
        known = await names_store.list_class_ids(connection, [name])
    if name not in known:
        raise ResourceClassMissing(NOT_FOUND_CLASS.format(name))
    return name


async def create_resource_class(ledger: Ledger, name: str) -> bool:
    """Have a custom resource class; returns whether it is new."""
    async with ledger.database.transaction() as tx:
        return bool(await names_store.insert_resource_classes(tx, [name]))


async def rename_resource_class(ledger: Ledger, name: str, new_name: str) -> None:
    """Give a custom resource class another name.

    Raises ResourceClassMissing, ResourceClassStandard, ResourceClassTaken. Providers with inventory of it are shown as
    changed, as their inventories have another name now.
    """
    await get_resource_class(ledger, name)
    if name in STANDARD_CLASSES:
        raise ResourceClassStandard(f"Cannot update standard resource class {name}")
    async with ledger.database.transaction() as tx:
        await names_store.lock_class_names(tx)
        class_id = await names_store.rename_resource_class(tx, name, new_name)
        if class_id is None:
            raise ResourceClassTaken(f"Resource class already exists: {new_name}")
        await providers_store.record_reshaped(tx, await names_store.list_class_providers(tx, class_id))


async def delete_resource_class(ledger: Ledger, name: str) -> None:
    """Delete a custom resource class. Raises ResourceClassMissing, ResourceClassStandard, ResourceClassInUse."""
    async with ledger.database.transaction() as tx:
        class_id = await names_store.lock_class(tx, name)
        if class_id is None:
            raise ResourceClassMissing(NOT_FOUND_CLASS.format(name))
        if name in STANDARD_CLASSES:
            raise ResourceClassStandard(
                f"Error in delete resource class: Cannot delete standard resource class {name}."
            )
        if await names_store.list_class_providers(tx, class_id):
            raise ResourceClassInUse(
                f"Error in delete resource class: Cannot delete resource class {name}. Class is in use in inventory."
            )
        await names_store.delete_class(tx, class_id)


async def list_traits(
    ledger: Ledger, *, names: Sequence[str] | None, prefix: str | None, associated: bool | None
) -> list[str]:
    """Every trait that is one of the names, starts so, and is or is not had by some provider; None does not matter."""
    async with ledger.database.connection() as connection:
        return await names_store.list_traits(connection, names=names, prefix=prefix, associated=associated)


async def get_trait(ledger: Ledger, name: str) -> str:
    """The name of a trait that exists. Raises TraitMissing."""
    if name not in await list_traits(ledger, names=[name], prefix=None, associated=None):
        raise TraitMissing(NOT_FOUND_TRAIT.format(name))
    return name


async def create_trait(ledger: Ledger, name: str) -> bool:
    """Have a custom trait; returns whether it is new."""
    async with ledger.database.transaction() as tx:
        return bool(await names_store.insert_traits(tx, [name]))


async def delete_trait(ledger: Ledger, name: str) -> None:
    """Delete a custom trait. Raises TraitMissing, TraitStandard, TraitInUse."""
    async with ledger.database.transaction() as tx:
        trait_id = await names_store.lock_trait(tx, name)
        if trait_id is None:
            raise TraitMissing(NOT_FOUND_TRAIT.format(name))
        if not name.startswith("CUSTOM_"):
            raise TraitStandard(f"Cannot delete standard trait {name}.")
        if await names_store.is_trait_used(tx, trait_id):
            raise TraitInUse(f"The trait {name} is in use by a resource provider.")
        await names_store.delete_trait(tx, trait_id)
