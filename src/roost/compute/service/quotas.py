"""Quotas of servers, and how they are kept. Their operations are those of platform/quota_tables.py."""

from collections.abc import Mapping

from roost.compute.errors import MetadataFull, OverQuota, QuotaTooSmall
from roost.compute.model.cloud import Flavor
from roost.compute.model.server import Server, ServerRequest
from roost.compute.model.work import MoveKind
from roost.compute.rules import quotas as rules
from roost.compute.rules.events import BOOT, QUOTA
from roost.compute.rules.quotas import COUNTED, DEFAULTS_ELSEWHERE, METADATA_ITEMS
from roost.compute.service.context import Compute
from roost.compute.store.quotas import COUNT_SERVERS
from roost.platform.database import Connection
from roost.platform.event_tables import log_events
from roost.platform.events import REFUSAL, Event, Subject
from roost.platform.quota_tables import QuotaTable
from roost.platform.quotas import Quotas, effective
from roost.platform.request_ids import global_request_id, own_request_id

QUOTAS = QuotaTable(
    schema="compute",
    lock_space=0x524F5351,
    resources=(*COUNTED, METADATA_ITEMS),
    others=DEFAULTS_ELSEWHERE,
    counts={COUNTED: COUNT_SERVERS},
    too_small=QuotaTooSmall,
    too_small_text=rules.LIMIT_TOO_SMALL,
)


async def fit_servers(
    compute: Compute, tx: Connection, project_id: str, flavor: Flavor, own: Quotas, request: ServerRequest
) -> int:
    """Return how many of the servers that are asked for may be inserted for the project in this transaction.

    own: what overrides the configuration for the project. Raises MetadataFull, and OverQuota where it is not even the
    least that will do. Others who make servers for the project wait for this transaction, unless it has no limit.
    """
    maxima = effective(QUOTAS.defaults(compute), own)
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
    usages = await QUOTAS.lock_usages(compute, tx, [project_id], growth)
    if refusal := rules.growth_refusal(usages.get(project_id, {}), growth):
        raise _over_quota(compute, MoveKind.RESIZE.value, project_id, refusal, server_id=server.id)


async def check_metadata(compute: Compute, tx: Connection, project_id: str, metadata: Mapping[str, str] | None) -> None:
    """Raise MetadataFull where a server of the project cannot have that metadata."""
    if metadata:
        maxima = await QUOTAS.get_maxima(compute, tx, [project_id], [METADATA_ITEMS])
        refuse_metadata(maxima[project_id][METADATA_ITEMS], metadata)


def refuse_metadata(maximum: int, metadata: Mapping[str, str]) -> None:
    """Raise MetadataFull for more items than a server may have."""
    if refusal := rules.metadata_refusal(maximum, len(metadata)):
        raise MetadataFull(refusal)
