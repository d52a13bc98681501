"""The ledger next door."""

from collections.abc import Mapping, Sequence

from roost.clients.local import Local, method
from roost.placement.service import audit, claims, reads, reshape
from roost.placement.service.ledger import Ledger


class LocalPlacement(Local[Ledger]):
    """Implements roost.seams.audit.AuditedPlacement."""

    candidates = method(reads.find_candidates)
    claim = method(claims.claim)
    get_consumers = method(claims.get_consumers)
    list_usages = method(claims.list_usages)
    ensure_providers = method(claims.ensure_providers)
    fit_providers = method(claims.fit_providers)
    reshape = method(reshape.reshape_states)
    delete_providers = method(claims.delete_providers)
    get_providers = method(audit.get_providers)
    list_aggregate_providers = method(claims.list_aggregate_providers)
    set_placement_aggregates = method(claims.set_placement_aggregates)
    list_consumers = method(claims.list_consumers)
    list_named_providers = method(audit.list_named_providers)

    async def release(self, consumer_uuids: Sequence[str], *, generations: Mapping[str, int] | None = None) -> None:
        """See ClaimClient.release."""
        await claims.release(self.service, consumer_uuids, generations=generations)
