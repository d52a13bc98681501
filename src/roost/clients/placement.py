"""The ledger elsewhere: another server's Placement API instead of the ledger next door."""

import asyncio

from roost.clients.local import Local, method
from roost.clients.placement_claims import claim, release
from roost.clients.placement_http import AccessLog, PlacementClosed, PlacementHttp, PlacementUnavailable
from roost.clients.placement_providers import (
    delete_providers,
    ensure_providers,
    fit_providers,
    reshape,
    set_placement_aggregates,
)
from roost.clients.placement_reads import (
    Elsewhere,
    get_consumers,
    get_providers,
    list_aggregate_providers,
    list_consumers,
    list_heads,
    list_named_providers,
    list_usages,
)
from roost.clients.placement_search import candidates
from roost.platform.settings import PlacementClientSettings

CHECK_S = 5.0


class RemotePlacement(Local[Elsewhere]):
    """Implements roost.seams.audit.AuditedPlacement over HTTP, on the upstream API from 1.38 on."""

    candidates = method(candidates)
    claim = method(claim)
    get_consumers = method(get_consumers)
    release = method(release)
    list_usages = method(list_usages)
    ensure_providers = method(ensure_providers)
    fit_providers = method(fit_providers)
    reshape = method(reshape)
    delete_providers = method(delete_providers)
    get_providers = method(get_providers)
    list_aggregate_providers = method(list_aggregate_providers)
    set_placement_aggregates = method(set_placement_aggregates)
    list_consumers = method(list_consumers)
    list_named_providers = method(list_named_providers)

    @classmethod
    def connect(cls, settings: PlacementClientSettings) -> "RemotePlacement":
        """Return a process's client of a service; its first call opens connections."""
        return cls(Elsewhere(PlacementHttp(settings, access_log=AccessLog())))

    async def close(self) -> None:
        """Close the connections."""
        await self.service.http.close()


async def find_credentials_fault(placement: RemotePlacement) -> str | None:
    """Return what is wrong with the credentials, None for nothing or where the service cannot be asked in CHECK_S.

    Raises BadRequest for a service that is too old.
    """
    try:
        async with asyncio.timeout(CHECK_S):
            await list_heads(placement.service, name="roost-credentials-check")
    except PlacementClosed as fault:
        return str(fault)
    except (PlacementUnavailable, TimeoutError):
        return None
    return None
