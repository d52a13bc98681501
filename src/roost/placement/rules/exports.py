"""Decides what to write to another Placement, over its API and in which order, so that it holds what the ledger holds.

Each step is allowed in the state that the steps before it leave, and the plan for any state, an interrupted export's
included, leads to the same end. Generations are the other's own: no API sets them.
"""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from roost.placement.model import ImportedProvider, Kind, LedgerState
from roost.placement.rules.imports import CUSTOM, LeftOut, top_down
from roost.seams.placement import ConsumerState, ConsumerType, Inventory

AMOUNT_MAX = 2**31 - 1
ROOMY = Inventory(total=AMOUNT_MAX, max_unit=AMOUNT_MAX)
"""Takes any claim. The ledger may hold more than its inventories have room for, which the other lets nobody claim."""

Line = tuple[str, str]
"""(provider UUID, resource class)"""


class Place(Struct, frozen=True):
    """A provider's name and parent."""

    uuid: str
    name: str
    parent_uuid: str | None


class ExportPlan(Struct, frozen=True, kw_only=True):
    """What to write, in the order of the fields.

    names_cleared: of providers whose names would be in the way. providers_new, places: parents first, so that no
    provider comes below one of its own descendants on the way. inventories_first: with room for every claim;
    inventories_last: as they are to be. providers_gone: children first.
    """

    classes_new: tuple[str, ...]
    traits_new: tuple[str, ...]
    consumers_gone: tuple[str, ...]
    names_cleared: tuple[Place, ...]
    providers_new: tuple[Place, ...]
    places: tuple[Place, ...]
    inventories_first: Mapping[str, Mapping[str, Inventory]]
    traits: Mapping[str, frozenset[str]]
    placement_aggregates: Mapping[str, frozenset[str]]
    consumers: tuple[ConsumerState, ...]
    inventories_last: Mapping[str, Mapping[str, Inventory]]
    providers_gone: tuple[str, ...]
    traits_gone: tuple[str, ...]
    classes_gone: tuple[str, ...]


def without_generations(state: LedgerState) -> LedgerState:
    """Return the ledger as two are compared: the generations are each one's own."""
    return msgspec.structs.replace(
        state,
        providers={uuid: msgspec.structs.replace(item, generation=0) for uuid, item in state.providers.items()},
        consumers={uuid: msgspec.structs.replace(item, generation=0) for uuid, item in state.consumers.items()},
    )


def without_port_claims(state: LedgerState) -> LedgerState:
    """Return the ledger without the consumers that are ports, of which an upstream Neutron releases none."""
    consumers = {uuid: item for uuid, item in state.consumers.items() if item.consumer_type != ConsumerType.PORT.value}
    return msgspec.structs.replace(state, consumers=consumers)


def leave_out_unknown(wanted: LedgerState, present: LedgerState) -> tuple[LedgerState, tuple[LeftOut, ...]]:
    """Return what is wanted without standard names that the other does not know, and what was left out for that.

    Its libraries of names may be older; only custom ones can be made. A consumer is left out whole.
    """
    left_out = []
    providers = {}
    for uuid, provider in wanted.providers.items():
        traits = sorted(name for name in provider.traits - present.traits if not name.startswith(CUSTOM))
        classes = sorted(_unknown(provider.inventories, present))
        if traits or classes:
            text = f"{', '.join([*traits, *classes])}: there is no such standard name there"
            left_out.append(LeftOut(Kind.PROVIDER, uuid, text))
        providers[uuid] = msgspec.structs.replace(
            provider,
            traits=provider.traits.difference(traits),
            inventories={name: item for name, item in provider.inventories.items() if name not in classes},
        )
    consumers = {}
    for uuid, consumer in wanted.consumers.items():
        names = {name for resources in consumer.allocations.values() for name in resources}
        if unknown := sorted(_unknown(names, present)):
            text = f"it holds {', '.join(unknown)}: there is no such standard name there"
            left_out.append(LeftOut(Kind.CONSUMER, uuid, text))
        else:
            consumers[uuid] = consumer
    known = LedgerState(
        resource_classes=_makeable(wanted.resource_classes, present.resource_classes),
        traits=_makeable(wanted.traits, present.traits),
        providers=providers,
        consumers=consumers,
    )
    return known, tuple(left_out)


def _makeable(names: frozenset[str], present: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if name in present or name.startswith(CUSTOM))


def _unknown(names: Mapping[str, object] | set[str], present: LedgerState) -> set[str]:
    return {name for name in names if name not in present.resource_classes and not name.startswith(CUSTOM)}


def plan_export(wanted: LedgerState, present: LedgerState, *, delete: bool) -> ExportPlan:
    """Return what makes `present` as `wanted`; with delete, without what only it has. Neither has generations."""
    gone = sorted(present.consumers.keys() - wanted.consumers.keys()) if delete else []
    consumers = tuple(item for uuid, item in sorted(wanted.consumers.items()) if present.consumers.get(uuid) != item)
    first = _inventories_first(wanted, present, consumers, frozenset(gone))
    ordered = list(top_down(wanted.providers))
    providers_gone = [item for item in top_down(present.providers) if item.uuid not in wanted.providers]
    existing = [item for item in ordered if item.uuid in present.providers]
    return ExportPlan(
        classes_new=_new_names(wanted.resource_classes, present.resource_classes),
        traits_new=_new_names(wanted.traits, present.traits),
        consumers_gone=tuple(gone),
        names_cleared=tuple(_clear_names(wanted, present, delete=delete)),
        providers_new=tuple(_place(item) for item in ordered if item.uuid not in present.providers),
        places=tuple(_place(item) for item in existing if _place(item) != _place(present.providers[item.uuid])),
        inventories_first={uuid: item for uuid, item in first.items() if item != _inventories(present, uuid)},
        traits={item.uuid: item.traits for item in ordered if item.traits != _traits(present, item.uuid)},
        placement_aggregates={
            item.uuid: item.placement_aggregates
            for item in ordered
            if item.placement_aggregates != _aggregates(present, item.uuid)
        },
        consumers=consumers,
        inventories_last={item.uuid: item.inventories for item in ordered if item.inventories != first[item.uuid]},
        providers_gone=tuple(item.uuid for item in reversed(providers_gone)) if delete else (),
        traits_gone=_new_names(present.traits, wanted.traits) if delete else (),
        classes_gone=_new_names(present.resource_classes, wanted.resource_classes) if delete else (),
    )


def _new_names(these: frozenset[str], those: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in these - those if name.startswith(CUSTOM)))


def _place(provider: ImportedProvider) -> Place:
    return Place(provider.uuid, provider.name, provider.parent_uuid)


def _inventories(state: LedgerState, uuid: str) -> Mapping[str, Inventory]:
    return state.providers[uuid].inventories if uuid in state.providers else {}


def _traits(state: LedgerState, uuid: str) -> frozenset[str]:
    return state.providers[uuid].traits if uuid in state.providers else frozenset()


def _aggregates(state: LedgerState, uuid: str) -> frozenset[str]:
    return state.providers[uuid].placement_aggregates if uuid in state.providers else frozenset()


def _clear_names(wanted: LedgerState, present: LedgerState, *, delete: bool) -> Iterator[Place]:
    """Yield providers that give up a name that another is to have."""
    names = {item.name: uuid for uuid, item in wanted.providers.items()}
    for uuid, item in sorted(present.providers.items()):
        may_change = delete or uuid in wanted.providers
        if may_change and names.get(item.name, uuid) != uuid:
            yield Place(uuid, f"being exported {uuid}", item.parent_uuid)


def _inventories_first(
    wanted: LedgerState, present: LedgerState, consumers: tuple[ConsumerState, ...], gone: frozenset[str]
) -> dict[str, dict[str, Inventory]]:
    """Return, for each provider that is wanted, inventories in which every claim fits, in whatever order they come.

    What only the other has stays as long as somebody holds it.
    """
    peaks, amounts = _peaks(wanted, present, gone)
    touched = {line for item in consumers for line in _lines(item)}
    result: dict[str, dict[str, Inventory]] = {}
    for uuid, provider in wanted.providers.items():
        present_held = {name: item for name, item in _inventories(present, uuid).items() if (uuid, name) in peaks}
        inventories = present_held | dict(provider.inventories)
        for name, inventory in inventories.items():
            line = (uuid, name)
            if line in touched and not _fits(inventory, peaks[line], amounts[line]):
                inventories[name] = ROOMY
        result[uuid] = inventories
    return result


def _peaks(
    wanted: LedgerState, present: LedgerState, gone: frozenset[str]
) -> tuple[dict[Line, int], dict[Line, set[int]]]:
    """Return how much is held at most while consumers change one after the other, and each amount to be claimed."""
    peaks: dict[Line, int] = {}
    amounts: dict[Line, set[int]] = {}
    for uuid in (wanted.consumers.keys() | present.consumers.keys()) - gone:
        after = _lines(wanted.consumers[uuid]) if uuid in wanted.consumers else {}
        before = _lines(present.consumers[uuid]) if uuid in present.consumers else {}
        for line in after.keys() | before.keys():
            peaks[line] = peaks.get(line, 0) + max(after.get(line, 0), before.get(line, 0))
            if line in after:
                amounts.setdefault(line, set()).add(after[line])
    return peaks, amounts


def _fits(inventory: Inventory, peak: int, amounts: set[int]) -> bool:
    capacity = int((inventory.total - inventory.reserved) * inventory.allocation_ratio)
    return peak <= capacity and all(
        inventory.min_unit <= amount <= inventory.max_unit and amount % inventory.step_size == 0 for amount in amounts
    )


def _lines(consumer: ConsumerState) -> dict[Line, int]:
    return {(at, name): amount for at, resources in consumer.allocations.items() for name, amount in resources.items()}
