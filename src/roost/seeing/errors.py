"""What the operator's side refuses; each error is a sentence."""

from roost.platform.errors import BadRequest, Conflict, NotFound


class DrainNotFound(NotFound):
    """There is no drain with that number."""


class HostsNotFound(NotFound):
    """There are no such hosts."""


class HostsBusy(Conflict):
    """Another drain has some of the hosts already."""


class HostsUp(Conflict):
    """A host that is up is drained, not recovered."""


class DrainInvalid(BadRequest):
    """The request names no hosts, or amounts that make no sense."""


class LedgerElsewhere(Conflict):
    """The ledger is another service's (placement_client.url): what would fit is not tried here."""
