"""The ledger's audit: every use is the sum of its allocations, and nothing points to what is not there.

A claim writes its allocations and the uses in one transaction, so one statement sees both: what it finds is drift.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from roost.placement.model import RootRow, StrayRow, UseRow
from roost.placement.rules.drift import ALLOCATION_STRAY, ALLOCATION_UNBACKED, CONSUMER_EMPTY, ROOT_WRONG, USE_WRONG
from roost.placement.service.events import EVENTS
from roost.placement.service.ledger import Ledger
from roost.placement.service.neutron import AGREEMENT
from roost.placement.store import audit as store
from roost.placement.store import claims as claims_store
from roost.placement.store import providers as providers_store
from roost.platform.audit import Audit, Check, Finding, all_at_once, keys_of, stored_pages
from roost.platform.drift import Drift
from roost.platform.structs import copy_as
from roost.seams.neutron import NeutronUnavailable
from roost.seams.placement import ProviderState

PROVIDERS_PAGE = 1000
CONSUMERS_PAGE = 5000
LAST_ID = 2**63 - 1

Range = tuple[int, int]
"""Ids of providers: above the one, up to the other."""


async def get_providers(ledger: Ledger, uuids: Sequence[str]) -> dict[str, ProviderState]:
    """See ProviderClient.get_providers."""
    async with ledger.database.transaction(snapshot=True) as tx:
        rows = await providers_store.list_by_uuid(tx, uuids)
    return {row.uuid: copy_as(ProviderState, row) for row in rows}


async def list_named_providers(ledger: Ledger, prefix: str, *, after: str, limit: int) -> dict[str, str]:
    """See PlacementAudit.list_named_providers."""
    async with ledger.database.connection() as connection:
        return await store.list_named(connection, prefix, after=after, limit=limit)


async def _list_ranges(ledger: Ledger) -> AsyncIterator[Sequence[Range]]:
    """Yield ranges of provider ids, up to the last that there can be: what has no provider may have any number."""
    after = 0
    while after < LAST_ID:
        async with ledger.database.connection() as connection:
            page = await store.list_provider_ids(connection, after=after, limit=PROVIDERS_PAGE)
        last = page[-1] if len(page) == PROVIDERS_PAGE else LAST_ID
        yield [(after, last)]
        after = last


async def _find_wrong_sums(ledger: Ledger, ranges: Sequence[Range]) -> list[Finding[Range, int]]:
    findings: list[Finding[Range, int]] = []
    for ids in ranges:
        async with ledger.database.transaction(snapshot=True) as tx:
            strays = await store.list_strays(tx, after=ids[0], last=ids[1])
            uses = await store.list_wrong_uses(tx, after=ids[0], last=ids[1])
        findings += [Finding(_tell_stray(row), ids, row.provider_id) for row in strays]
        findings += [Finding(_tell_use(row), ids, row.provider_id) for row in uses]
    return findings


async def _sum_anew(ledger: Ledger, findings: Sequence[Finding[Range, int]]) -> list[str]:
    """Delete what points to nothing, and sum the uses of the same providers: those of strays were among them."""
    ids = sorted({finding.fact for finding in findings})
    async with ledger.database.transaction() as tx:
        known = await claims_store.lock_providers(tx, (), ids)
        await store.delete_strays(tx, ids)
        await store.sum_uses(tx, ids)
        await providers_store.record_reshaped(tx, sorted(known.values()))
    return keys_of(findings)


def _tell_use(row: UseRow) -> Drift:
    says = f"{row.used} {row.resource_class} in use, {row.allocated} allocated"
    return USE_WRONG.drift(row.provider_uuid, says, name=row.provider_name)


def _tell_stray(row: StrayRow) -> Drift:
    says = f"{row.resource_class} of {row.provider_uuid or f'provider number {row.provider_id}, which does not exist'}"
    says = f"inventory of {says}" if row.what == "inventory" else f"{says}, held by {row.consumer_uuid}"
    kind = ALLOCATION_UNBACKED if row.what == "unbacked" else ALLOCATION_STRAY
    return kind.drift(row.consumer_uuid or str(row.provider_id), says, name=row.provider_name or "")


SUMS = Check(
    pages=_list_ranges,
    look=_find_wrong_sums,
    repairs={USE_WRONG: _sum_anew, ALLOCATION_STRAY: _sum_anew, ALLOCATION_UNBACKED: None},
)


async def _find_wrong_roots(ledger: Ledger, _all: Sequence[str]) -> list[Finding[str, None]]:
    async with ledger.database.connection() as connection:
        wrong = await store.list_wrong_roots(connection)
    return [Finding(_tell_root(row), row.provider_uuid, None) for row in wrong]


async def _set_roots(ledger: Ledger, _findings: Sequence[Finding[str, None]]) -> list[str]:
    async with ledger.database.transaction() as tx:
        await providers_store.lock_names(tx)
        wrong = await store.list_wrong_roots(tx)
        if wrong:
            await claims_store.lock_providers(tx, (), [row.place.id for row in wrong])
            await providers_store.update_places(tx, [row.place for row in wrong])
    return [row.provider_uuid for row in wrong]


def _tell_root(row: RootRow) -> Drift:
    return ROOT_WRONG.drift(row.provider_uuid, f"its tree is that of {row.root_name}", name=row.provider_name)


ROOTS = Check(pages=all_at_once, look=_find_wrong_roots, repairs={ROOT_WRONG: _set_roots})


async def _list_consumers(ledger: Ledger) -> AsyncIterator[Sequence[str]]:
    async for page in stored_pages(ledger.database, store.list_consumers, lambda row: row[0], limit=CONSUMERS_PAGE):
        yield [uuid for uuid, holds_nothing in page if holds_nothing]


async def _find_empty(_ledger: Ledger, uuids: Sequence[str]) -> list[Finding[str, None]]:
    return [Finding(CONSUMER_EMPTY.drift(uuid), uuid, None) for uuid in uuids]


async def _delete_empty(ledger: Ledger, findings: Sequence[Finding[str, None]]) -> set[str]:
    uuids = keys_of(findings)
    async with ledger.database.transaction() as tx:
        await claims_store.lock_consumers(tx, uuids)
        return await store.delete_empty_consumers(tx, uuids)


CONSUMERS = Check(pages=_list_consumers, look=_find_empty, repairs={CONSUMER_EMPTY: _delete_empty})

AUDIT: Audit[Ledger] = Audit((SUMS, ROOTS, AGREEMENT, CONSUMERS), EVENTS.keep_repairs)
"""It raises NeutronUnavailable: an audit that could not ask has not found that all agrees."""
BY_ITSELF: Audit[Ledger] = Audit((SUMS, ROOTS, CONSUMERS), EVENTS.keep_repairs)
WITH_NEUTRON: Audit[Ledger] = Audit((AGREEMENT,), EVENTS.keep_repairs)


async def reconcile(ledger: Ledger) -> None:
    """Repair what the reconcilers may; without Neutron's part while it cannot be asked, which the poller's log says."""
    await BY_ITSELF.reconcile(ledger)
    with suppress(NeutronUnavailable):
        await WITH_NEUTRON.reconcile(ledger)
