"""What the other services ask of the ledger: claims, releases, providers in sets. One function, one transaction."""

from collections.abc import Mapping, Sequence, Set

from msgspec.structs import replace

from roost.placement.errors import (
    ConcurrentUpdate,
    InventoryInUse,
    ProviderNotFound,
)
from roost.placement.model import Changes, ConsumerWrite, LockedLedger, NameKind, ShapeChange
from roost.placement.rules.claims import decide_claims
from roost.placement.rules.implied import keep_all_addresses, with_whole_units
from roost.placement.rules.shapes import decide_shape, fits
from roost.placement.service.figures import count_claims
from roost.placement.service.ledger import Ledger
from roost.placement.service.names import find_ids, keep_names
from roost.placement.store import claims as claims_store
from roost.placement.store import names as names_store
from roost.placement.store import providers as providers_store
from roost.platform.batches import Batches
from roost.platform.database import Connection
from roost.platform.errors import TransactionVictim
from roost.platform.time_spent import add_phases, count_phases, phase
from roost.seams.placement import (
    Claimed,
    ClaimGroup,
    ConsumerState,
    ProviderState,
    Refused,
)

CLAIM_GROUPS_MAX = 256
"""Groups in one transaction: more would hold hot providers longer without being faster."""

PROVIDERS_MAX = 1000
CLAIM_ROUNDS_MAX = 3


async def claim(ledger: Ledger, groups: Sequence[ClaimGroup]) -> list[Claimed | Refused]:
    """Take each group whole or refuse it with all its shortfalls; one refusal undoes no other group.

    More than CLAIM_GROUPS_MAX groups take several transactions, in order.
    """
    answers: list[Claimed | Refused] = []
    for start in range(0, len(groups), CLAIM_GROUPS_MAX):
        answers += await _claim_batch(ledger, groups[start : start + CLAIM_GROUPS_MAX])
    return answers


async def claim_one(ledger: Ledger, group: ClaimGroup) -> Claimed | Refused:
    """Take one group whole or refuse it, together with others that come at the same time."""
    if ledger.claims is None:
        ledger.claims = Batches(lambda groups: _claim_together(ledger, groups), most=CLAIM_GROUPS_MAX)
    with phase("claim"):
        answer, phases = await ledger.claims.do(group)
    add_phases(phases)
    return answer


async def _claim_together(
    ledger: Ledger, groups: Sequence[ClaimGroup]
) -> list[tuple[Claimed | Refused, Mapping[str, float]]]:
    """Return each group's answer, and what its batch spent: the rest of a claim's time it waited for the one before."""
    with count_phases() as phases:
        answers = await _claim_batch(ledger, groups)
    return [(answer, phases) for answer in answers]


async def _claim_batch(ledger: Ledger, groups: Sequence[ClaimGroup]) -> list[Claimed | Refused]:
    # Consumers that are all said to be new are not looked for: inserting them tells whether one was there.
    look = any(
        claim.generation is not None or claim.any_generation or not claim.allocations
        for group in groups
        for claim in group.consumers
    )
    for claim_round in range(CLAIM_ROUNDS_MAX):
        try:
            with phase("transaction"):
                async with ledger.database.transaction() as tx:
                    answers = await _claim(ledger, tx, groups, look=look)
            count_claims(answers)
            return answers
        except (ConcurrentUpdate, TransactionVictim):
            # The other claim is committed now: the next look refuses only the group that lost to it.
            look = True
            if claim_round == CLAIM_ROUNDS_MAX - 1:
                raise
    raise AssertionError("unreachable")


async def _claim(
    ledger: Ledger, tx: Connection, groups: Sequence[ClaimGroup], *, look: bool
) -> list[Claimed | Refused]:
    """Decide and write. Raises ConcurrentUpdate, to undo what is written, if consumers must be looked at again.

    That is also when a group is refused unlooked: it may be short of what it holds itself.
    """
    claims = [claim for group in groups for claim in group.consumers]
    names = {name for claim in claims for resources in claim.allocations.values() for name in resources}
    servers = [claim.consumer_uuid for group in groups if group.addresses_stay for claim in group.consumers]
    server_by_port = await claims_store.list_ports(tx, servers) if servers else {}
    uuids_looked_for = [*server_by_port, *(claim.consumer_uuid for claim in claims if look)]
    with phase("locks"):
        consumers = await claims_store.lock_consumers(tx, uuids_looked_for) if uuids_looked_for else {}
        provider_ids = await claims_store.lock_providers(
            tx,
            {uuid for claim in claims for uuid in claim.allocations},
            {provider_id for row in consumers.values() for provider_id, _ in row.allocations},
        )
    locked = LockedLedger(
        provider_ids=provider_ids,
        resource_class_ids=await find_ids(ledger, tx, NameKind.RESOURCE_CLASS, names | ledger.whole_classes),
        inventories=await claims_store.list_inventories(tx, list(provider_ids.values())),
        consumers=consumers,
    )
    if ledger.whole_classes:
        locked, still = with_whole_units(locked)
        groups = keep_all_addresses(groups, locked, server_by_port)
    else:
        still = frozenset[int]()
    answers, changes = decide_claims(groups, locked)
    changes = replace(changes, provider_ids_still=still)
    unlooked = not look and any(isinstance(answer, Refused) for answer in answers)
    if unlooked or await claims_store.write_changes(tx, changes):
        raise ConcurrentUpdate("another claim made one of the consumers at the same time: read it and try again")
    return answers


async def release(
    ledger: Ledger, consumer_uuids: Sequence[str], *, generations: Mapping[str, int] | None = None
) -> int:
    """Release all that the consumers hold; with generations, only of those that are still at theirs.

    Returns how many of them held something. Never refused: whoever gives back has looked long enough.
    """
    released = 0
    for start in range(0, len(consumer_uuids), CLAIM_GROUPS_MAX):
        async with ledger.database.transaction() as tx:
            consumers = await claims_store.lock_consumers(tx, consumer_uuids[start : start + CLAIM_GROUPS_MAX])
            if generations is not None:
                consumers = {uuid: row for uuid, row in consumers.items() if row.generation == generations.get(uuid)}
            keys = [(key, used) for row in consumers.values() for key, used in row.allocations.items()]
            used_change: dict[tuple[int, int], int] = {}
            for key, used in keys:
                used_change[key] = used_change.get(key, 0) - used
            provider_ids = frozenset(provider_id for provider_id, _ in used_change)
            await claims_store.lock_providers(tx, (), provider_ids)
            gone = tuple(
                ConsumerWrite(uuid, row.generation, None, "", "", created=False, allocations={})
                for uuid, row in consumers.items()
            )
            await claims_store.write_changes(
                tx, Changes(consumers=gone, used=used_change, provider_ids=provider_ids, generation_steps=0)
            )
            released += len(consumers)
    return released


async def get_consumers(ledger: Ledger, uuids: Sequence[str]) -> dict[str, ConsumerState]:
    """Return the consumers that hold something, by UUID; those that hold nothing are left out."""
    async with ledger.database.connection() as connection:
        return await claims_store.get_consumers(connection, uuids)


async def list_consumers(ledger: Ledger, consumer_type: str, *, after: str, limit: int) -> list[str]:
    """Return a page of the consumers of one type, by UUID."""
    async with ledger.database.connection() as connection:
        return await claims_store.list_consumers(connection, consumer_type, after=after, limit=limit)


async def list_usages(ledger: Ledger, provider_uuids: Sequence[str]) -> dict[str, dict[str, tuple[int, int]]]:
    """Return provider UUID -> resource class -> (capacity, used)."""
    async with ledger.database.connection() as connection:
        return await claims_store.list_usages(connection, provider_uuids)


async def list_aggregate_providers(ledger: Ledger, aggregates: Sequence[str]) -> dict[str, list[str]]:
    """Return placement aggregate -> UUIDs of the providers in it."""
    async with ledger.database.connection() as connection:
        return await providers_store.list_aggregate_providers(connection, aggregates)


async def ensure_providers(ledger: Ledger, states: Sequence[ProviderState]) -> None:
    """Create or change providers until they are as said; parents are among them, or exist.

    Raises ProviderNameTaken, ProviderNotFound (a parent), InventoryInUse, ResourceClassNotFound, TraitNotFound; then
    nothing of its transaction (PROVIDERS_MAX states) is changed.
    """
    for start in range(0, len(states), PROVIDERS_MAX):
        batch = states[start : start + PROVIDERS_MAX]
        try:
            async with ledger.database.transaction() as tx:
                await _ensure_providers(ledger, tx, batch, names_change=False)
        except _NamesChange:
            async with ledger.database.transaction() as tx:
                await _ensure_providers(ledger, tx, batch, names_change=True)


async def fit_providers(ledger: Ledger, states: Sequence[ProviderState]) -> list[str]:
    """See ProviderClient.fit_providers. Raises what ensure_providers does for names that are not there."""
    async with ledger.database.transaction() as tx:
        rows = await providers_store.lock_provider_rows(tx, sorted(state.uuid for state in states))
        states_known = [state for state in states if state.uuid in rows]
        unfit = [
            state.uuid
            for state in states_known
            if not fits(rows[state.uuid].used, state.inventories or {}, rows[state.uuid].inventories)
        ]
        if not unfit:
            shapes = [decide_shape(state, rows[state.uuid])[0] for state in states_known]
            await write_shapes(ledger, tx, [shape for shape in shapes if shape is not None])
    return unfit


class _NamesChange(ConcurrentUpdate):
    """Some providers are new or get a new name, which has to be known beforehand: names are locked before providers."""


async def _ensure_providers(
    ledger: Ledger, tx: Connection, states: Sequence[ProviderState], *, names_change: bool
) -> None:
    """Create and change providers. Raises _NamesChange if a name changes and names are not locked."""
    await _keep_names(ledger, tx, states)
    if names_change:
        await providers_store.lock_names(tx)
    uuids = [state.uuid for state in states]
    rows = await providers_store.lock_provider_rows(
        tx, sorted({*uuids, *(state.parent_uuid or state.uuid for state in states)})
    )
    missing = [state for state in states if state.uuid not in rows]
    if not names_change and (missing or any(state.name != rows[state.uuid].name for state in states)):
        raise _NamesChange
    if missing:
        await _insert_providers(tx, missing, known=rows.keys())
        rows = await providers_store.lock_provider_rows(tx, uuids)
    shapes = []
    for state in states:
        shape, in_use = decide_shape(state, rows[state.uuid])
        if in_use:
            raise InventoryInUse(
                f"Inventory for '{', '.join(sorted(in_use))}' on resource provider '{state.uuid}' in use."
            )
        if shape is not None:
            shapes.append(shape)
    await write_shapes(ledger, tx, shapes)


async def _insert_providers(tx: Connection, missing: Sequence[ProviderState], *, known: Set[str]) -> None:
    """Insert parents before their children. Raises ProviderNotFound for a parent that is nowhere, ProviderNameTaken."""
    waiting = {state.uuid: state for state in missing}
    if unknown := {state.parent_uuid for state in missing if state.parent_uuid} - known - waiting.keys():
        raise ProviderNotFound(f"No resource provider with uuid {', '.join(sorted(unknown))} found")
    levels = []
    while waiting:
        ready = [state for state in waiting.values() if state.parent_uuid not in waiting]
        if not ready:
            raise ProviderNotFound(f"parent providers form a circle: {sorted(waiting)}")
        levels.append([(state.uuid, state.name, state.parent_uuid) for state in ready])
        for state in ready:
            del waiting[state.uuid]
    for level in levels:
        await providers_store.insert_providers(tx, level)


async def set_placement_aggregates(
    ledger: Ledger, aggregates_by_provider: Mapping[str, frozenset[str]], *, managed: frozenset[str]
) -> None:
    """Put providers into these of the `managed` aggregates and into no other managed one; the rest stays.

    Unknown providers are skipped. PROVIDERS_MAX providers in one transaction.
    """
    uuids = list(aggregates_by_provider)
    for start in range(0, len(uuids), PROVIDERS_MAX):
        async with ledger.database.transaction() as tx:
            rows = await providers_store.lock_provider_rows(tx, uuids[start : start + PROVIDERS_MAX])
            states = [
                ProviderState(
                    uuid=uuid,
                    name=row.name,
                    placement_aggregates=(row.placement_aggregates - managed) | aggregates_by_provider[uuid],
                )
                for uuid, row in rows.items()
            ]
            shapes = [shape for state in states if (shape := decide_shape(state, rows[state.uuid])[0]) is not None]
            await write_shapes(ledger, tx, shapes)


async def write_shapes(ledger: Ledger, tx: Connection, shapes: Sequence[ShapeChange]) -> None:
    """Write what changed of locked providers; whose new names were kept from being deleted."""
    classes = {name for shape in shapes for name in shape.inventories_set.keys() - shape.present_class_ids.keys()}
    traits = {name for shape in shapes for name in shape.traits_new | shape.traits_gone}
    await providers_store.write_shapes(
        tx,
        shapes,
        resource_class_ids=await find_ids(ledger, tx, NameKind.RESOURCE_CLASS, classes),
        trait_ids=await find_ids(ledger, tx, NameKind.TRAIT, traits),
    )


async def _keep_names(ledger: Ledger, tx: Connection, states: Sequence[ProviderState]) -> None:
    """Make the custom resource classes and traits that are missing. Raises ResourceClassNotFound, TraitNotFound."""
    classes = {name for state in states for name in state.inventories or ()}
    traits = {name for state in states for name in state.traits or ()}
    custom = sorted(name for name in classes if name.startswith("CUSTOM_"))
    if custom and len(await names_store.list_ids(tx, NameKind.RESOURCE_CLASS, custom)) < len(custom):
        await names_store.lock_class_names(tx, shared=True)
        await names_store.insert_names(tx, NameKind.RESOURCE_CLASS, custom)
    if custom := sorted(name for name in traits if name.startswith("CUSTOM_")):
        await names_store.insert_names(tx, NameKind.TRAIT, custom)
    await keep_names(ledger, tx, NameKind.RESOURCE_CLASS, classes)
    await keep_names(ledger, tx, NameKind.TRAIT, traits)


async def delete_providers(ledger: Ledger, uuids: Sequence[str]) -> list[str]:
    """Delete providers that nobody uses; returns those that stay, because they are in use or have children."""
    async with ledger.database.transaction() as tx:
        ids = await claims_store.lock_providers(tx, uuids)
        busy = await providers_store.delete_providers(tx, list(ids.values()))
    return [uuid for uuid, provider_id in ids.items() if provider_id in busy]
