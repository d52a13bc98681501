"""Quotas as a service keeps them: read, set, and kept when something is made, by however many at once.

A project without a limit costs one look at a small table. For one with a limit makers queue: each counts under the
project's lock, and holds it until what it makes is there, so that the next one counts that too. Nothing else is counted
anywhere: what is there is what is used. docs/decisions/0072.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from roost.platform.database import Connection
from roost.platform.quotas import Quotas, QuotaUsage, effective

EVERYBODY = ""
"""The project id of the quotas of all projects that have none of their own. No project has it."""

LIST_OWN = """-- {schema}.list_quotas
SELECT project_id, resource, maximum FROM {schema}.quota
WHERE ($1::text[] IS NULL OR project_id = ANY($1)) AND ($2::text[] IS NULL OR resource = ANY($2))
ORDER BY project_id, resource
"""
SET_OWN = """-- {schema}.set_quotas
INSERT INTO {schema}.quota (project_id, resource, maximum)
SELECT $1, resource, maximum FROM unnest($2::text[], $3::bigint[]) AS q (resource, maximum) ORDER BY resource
ON CONFLICT (project_id, resource) DO UPDATE SET maximum = excluded.maximum
"""
DELETE_OWN = """-- {schema}.delete_quotas
DELETE FROM {schema}.quota WHERE project_id = $1 RETURNING resource
"""
LOCK_PROJECTS = """-- {schema}.lock_projects
SELECT pg_advisory_xact_lock($2, key)
FROM (SELECT DISTINCT hashtext(p) AS key FROM unnest($1::text[]) AS t (p) ORDER BY key OFFSET 0) AS k
"""
SOME_PROJECTS, EVERY_PROJECT = "project_id = ANY($1::text[])", "$1::text[] IS NULL"
"""What takes the place of {projects} in a statement that counts."""

Usages = dict[str, dict[str, QuotaUsage]]
"""Project -> resource -> how much of it the project may have, and has."""


@dataclass(frozen=True)
class QuotaTable:
    """The quotas of one service: the table `quota` of its schema.

    lock_space: the first key of its projects' advisory locks. counts: resources that are counted together -> the
    statement, which has {projects} as its condition, and gives project_id and a column for each of the resources.
    """

    schema: str
    lock_space: int
    counts: Mapping[tuple[str, ...], str]

    async def list_own(
        self, tx: Connection, project_ids: Collection[str] | None = None, resources: Sequence[str] | None = None
    ) -> dict[str, dict[str, int]]:
        """Return project -> its own quotas, of those that have some; None: of every project, and of every resource."""
        own: dict[str, dict[str, int]] = {}
        for row in await tx.fetch(LIST_OWN.format(schema=self.schema), project_ids, resources):
            own.setdefault(row["project_id"], {})[row["resource"]] = row["maximum"]
        return own

    async def set_own(self, tx: Connection, project_id: str, quotas: Quotas) -> None:
        """Write the project's own quotas of these resources; others stay."""
        await tx.execute(SET_OWN.format(schema=self.schema), project_id, list(quotas), list(quotas.values()))

    async def delete_own(self, tx: Connection, project_id: str) -> bool:
        """Delete the project's own quotas; return whether it had any."""
        return bool(await tx.fetch(DELETE_OWN.format(schema=self.schema), project_id))

    async def get_maxima(
        self, tx: Connection, project_ids: Collection[str], *, defaults: Quotas
    ) -> dict[str, dict[str, int]]:
        """Return project -> what holds for it, of the resources that have a default."""
        own = await self.list_own(tx, [EVERYBODY, *project_ids], list(defaults))
        layers = (defaults, own.get(EVERYBODY, {}))
        return {project_id: effective(*layers, own.get(project_id, {})) for project_id in project_ids}

    async def lock(self, tx: Connection, project_ids: Collection[str]) -> None:
        """Let only one transaction at a time make something for each of these. After networks, before what is made."""
        await tx.fetch(LOCK_PROJECTS.format(schema=self.schema), list(project_ids), self.lock_space)

    async def count(
        self, tx: Connection, resources: Collection[str], project_ids: Collection[str] | None
    ) -> dict[str, dict[str, int]]:
        """Return project -> resource -> how many it has; of None: of every project that has some.

        What no statement counts is used by nobody.
        """
        used = {project_id: dict.fromkeys(resources, 0) for project_id in project_ids or ()}
        for counted, statement in self.counts.items():
            if not set(counted).isdisjoint(resources):
                projects = EVERY_PROJECT if project_ids is None else SOME_PROJECTS
                for row in await tx.fetch(statement.replace("{projects}", projects), project_ids):
                    amounts = used.setdefault(row["project_id"], dict.fromkeys(resources, 0))
                    amounts |= {resource: int(row[resource]) for resource in counted if resource in amounts}
        return used

    async def lock_limited(self, tx: Connection, maxima: Mapping[str, Quotas]) -> Usages:
        """Lock those of the projects that have a limit, and return what they have.

        maxima: project -> what holds for it, of the resources that are about to be taken. Others are not locked.
        """
        limited = {project_id: quotas for project_id, quotas in maxima.items() if any(n >= 0 for n in quotas.values())}
        if not limited:
            return {}
        await self.lock(tx, limited)
        resources = {resource for quotas in limited.values() for resource in quotas}
        used = await self.count(tx, resources, list(limited))  # later than the lock: it sees who held it before
        return {
            project_id: {
                resource: QuotaUsage(project_id, resource, maximum, used[project_id][resource])
                for resource, maximum in quotas.items()
            }
            for project_id, quotas in limited.items()
        }

    async def lock_usages(self, tx: Connection, project_ids: Collection[str], *, defaults: Quotas) -> Usages:
        """Do the same for the resources that have a default here, with what holds for each project as it is now."""
        return await self.lock_limited(tx, await self.get_maxima(tx, project_ids, defaults=defaults))

    async def get_usages(self, tx: Connection, project_id: str, *, defaults: Quotas) -> dict[str, QuotaUsage]:
        """Return how much of every resource the project may have, and has. tx: of one snapshot."""
        maxima = (await self.get_maxima(tx, [project_id], defaults=defaults))[project_id]
        used = (await self.count(tx, maxima, [project_id]))[project_id]
        return {
            resource: QuotaUsage(project_id, resource, maximum, used[resource]) for resource, maximum in maxima.items()
        }

    async def list_over(self, tx: Connection, *, defaults: Quotas) -> list[QuotaUsage]:
        """Return every project's resources of which it has more than it may. It reads all that is counted."""
        used = await self.count(tx, defaults, None)
        maxima = await self.get_maxima(tx, used, defaults=defaults)
        usages = [
            QuotaUsage(project_id, resource, maxima[project_id][resource], amount)
            for project_id, amounts in sorted(used.items())
            for resource, amount in amounts.items()
        ]
        return [usage for usage in usages if 0 <= usage.maximum < usage.used]
