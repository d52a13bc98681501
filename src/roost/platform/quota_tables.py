"""Quotas as a service keeps them: read, set, and kept when something is made, by however many at once.

A service declares a `QuotaTable`, whose methods are its operations.

A project without a limit costs one look at a small table. For one with a limit makers queue: each counts under the
project's lock, and holds it until what it makes is there, so that the next one counts that too. Nothing else is counted
anywhere: what is there is what is used. docs/decisions/0072.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from roost.platform.database import Connection, HasDatabase
from roost.platform.errors import RoostError
from roost.platform.quotas import Quotas, QuotaUsage, Usages, defaults_of, effective, limit_refusal, limited, usages_of
from roost.platform.rows import in_schema

EVERYBODY = ""
"""The project id of the quotas of all projects that have none of their own. No project has it."""

LIST_OWN = """-- {schema}.list_quotas
SELECT project_id, resource, maximum FROM {schema}.quota
WHERE ($1::text[] IS NULL OR project_id = ANY($1)) AND resource = ANY($2::text[])
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


class Service(HasDatabase, Protocol):
    """A service that has quotas."""

    @property
    def settings(self) -> Struct:
        """Return what the configuration says at the moment."""


@dataclass(frozen=True)
class QuotaTable:
    """The quotas of one service: the table `quota` of its schema. Any text is the id of a project.

    lock_space: the first key of its projects' advisory locks. resources: those that have an option `quota_…`. others:
    the defaults of those that have none. counts: resources that are counted together -> the statement, which has
    {projects} as its condition, and gives project_id and a column for each of the resources; what no statement counts
    is used by nobody. too_small, too_small_text: the error for a new quota below what there is, and its sentence.
    """

    schema: str
    lock_space: int
    resources: tuple[str, ...]
    counts: Mapping[tuple[str, ...], str]
    too_small: type[RoostError]
    too_small_text: str
    others: Quotas = field(default_factory=dict)

    def defaults(self, service: Service) -> dict[str, int]:
        """Return what holds, by the configuration, for projects that have no quota of their own."""
        return effective(defaults_of(service.settings, self.resources), self.others)

    async def get(self, service: Service, project_id: str) -> dict[str, int]:
        """Return what holds for the project; of EVERYBODY: for those that have no quota of their own."""
        async with service.database.connection() as connection:
            return (await self.get_maxima(service, connection, [project_id]))[project_id]

    async def list_own(self, service: Service) -> dict[str, dict[str, int]]:
        """Return project -> what holds for it, of those that have a quota of their own."""
        async with service.database.connection() as connection:
            return await self.get_maxima(service, connection, None)

    async def get_usages(self, service: Service, project_id: str) -> dict[str, QuotaUsage]:
        """Return how much of every resource the project may have, and has."""
        async with service.database.transaction(snapshot=True) as tx:
            return await self._read_usages(service, tx, project_id)

    async def list_over(self, service: Service) -> list[QuotaUsage]:
        """Return every project's resources of which it has more than it may. It reads all that is counted."""
        async with service.database.transaction(snapshot=True) as tx:
            used = await self._count(tx, self.resources, None)
            usages = usages_of(await self.get_maxima(service, tx, sorted(used)), used)
        return [usage for of_project in usages.values() for usage in of_project.values() if usage.is_over]

    async def set(self, service: Service, project_id: str, quotas: Quotas, *, check: bool) -> dict[str, int]:
        """Write quotas of the project's own; others stay. Return what holds for it from now on.

        check: raise `too_small` for one below what the project has already.
        """
        async with service.database.transaction() as tx:
            if check:
                await self.lock(tx, [project_id])
                usages = await self._read_usages(service, tx, project_id)
                if refusal := limit_refusal(usages, quotas, self.too_small_text):
                    raise self.too_small(refusal)
            await tx.execute(in_schema(SET_OWN, self.schema), project_id, list(quotas), list(quotas.values()))
            return (await self.get_maxima(service, tx, [project_id]))[project_id]

    async def delete(self, service: Service, project_id: str) -> bool:
        """Delete the project's own quotas, so that the defaults hold; return whether it had any."""
        async with service.database.transaction() as tx:
            return bool(await tx.fetch(in_schema(DELETE_OWN, self.schema), project_id))

    async def get_maxima(
        self,
        service: Service,
        tx: Connection,
        project_ids: Collection[str] | None,
        resources: Collection[str] | None = None,
    ) -> dict[str, dict[str, int]]:
        """Return project -> what holds for it; of None: of those that have a quota of their own, of every resource."""
        defaults = {name: n for name, n in self.defaults(service).items() if resources is None or name in resources}
        projects = None if project_ids is None else [EVERYBODY, *project_ids]
        own: dict[str, dict[str, int]] = {}
        for row in await tx.fetch(in_schema(LIST_OWN, self.schema), projects, list(defaults)):
            own.setdefault(row["project_id"], {})[row["resource"]] = row["maximum"]
        layers = (defaults, own.pop(EVERYBODY, {}))
        named = own if project_ids is None else project_ids
        return {project_id: effective(*layers, own.get(project_id, {})) for project_id in named}

    async def lock(self, tx: Connection, project_ids: Collection[str]) -> None:
        """Let only one transaction at a time make something for each of these. After networks, before what is made."""
        await tx.fetch(in_schema(LOCK_PROJECTS, self.schema), list(project_ids), self.lock_space)

    async def lock_limited(self, tx: Connection, maxima: Mapping[str, Quotas]) -> Usages:
        """Lock those of the projects that have a limit, and return what they have.

        maxima: project -> what holds for it, of the resources that are about to be taken. Others are not locked.
        """
        if not (limits := limited(maxima)):
            return {}
        await self.lock(tx, limits)
        resources = {resource for quotas in limits.values() for resource in quotas}
        used = await self._count(tx, resources, limits)  # later than the lock: it sees who held it before
        return usages_of(limits, used)

    async def lock_usages(
        self, service: Service, tx: Connection, project_ids: Collection[str], resources: Collection[str]
    ) -> Usages:
        """Do the same with what holds for each project as it is now."""
        return await self.lock_limited(tx, await self.get_maxima(service, tx, project_ids, resources))

    async def _read_usages(self, service: Service, tx: Connection, project_id: str) -> dict[str, QuotaUsage]:
        maxima = await self.get_maxima(service, tx, [project_id])
        return usages_of(maxima, await self._count(tx, self.resources, maxima))[project_id]

    async def _count(
        self, tx: Connection, resources: Collection[str], project_ids: Collection[str] | None
    ) -> dict[str, dict[str, int]]:
        """Return project -> resource -> how many it has, of those that have some; of None: of every project."""
        projects, ids = (EVERY_PROJECT, None) if project_ids is None else (SOME_PROJECTS, list(project_ids))
        used: dict[str, dict[str, int]] = {}
        for counted, statement in self.counts.items():
            if not set(counted).isdisjoint(resources):
                for row in await tx.fetch(statement.replace("{projects}", projects), ids):
                    used.setdefault(row["project_id"], {}).update({name: int(row[name]) for name in counted})
        return used
