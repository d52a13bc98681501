"""Resource classes and traits: the names that there are. Standard ones cannot change; custom ones come and go."""

import re
from collections.abc import Mapping, Sequence, Set

from msgspec import Struct

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
from roost.placement.model import NameKind
from roost.placement.service.ledger import STANDARD_NAMES, Ledger
from roost.placement.store import names as names_store
from roost.placement.store import providers as providers_store
from roost.platform.database import Connection
from roost.platform.errors import RoostError


class _Refusals(Struct, frozen=True):
    """The errors of one kind of names, each with its text for a name, or for several."""

    unknown: tuple[type[RoostError], str]
    missing: tuple[type[RoostError], str]
    standard: tuple[type[RoostError], str]
    in_use: tuple[type[RoostError], str]


REFUSALS = {
    NameKind.RESOURCE_CLASS: _Refusals(
        unknown=(ResourceClassNotFound, "No such resource class {}."),
        missing=(ResourceClassMissing, "No such resource class {}."),
        standard=(
            ResourceClassStandard,
            "Error in delete resource class: Cannot delete standard resource class {}.",
        ),
        in_use=(
            ResourceClassInUse,
            "Error in delete resource class: Cannot delete resource class {}. Class is in use in inventory.",
        ),
    ),
    NameKind.TRAIT: _Refusals(
        unknown=(TraitNotFound, "No such trait(s): {}."),
        missing=(TraitMissing, "No such trait(s): {}."),
        standard=(TraitStandard, "Cannot delete standard trait {}."),
        in_use=(TraitInUse, "The trait {} is in use by a resource provider."),
    ),
}


def _error(refusal: tuple[type[RoostError], str], *names: str) -> RoostError:
    error, text = refusal
    return error(text.format(", ".join(names)))


async def find_ids(ledger: Ledger, tx: Connection, kind: NameKind, names: Set[str]) -> Mapping[str, int]:
    """Return those of the names that exist: name -> id."""
    standard = ledger.standard_ids[kind]
    custom = sorted(names - standard.keys())
    return {**standard, **await names_store.list_ids(tx, kind, custom)} if custom else standard


async def keep_names(ledger: Ledger, tx: Connection, kind: NameKind, names: Set[str]) -> None:
    """Keep the names until the transaction ends. Raises ResourceClassNotFound, TraitNotFound.

    Whoever gives a provider something calls this: a custom name that nobody uses can be deleted at any moment.
    """
    custom = sorted(names - ledger.standard_ids[kind].keys())
    kept = await names_store.list_ids(tx, kind, custom, lock=True) if custom else {}
    if unknown := [name for name in custom if name not in kept]:
        if kind is NameKind.TRAIT:
            raise TraitNotFound(f"No such trait {', '.join(unknown)}")
        raise _error(REFUSALS[kind].unknown, *unknown)


async def check_names(ledger: Ledger, kind: NameKind, names: Set[str]) -> None:
    """Raise ResourceClassNotFound, or TraitNotFound, for names that there are not."""
    custom = sorted(names - STANDARD_NAMES[kind])
    if not custom:
        return
    # A query string may hold any text, which the database may not even accept.
    possible = [name for name in custom if re.fullmatch("[A-Z0-9_]{1,255}", name)]
    async with ledger.database.connection() as connection:
        known = await names_store.list_ids(connection, kind, possible)
    if unknown := [name for name in custom if name not in known]:
        raise _error(REFUSALS[kind].unknown, *unknown)


async def list_names(
    ledger: Ledger,
    kind: NameKind,
    *,
    names: Sequence[str] | None = None,
    prefix: str | None = None,
    associated: bool | None = None,
) -> list[str]:
    """Return the names that are among `names`, start so, and are used or not; None: it does not matter."""
    async with ledger.database.connection() as connection:
        return await names_store.list_names(connection, kind, names=names, prefix=prefix, associated=associated)


async def check_exists(ledger: Ledger, kind: NameKind, name: str) -> None:
    """Raise ResourceClassMissing, or TraitMissing, unless there is such a name."""
    if not await list_names(ledger, kind, names=[name]):
        raise _error(REFUSALS[kind].missing, name)


async def create_name(ledger: Ledger, kind: NameKind, name: str) -> bool:
    """Make a custom name; return whether it is new."""
    async with ledger.database.transaction() as tx:
        return bool(await names_store.insert_names(tx, kind, [name]))


async def rename_resource_class(ledger: Ledger, name: str, new_name: str) -> None:
    """Rename a custom resource class.

    Raises ResourceClassMissing, ResourceClassStandard, ResourceClassTaken. Providers with inventory of it are shown as
    changed, as their inventories have another name now.
    """
    await check_exists(ledger, NameKind.RESOURCE_CLASS, name)
    if name in STANDARD_NAMES[NameKind.RESOURCE_CLASS]:
        raise ResourceClassStandard(f"Cannot update standard resource class {name}")
    async with ledger.database.transaction() as tx:
        await names_store.lock_class_names(tx)
        class_id = await names_store.rename_resource_class(tx, name, new_name)
        if class_id is None:
            raise ResourceClassTaken(f"Resource class already exists: {new_name}")
        users = await names_store.list_users(tx, NameKind.RESOURCE_CLASS, class_id)
        await providers_store.record_reshaped(tx, users)


async def delete_name(ledger: Ledger, kind: NameKind, name: str) -> None:
    """Delete a custom name. Raises that it is missing, that it is a standard one, or that providers use it."""
    async with ledger.database.transaction() as tx:
        name_id = await names_store.lock_name(tx, kind, name)
        if name_id is None:
            raise _error(REFUSALS[kind].missing, name)
        if not name.startswith("CUSTOM_"):
            raise _error(REFUSALS[kind].standard, name)
        if await names_store.list_users(tx, kind, name_id):
            raise _error(REFUSALS[kind].in_use, name)
        await names_store.delete_unused(tx, kind, [name])
