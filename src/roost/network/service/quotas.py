"""Quotas: set, shown, and kept when something is made, whoever makes it and however many at once.

A project without a limit costs one look at a small table. For one with a limit, makers queue: each counts under the
project's lock and holds it until what it makes is there, so that the next one counts that too.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from roost.network.errors import InvalidInput, OverQuota, TenantQuotaNotFound
from roost.network.rules.quotas import RESOURCES, Quotas, QuotaUsage, Resource, effective, refusal, refusal_of_limit
from roost.network.service import Networks
from roost.network.store import quotas as store
from roost.platform.database import Connection


def default_quotas(networks: Networks) -> dict[Resource, int]:
    """Of projects that have none of their own."""
    settings = networks.settings
    return {"network": settings.quota_network, "subnet": settings.quota_subnet, "port": settings.quota_port}


async def get_quotas(networks: Networks, project_id: str) -> dict[Resource, int]:
    """What holds for the project; any name is one of a project."""
    async with networks.database.transaction() as tx:
        own = await store.list_quotas(tx, [project_id])
    return effective(default_quotas(networks), own.get(project_id, {}))


async def list_quotas(networks: Networks) -> dict[str, dict[Resource, int]]:
    """Project -> what holds for it, of the projects that have a quota of their own."""
    async with networks.database.transaction() as tx:
        own = await store.list_quotas(tx)
    return {project_id: effective(default_quotas(networks), quotas) for project_id, quotas in own.items()}


async def get_details(networks: Networks, project_id: str) -> dict[Resource, QuotaUsage]:
    """What holds for the project, and what it has."""
    async with networks.database.transaction(snapshot=True) as tx:
        own = await store.list_quotas(tx, [project_id])
        used = {resource: await store.count_used(tx, resource, [project_id]) for resource in RESOURCES}
    maxima = effective(default_quotas(networks), own.get(project_id, {}))
    return {
        resource: QuotaUsage(project_id, resource, maxima[resource], used[resource][project_id])
        for resource in RESOURCES
    }


async def set_quotas(
    networks: Networks, project_id: str, quotas: Quotas, *, check_limit: bool = False
) -> dict[Resource, int]:
    """Write quotas of the project's own; those left out stay. Returns what holds from now on.

    check_limit: raise InvalidInput for a quota below what the project has already.
    """
    async with networks.database.transaction() as tx:
        if check_limit:
            await store.lock_projects(tx, [project_id])
            for resource, maximum in quotas.items():
                used = (await store.count_used(tx, resource, [project_id]))[project_id]
                reason = refusal_of_limit(resource, maximum, used)
                if reason is not None:
                    raise InvalidInput(reason)
        await store.set_quotas(tx, project_id, quotas)
    return await get_quotas(networks, project_id)


async def delete_quotas(networks: Networks, project_id: str) -> None:
    """The default quotas hold for the project again. Raises TenantQuotaNotFound if they held already."""
    async with networks.database.transaction() as tx:
        if not await store.delete_quotas(tx, project_id):
            raise TenantQuotaNotFound(f"Quota for tenant {project_id} could not be found.")


async def refuse_over(networks: Networks, tx: Connection, resource: Resource, more: Mapping[str, int]) -> bool:
    """Before that many more are made for each project, in this transaction; raises OverQuota if one may not have them.

    Returns whether any of the projects has a limit. If so, others who make something for it wait for this transaction.
    """
    usages = await lock_limited(networks, tx, resource, list(more))
    for project_id, usage in usages.items():
        reason = refusal(usage, more[project_id])
        if reason is not None:
            raise OverQuota(reason)
    return bool(usages)


async def refuse_many(networks: Networks, resource: Resource, project_ids: Sequence[str]) -> None:
    """Raise OverQuota before the first of several is made, where all could not be; of each its project is given.

    Each of them asks again when it is made.
    """
    if len(project_ids) > 1:
        async with networks.database.transaction() as tx:
            await refuse_over(networks, tx, resource, Counter(project_ids))


async def lock_limited(
    networks: Networks, tx: Connection, resource: Resource, project_ids: list[str]
) -> dict[str, QuotaUsage]:
    """Those of the projects that have a limit, each held until this transaction ends."""
    own = await store.list_quotas(tx, project_ids, resource)
    default = default_quotas(networks)[resource]
    maxima = {project_id: own.get(project_id, {}).get(resource, default) for project_id in project_ids}
    limited = sorted(project_id for project_id, maximum in maxima.items() if maximum >= 0)
    if not limited:
        return {}
    await store.lock_projects(tx, limited)
    used = await store.count_used(tx, resource, limited)  # a later statement than the lock: it sees who held it before
    return {
        project_id: QuotaUsage(project_id, resource, maxima[project_id], used[project_id]) for project_id in limited
    }
