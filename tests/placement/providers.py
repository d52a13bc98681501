"""Providers, claims and writers for tests of the ledger."""

import uuid

from roost.placement.model import Changes
from roost.placement.store import claims as claims_store
from roost.platform.database import Connection
from roost.seams.placement import VCPU, ClaimGroup, ConsumerClaim, Inventory, ProviderState


class Undo(Exception):
    """A writer changes its mind."""


def a_uuid() -> str:
    return str(uuid.uuid4())


def a_state(name: str, *, total: int = 8, parent: str | None = None, **fields) -> ProviderState:
    return ProviderState(
        uuid=a_uuid(), name=name, parent_uuid=parent,
        inventories={VCPU: Inventory(total=total, max_unit=total)}, **fields,
    )  # fmt: skip


def claim_of(provider_uuid: str, amount: int) -> ClaimGroup:
    return ClaimGroup(
        (
            ConsumerClaim(
                consumer_uuid=a_uuid(), generation=None, consumer_type="INSTANCE", project_id="p", user_id="u",
                allocations={provider_uuid: {VCPU: amount}},
            ),
        )
    )  # fmt: skip


async def touch(tx: Connection, *uuids: str) -> list[int]:
    ids = list((await claims_store.lock_providers(tx, uuids)).values())
    await claims_store.write_changes(tx, Changes(consumers=(), used={}, provider_ids=frozenset(ids)))
    return ids
