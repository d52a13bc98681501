"""Bring schemas of the database up to date: each is a wing's, whose `migrations/` bring forward what is older.

A schema that is missing is made whole, by new_schemas.py.

A release changes a schema in two steps. **Expand** only adds: the release before goes on beside the new one.
**Contract** takes away what only the release before needs, and closes the way back to it. Two tables in each schema say
how far it is: `alembic_step` has the last migrations that were made, and `alembic_version` the last one of the release
that contracted, so that any release whose own last one is older refuses the database.
"""

import asyncio
import re
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from roost.platform.database import Connection, Database
from roost.platform.errors import RoostError
from roost.platform.new_schemas import make_new
from roost.platform.release import WINGS, Migration, head, is_older, last_by_kind, list_migrations, session_name

if TYPE_CHECKING:
    from alembic.config import Config

_ENVIRONMENT = Path(__file__).parent / "migrations"
OLDER_CHECK_S = 0.2
OLDER_PATIENCE_S = 5.0
"""How long the last sessions of processes that were stopped just now may take to end."""

LIST_SESSIONS = """-- platform.list_older_sessions
SELECT pid, application_name, coalesce(host(client_addr), 'this machine') AS client, backend_start
FROM pg_stat_activity WHERE datname = current_database() ORDER BY backend_start, pid
"""


class SchemaTooNew(RoostError):
    """The database was migrated by a newer Roost."""


class SchemaTooOld(RoostError):
    """The database was left by a Roost older than those that this one can upgrade."""


class OlderReleaseConnected(RoostError):
    """Processes of an older Roost still need what contracting the database would take away."""


class SchemaState(Struct, frozen=True, kw_only=True):
    """How far a schema is, as this release sees it.

    oldest: the last migration of the oldest release that may use it, None for a schema that is missing.
    expands, contracts: the migrations that are still to be made, by name; none of a schema that is missing.
    for_newer: a newer release expanded it.
    """

    schema: str
    oldest: str | None
    expands: tuple[str, ...]
    contracts: tuple[str, ...]
    for_newer: bool

    @property
    def to_contract(self) -> bool:
        """Return whether an older release may still use it."""
        return self.oldest not in (None, head(self.schema))


class OlderSession(Struct, frozen=True):
    """A session of an older release. release: as release.py's `session_name` has it."""

    pid: int
    release: str
    client: str
    since: datetime


async def read_states(database: Database, schemas: Sequence[str]) -> list[SchemaState]:
    """Return how far each schema is. Raises SchemaTooNew for one that a newer release contracted, SchemaTooOld."""
    async with database.connection() as connection:
        return [await _read_state(connection, schema) for schema in schemas]


async def _read_state(connection: Connection, schema: str) -> SchemaState:
    async def read(table: str) -> list[str]:
        exists = await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{schema}.{table}")
        rows = await connection.fetch(f"SELECT version_num FROM {schema}.{table}") if exists else []  # noqa: S608
        return [row["version_num"] for row in rows]

    oldest = max(await read("alembic_version"), default=None)
    return judge(schema, list_migrations(schema), oldest=oldest, steps=await read("alembic_step"))


def judge(
    schema: str, migrations: Sequence[Migration], *, oldest: str | None, steps: Collection[str] = ()
) -> SchemaState:
    """Return how far a schema is. steps: the last migrations of each kind; none before there were two kinds.

    Raises SchemaTooNew for one that is newer: what this Roost wrote there could be wrong. Raises SchemaTooOld for one
    that ends before this release's migrations begin.
    """
    first, last = migrations[0].revision, migrations[-1].revision
    if oldest is not None and oldest > last:
        raise SchemaTooNew(
            f"the schema {schema} in the database is at {oldest}, and this Roost knows it up to "
            f"{last}: run the newer Roost that migrated it, or name another database"
        )
    contracting = {migration.revision for migration in migrations if migration.contracts}
    steps_made = set(steps or ([oldest] if oldest else []))
    if not steps_made:
        return SchemaState(schema=schema, oldest=None, expands=(), contracts=(), for_newer=False)
    expanded, contracted = max(steps_made - contracting, default=""), max(steps_made & contracting, default="")
    if expanded < first:
        raise SchemaTooOld(
            f"the schema {schema} in the database is at {expanded}, and this Roost upgrades from {first} on: have an "
            "earlier release upgrade it first, one that knows both (docs/upgrade/roost.md)"
        )
    return SchemaState(
        schema=schema,
        oldest=oldest,
        expands=tuple(
            migration.name for migration in migrations if not migration.contracts and migration.revision > expanded
        ),
        contracts=tuple(
            migration.name for migration in migrations if migration.contracts and migration.revision > contracted
        ),
        for_newer=expanded > last,
    )


async def list_outdated(database: Database, schemas: Sequence[str]) -> list[str]:
    """Return those of `schemas` that this Roost cannot use before they are made or expanded.

    Raises SchemaTooNew, SchemaTooOld.
    """
    return [state.schema for state in await read_states(database, schemas) if state.oldest is None or state.expands]


async def list_missing(database: Database, schemas: Sequence[str]) -> list[str]:
    """Return those of `schemas` that the database does not have at all."""
    async with database.connection() as connection:
        return [
            schema
            for schema in schemas
            if not await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{schema}.alembic_version")
        ]


async def list_older_sessions(database: Database) -> list[OlderSession]:
    """Return the sessions of older releases on this database."""
    async with database.connection() as connection:
        rows = await connection.fetch(LIST_SESSIONS)
    return [
        OlderSession(row["pid"], row["application_name"], row["client"], row["backend_start"])
        for row in rows
        if is_older(row["application_name"], session_name())
    ]


async def bring_up_to_date(database: Database, schemas: Sequence[str], *, contract: bool) -> list[SchemaState]:
    """Make the steps left; returns how far the schemas were. contract: an older release is not needed any more.

    Raises SchemaTooNew, SchemaTooOld, SchemaNotMade, and OlderReleaseConnected before anything is contracted.
    """
    states = await read_states(database, schemas)
    due = [state for state in states if state.oldest is None or state.expands or (contract and state.to_contract)]
    if newer := [state.schema for state in due if state.for_newer]:
        raise SchemaTooNew(
            f"the schema {newer[0]} was expanded for a newer Roost: let that one go on, or go back from it"
        )
    if contract and any(state.oldest is not None for state in due):
        await _refuse_older_sessions(database)
    for state in due:
        await asyncio.to_thread(upgrade, database.dsn, [state.schema], contract=contract or state.oldest is None)
    return states


async def _refuse_older_sessions(database: Database) -> None:
    deadline_s = asyncio.get_running_loop().time() + OLDER_PATIENCE_S
    while sessions := await list_older_sessions(database):
        if asyncio.get_running_loop().time() > deadline_s:
            clients = ", ".join(sorted({session.client for session in sessions}))
            raise OlderReleaseConnected(
                f"sessions of an older Roost still use the database, {len(sessions)} from {clients}: stop its "
                "processes, or let both go on with `roost serve --beside` (`roost-manage db check` lists the sessions)"
            )
        await asyncio.sleep(OLDER_CHECK_S)


def upgrade(dsn: str, schemas: Sequence[str], *, contract: bool = True) -> None:
    """Make or upgrade `schemas` in the database at `dsn`; doing it twice, or by two processes at once, is fine.

    contract: take away what the release before needs, and refuse it from now on; a new schema is contracted always.
    Raises SchemaNotMade.
    """
    for schema in schemas:
        if not asyncio.run(make_new(dsn, schema)):
            _migrate(dsn, schema, contract=contract)


def _migrate(dsn: str, schema: str, *, contract: bool) -> None:
    from alembic import command  # 0.3 s, which neither a new schema nor one that is up to date need wait for

    last = last_by_kind(schema)
    if True in last or not contract:
        command.upgrade(configuration(dsn, schema), last[False])
    if contract:
        command.upgrade(configuration(dsn, schema, contracted=True), last.get(True, last[False]))


def configuration(dsn: str, schema: str, *, contracted: bool = False) -> "Config":
    """Return what Alembic's commands need to know of one schema. contracted: it is, once the command is done."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_ENVIRONMENT))
    config.set_main_option("version_locations", str(WINGS / schema / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["dsn"] = dsn
    config.attributes["schema"] = schema
    config.attributes["oldest"] = head(schema) if contracted else None
    return config


def statements(sql: str) -> list[str]:
    """Split a migration's text at the semicolons that end a line: drivers take one statement at a time."""
    return [part.strip() for part in re.split(r";[ \t]*\n", sql) if part.strip()]
