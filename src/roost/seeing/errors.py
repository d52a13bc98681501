"""What the operator's side cannot do, as its callers can act on it."""

from roost.platform.errors import Conflict


class LedgerElsewhere(Conflict):
    """The ledger is another service's (placement_client.url): what would fit is not tried here."""
