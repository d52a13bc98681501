"""Quotas of servers: set, shown, and kept. How they are kept: platform/quota_tables.py."""

from collections.abc import Mapping

from roost.compute.errors import MetadataFull, OverQuota, QuotaTooSmall
from roost.compute.model.cloud import Flavor
from roost.compute.model.server import Server, ServerRequest
from roost.compute.model.work import MoveKind
from roost.compute.rules import quotas as rules
from roost.compute.rules.events import BOOT, QUOTA
from roost.compute.rules.quotas import COUNTED, DEFAULTS_ELSEWHERE, METADATA_ITEMS
from roost.compute.service.context import Compute
from roost.compute.store.quotas import QUOTAS
from roost.platform.database import Connection
from roost.platform.event_tables import log_events
from roost.platform.events import REFUSAL, Event, Subject
from roost.platform.quota_tables import EVERYBODY
from roost.platform.quotas import Quotas, QuotaUsage, defaults_of, effective
from roost.platform.request_ids import global_request_id, own_request_id

OPTIONS = {resource: f"quota_{resource}" for resource in (*COUNTED, METADATA_ITEMS)}


def configured_quotas(compute: Compute) -> dict[str, int]:
    """Return what holds, by the configuration, for projects that have no quota of their own."""
    return effective(DEFAULTS_ELSEWHERE, defaults_of(compute.settings, OPTIONS))


async def fit_servers(
    compute: Compute, tx: Connection, project_id: str, flavor: Flavor, own: Quotas, request: ServerRequest
) -> int:
    """Return how many of the servers that are asked for may be inserted for the project in this transaction.

    own: what overrides the configuration for the project. Raises MetadataFull, and OverQuota where it is not even the
    least that will do. Others who make servers for the project wait for this transaction, unless it has no limit.
    """
    maxima = effective(configured_quotas(compute), own)
    refuse_metadata(maxima[METADATA_ITEMS], request.metadata)
    usages = await QUOTAS.lock_limited(tx, {project_id: {resource: maxima[resource] for resource in COUNTED}})
    if project_id not in usages:
        return request.count
    count = rules.count_that_fit(usages[project_id], flavor, most=request.count)
    if count < request.count_min:
        refusal = rules.server_refusal(usages[project_id], flavor, least=request.count_min, most=request.count)
        raise _over_quota(compute, BOOT, project_id, refusal)
    return count


def _over_quota(
    compute: Compute, action: str, project_id: str, refusal: str, *, server_id: str | None = None
) -> OverQuota:
    """Return the error, and note it as an event: its transaction will be undone."""
    subject = Subject(server_id=server_id, request_id=own_request_id(), global_request_id=global_request_id())
    event = Event(
        kind=REFUSAL, action=action, requirement=QUOTA, project_id=project_id, reason=refusal, subjects=(subject,)
    )
    compute.refusals.note(event)
    log_events([event])
    return OverQuota(refusal)


async def check_growth(compute: Compute, tx: Connection, server: Server, flavor: Flavor) -> None:
    """Raise OverQuota where the server cannot have the other flavor. Others wait as in fit_servers."""
    growth, project_id = rules.growth_of(server.flavor, flavor), server.project_id
    if not growth:
        return
    defaults = {resource: maximum for resource, maximum in configured_quotas(compute).items() if resource in growth}
    usages = await QUOTAS.lock_usages(tx, [project_id], defaults=defaults)
    if refusal := rules.growth_refusal(usages.get(project_id, {}), growth):
        raise _over_quota(compute, MoveKind.RESIZE.value, project_id, refusal, server_id=server.id)


async def check_metadata(compute: Compute, tx: Connection, project_id: str, metadata: Mapping[str, str] | None) -> None:
    """Raise MetadataFull where a server of the project cannot have that metadata."""
    if metadata:
        maximum = configured_quotas(compute)[METADATA_ITEMS]
        maxima = await QUOTAS.get_maxima(tx, [project_id], defaults={METADATA_ITEMS: maximum})
        refuse_metadata(maxima[project_id][METADATA_ITEMS], metadata)


def refuse_metadata(maximum: int, metadata: Mapping[str, str]) -> None:
    """Raise MetadataFull for more items than a server may have."""
    if refusal := rules.metadata_refusal(maximum, len(metadata)):
        raise MetadataFull(refusal)


async def get_defaults(compute: Compute) -> dict[str, int]:
    """Return what holds for projects that have no quota of their own."""
    return await get_quotas(compute, EVERYBODY)


async def get_quotas(compute: Compute, project_id: str) -> dict[str, int]:
    """Return what holds for the project; any name is one of a project."""
    async with compute.database.connection() as connection:
        maxima = await QUOTAS.get_maxima(connection, [project_id], defaults=configured_quotas(compute))
    return maxima[project_id]


async def get_usages(compute: Compute, project_id: str) -> dict[str, QuotaUsage]:
    """Return what holds for the project, and what it has."""
    async with compute.database.transaction(snapshot=True) as tx:
        return await QUOTAS.get_usages(tx, project_id, defaults=configured_quotas(compute))


async def set_quotas(compute: Compute, project_id: str, quotas: Quotas, *, force: bool = False) -> dict[str, int]:
    """Write quotas of the project's own; those left out stay. Return what holds from now on.

    force: also below what the project has; else that raises QuotaTooSmall.
    """
    defaults = configured_quotas(compute)
    async with compute.database.transaction() as tx:
        if not force:
            await QUOTAS.lock(tx, [project_id])
            usages = await QUOTAS.get_usages(tx, project_id, defaults=defaults)
            for resource, maximum in quotas.items():
                if refusal := rules.limit_refusal(usages[resource], maximum):
                    raise QuotaTooSmall(refusal)
        await QUOTAS.set_own(tx, project_id, quotas)
        return (await QUOTAS.get_maxima(tx, [project_id], defaults=defaults))[project_id]


async def set_defaults(compute: Compute, quotas: Quotas) -> dict[str, int]:
    """Write quotas of all projects that have none of their own; return what holds from now on."""
    return await set_quotas(compute, EVERYBODY, quotas, force=True)


async def delete_quotas(compute: Compute, project_id: str) -> None:
    """Let the defaults hold for the project again."""
    async with compute.database.transaction() as tx:
        await QUOTAS.delete_own(tx, project_id)


async def list_over(compute: Compute) -> list[QuotaUsage]:
    """Return what projects have more of than they may. It reads all servers."""
    async with compute.database.transaction(snapshot=True) as tx:
        return await QUOTAS.list_over(tx, defaults=configured_quotas(compute))
