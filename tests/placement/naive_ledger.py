"""The ledger as anybody would write it down who never heard of SQL, arrays or locks: what the real one is held to.

Each operation returns the name of the error that it must be refused with, "" for none, and then it is done.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from roost.placement.service.reshape import NewInventories
from roost.seams.placement import ClaimGroup, ConsumerClaim, Inventory, ProviderState

STANDARD_CLASSES = ("VCPU", "MEMORY_MB")
STANDARD_TRAITS = ("HW_CPU_X86_AVX",)

Held = dict[tuple[str, str], int]
"""(provider UUID, resource class) -> amount."""


@dataclass
class Provider:
    """All that a provider is; parent: UUID, "" for none."""

    name: str
    parent: str = ""
    generation: int = 0
    inventories: dict[str, Inventory] = field(default_factory=dict)
    traits: set[str] = field(default_factory=set)
    aggregates: set[str] = field(default_factory=set)


@dataclass
class Consumer:
    """All that a consumer holds, of whom."""

    generation: int
    held: Held
    consumer_type: str | None
    project_id: str


class NaiveLedger:
    """Dictionaries, and every rule in the words of the API's reference."""

    def __init__(self) -> None:
        self.providers: dict[str, Provider] = {}
        self.consumers: dict[str, Consumer] = {}
        self.classes = set(STANDARD_CLASSES)
        self.traits = set(STANDARD_TRAITS)

    def used(self, provider: str, name: str) -> int:
        return sum(consumer.held.get((provider, name), 0) for consumer in self.consumers.values())

    def root(self, uuid: str) -> str:
        while self.providers[uuid].parent:
            uuid = self.providers[uuid].parent
        return uuid

    def _above(self, uuid: str) -> set[str]:
        """A provider and all that it is below of."""
        found = {uuid}
        while self.providers[uuid].parent:
            uuid = self.providers[uuid].parent
            found.add(uuid)
        return found

    def _name_taken(self, name: str, uuid: str) -> bool:
        return any(provider.name == name for other, provider in self.providers.items() if other != uuid)

    # Providers.

    def create(self, uuid: str, name: str, parent: str) -> str:
        if parent and (parent == uuid or parent not in self.providers):
            return "ProviderMalformed"
        if uuid in self.providers or self._name_taken(name, uuid):
            return "ProviderNameTaken"
        self.providers[uuid] = Provider(name, parent)
        return ""

    def update(self, uuid: str, name: str, parent: str | None, *, may_reparent: bool) -> str:
        """parent: None to leave it, "" for none."""
        if uuid not in self.providers:
            return "ProviderNotFound"
        provider = self.providers[uuid]
        if parent is not None and parent != provider.parent:
            if parent and parent not in self.providers:
                return "ProviderMalformed"
            if (provider.parent and not may_reparent) or (parent and uuid in self._above(parent)):
                return "ProviderMalformed"
        if self._name_taken(name, uuid):
            return "ProviderNameTaken"
        provider.name = name
        provider.parent = provider.parent if parent is None else parent
        return ""

    def delete(self, uuid: str) -> str:
        if uuid not in self.providers:
            return "ProviderNotFound"
        if any(provider.parent == uuid for provider in self.providers.values()):
            return "ProviderHasChildren"
        if any(key[0] == uuid for consumer in self.consumers.values() for key in consumer.held):
            return "ProviderInUse"
        del self.providers[uuid]
        return ""

    def ensure(self, states: Sequence[ProviderState]) -> str:
        """All of them or none; generations are not foretold."""
        before = deepcopy((self.providers, self.classes, self.traits))
        refused = self._ensure(states)
        if refused:
            self.providers, self.classes, self.traits = before
        return refused

    def _ensure(self, states: Sequence[ProviderState]) -> str:
        self.classes |= {name for state in states for name in state.inventories or () if name.startswith("CUSTOM_")}
        self.traits |= {name for state in states for name in state.traits or () if name.startswith("CUSTOM_")}
        new = {state.uuid: state for state in states if state.uuid not in self.providers}
        for state in new.values():
            if state.parent_uuid and state.parent_uuid not in new and state.parent_uuid not in self.providers:
                return "ProviderNotFound"
        for state in new.values():
            seen, above = set(), state.uuid
            while above in new:
                if above in seen:
                    return "ProviderNotFound"
                seen.add(above)
                above = new[above].parent_uuid or ""
        for state in new.values():
            if self._name_taken(state.name, state.uuid):
                return "ProviderNameTaken"
            self.providers[state.uuid] = Provider(state.name, state.parent_uuid or "")
        for state in states:
            provider = self.providers[state.uuid]
            if state.inventories is not None and self._in_use(state.uuid, state.inventories):
                return "InventoryInUse"
            if state.inventories is not None:
                provider.inventories = dict(state.inventories)
            if state.traits is not None:
                kept = set() if state.managed_traits is None else provider.traits - state.managed_traits
                provider.traits = kept | state.traits
            if state.placement_aggregates is not None:
                provider.aggregates = set(state.placement_aggregates)
        for state in states:
            if self._name_taken(state.name, state.uuid):
                return "ProviderNameTaken"
            self.providers[state.uuid].name = state.name
        return ""

    # What providers have.

    def _in_use(self, uuid: str, inventories: Mapping[str, Inventory]) -> bool:
        gone = self.providers[uuid].inventories.keys() - inventories.keys()
        return any(self.used(uuid, name) for name in gone)

    def _stale(self, uuid: str, generation: int | None) -> str:
        if uuid not in self.providers:
            return "ProviderNotFound"
        return "" if generation in (None, self.providers[uuid].generation) else "ConcurrentUpdate"

    def set_inventories(self, uuid: str, inventories: Mapping[str, Inventory], generation: int | None) -> str:
        if not inventories.keys() <= self.classes:
            return "ResourceClassNotFound"
        if refused := self._stale(uuid, generation):
            return refused
        if self._in_use(uuid, inventories):
            return "InventoryInUse"
        self.providers[uuid].inventories = dict(inventories)
        self.providers[uuid].generation += 1
        return ""

    def add_inventory(self, uuid: str, name: str, inventory: Inventory) -> str:
        if name not in self.classes:
            return "ResourceClassNotFound"
        if uuid in self.providers and name in self.providers[uuid].inventories:
            return "ConcurrentUpdate"
        held = self.providers[uuid].inventories if uuid in self.providers else {}
        return self.set_inventories(uuid, {**held, name: inventory}, None)

    def update_inventory(self, uuid: str, name: str, inventory: Inventory, generation: int) -> str:
        if refused := self._stale(uuid, generation):
            return refused
        if name not in self.providers[uuid].inventories:
            return "InventoryMalformed"
        return self.set_inventories(uuid, {**self.providers[uuid].inventories, name: inventory}, generation)

    def delete_inventory(self, uuid: str, name: str) -> str:
        if refused := self._stale(uuid, None):
            return refused
        left = dict(self.providers[uuid].inventories)
        if left.pop(name, None) is None:
            return "InventoryMissing"
        return self.set_inventories(uuid, left, None).replace("InventoryInUse", "ConcurrentUpdate")

    def set_traits(self, uuid: str, traits: frozenset[str], generation: int | None) -> str:
        if not traits <= self.traits:
            return "TraitNotFound"
        if refused := self._stale(uuid, generation):
            return refused
        self.providers[uuid].generation += self.providers[uuid].traits != traits
        self.providers[uuid].traits = set(traits)
        return ""

    def set_aggregates(self, uuid: str, aggregates: frozenset[str], generation: int | None) -> str:
        if refused := self._stale(uuid, generation):
            return refused
        self.providers[uuid].generation += generation is not None
        self.providers[uuid].aggregates = set(aggregates)
        return ""

    # Names.

    def rename_class(self, name: str, new_name: str) -> str:
        if name not in self.classes:
            return "ResourceClassMissing"
        if name in STANDARD_CLASSES:
            return "ResourceClassStandard"
        if new_name in self.classes - {name}:
            return "ResourceClassTaken"
        self.classes = self.classes - {name} | {new_name}
        for provider in self.providers.values():
            if name in provider.inventories:
                provider.inventories[new_name] = provider.inventories.pop(name)
        for consumer in self.consumers.values():
            consumer.held = {
                (uuid, new_name if held == name else held): amount for (uuid, held), amount in consumer.held.items()
            }
        return ""

    def delete_class(self, name: str) -> str:
        if name not in self.classes:
            return "ResourceClassMissing"
        if name in STANDARD_CLASSES:
            return "ResourceClassStandard"
        if any(name in provider.inventories for provider in self.providers.values()):
            return "ResourceClassInUse"
        self.classes.remove(name)
        return ""

    def delete_trait(self, name: str) -> str:
        if name not in self.traits:
            return "TraitMissing"
        if name in STANDARD_TRAITS:
            return "TraitStandard"
        if any(name in provider.traits for provider in self.providers.values()):
            return "TraitInUse"
        self.traits.remove(name)
        return ""

    # Claims.

    def claim(self, groups: Sequence[ClaimGroup]) -> list[set[str]]:
        """One after the other; for each group the rules that it breaks, none when it is taken."""
        return [self._claim(group.consumers, units_again=False) for group in groups]

    def release(self, uuids: Sequence[str], generations: Mapping[str, int] | None) -> int:
        gone = [
            uuid
            for uuid in uuids
            if uuid in self.consumers
            and (generations is None or self.consumers[uuid].generation == generations.get(uuid))
        ]
        for uuid in gone:
            del self.consumers[uuid]
        return len(gone)

    def reshape(self, new: Mapping[str, NewInventories], claims: Sequence[ConsumerClaim]) -> tuple[str, set[str]]:
        """The error's name, or the rules that the claims break."""
        names = {name for one in new.values() for name in one.inventories}
        names |= {name for claim in claims for held in claim.allocations.values() for name in held}
        if not names <= self.classes:
            return "ResourceClassNotFound", set()
        for uuid, one in new.items():
            if refused := self._stale(uuid, one.generation):
                return refused.replace("ProviderNotFound", "ReshapeProviderNotFound"), set()
        before = deepcopy((self.providers, self.consumers))
        for uuid, one in new.items():
            self.providers[uuid].inventories |= one.inventories
        broken = self._claim(claims, units_again=True)
        in_use = not broken and any(self._in_use(uuid, one.inventories) for uuid, one in new.items())
        if broken or in_use:
            self.providers, self.consumers = before
            return "InventoryInUse" if in_use else "", broken
        for uuid, one in new.items():
            self.providers[uuid].inventories = dict(one.inventories)
        return "", set()

    def _claim(self, claims: Sequence[ConsumerClaim], *, units_again: bool) -> set[str]:
        broken: set[str] = set()
        nobody = Consumer(-1, {}, None, "")
        before = {claim.consumer_uuid: self.consumers.get(claim.consumer_uuid, nobody) for claim in claims}
        after: dict[str, Held] = {}
        for claim in claims:
            held = after[claim.consumer_uuid] = {}
            seen = before[claim.consumer_uuid]
            if not claim.any_generation and (-1 if claim.generation is None else claim.generation) != seen.generation:
                broken.add("consumer_generation")
            for uuid, resources in claim.allocations.items():
                for name, amount in resources.items():
                    inventory = self.providers[uuid].inventories.get(name) if uuid in self.providers else None
                    if inventory is None:
                        broken.add("no_inventory" if uuid in self.providers else "no_provider")
                        continue
                    held[uuid, name] = amount
                    if units_again or seen.held.get((uuid, name)) != amount:
                        broken |= _broken_units(inventory, amount)
        for key in {key for held in after.values() for key in held}:
            more = sum(held.get(key, 0) for held in after.values()) - sum(
                one.held.get(key, 0) for one in before.values()
            )
            inventory = self.providers[key[0]].inventories[key[1]]
            if more > 0 and self.used(*key) + more > int(
                (inventory.total - inventory.reserved) * inventory.allocation_ratio
            ):
                broken.add("capacity")
        if not broken:
            for claim in claims:
                self._write(claim, after[claim.consumer_uuid])
        return broken

    def _write(self, claim: ConsumerClaim, held: Held) -> None:
        seen = self.consumers.pop(claim.consumer_uuid, None)
        if held:
            consumer_type = claim.consumer_type or (seen.consumer_type if seen else None)
            generation = seen.generation + 1 if seen else 1
            self.consumers[claim.consumer_uuid] = Consumer(generation, held, consumer_type, claim.project_id)


def _broken_units(inventory: Inventory, amount: int) -> set[str]:
    rules = {
        "min_unit": amount < inventory.min_unit,
        "max_unit": amount > inventory.max_unit,
        "step_size": amount % inventory.step_size != 0,
    }
    return {rule for rule, broken in rules.items() if broken}
