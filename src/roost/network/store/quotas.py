"""Projects' own quotas, what projects have, and the locks of projects that may not have as much as they like."""

from collections.abc import Mapping, Sequence

from roost.network.rules.quotas import Quotas, Resource
from roost.platform.database import Connection

LIST_QUOTAS = """
-- network.list_quotas
SELECT project_id, resource, maximum FROM network.quota
WHERE ($1::text[] IS NULL OR project_id = ANY($1)) AND ($2::text IS NULL OR resource = $2)
ORDER BY project_id, resource
"""


async def list_quotas(
    tx: Connection, project_ids: Sequence[str] | None = None, resource: Resource | None = None
) -> dict[str, dict[Resource, int]]:
    """Project -> its own quotas, of the projects that have some; of one resource, or of all."""
    found: dict[str, dict[Resource, int]] = {}
    for row in await tx.fetch(LIST_QUOTAS, project_ids, resource):
        found.setdefault(row["project_id"], {})[row["resource"]] = row["maximum"]
    return found


SET_QUOTAS = """
-- network.set_quotas
INSERT INTO network.quota (project_id, resource, maximum)
SELECT $1, resource, maximum FROM unnest($2::text[], $3::bigint[]) AS q (resource, maximum) ORDER BY resource
ON CONFLICT (project_id, resource) DO UPDATE SET maximum = excluded.maximum
"""


async def set_quotas(tx: Connection, project_id: str, quotas: Quotas) -> None:
    """The project's own quotas of these resources; others stay."""
    await tx.execute(SET_QUOTAS, project_id, list(quotas), list(quotas.values()))


DELETE_QUOTAS = """
-- network.delete_quotas
DELETE FROM network.quota WHERE project_id = $1 RETURNING resource
"""


async def delete_quotas(tx: Connection, project_id: str) -> bool:
    """The project has the default quotas again; False if it had no others."""
    return bool(await tx.fetch(DELETE_QUOTAS, project_id))


LOCK_PROJECTS = """
-- network.lock_projects
SELECT pg_advisory_xact_lock(1380930388, key)
FROM (SELECT DISTINCT hashtext(p) AS key FROM unnest($1::text[]) AS t (p) ORDER BY key OFFSET 0) AS k
"""


async def lock_projects(tx: Connection, project_ids: Sequence[str]) -> None:
    """Only one transaction at a time makes something for each of these. After networks, before what is made."""
    await tx.fetch(LOCK_PROJECTS, project_ids)


COUNTS: Mapping[Resource, str] = {
    "network": """
-- network.count_networks_of_projects
SELECT project_id, count(*) AS used FROM network.network WHERE project_id = ANY($1::text[]) GROUP BY project_id
""",
    "subnet": """
-- network.count_subnets_of_projects
SELECT project_id, count(*) AS used FROM network.subnet WHERE project_id = ANY($1::text[]) GROUP BY project_id
""",
    "port": """
-- network.count_ports_of_projects
SELECT project_id, count(*) AS used FROM network.port
WHERE project_id = ANY($1::text[]) AND nic_tag IS NULL GROUP BY project_id
""",
}


async def count_used(tx: Connection, resource: Resource, project_ids: Sequence[str]) -> dict[str, int]:
    """Project -> how many it has."""
    used = {row["project_id"]: row["used"] for row in await tx.fetch(COUNTS[resource], project_ids)}
    return {project_id: used.get(project_id, 0) for project_id in project_ids}
