"""What the ledger cannot do, as exceptions that a caller can act on."""

from roost.platform.errors import BadRequest, Conflict, NotFound, Retry


class ProviderNotFound(NotFound):
    """No resource provider with that uuid."""


class ProviderMalformed(BadRequest):
    """The resource provider cannot be as it is said to be."""


class ProviderNameTaken(Conflict):
    """Another resource provider has that name."""


class ProviderInUse(Conflict):
    """The resource provider has allocations, so it cannot go."""


class ProviderHasChildren(Conflict):
    """The resource provider is the parent of others, so it cannot go."""


class InventoryMissing(NotFound):
    """The resource provider has no inventory of that class."""


class InventoryMalformed(BadRequest):
    """The inventory cannot be as it is said to be."""


class InventoryInUse(Conflict):
    """The inventory has allocations, so it cannot go."""


class ConcurrentUpdate(Conflict):
    """Somebody else changed it in the meantime."""

    retry = Retry.NOW


class ResourceClassNotFound(BadRequest):
    """What was asked names a resource class that there is not."""


class ResourceClassMissing(NotFound):
    """There is no such resource class."""


class ResourceClassStandard(BadRequest):
    """The resource class is a standard one, so it cannot change."""


class ResourceClassTaken(Conflict):
    """There is a resource class of that name."""


class ResourceClassInUse(Conflict):
    """There is inventory of the resource class, so it cannot go."""


class TraitNotFound(BadRequest):
    """What was asked names a trait that there is not."""


class TraitMissing(NotFound):
    """There is no such trait."""


class TraitStandard(BadRequest):
    """The trait is a standard one, so it cannot go."""


class TraitInUse(Conflict):
    """Resource providers have the trait, so it cannot go."""


class ConsumerNotFound(NotFound):
    """The consumer holds nothing."""


class AllocationsRefused(Conflict):
    """The providers cannot take these allocations."""


class AllocationProviderNotFound(BadRequest):
    """The allocations name a resource provider that does not exist."""


class ReshapeProviderNotFound(BadRequest):
    """The reshape names a resource provider that does not exist."""


class QueryMalformed(BadRequest):
    """The query string is not what was expected."""


class QueryKeyRepeated(QueryMalformed):
    """A parameter of the query string is there more than once."""


class QueryValueBad(QueryMalformed):
    """A parameter of the query string contradicts itself or another one."""


class QueryValueMissing(QueryMalformed):
    """The query string asks for nothing."""
