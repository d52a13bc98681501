"""Bring the schemas of the three services up to date; each has a history of its own, so each can live alone."""

import re
from collections.abc import Sequence
from pathlib import Path

from alembic import command
from alembic.config import Config

SCHEMAS = ("placement", "network", "compute")
_MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(dsn: str, schemas: Sequence[str] = SCHEMAS) -> None:
    """Create or upgrade `schemas` in the database at `dsn`; doing it twice, or by two processes at once, is fine."""
    for schema in schemas:
        command.upgrade(configuration(dsn, schema), "head")


def configuration(dsn: str, schema: str) -> Config:
    """What Alembic's commands need to know of one schema."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("version_locations", str(_MIGRATIONS / schema))
    config.set_main_option("path_separator", "os")
    config.attributes["dsn"] = dsn
    config.attributes["schema"] = schema
    return config


def statements(sql: str) -> list[str]:
    """Split a migration's text at the semicolons that end a line: drivers take one statement at a time."""
    return [part.strip() for part in re.split(r";[ \t]*\n", sql) if part.strip()]
