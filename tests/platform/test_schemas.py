"""A new database, made from each wing's schema.sql, is what migrations make of one that the kept release left."""

import re
import subprocess
from collections.abc import Iterator

import pytest
from tests.upgrade.kept import migrate_as_kept

from roost.cli.serving.roles import SCHEMAS
from roost.platform.migrate import upgrade
from roost.platform.postgres import PrivatePostgres

DRAWN = re.compile(r"^\\\\x[0-9a-f]{64}$|^t\t0\t\d+\t2\S+ \S+$")
"""Rows that no two databases have alike: the key of marks, and the journal's horizon."""
OF_PG_DUMP = ("--", "\\restrict", "\\unrestrict")
"""Lines that are pg_dump's own, the random key that it puts there among them."""
STEPS = "SELECT version_num FROM {0}.alembic_step UNION ALL SELECT 'oldest ' || version_num FROM {0}.alembic_version"


@pytest.fixture(scope="module")
def dsns(postgres: PrivatePostgres) -> Iterator[tuple[str, str]]:
    """A new database, and one of the kept release that was upgraded."""
    names = ("schemas_new", "schemas_upgraded")
    for name in names:
        postgres._query(f"CREATE DATABASE {name}")
    new, upgraded = (postgres.dsn.replace("/roost?", f"/{name}?") for name in names)
    migrate_as_kept(upgraded)
    upgrade(new, SCHEMAS)
    upgrade(upgraded, SCHEMAS)
    yield new, upgraded
    for name in names:
        postgres._query(f"DROP DATABASE {name} WITH (FORCE)")


def dump(postgres: PrivatePostgres, dsn: str, schema: str) -> list[str]:
    """What pg_dump says of a schema and its rows, of which one may be an empty line, but for what Alembic keeps."""
    words = [postgres._bin_dir() / "pg_dump", "--no-owner", "--schema", schema]
    words += ["--exclude-table", f"{schema}.alembic_*", "--dbname", dsn]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [DRAWN.sub("drawn", line) for line in text.splitlines() if not line.startswith(OF_PG_DUMP)]


def list_steps(postgres: PrivatePostgres, dsn: str, schema: str) -> list[str]:
    """What is noted of the migrations that were made."""
    words = [postgres._bin_dir() / "psql", "-At", "-c", STEPS.format(schema), dsn]
    return sorted(subprocess.run(words, check=True, capture_output=True, text=True).stdout.split("\n"))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_new_schema_is_what_migrations_make_of_the_kept_releases(
    postgres: PrivatePostgres, dsns: tuple[str, str], schema: str
) -> None:
    new, upgraded = (dump(postgres, dsn, schema) for dsn in dsns)
    assert new == upgraded
    assert any(line.startswith("CREATE TABLE") for line in new)
    steps, steps_upgraded = (list_steps(postgres, dsn, schema) for dsn in dsns)
    assert steps == steps_upgraded
    assert any(line.startswith("oldest") for line in steps)


def test_what_is_drawn_is_in_a_new_database_once(postgres: PrivatePostgres, dsns: tuple[str, str]) -> None:
    lines = [line for schema in SCHEMAS for line in dump(postgres, dsns[0], schema)]
    assert lines.count("drawn") == 2
