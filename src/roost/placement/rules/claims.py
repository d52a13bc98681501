"""Decides who may hold what: the capacity, unit and generation rules of a claim, for sets of claim groups.

It sees only what its caller has locked, and says everything that stands against a claim, not only the first thing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from roost.placement.model import NO_TYPE, AllocationKey, Changes, ConsumerRow, ConsumerWrite, LockedLedger
from roost.seams.placement import Claimed, ClaimGroup, ConsumerClaim, Refused, Rule, Shortfall

_NOBODY = ConsumerRow(generation=-1, allocations={})


def decide_claims(
    groups: Sequence[ClaimGroup], ledger: LockedLedger, *, held_units_fit: bool = True
) -> tuple[list[Claimed | Refused], Changes]:
    """Take each group whole or refuse it with all its shortfalls, in order; a later group sees the earlier ones.

    A claim replaces what its consumer held. What does not raise the use of a provider is allowed even where the
    provider is over its capacity. held_units_fit: an amount that the consumer holds already is not measured by
    min_unit, max_unit and step_size again. Source: Placement API, POST /allocations.
    """
    answers: list[Claimed | Refused] = []
    used_change: dict[AllocationKey, int] = {}
    consumers: dict[str, ConsumerRow] = dict(ledger.consumers)
    writes: dict[str, ConsumerWrite] = {}
    for group in groups:
        shortfalls: list[Shortfall] = []
        lines_wanted = [_resolve(claim, ledger, shortfalls) for claim in group.consumers]
        change = _net_change(group, lines_wanted, consumers)
        for claim, lines in zip(group.consumers, lines_wanted, strict=True):
            _check_generation(claim, consumers.get(claim.consumer_uuid, _NOBODY), shortfalls)
            present = consumers.get(claim.consumer_uuid, _NOBODY) if held_units_fit else _NOBODY
            _check_units(claim, lines, present, ledger, shortfalls)
        _check_capacity(group, change, used_change, ledger, shortfalls)
        if shortfalls:
            answers.append(Refused(tuple(shortfalls)))
            continue
        for key, amount in change.items():
            used_change[key] = used_change.get(key, 0) + amount
        generations = {}
        for claim, lines in zip(group.consumers, lines_wanted, strict=True):
            uuid = claim.consumer_uuid
            generation = consumers.get(uuid, _NOBODY).generation + 1 if uuid in consumers else 1
            generations[uuid] = generation
            writes[uuid] = ConsumerWrite(
                uuid, generation, _consumer_type(claim, writes, ledger), claim.project_id, claim.user_id,
                uuid not in ledger.consumers, lines,
            )  # fmt: skip
            if lines:
                consumers[uuid] = ConsumerRow(generation, lines)
            else:
                consumers.pop(uuid, None)  # it is gone: a later group that makes it again makes a new one
        answers.append(Claimed(generations))
    return answers, _changes(writes, used_change, ledger.consumers)


def _consumer_type(claim: ConsumerClaim, writes: Mapping[str, ConsumerWrite], ledger: LockedLedger) -> str | None:
    """Return the type to write: the claim's, or that of an earlier group, unless the consumer was gone in between."""
    earlier = writes.get(claim.consumer_uuid)
    if claim.consumer_type is not None or earlier is None:
        return claim.consumer_type
    if earlier.allocations:
        return earlier.consumer_type
    return NO_TYPE if claim.consumer_uuid in ledger.consumers else None


def _resolve(claim: ConsumerClaim, ledger: LockedLedger, shortfalls: list[Shortfall]) -> dict[AllocationKey, int]:
    """Return the claim's lines by inventory key; what has no inventory is a shortfall."""
    lines: dict[AllocationKey, int] = {}
    for provider_uuid, resources in claim.allocations.items():
        provider_id = ledger.provider_ids.get(provider_uuid)
        for name, amount in resources.items():
            key = (provider_id or 0, ledger.resource_class_ids.get(name, 0))
            if key in ledger.inventories:
                lines[key] = amount
                continue
            rule = Rule.NO_PROVIDER if provider_id is None else Rule.NO_INVENTORY
            shortfalls.append(
                Shortfall(
                    rule=rule, consumer_uuid=claim.consumer_uuid, provider_uuid=provider_uuid,
                    resource_class=name, requested=amount,
                )
            )  # fmt: skip
    return lines


def _net_change(
    group: ClaimGroup, lines_wanted: Sequence[Mapping[AllocationKey, int]], consumers: Mapping[str, ConsumerRow]
) -> dict[AllocationKey, int]:
    change: defaultdict[AllocationKey, int] = defaultdict(int)
    for claim, lines in zip(group.consumers, lines_wanted, strict=True):
        for key, amount in lines.items():
            change[key] += amount
        for key, amount in consumers.get(claim.consumer_uuid, _NOBODY).allocations.items():
            change[key] -= amount
    return change


def _check_generation(claim: ConsumerClaim, consumer: ConsumerRow, shortfalls: list[Shortfall]) -> None:
    if claim.any_generation:
        return
    generation = -1 if claim.generation is None else claim.generation
    if generation != consumer.generation or (claim.generation is None) != (consumer is _NOBODY):
        shortfalls.append(
            Shortfall(
                rule=Rule.CONSUMER_GENERATION,
                consumer_uuid=claim.consumer_uuid,
                requested=generation,
                free=consumer.generation,
            )
        )


def _check_units(
    claim: ConsumerClaim,
    lines: Mapping[AllocationKey, int],
    present: ConsumerRow,
    ledger: LockedLedger,
    shortfalls: list[Shortfall],
) -> None:
    for key, amount in lines.items():
        row = ledger.inventories[key]
        if row.min_unit <= amount <= row.max_unit and amount % row.step_size == 0:
            continue
        if present.allocations.get(key) == amount:
            continue  # kept as it was taken, under the rules of then
        for broken, rule, limit in (
            (amount < row.min_unit, Rule.MIN_UNIT, row.min_unit),
            (amount > row.max_unit, Rule.MAX_UNIT, row.max_unit),
            (amount % row.step_size != 0, Rule.STEP_SIZE, row.step_size),
        ):
            if broken:
                uuid, name = _names(key, ledger)
                shortfalls.append(
                    Shortfall(
                        rule=rule, consumer_uuid=claim.consumer_uuid, provider_uuid=uuid, resource_class=name,
                        requested=amount, free=row.capacity - row.used, limit=limit,
                    )
                )  # fmt: skip


def _check_capacity(
    group: ClaimGroup,
    change: Mapping[AllocationKey, int],
    used_change: Mapping[AllocationKey, int],
    ledger: LockedLedger,
    shortfalls: list[Shortfall],
) -> None:
    for key, amount in change.items():
        if amount <= 0:
            continue
        row = ledger.inventories[key]
        free = row.capacity - row.used - used_change.get(key, 0)
        if amount > free:
            uuid, name = _names(key, ledger)
            consumer = next(c.consumer_uuid for c in group.consumers if name in c.allocations.get(uuid, {}))
            shortfalls.append(
                Shortfall(
                    rule=Rule.CAPACITY, consumer_uuid=consumer, provider_uuid=uuid, resource_class=name,
                    requested=amount, free=free,
                )
            )  # fmt: skip


def _names(key: AllocationKey, ledger: LockedLedger) -> tuple[str, str]:
    provider_id, resource_class_id = key
    uuid = next(uuid for uuid, known in ledger.provider_ids.items() if known == provider_id)
    name = next(name for name, known in ledger.resource_class_ids.items() if known == resource_class_id)
    return uuid, name


def _changes(
    writes: Mapping[str, ConsumerWrite],
    used_change: Mapping[AllocationKey, int],
    before: Mapping[str, ConsumerRow],
) -> Changes:
    touched = {key[0] for write in writes.values() for key in write.allocations}
    touched |= {key[0] for uuid in writes if uuid in before for key in before[uuid].allocations}
    return Changes(
        consumers=tuple(writes.values()),
        used={key: amount for key, amount in used_change.items() if amount},
        provider_ids=frozenset(touched),
    )
