"""Quotas of networks, subnets and ports. Their operations are those of platform/quota_tables.py."""

from collections.abc import Mapping

from roost.network.errors import InvalidInput, OverQuota
from roost.network.rules.quotas import LIMIT_TOO_SMALL, RESOURCES, Resource, grant
from roost.network.service import Networks
from roost.network.store.quotas import COUNTS
from roost.platform.database import Connection
from roost.platform.quota_tables import QuotaTable
from roost.platform.quotas import QuotaUsage

QUOTAS = QuotaTable(
    schema="network",
    lock_space=0x524F5354,
    resources=RESOURCES,
    counts=COUNTS,
    too_small=InvalidInput,
    too_small_text=LIMIT_TOO_SMALL,
)


async def refuse_over(networks: Networks, tx: Connection, resource: Resource, more: Mapping[str, int]) -> None:
    """Raise OverQuota if a project may not have so many more.

    more: by project. Others who make something for a project with a limit wait for this transaction.
    """
    usages = await lock_limited(networks, tx, resource, list(more))
    for reason in filter(None, grant(usages, list(more.items()))):
        raise OverQuota(reason)


async def lock_limited(
    networks: Networks, tx: Connection, resource: Resource, project_ids: list[str]
) -> dict[str, QuotaUsage]:
    """Lock the projects that have a limit until this transaction ends; return their usages."""
    usages = await QUOTAS.lock_usages(networks, tx, project_ids, [resource])
    return {project_id: of_project[resource] for project_id, of_project in usages.items()}
