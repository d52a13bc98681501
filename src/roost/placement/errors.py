"""What the ledger cannot do, as exceptions that a caller can act on."""

from roost.platform.errors import BadRequest, Conflict, NotFound, Retry


class ProviderNotFound(NotFound):
    """No resource provider with that uuid."""


class ProviderInUse(Conflict):
    """The resource provider has allocations or children."""


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
