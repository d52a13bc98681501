"""What the ledger cannot do, as exceptions that a caller can act on."""

from roost.platform.errors import BadRequest, Conflict, NotFound, Retry


class ProviderNotFound(NotFound):
    """No resource provider with that uuid."""


class ProviderNameTaken(Conflict):
    """Another resource provider has that name."""


class InventoryInUse(Conflict):
    """The inventory has allocations, so it cannot go."""


class ConcurrentUpdate(Conflict):
    """Somebody else changed it in the meantime."""

    retry = Retry.NOW


class ResourceClassNotFound(BadRequest):
    """There is no such resource class."""


class TraitNotFound(BadRequest):
    """There is no such trait."""


class ConsumerNotFound(NotFound):
    """The consumer holds nothing."""


class AllocationsRefused(Conflict):
    """The providers cannot take these allocations."""


class AllocationProviderNotFound(BadRequest):
    """The allocations name a resource provider that does not exist."""


class QueryMalformed(BadRequest):
    """The query string is not what was expected."""


class QueryKeyRepeated(QueryMalformed):
    """A parameter of the query string is there more than once."""


class QueryValueBad(QueryMalformed):
    """A parameter of the query string contradicts itself or another one."""


class QueryValueMissing(QueryMalformed):
    """The query string asks for nothing."""
