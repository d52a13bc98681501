"""The words of the ledger, as its writers hold them between reading and writing."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from roost.seams.placement import ConsumerState, Inventory

NEUTRON_CHANNEL = "roost_neutron"
"""Wakes who polls Neutron: it has told the ledger that a segment's addresses have changed."""


class NameKind(Enum):
    """What has names, standard ones and custom ones."""

    RESOURCE_CLASS = "resource_class"
    TRAIT = "trait"


AllocationKey = tuple[int, int]
"""(provider_id, resource_class_id): one line of inventory, or of a consumer's allocations."""


class InventoryRow(NamedTuple):
    """One line of inventory with its use, as locked. capacity: whole units of (total - reserved) * allocation_ratio."""

    capacity: int
    min_unit: int
    max_unit: int
    step_size: int
    used: int


class ConsumerRow(Struct, frozen=True):
    """A consumer as locked. allocations: (provider_id, resource_class_id) -> amount."""

    generation: int
    allocations: Mapping[AllocationKey, int]


class LockedLedger(Struct, frozen=True):
    """All that deciding a set of claims needs; what is not in a mapping does not exist."""

    provider_ids: Mapping[str, int]
    resource_class_ids: Mapping[str, int]
    inventories: Mapping[AllocationKey, InventoryRow]
    consumers: Mapping[str, ConsumerRow]


NO_TYPE = ""
"""The type to write for a consumer that had one and is to have none."""


class ConsumerWrite(NamedTuple):
    """A consumer that is to be written.

    consumer_type: None leaves the one that it has. created: it did not exist before. allocations: all that it holds.
    """

    uuid: str
    generation: int
    consumer_type: str | None
    project_id: str
    user_id: str
    created: bool
    allocations: Mapping[AllocationKey, int]


class Changes(Struct, frozen=True):
    """What deciding a set of claims changes. used: change of use by line of inventory, zero left out.

    generation_steps: by how much the generation of the providers grows; a release leaves it, as upstream does.
    provider_ids_still: of those providers whose generation stays all the same.
    """

    consumers: tuple[ConsumerWrite, ...]
    used: Mapping[AllocationKey, int]
    provider_ids: frozenset[int]
    generation_steps: int = 1
    provider_ids_still: frozenset[int] = frozenset()


class ProviderRow(Struct, frozen=True, kw_only=True):
    """A provider with all that it has.

    used: by resource class, of each inventory. resource_class_ids: of the inventories' classes, under the names that
    they had when this was read; others' may be among them. network_id: of a segment of a network that Neutron told of.
    """

    id: int
    uuid: str
    name: str
    generation: int
    parent_id: int | None
    root_id: int
    inventories: Mapping[str, Inventory]
    used: Mapping[str, int]
    traits: frozenset[str]
    placement_aggregates: frozenset[str]
    resource_class_ids: Mapping[str, int] = {}
    network_id: str | None = None


class ProviderHead(NamedTuple):
    """A provider without what it has."""

    uuid: str
    name: str
    generation: int
    parent_uuid: str | None
    root_uuid: str


class ProviderPlace(NamedTuple):
    """Where a provider is in its tree."""

    id: int
    parent_id: int | None
    root_id: int


class ShapeChange(Struct, frozen=True, kw_only=True):
    """What must be written to make one provider as it should be.

    name: as it will be. present_class_ids: ids of the resource classes of its present inventories. generation_steps: by
    how much its generation grows.
    """

    provider_id: int
    name: str
    inventories_set: Mapping[str, Inventory] = {}
    inventories_gone: frozenset[str] = frozenset()
    traits_new: frozenset[str] = frozenset()
    traits_gone: frozenset[str] = frozenset()
    aggregates_new: frozenset[str] = frozenset()
    aggregates_gone: frozenset[str] = frozenset()
    present_class_ids: Mapping[str, int]
    generation_steps: int = 1


class Kind(Enum):
    """What differs."""

    RESOURCE_CLASS = "resource class"
    TRAIT = "trait"
    PROVIDER = "provider"
    CONSUMER = "consumer"


class ImportedProvider(Struct, frozen=True, kw_only=True):
    """A provider with all that it has, without its allocations."""

    uuid: str
    name: str
    generation: int
    parent_uuid: str | None
    inventories: Mapping[str, Inventory]
    traits: frozenset[str]
    placement_aggregates: frozenset[str]


class LastImport(Struct, frozen=True, kw_only=True):
    """What the last import left: generations by UUID. Empty before the first one."""

    providers: Mapping[str, int] = {}
    consumers: Mapping[str, int] = {}


class LedgerState(Struct, frozen=True, kw_only=True):
    """A whole ledger. providers, consumers: by UUID; traits, resource_classes: every name, used or not."""

    resource_classes: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()
    providers: Mapping[str, ImportedProvider]
    consumers: Mapping[str, ConsumerState]

    def items(self, kind: Kind) -> Mapping[str, object]:
        """Return what the ledger has of one kind, by UUID or by name."""
        match kind:
            case Kind.PROVIDER:
                return self.providers
            case Kind.CONSUMER:
                return self.consumers
            case _:
                return dict.fromkeys(self.traits if kind is Kind.TRAIT else self.resource_classes)


class AddressClaim(Struct, frozen=True, kw_only=True):
    """What a consumer claims of one segment's addresses. server_uuid: of a port's claim; "" of any other.

    age_s: since it was last written.
    """

    consumer_uuid: str
    server_uuid: str
    generation: int
    segment_uuid: str
    amount: int
    age_s: float


class Usage(NamedTuple):
    """What is in use of a provider that is otherwise as it was. used: by resource class, all of them."""

    provider_id: int
    generation: int
    used: Mapping[str, int]


class RootRow(Struct, frozen=True):
    """A provider that is noted under another root than the top of its tree. place: as it should be."""

    place: ProviderPlace
    provider_uuid: str
    provider_name: str
    root_name: str


class StrayRow(Struct, frozen=True):
    """A row that points to nothing. what: allocation, unbacked (an allocation without inventory) or inventory."""

    what: str
    provider_id: int
    provider_uuid: str | None
    provider_name: str | None
    consumer_uuid: str | None
    resource_class: str


class UseRow(Struct, frozen=True):
    """An inventory whose use is not the sum of its allocations."""

    provider_id: int
    provider_uuid: str
    provider_name: str
    resource_class: str
    used: int
    allocated: int


class Allocation(NamedTuple):
    """How much of one resource class a consumer holds of a provider, with what is known of both."""

    consumer_uuid: str
    consumer_generation: int
    consumer_type: str | None
    project_id: str
    user_id: str
    provider_uuid: str
    provider_generation: int
    resource_class: str
    used: int


class TypeUsage(Struct, frozen=True):
    """What the consumers of one type hold together."""

    consumer_type: str | None
    consumers: int
    resources: dict[str, int]
