"""Bring schemas of the database up to date: each is a wing's, whose `migrations/` are its history."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from roost.platform.database import Database
from roost.platform.errors import RoostError

if TYPE_CHECKING:
    from alembic.config import Config

_ENVIRONMENT = Path(__file__).parent / "migrations"
_WINGS = Path(__file__).parents[1]


class SchemaTooNew(RoostError):
    """The database was migrated by a newer Roost."""


async def list_outdated(database: Database, schemas: Sequence[str]) -> list[str]:
    """Return those of `schemas` that are not at their last migration: missing, or older than this Roost.

    Raises SchemaTooNew for one that is newer: what this Roost wrote there could be wrong.
    """
    async with database.connection() as connection:
        outdated = []
        for schema in schemas:
            exists = await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{schema}.alembic_version")
            version = await connection.fetchval(f"SELECT version_num FROM {schema}.alembic_version") if exists else None  # noqa: S608
            if version is not None and version > head(schema):
                raise SchemaTooNew(
                    f"the schema {schema} in the database is at {version}, and this Roost knows it up to "
                    f"{head(schema)}: run the newer Roost that migrated it, or name another database"
                )
            if version != head(schema):
                outdated.append(schema)
    return outdated


async def list_missing(database: Database, schemas: Sequence[str]) -> list[str]:
    """Return those of `schemas` that the database does not have at all."""
    async with database.connection() as connection:
        return [
            schema
            for schema in schemas
            if not await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{schema}.alembic_version")
        ]


def head(schema: str) -> str:
    """Return the last migration's name, by the rule that `NNNN_what.py` is `schema_NNNN`."""
    last = max(path.name for path in _versions(schema).glob("[0-9]*.py"))
    return f"{schema}_{last.split('_')[0]}"


def upgrade(dsn: str, schemas: Sequence[str]) -> None:
    """Create or upgrade `schemas` in the database at `dsn`; doing it twice, or by two processes at once, is fine."""
    from alembic import command  # 0.3 s, which a schema that is up to date need not wait for

    for schema in schemas:
        command.upgrade(configuration(dsn, schema), "head")


def configuration(dsn: str, schema: str) -> "Config":
    """Return what Alembic's commands need to know of one schema."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_ENVIRONMENT))
    config.set_main_option("version_locations", str(_versions(schema)))
    config.set_main_option("path_separator", "os")
    config.attributes["dsn"] = dsn
    config.attributes["schema"] = schema
    return config


def _versions(schema: str) -> Path:
    return _WINGS / schema / "migrations"


def statements(sql: str) -> list[str]:
    """Split a migration's text at the semicolons that end a line: drivers take one statement at a time."""
    return [part.strip() for part in re.split(r";[ \t]*\n", sql) if part.strip()]
