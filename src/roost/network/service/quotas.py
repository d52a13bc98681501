"""Quotas of networks, subnets and ports: set, shown, and kept. How they are kept: platform/quota_tables.py."""

from collections.abc import Mapping

from roost.network.errors import InvalidInput, OverQuota, TenantQuotaNotFound
from roost.network.rules.quotas import RESOURCES, Resource, grant, refusal_of_limit
from roost.network.service import Networks
from roost.network.store.quotas import QUOTAS
from roost.platform.database import Connection
from roost.platform.quotas import Quotas, QuotaUsage, defaults_of, effective

OPTIONS: dict[str, str] = {resource: f"quota_{resource}" for resource in RESOURCES}


def default_quotas(networks: Networks) -> dict[str, int]:
    """Return the quotas of projects that have none of their own."""
    return defaults_of(networks.settings, OPTIONS)


async def get_quotas(networks: Networks, project_id: str) -> dict[str, int]:
    """Return the quotas of the project. Any text is the name of a project."""
    async with networks.database.transaction() as tx:
        return (await QUOTAS.get_maxima(tx, [project_id], defaults=default_quotas(networks)))[project_id]


async def list_quotas(networks: Networks) -> dict[str, dict[str, int]]:
    """Return project -> its quotas, of the projects that have a quota of their own."""
    async with networks.database.transaction() as tx:
        own = await QUOTAS.list_own(tx)
    return {project_id: effective(default_quotas(networks), quotas) for project_id, quotas in own.items()}


async def get_details(networks: Networks, project_id: str) -> dict[str, QuotaUsage]:
    """Return the project's quotas, each with how much of it is used."""
    async with networks.database.transaction(snapshot=True) as tx:
        return await QUOTAS.get_usages(tx, project_id, defaults=default_quotas(networks))


async def set_quotas(
    networks: Networks, project_id: str, quotas: Quotas, *, check_limit: bool = False
) -> dict[str, int]:
    """Set quotas of the project's own; others stay. Return all its quotas from now on.

    check_limit: raise InvalidInput for a quota below what the project has already.
    """
    async with networks.database.transaction() as tx:
        if check_limit:
            await QUOTAS.lock(tx, [project_id])
            usages = await QUOTAS.get_usages(tx, project_id, defaults=default_quotas(networks))
            for resource, maximum in quotas.items():
                reason = refusal_of_limit(usages[resource], maximum)
                if reason is not None:
                    raise InvalidInput(reason)
        await QUOTAS.set_own(tx, project_id, quotas)
    return await get_quotas(networks, project_id)


async def delete_quotas(networks: Networks, project_id: str) -> None:
    """Delete the project's own quotas, so that the defaults hold. Raises TenantQuotaNotFound if it has none."""
    async with networks.database.transaction() as tx:
        if not await QUOTAS.delete_own(tx, project_id):
            raise TenantQuotaNotFound(f"Quota for tenant {project_id} could not be found.")


async def list_over(networks: Networks) -> list[QuotaUsage]:
    """Return the usages of projects that are above their maxima."""
    async with networks.database.transaction(snapshot=True) as tx:
        return await QUOTAS.list_over(tx, defaults=default_quotas(networks))


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
    defaults: dict[str, int] = {resource: default_quotas(networks)[resource]}
    usages = await QUOTAS.lock_usages(tx, project_ids, defaults=defaults)
    return {project_id: of_project[resource] for project_id, of_project in usages.items()}
