"""The ledger's operations that only read: answered from the index as of now, or from one statement or two."""

import asyncio
import time
from collections.abc import Mapping, Sequence, Set

import numpy as np
from msgspec import Struct

from roost.placement.errors import InventoryMissing, ProviderNotFound, ResourceClassNotFound, TraitNotFound
from roost.placement.model import Allocation, NameKind, TypeUsage
from roost.placement.search.funnel import explain
from roost.placement.search.implied import find_nics, list_uncounted, names_uncounted
from roost.placement.search.index import NO_ROW, Index
from roost.placement.search.matching import Matches, find_in, match
from roost.placement.search.narrowing import fitting
from roost.placement.search.query import ProviderQuery
from roost.placement.service.ledger import STANDARD_NAMES, Ledger
from roost.placement.service.names import check_names
from roost.placement.store import claims as claims_store
from roost.placement.store import reads as reads_store
from roost.platform.errors import DatabaseUnavailable
from roost.seams.placement import CandidateQuery, Candidates, Funnel, Inventory, RequestGroup

COUNTED_WITHIN_S = 3.0
"""How long a search waits for the round that Neutron's notifier begins when it tells of a new network."""
COUNTED_RECHECK_S = 0.1


class ProviderView(Struct, frozen=True, kw_only=True):
    """A provider as the API shows it, with all that it has."""

    uuid: str
    name: str
    generation: int
    parent_uuid: str | None
    root_uuid: str
    inventories: Mapping[str, Inventory]
    used: Mapping[str, int]
    traits: frozenset[str]
    placement_aggregates: frozenset[str]


async def find_candidates(ledger: Ledger, queries: Sequence[CandidateQuery]) -> list[Candidates]:
    """Search as of now, all queries in one state of the ledger; the host that comes first is drawn by lot."""
    index = await ledger.index.fresh()
    return [find_in(index, query, start=ledger.env.random.randrange(2**16)) for query in queries]


async def match_candidates(ledger: Ledger, query: CandidateQuery) -> Matches:
    """Return the candidates of one query; a segment that was just made is waited for until a round has counted it.

    Some are never counted, as those without room for servers: one search waits for those of a network that has others.

    While the database is away they are of a recent index, as each claim of one is decided by the database.
    Raises ResourceClassNotFound, TraitNotFound.
    """
    index = await _knowing_index(ledger, query.groups, query.root_required | query.root_forbidden)
    if ledger.counted_only:  # it is what status neutron tells
        ledger.searches_seen.add(bool(find_nics(index, query)))
    if ledger.settings.implied_addresses and ledger.counted_only:
        given_up_s = time.monotonic() + COUNTED_WITHIN_S
        while (
            names_uncounted(index, query) or list_uncounted(index, query) - ledger.segments_given_up
        ) and time.monotonic() < given_up_s:
            await asyncio.sleep(COUNTED_RECHECK_S)
            index = await ledger.index.recent()
        ledger.segments_given_up |= list_uncounted(index, query)
    start = ledger.env.random.randrange(2**16)
    matches = match(index, query, ledger.settings, start=start, counted_only=ledger.counted_only)
    if matches.funnel is not None:
        ledger.index.check_fresh()
    return matches


async def explain_candidates(ledger: Ledger, query: CandidateQuery) -> Funnel:
    """Return how many hosts each requirement of a query leaves. Raises ResourceClassNotFound, TraitNotFound."""
    index = await _knowing_index(ledger, query.groups, query.root_required | query.root_forbidden)
    ledger.index.check_fresh()
    nics = find_nics(index, query) if ledger.settings.implied_addresses else []
    return explain(index, query, nics, counted_only=ledger.counted_only)


async def list_providers(ledger: Ledger, query: ProviderQuery) -> list[ProviderView]:
    """Return the providers that satisfy the query, each by itself. Raises ResourceClassNotFound, TraitNotFound."""
    try:
        index = await _knowing_index(ledger, [query.group], frozenset())
    except TraitNotFound as error:
        raise TraitNotFound(f'Invalid trait(s) in "required" parameter: {error}') from error
    ledger.index.check_fresh()  # a list also says which providers there are not
    if query.uuid is not None:
        row = index.find_row(query.uuid)
        rows = [] if row is None else [row]
        fits = fitting(index, query.group)
        rows = [row for row in rows if fits[row]]
    else:
        rows = np.flatnonzero(fitting(index, query.group)).tolist()
    return [_view(index, row) for row in rows if query.name is None or index.names[row] == query.name]


async def get_provider(ledger: Ledger, uuid: str) -> ProviderView:
    """Return one provider, while the database is away from a recent index. Raises ProviderNotFound."""
    index = await ledger.index.recent()
    row = index.find_row(uuid)
    if row is None:
        ledger.index.check_fresh()
        raise ProviderNotFound(f"No resource provider with uuid {uuid} found")
    return _view(index, row)


async def get_inventory(ledger: Ledger, uuid: str, resource_class: str) -> tuple[Inventory, int]:
    """Return a provider's inventory of a class, and its generation. Raises ProviderNotFound, InventoryMissing."""
    provider = await get_provider(ledger, uuid)
    if resource_class not in provider.inventories:
        ledger.index.check_fresh()
        raise InventoryMissing(f"No inventory of class {resource_class} for {uuid}")
    return provider.inventories[resource_class], provider.generation


async def check_serving(ledger: Ledger) -> None:
    """Raise DatabaseUnavailable, for which nobody waits, when there is neither a database nor a recent index."""
    if not ledger.index.is_recent():
        try:
            await ledger.index.fresh()
        except DatabaseUnavailable as error:
            raise DatabaseUnavailable(str(error)) from error


async def get_provider_allocations(ledger: Ledger, uuid: str) -> tuple[int, list[Allocation]]:
    """Return a provider's generation, and what is held of it. Raises ProviderNotFound."""
    async with ledger.database.transaction(snapshot=True) as tx:
        generation = await reads_store.find_provider_generation(tx, uuid)
        if generation is None:
            raise ProviderNotFound(f"Resource provider '{uuid}' not found: No resource provider with uuid {uuid} found")
        return generation, await claims_store.list_provider_allocations(tx, uuid)


async def list_consumer_allocations(ledger: Ledger, uuid: str) -> list[Allocation]:
    """Return what a consumer holds."""
    async with ledger.database.connection() as connection:
        return await claims_store.list_consumer_allocations(connection, uuid)


async def list_project_usages(ledger: Ledger, project_id: str, *, user_id: str | None) -> list[TypeUsage]:
    """Return what a project holds, or one user of it, by consumer type."""
    async with ledger.database.connection() as connection:
        return await reads_store.list_project_usages(connection, project_id, user_id)


def _view(index: Index, row: int) -> ProviderView:
    parent = int(index.parent_row[row])
    return ProviderView(
        uuid=index.uuids[row], name=index.names[row], generation=index.generations[row],
        parent_uuid=None if parent == NO_ROW else index.uuids[parent], root_uuid=index.uuids[index.root_row[row]],
        inventories=index.inventories[row], used=index.used[row], traits=index.traits[row],
        placement_aggregates=index.placement_aggregates[row],
    )  # fmt: skip


async def _knowing_index(ledger: Ledger, groups: Sequence[RequestGroup], traits: Set[str]) -> Index:
    """Return a recent index, which knows every name of the groups, and these traits.

    Raises ResourceClassNotFound, TraitNotFound. Only names that no provider has are looked up in the database.
    """
    index = await ledger.index.recent()
    classes = {name for group in groups for name in group.resources}
    strange_classes = {name for name in classes - STANDARD_NAMES[NameKind.RESOURCE_CLASS] if not index.has_class(name)}
    named = {trait for group in groups for any_of in (*group.required, group.forbidden) for trait in any_of}
    strange_traits = (named | traits) - index.trait_masks.keys() - STANDARD_NAMES[NameKind.TRAIT]
    if not strange_classes and not strange_traits:
        return index
    try:
        await check_names(ledger, NameKind.RESOURCE_CLASS, strange_classes)
    except ResourceClassNotFound as error:
        raise ResourceClassNotFound(f"Invalid resource class in resources parameter: {error}") from error
    await check_names(ledger, NameKind.TRAIT, strange_traits)
    return await ledger.index.recent()  # the one from before the database was asked may have changed
