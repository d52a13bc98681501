"""The ledger's audit: every use is the sum of its allocations, and nothing points to what is not there.

A claim writes its allocations and the uses in one transaction, so one statement sees both: what it finds is drift.
"""

from collections import Counter
from collections.abc import Sequence

import structlog

from roost.placement.service.ledger import Ledger
from roost.placement.store import audit as audit_store
from roost.placement.store import claims as claims_store
from roost.placement.store import providers as providers_store
from roost.placement.store.audit import StrayRow, UseRow
from roost.seams.audit import Drift, Kind, Repairs
from roost.seams.placement import ProviderState

PROVIDERS_PAGE = 1000
CONSUMERS_PAGE = 5000
LAST_ID = 2**63 - 1

log = structlog.get_logger()


async def audit_ledger(ledger: Ledger, *, repairs: Repairs) -> list[Drift]:
    """All drift within the ledger, in pages; what may be is put right under the providers' locks."""
    found: list[Drift] = []
    after = 0
    while after < LAST_ID:
        async with ledger.database.connection() as connection:
            page = await audit_store.list_provider_ids(connection, after=after, limit=PROVIDERS_PAGE)
        last = page[-1] if len(page) == PROVIDERS_PAGE else LAST_ID
        found += await _audit_providers(ledger, after=after, last=last, repairs=repairs)
        after = last
    return found + await _audit_trees(ledger, repairs=repairs) + await _audit_consumers(ledger, repairs=repairs)


async def get_providers(ledger: Ledger, uuids: Sequence[str]) -> dict[str, ProviderState]:
    """See PlacementClient.get_providers."""
    async with ledger.database.transaction(snapshot=True) as tx:
        return await audit_store.get_providers(tx, uuids)


async def list_named_providers(ledger: Ledger, prefix: str, *, after: str, limit: int) -> dict[str, str]:
    """See PlacementClient.list_named_providers."""
    async with ledger.database.connection() as connection:
        return await audit_store.list_named(connection, prefix, after=after, limit=limit)


async def _audit_providers(ledger: Ledger, *, after: int, last: int, repairs: Repairs) -> list[Drift]:
    async with ledger.database.transaction(snapshot=True) as tx:
        strays = await audit_store.list_strays(tx, after=after, last=last)
        uses = await audit_store.list_wrong_uses(tx, after=after, last=last)
    if not strays and not uses:
        return []
    repairing = repairs is not Repairs.NONE
    if repairing:
        ids = sorted({*(row.provider_id for row in strays), *(row.provider_id for row in uses)})
        async with ledger.database.transaction() as tx:
            known = await claims_store.lock_providers(tx, (), ids)
            await audit_store.delete_strays(tx, ids)
            await audit_store.sum_uses(tx, ids)
            await claims_store.record_reshaped(tx, sorted(known.values()))
    return [_stray(row, repairing) for row in strays] + [_use(row, repairing) for row in uses]


async def _audit_trees(ledger: Ledger, *, repairs: Repairs) -> list[Drift]:
    async with ledger.database.connection() as connection:
        wrong = await audit_store.list_wrong_roots(connection)
    repairing = repairs is not Repairs.NONE
    if wrong and repairing:
        async with ledger.database.transaction() as tx:
            await providers_store.lock_names(tx)
            wrong = await audit_store.list_wrong_roots(tx)
            if wrong:
                await claims_store.lock_providers(tx, (), [row.place.id for row in wrong])
                await providers_store.update_places(tx, [row.place for row in wrong])
                await claims_store.record_reshaped(tx, [row.place.id for row in wrong])
    return [
        Drift(
            kind=Kind.ROOT_WRONG,
            key=row.provider_uuid,
            name=row.provider_name,
            says=f"its tree is that of {row.root_name}",
            repaired=repairing,
        )
        for row in wrong
    ]


async def audit_once(ledger: Ledger) -> list[Drift]:
    """One pass over the whole ledger, which puts right what does not add up; what drifted."""
    found = await audit_ledger(ledger, repairs=Repairs.ITSELF)
    for kind, count in Counter(one.kind for one in found).items():
        log.warning("the books had drifted", what=kind.sentence, count=count)
    return found


async def _audit_consumers(ledger: Ledger, *, repairs: Repairs) -> list[Drift]:
    found: list[Drift] = []
    after = ""
    while True:
        async with ledger.database.connection() as connection:
            page = await audit_store.list_consumers(connection, after=after, limit=CONSUMERS_PAGE)
        empty = [uuid for uuid, holds_nothing in page if holds_nothing]
        gone: set[str] = set()
        if empty and repairs is not Repairs.NONE:
            async with ledger.database.transaction() as tx:
                await claims_store.lock_consumers(tx, empty)
                gone = await audit_store.delete_empty_consumers(tx, empty)
        found += [Drift(kind=Kind.CONSUMER_EMPTY, key=uuid, repaired=uuid in gone) for uuid in empty]
        if len(page) < CONSUMERS_PAGE:
            return found
        after = page[-1][0]


def _use(row: UseRow, repaired: bool) -> Drift:
    return Drift(
        kind=Kind.USE_WRONG,
        key=row.provider_uuid,
        name=row.provider_name,
        says=f"{row.used} {row.resource_class} in use, {row.allocated} allocated",
        repaired=repaired,
    )


def _stray(row: StrayRow, repaired: bool) -> Drift:
    where = row.provider_uuid or f"provider number {row.provider_id}, which does not exist"
    if row.what == "inventory":
        says = f"inventory of {row.resource_class} of {where}"
    else:
        says = f"{row.resource_class} of {where}, held by {row.consumer_uuid}"
    unbacked = row.what == "unbacked"
    return Drift(
        kind=Kind.ALLOCATION_UNBACKED if unbacked else Kind.ALLOCATION_STRAY,
        key=row.consumer_uuid or str(row.provider_id),
        name=row.provider_name or "",
        says=says,
        repaired=repaired and not unbacked,
    )
