"""Claims and releases on a Placement service over HTTP: one POST /allocations for a claim group, or for several.

The service decides. What it refuses with is a sentence; so that callers get every shortfall, what it has is read and
decided once more by the ledger's own rule. Where that finds nothing against the claim, the refusal was a conflict
with somebody else's: the claim is made again.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from roost.clients.placement_bodies import allocation_body
from roost.clients.placement_http import CONCURRENT_UPDATE, Answer, PlacementUnavailable
from roost.clients.placement_reads import Elsewhere, get_consumers, read_each, read_usage
from roost.placement.model import AllocationKey, ConsumerRow, InventoryRow, LockedLedger
from roost.placement.rules.claims import decide_claims
from roost.seams.placement import Claimed, ClaimGroup, ConsumerClaim, ConsumerState, Inventory, Refused, Rule, Shortfall

GROUPS_MAX = 32
"""Claim groups in one request; when it is refused, they are asked for in halves."""

RELEASES_MAX = 200
"""Consumers in one release: upstream needs some 10 ms for each, and a request must be answered in time."""

CLAIM_ROUNDS_MAX = 6

Item = TypeVar("Item")
Lines = Mapping[str, Mapping[str, tuple[Inventory, int]]]
"""Provider UUID -> resource class -> (inventory, used)."""


async def claim(elsewhere: Elsewhere, groups: Sequence[ClaimGroup]) -> list[Claimed | Refused]:
    """See ClaimClient.claim. Cost: a request for GROUPS_MAX groups, and some more for each that is refused."""
    answers: list[Claimed | Refused] = []
    for batch in _batches(groups, GROUPS_MAX):
        answers += await _claim_batch(elsewhere, batch)
    return answers


async def _claim_batch(elsewhere: Elsewhere, groups: Sequence[ClaimGroup]) -> list[Claimed | Refused]:
    """Claim all in one request, or each half by itself where that is refused: a refusal undoes no other group."""
    if len(groups) == 1:
        return [await claim_together(elsewhere, groups[0].consumers)]
    claims = [claim for group in groups for claim in group.consumers]
    if claims and len({claim.consumer_uuid for claim in claims}) == len(claims):
        settled = await settle_claims(elsewhere, claims)
        if (await _post(elsewhere, settled)).good:
            generations = generations_after(settled)
            return [
                Claimed({consumer.consumer_uuid: generations[consumer.consumer_uuid] for consumer in g.consumers})
                for g in groups
            ]
    half = len(groups) // 2
    return await _claim_batch(elsewhere, groups[:half]) + await _claim_batch(elsewhere, groups[half:])


async def claim_together(elsewhere: Elsewhere, claims: Sequence[ConsumerClaim]) -> Claimed | Refused:
    """Claim one group. Raises PlacementUnavailable for one that others' claims came before again and again."""
    if not claims:
        return Claimed({})
    for claim_round in range(1, CLAIM_ROUNDS_MAX + 1):
        settled = await settle_claims(elsewhere, claims)
        answer = await _post(elsewhere, settled)
        if answer.good:
            return Claimed(generations_after(settled))
        refused = await why_refused(elsewhere, settled, answer, {}, last=claim_round == CLAIM_ROUNDS_MAX)
        if refused is not None:
            return refused
        await elsewhere.http.back_off(claim_round)
    raise PlacementUnavailable(f"the Placement service had other claims to do each time: {answer.detail}")


async def _post(elsewhere: Elsewhere, claims: Sequence[ConsumerClaim]) -> Answer:
    body = {claim.consumer_uuid: allocation_body(claim) for claim in claims}
    return await elsewhere.http.ask("POST", "/allocations", body)


async def settle_claims(elsewhere: Elsewhere, claims: Sequence[ConsumerClaim]) -> list[ConsumerClaim]:
    """Return the claims with the generation and the type that the API wants: read where a claim leaves them open."""
    unknown = [
        claim.consumer_uuid
        for claim in claims
        if claim.any_generation or (claim.consumer_type is None and claim.generation is not None)
    ]
    states = await get_consumers(elsewhere, unknown) if unknown else {}

    def settled(claim: ConsumerClaim) -> ConsumerClaim:
        state = states.get(claim.consumer_uuid)
        generation = claim.generation if not claim.any_generation else state.generation if state else None
        consumer_type = claim.consumer_type or (state.consumer_type if state else None)
        return msgspec.structs.replace(claim, generation=generation, consumer_type=consumer_type, any_generation=False)

    return [settled(claim) for claim in claims]


def generations_after(claims: Sequence[ConsumerClaim]) -> dict[str, int]:
    """Return what the generations of consumers are once these claims are made."""
    return {claim.consumer_uuid: 1 if claim.generation is None else claim.generation + 1 for claim in claims}


async def why_refused(
    elsewhere: Elsewhere,
    claims: Sequence[ConsumerClaim],
    answer: Answer,
    inventories: Mapping[str, Mapping[str, Inventory]],
    *,
    last: bool,
) -> Refused | None:
    """Return the shortfalls that stand against claims which the service refused; None: nothing does any more.

    inventories: of a reshape, what providers are to have. last: the claims are not made again, so that a refusal
    which the ledger's rule would not give is one as well: older services measure what is held already.
    Raises BadRequest for what is no conflict and no shortfall.
    """
    consumers = await get_consumers(elsewhere, [claim.consumer_uuid for claim in claims])
    provider_uuids = (uuid for state in consumers.values() for uuid in state.allocations)
    uuids = {uuid for claim in claims for uuid in claim.allocations} | set(inventories) | set(provider_uuids)
    lines = await read_each(uuids, lambda uuid: read_usage(elsewhere, uuid))
    ledger = _ledger_of(consumers, {uuid: of for uuid, of in lines.items() if of is not None}, inventories)
    group = ClaimGroup(tuple(claims))
    for held_units_fit in (True, False):
        (decided,), _ = decide_claims([group], ledger, held_units_fit=held_units_fit)
        if isinstance(decided, Refused):
            return decided
    if answer.status != 409:
        answer.read_nothing()  # raises
    if last and answer.code != CONCURRENT_UPDATE:
        return Refused(tuple(_over_capacity(group, ledger)))
    return None


def _ledger_of(
    consumers: Mapping[str, ConsumerState], lines: Lines, inventories: Mapping[str, Mapping[str, Inventory]]
) -> LockedLedger:
    """Return what was read, as the ledger's rule takes it. inventories: what some providers are to have."""
    provider_ids = {uuid: number for number, uuid in enumerate(lines, 1)}
    names = {name for of in lines.values() for name in of} | {name for of in inventories.values() for name in of}
    names |= {name for state in consumers.values() for of in state.allocations.values() for name in of}
    class_ids = {name: number for number, name in enumerate(sorted(names), 1)}
    rows: dict[AllocationKey, InventoryRow] = {}
    for uuid, of in lines.items():
        new = {name: (item, of[name][1] if name in of else 0) for name, item in inventories.get(uuid, {}).items()}
        for name, (item, used) in {**of, **new}.items():
            key = provider_ids[uuid], class_ids[name]
            rows[key] = InventoryRow(item.capacity, item.min_unit, item.max_unit, item.step_size, used)
    return LockedLedger(
        provider_ids=provider_ids,
        resource_class_ids=class_ids,
        inventories=rows,
        consumers={
            uuid: ConsumerRow(
                state.generation,
                {
                    (provider_ids[at], class_ids[name]): amount
                    for at, of in state.allocations.items()
                    if at in provider_ids
                    for name, amount in of.items()
                },
            )
            for uuid, state in consumers.items()
        },
    )


def _over_capacity(group: ClaimGroup, ledger: LockedLedger) -> Iterator[Shortfall]:
    """Yield what is claimed where a provider has less than is in use."""
    for claim in group.consumers:
        for uuid, resources in claim.allocations.items():
            for name, amount in resources.items():
                row = ledger.inventories[ledger.provider_ids[uuid], ledger.resource_class_ids[name]]
                if row.used > row.capacity:
                    yield Shortfall(
                        rule=Rule.CAPACITY, consumer_uuid=claim.consumer_uuid, provider_uuid=uuid,
                        resource_class=name, requested=amount, free=row.capacity - row.used,
                    )  # fmt: skip


async def release(
    elsewhere: Elsewhere, consumer_uuids: Sequence[str], *, generations: Mapping[str, int] | None = None
) -> None:
    """See ClaimClient.release. Cost: a request for each consumer, and one for RELEASES_MAX that hold something."""
    for batch in _batches(list(dict.fromkeys(consumer_uuids)), RELEASES_MAX):
        await _release_batch(elsewhere, batch, generations)


async def _release_batch(elsewhere: Elsewhere, uuids: Sequence[str], generations: Mapping[str, int] | None) -> None:
    for release_round in range(1, CLAIM_ROUNDS_MAX + 1):
        states = await get_consumers(elsewhere, uuids)
        due = [
            state.claiming({})
            for uuid, state in states.items()
            if generations is None or state.generation == generations.get(uuid)
        ]
        if not due:
            return
        answer = await _post(elsewhere, due)
        if answer.good:
            return
        if answer.status != 409:
            answer.read_nothing()  # raises
        await elsewhere.http.back_off(release_round)
    raise PlacementUnavailable(f"the Placement service released nothing: {answer.detail}")


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
