"""The ledger next door: PlacementClient on the service functions, in this process."""

from collections.abc import Mapping, Sequence

from roost.placement.service import audit as audit_service
from roost.placement.service import claims as claims_service
from roost.placement.service import reshape as reshape_service
from roost.placement.service.ledger import Ledger
from roost.seams.placement import (
    CandidateQuery,
    Candidates,
    Claimed,
    ClaimGroup,
    ConsumerClaim,
    ConsumerState,
    ProviderState,
    Refused,
)


class LocalPlacement:
    """Implements roost.seams.audit.AuditedPlacement; see there for what the calls promise."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def ensure_providers(self, states: Sequence[ProviderState]) -> None:
        """See PlacementClient."""
        await claims_service.ensure_providers(self._ledger, states)

    async def reshape(self, states: Sequence[ProviderState], claims: Sequence[ConsumerClaim]) -> Claimed | Refused:
        """See PlacementClient."""
        return await reshape_service.reshape_states(self._ledger, states, claims)

    async def delete_providers(self, uuids: Sequence[str]) -> list[str]:
        """See PlacementClient."""
        return await claims_service.delete_providers(self._ledger, uuids)

    async def get_providers(self, uuids: Sequence[str]) -> dict[str, ProviderState]:
        """See PlacementClient."""
        return await audit_service.get_providers(self._ledger, uuids)

    async def list_named_providers(self, prefix: str, *, after: str, limit: int) -> dict[str, str]:
        """See PlacementAudit."""
        return await audit_service.list_named_providers(self._ledger, prefix, after=after, limit=limit)

    async def list_aggregate_providers(self, aggregates: Sequence[str]) -> dict[str, list[str]]:
        """See PlacementClient."""
        return await claims_service.list_aggregate_providers(self._ledger, aggregates)

    async def set_placement_aggregates(
        self, aggregates_by_provider: Mapping[str, frozenset[str]], *, managed: frozenset[str]
    ) -> None:
        """See PlacementClient."""
        await claims_service.set_placement_aggregates(self._ledger, aggregates_by_provider, managed=managed)

    async def claim(self, groups: Sequence[ClaimGroup]) -> list[Claimed | Refused]:
        """See PlacementClient."""
        return await claims_service.claim(self._ledger, groups)

    async def get_consumers(self, uuids: Sequence[str]) -> dict[str, ConsumerState]:
        """See PlacementClient."""
        return await claims_service.get_consumers(self._ledger, uuids)

    async def release(self, consumer_uuids: Sequence[str], *, generations: Mapping[str, int] | None = None) -> None:
        """See PlacementClient."""
        await claims_service.release(self._ledger, consumer_uuids, generations=generations)

    async def list_consumers(self, consumer_type: str, *, after: str, limit: int) -> list[str]:
        """See PlacementAudit."""
        return await claims_service.list_consumers(self._ledger, consumer_type, after=after, limit=limit)

    async def candidates(self, queries: Sequence[CandidateQuery]) -> list[Candidates]:
        """See PlacementClient."""
        return await claims_service.find_candidates(self._ledger, queries)

    async def list_usages(self, provider_uuids: Sequence[str]) -> dict[str, dict[str, tuple[int, int]]]:
        """See PlacementClient."""
        return await claims_service.list_usages(self._ledger, provider_uuids)
