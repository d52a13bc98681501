"""What the ledger does for the conductor, the network and the compute service: claims, and the providers behind them.

UUIDs are canonical lower-case strings. Amounts are whole units of a resource class.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from msgspec import Struct

from roost.platform.structs import copy_as

VCPU, MEMORY_MB, DISK_GB = "VCPU", "MEMORY_MB", "DISK_GB"
IPV4_ADDRESS, IPV6_ADDRESS = "IPV4_ADDRESS", "CUSTOM_IPV6_ADDRESS"
ADDRESS_CLASSES = (IPV4_ADDRESS, IPV6_ADDRESS)
FAMILY_WORDS = {IPV4_ADDRESS: "IPv4", IPV6_ADDRESS: "IPv6"}
SHARING = "MISC_SHARES_VIA_AGGREGATE"
DISABLED = "COMPUTE_STATUS_DISABLED"
SEGMENT_NAME = "Neutron segment id {}"
"""The name of a segment's provider by its UUID. Source: Neutron, services/segments/plugin.py."""

Resources = Mapping[str, int]
"""Resource class name -> amount."""

Allocations = Mapping[str, Resources]
"""Provider UUID -> resources."""


class ConsumerType(Enum):
    """The consumers that Roost itself makes; the Placement API accepts any other name as well."""

    INSTANCE = "INSTANCE"
    MIGRATION = "MIGRATION"
    PORT = "PORT"


CAPACITY_MAX = 2**62
"""Where an allocation_ratio makes more of it, this is as much as any sum in 64 bits needs."""


class Inventory(Struct, frozen=True):
    """What a provider has of one resource class; capacity = (total - reserved) * allocation_ratio."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 2147483647
    step_size: int = 1
    allocation_ratio: float = 1.0

    @property
    def capacity(self) -> int:
        """Return whole units that can be in use at once, CAPACITY_MAX at most."""
        return int(min((self.total - self.reserved) * self.allocation_ratio, CAPACITY_MAX))


class ProviderState(Struct, frozen=True, kw_only=True):
    """What a provider should be: sent whole, so sending it twice does nothing. None leaves that part as it is.

    managed_traits: those that the sender keeps; other traits of the provider stay. None: all are as `traits` says.
    managed_classes: the same of inventories, by resource class; ensure_providers reads it, reshape does not.
    """

    uuid: str
    name: str
    parent_uuid: str | None = None
    inventories: Mapping[str, Inventory] | None = None
    traits: frozenset[str] | None = None
    managed_traits: frozenset[str] | None = None
    managed_classes: frozenset[str] | None = None
    placement_aggregates: frozenset[str] | None = None


class ConsumerClaim(Struct, frozen=True, kw_only=True):
    """What one consumer is to hold from now on, instead of what it held before; nothing at all releases it.

    generation: the one that was read, None for a consumer that must not exist yet; any_generation: whatever it is.
    consumer_type: None leaves the one that the consumer has.
    """

    consumer_uuid: str
    generation: int | None
    consumer_type: str | None
    project_id: str
    user_id: str
    allocations: Allocations
    any_generation: bool = False


class ClaimGroup(Struct, frozen=True):
    """Consumers that are claimed together or not at all: a server with its ports.

    addresses_stay: the claimer knows nothing of addresses, so what its consumers hold of them stays with them
    (placement/rules/implied.py). nics_addressed: segment -> how many NICs of the group's only consumer have an address
    there, as Neutron says; they need none.
    """

    consumers: tuple[ConsumerClaim, ...]
    addresses_stay: bool = False
    nics_addressed: Mapping[str, int] = {}


class Rule(Enum):
    """Which rule a claim breaks."""

    CAPACITY = "capacity"
    MIN_UNIT = "min_unit"
    MAX_UNIT = "max_unit"
    STEP_SIZE = "step_size"
    NO_INVENTORY = "no_inventory"
    NO_PROVIDER = "no_provider"
    CONSUMER_GENERATION = "consumer_generation"
    IN_USE = "in_use"


class Shortfall(Struct, frozen=True, kw_only=True):
    """One reason why a claim was refused.

    requested, free: units of the class; for CONSUMER_GENERATION the generation named and the present one (-1: none).
    limit: the min_unit, max_unit or step_size that was broken, else 0. IN_USE is said of an inventory that should go,
    by reshape only.
    """

    rule: Rule
    consumer_uuid: str
    provider_uuid: str = ""
    resource_class: str = ""
    requested: int = 0
    free: int = 0
    limit: int = 0


class Claimed(Struct, frozen=True):
    """The group holds what it asked for; generations: consumer UUID -> its generation now."""

    generations: Mapping[str, int]


class Refused(Struct, frozen=True):
    """The group holds what it held before; every reason, not only the first."""

    shortfalls: tuple[Shortfall, ...]


class ConsumerState(Struct, frozen=True, kw_only=True):
    """A consumer as the ledger has it."""

    consumer_uuid: str
    generation: int
    consumer_type: str | None
    project_id: str
    user_id: str
    allocations: Allocations

    def claiming(self, allocations: Allocations) -> ConsumerClaim:
        """Return the claim with which the consumer, unless it changed since, holds this instead."""
        return copy_as(ConsumerClaim, self, allocations=allocations)


def add_allocations(*parts: Allocations) -> dict[str, dict[str, int]]:
    """Return the sum of the allocations."""
    total: dict[str, dict[str, int]] = {}
    for part in parts:
        for provider_uuid, resources in part.items():
            amounts = total.setdefault(provider_uuid, {})
            for name, amount in resources.items():
                amounts[name] = amounts.get(name, 0) + amount
    return total


def show_allocations(allocations: Allocations) -> str:
    """Return the allocations in words, by provider."""
    shown = sorted(allocations.items())
    parts = [f"{amount} {name} of {uuid}" for uuid, resources in shown for name, amount in resources.items()]
    return ", ".join(parts) or "nothing"


def subtract_allocations(whole: Allocations, part: Allocations) -> dict[str, dict[str, int]]:
    """Return `whole`, which covers `part`, without it and without amounts of zero."""
    rests = {
        provider_uuid: {
            name: rest
            for name, amount in resources.items()
            if (rest := amount - part.get(provider_uuid, {}).get(name, 0))
        }
        for provider_uuid, resources in whole.items()
    }
    return {provider_uuid: resources for provider_uuid, resources in rests.items() if resources}


def covers_allocations(whole: Allocations, part: Allocations) -> bool:
    """Return whether `whole` has all of `part`, and perhaps more."""
    return all(
        whole.get(provider_uuid, {}).get(name, 0) >= amount
        for provider_uuid, resources in part.items()
        for name, amount in resources.items()
    )


def same_allocations(first: Allocations, second: Allocations) -> bool:
    """Return whether both are of the same amounts; an amount of zero is none."""
    return covers_allocations(first, second) and covers_allocations(second, first)


class RequestGroup(Struct, frozen=True, kw_only=True):
    """Resources that must come from one provider (suffixed), or from any of a tree (the unsuffixed group "").

    required: each member is a set of traits of which one is needed. member_of: each member is a set of placement
    aggregates of which the provider must be in one. in_tree: only providers of that provider's tree.
    """

    suffix: str
    resources: Resources
    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()
    in_tree: str | None = None


class Distinct(Enum):
    """What makes two candidates different ones.

    ROLES: two candidates that only swap providers between equal groups are one. MAPPINGS: they are two.
    """

    ROLES = "roles"
    MAPPINGS = "mappings"


class CandidateQuery(Struct, frozen=True, kw_only=True):
    """What is asked for. groups: the unsuffixed one first, if there is one; a suffixed one may be without resources.

    group_policy: "none" or "isolate". limit: at most so many candidates, 0 for all. same_subtree: sets of suffixes; one
    provider of each set is the others' ancestor, or all are the same. root_required, root_forbidden: traits of the root
    of the candidate's tree. nested: providers of one tree may be combined.
    """

    groups: tuple[RequestGroup, ...]
    group_policy: str = "none"
    limit: int = 0
    same_subtree: tuple[frozenset[str], ...] = ()
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    nested: bool = True
    distinct: Distinct = Distinct.ROLES


class Candidate(Struct, frozen=True):
    """One complete way to satisfy a query.

    root_uuid: the root of the tree that is not a sharing one (the host); providers_by_suffix: for each group in the
    order of the query, the provider of its resources; the unsuffixed group may spread over several.
    """

    root_uuid: str
    providers_by_suffix: Mapping[str, tuple[str, ...]]
    allocations: Allocations


class ProviderSummary(Struct, frozen=True):
    """What a provider of some candidate has: resource class -> (capacity, used)."""

    uuid: str
    name: str
    resources: Mapping[str, tuple[int, int]]


class Requirement(Enum):
    """What a step of a funnel asks of a host tree, beyond the steps before it; each value in placement's words."""

    HOSTS = "hosts"
    INVENTORY = "inventory of {all}"
    IN_TREE = "in the tree of provider {any}"
    MEMBER_OF = "in placement aggregate {any}"
    NOT_MEMBER_OF = "in none of the placement aggregates {any}"
    TRAIT = "trait {any}"
    NO_TRAIT = "no trait {any}"
    FREE = "{amount} {any} free"
    TOGETHER = "all of it together"
    ROOT_TRAIT = "root with trait {any}"
    NO_ROOT_TRAIT = "root without trait {any}"
    FLAT = "no two providers of one tree"
    ISOLATED = "each group on a provider of its own"
    SAME_SUBTREE = "groups {all} in one subtree"
    ADDRESSES = "{amount} {any} free on the host's segments of the networks asked for"
    COUNTED = "{amount} {any} on segments that a round with Neutron has counted"


class FunnelStep(Struct, frozen=True, kw_only=True):
    """One requirement of a query, and how many host trees meet it and all the steps before it.

    suffix: of its request group, "" for the unsuffixed one. names: the resource classes, traits, placement aggregates
    or the provider that it is about, in order; amount: of FREE, in units of the class.
    """

    requirement: Requirement
    suffix: str = ""
    names: tuple[str, ...] = ()
    amount: int = 0
    hosts_left: int = 0

    def describe(self) -> str:
        """Return the requirement in placement's words, without the count."""
        all_of, any_of = " and ".join(self.names) or "nothing", " or ".join(self.names)
        words = self.requirement.value.format(all=all_of, any=any_of, amount=self.amount)
        return f"{words} (group {self.suffix})" if self.suffix else words


class Shortage(Struct, frozen=True, kw_only=True):
    """Host trees that have one amount free and not the other; each has what is asked for before both.

    hosts: how many. placement_aggregates: of those that the query names, the ones that these hosts are in, in order.
    """

    has: FunnelStep
    lacks: FunnelStep
    hosts: int
    placement_aggregates: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return it in placement's words."""
        return f"{self.hosts} with {self.has.describe()} but not {self.lacks.describe()}"


class Funnel(Struct, frozen=True):
    """How many host trees each requirement left, in order; no step leaves more than the one before it.

    shortages: where the amount that left no host is free, but not where another one is: the hosts with the first of
    the two, and those with the other; empty where no host at all has that amount free.
    """

    steps: tuple[FunnelStep, ...]
    shortages: tuple[Shortage, ...] = ()


class Candidates(Struct, frozen=True):
    """The answer to a query. funnel: only when there are no candidates."""

    candidates: tuple[Candidate, ...]
    summaries: Mapping[str, ProviderSummary]
    funnel: Funnel | None = None


class ClaimClient(Protocol):
    """What is taken, and what could be: the ledger of consumers. Every call raises DatabaseUnavailable without it."""

    async def candidates(self, queries: Sequence[CandidateQuery]) -> list[Candidates]:
        """Search as of now: whatever was committed before the call is seen.

        Remote: GET /allocation_candidates, once for each query; it returns no funnel.
        """

    async def claim(self, groups: Sequence[ClaimGroup]) -> list[Claimed | Refused]:
        """Take each group whole or refuse it whole, in order; one refusal undoes no other group.

        Remote: POST /allocations, once for each group.
        """

    async def get_consumers(self, uuids: Sequence[str]) -> dict[str, ConsumerState]:
        """Return the consumers that hold something, by UUID.

        Remote: GET /allocations/{consumer_uuid}.
        """

    async def release(self, consumer_uuids: Sequence[str], *, generations: Mapping[str, int] | None = None) -> None:
        """Release all that the consumers hold; with generations, only of those that are still at theirs.

        Remote: DELETE /allocations/{consumer_uuid}; with a generation PUT /allocations/{consumer_uuid} of nothing.
        """

    async def list_usages(self, provider_uuids: Sequence[str]) -> dict[str, dict[str, tuple[int, int]]]:
        """Return provider UUID -> resource class -> (capacity, used), as of now.

        Remote: GET /resource_providers/{uuid}/inventories and GET /resource_providers/{uuid}/usages.
        """


class ProviderClient(Protocol):
    """What there is: providers, their inventories, traits and placement aggregates. Raises as ClaimClient does."""

    async def ensure_providers(self, states: Sequence[ProviderState]) -> None:
        """Create or change providers until they are as said, but for the parent of one that exists, which stays.

        Inventory may shrink below its use, not vanish then.

        Remote: POST /resource_providers, then PUT /resource_providers/{uuid}/inventories, /traits and /aggregates.
        """

    async def fit_providers(self, states: Sequence[ProviderState]) -> list[str]:
        """Make providers as said if all that is in use fits; else leave all, and return those where it does not.

        A class of which more is in use than there is fits as long as it loses no capacity.
        Decided and written with the generation that the uses were read at; one that does not exist is left out.

        Remote: GET /resource_providers/{uuid}/inventories and /usages, then PUT /resource_providers/{uuid}/inventories.
        """

    async def reshape(self, states: Sequence[ProviderState], claims: Sequence[ConsumerClaim]) -> Claimed | Refused:
        """Make providers as said, with these claims: inventories and claims change in one step, or none of them does.

        What is not inventory is made before. Claims are measured by what the inventories will be, all together; one
        that raises no use is taken, also where a provider has less than is in use. Refused: a claim does not fit, a
        consumer has another generation, or (IN_USE) an inventory that should go is in use by others.

        Remote: POST /reshaper.
        """

    async def delete_providers(self, uuids: Sequence[str]) -> list[str]:
        """Delete providers that nobody uses; return those that stay, as they are in use or have children.

        Remote: DELETE /resource_providers/{uuid}, whose 409 is one that stays.
        """

    async def get_providers(self, uuids: Sequence[str]) -> dict[str, ProviderState]:
        """Return the providers that exist, by UUID, whole but for their parents.

        Remote: GET /resource_providers/{uuid}, with its /inventories, /traits and /aggregates.
        """

    async def list_aggregate_providers(self, aggregates: Sequence[str]) -> dict[str, list[str]]:
        """Return placement aggregate -> UUIDs of the providers in it.

        Remote: GET /resource_providers?member_of={aggregate}.
        """

    async def set_placement_aggregates(
        self, aggregates_by_provider: Mapping[str, frozenset[str]], *, managed: frozenset[str]
    ) -> None:
        """Put these providers into these of the `managed` placement aggregates and into no other managed one.

        Aggregates outside `managed`, and providers that are not named, are left alone; unknown providers are skipped.

        Remote: GET /resource_providers/{uuid}/aggregates, then PUT of the same with the generation that was read.
        """
