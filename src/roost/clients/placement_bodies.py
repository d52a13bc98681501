"""What is said to a Placement service and what it says, as JSON and query strings. Source: Placement API 1.38, 1.39."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from roost.platform.errors import BadRequest
from roost.platform.http_sessions import Query
from roost.seams.placement import (
    SHARING,
    Allocations,
    Candidate,
    CandidateQuery,
    ConsumerClaim,
    ConsumerState,
    ConsumerType,
    Distinct,
    Inventory,
    ProviderSummary,
    RequestGroup,
    Resources,
)

UNTYPED = "unknown"
"""What a consumer without a type is shown as."""


class Head(Struct):
    """A provider without what it has."""

    uuid: str
    name: str
    generation: int
    parent_provider_uuid: str | None = None
    root_provider_uuid: str | None = None


class Heads(Struct):
    """Answer to GET /resource_providers."""

    resource_providers: list[Head]


class Inventories(Struct):
    """Answer to GET /resource_providers/{uuid}/inventories."""

    inventories: dict[str, Inventory]
    resource_provider_generation: int


class Usages(Struct):
    """Answer to GET /resource_providers/{uuid}/usages."""

    resource_provider_generation: int
    usages: dict[str, int]


class Traits(Struct):
    """Answer to GET /resource_providers/{uuid}/traits."""

    traits: list[str]
    resource_provider_generation: int


class Aggregates(Struct):
    """Answer to GET /resource_providers/{uuid}/aggregates."""

    aggregates: list[str]
    resource_provider_generation: int


class Held(Struct):
    """What a consumer holds of one provider."""

    resources: dict[str, int]


class Holders(Struct):
    """Answer to GET /resource_providers/{uuid}/allocations."""

    allocations: dict[str, Held]


class Consumer(Struct):
    """Answer to GET /allocations/{uuid}; without allocations there is nothing else."""

    allocations: dict[str, Held]
    consumer_generation: int = 0
    consumer_type: str = UNTYPED
    project_id: str = ""
    user_id: str = ""

    def state(self, uuid: str) -> ConsumerState:
        """Return the consumer in the seam's words."""
        return ConsumerState(
            consumer_uuid=uuid,
            generation=self.consumer_generation,
            consumer_type=None if self.consumer_type == UNTYPED else self.consumer_type,
            project_id=self.project_id,
            user_id=self.user_id,
            allocations={provider_uuid: allocation.resources for provider_uuid, allocation in self.allocations.items()},
        )


class Named(Struct):
    """A resource class."""

    name: str


class ClassList(Struct):
    """Answer to GET /resource_classes."""

    resource_classes: list[Named]


class TraitList(Struct):
    """Answer to GET /traits."""

    traits: list[str]


class Amounts(Struct):
    """What a provider can give of a class, and what it has given."""

    capacity: int
    used: int


class Summary(Struct):
    """A provider of some candidate."""

    resources: dict[str, Amounts]
    traits: list[str]
    root_provider_uuid: str


class AllocationRequest(Struct):
    """One candidate."""

    allocations: dict[str, Held]
    mappings: dict[str, list[str]]


class CandidateAnswer(Struct):
    """Answer to GET /allocation_candidates."""

    allocation_requests: list[AllocationRequest]
    provider_summaries: dict[str, Summary]

    def candidates(self, distinct: Distinct) -> list[Candidate]:
        """Return the candidates; with ROLES, of those that take the same only the first."""
        candidates: dict[object, Candidate] = {}
        for request in self.allocation_requests:
            allocations = {uuid: allocation.resources for uuid, allocation in request.allocations.items()}
            key: frozenset[object] = frozenset(
                (uuid, name, amount) for uuid, of in allocations.items() for name, amount in of.items()
            )
            uuids = {uuid: None for mapped in request.mappings.values() for uuid in mapped}
            mappings = {suffix: tuple(mapped) for suffix, mapped in request.mappings.items()}
            if distinct is Distinct.MAPPINGS:
                key |= set(mappings.items())
            candidates.setdefault(key, Candidate(self._root_of(list(uuids)), mappings, allocations))
        return list(candidates.values())

    def summaries(self, names: Mapping[str, str]) -> dict[str, ProviderSummary]:
        """Return what the providers have. names: by UUID."""
        return {
            uuid: ProviderSummary(
                uuid, names.get(uuid, ""), {name: (of.capacity, of.used) for name, of in summary.resources.items()}
            )
            for uuid, summary in self.provider_summaries.items()
        }

    def _root_of(self, uuids: Sequence[str]) -> str:
        """Return the root of the tree that shares nothing, or else of the first."""
        roots = [self.provider_summaries[uuid].root_provider_uuid for uuid in uuids]
        own = [root for root in roots if SHARING not in self.provider_summaries[root].traits]
        return (own or roots)[0]


def query_string(query: CandidateQuery) -> Query:
    """Return the query as parameters of GET /allocation_candidates."""
    parameters: list[tuple[str, str]] = []
    for group in query.groups:
        parameters += _group_parameters(group)
    if any(group.suffix for group in query.groups):
        parameters.append(("group_policy", query.group_policy))
    parameters += [("same_subtree", ",".join(sorted(suffixes))) for suffixes in query.same_subtree]
    root = [*sorted(query.root_required), *(f"!{trait}" for trait in sorted(query.root_forbidden))]
    if root:
        parameters.append(("root_required", ",".join(root)))
    if query.limit:
        parameters.append(("limit", str(query.limit)))
    return parameters


def _group_parameters(group: RequestGroup) -> Iterator[tuple[str, str]]:
    suffix = group.suffix
    if group.resources:
        yield f"resources{suffix}", ",".join(f"{name}:{amount}" for name, amount in group.resources.items())
    elif not suffix:
        raise BadRequest("a Placement service over HTTP is asked for at least one resource of the host")
    single = [next(iter(traits)) for traits in group.required if len(traits) == 1]
    traits = [*single, *(f"!{trait}" for trait in sorted(group.forbidden))]
    if traits:
        yield f"required{suffix}", ",".join(traits)
    for any_of in group.required:
        if len(any_of) > 1:
            yield f"required{suffix}", f"in:{','.join(sorted(any_of))}"
    for aggregates in group.member_of:
        yield f"member_of{suffix}", f"in:{','.join(sorted(aggregates))}"
    if group.forbidden_aggregates:
        yield f"member_of{suffix}", f"!in:{','.join(sorted(group.forbidden_aggregates))}"
    if group.in_tree is not None:
        yield f"in_tree{suffix}", group.in_tree


def allocation_body(claim: ConsumerClaim) -> dict[str, Any]:
    """Return a consumer of POST /allocations and /reshaper; claim: with the generation and type that it is to have.

    The API wants a type: a consumer without one, which an older client made, is an instance from now on.
    """
    return {
        "allocations": allocations_body(claim.allocations),
        "consumer_generation": claim.generation,
        "consumer_type": claim.consumer_type or ConsumerType.INSTANCE.value,
        "project_id": claim.project_id,
        "user_id": claim.user_id,
    }


def allocations_body(allocations: Allocations) -> dict[str, dict[str, Resources]]:
    """Return allocations without amounts of zero, which the API does not take."""
    positive = {uuid: {name: n for name, n in resources.items() if n} for uuid, resources in allocations.items()}
    return {uuid: {"resources": resources} for uuid, resources in positive.items() if resources}
