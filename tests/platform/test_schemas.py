"""Each wing's schema.sql, which people read, is what its migrations come to."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roost.cli.serving.roles import SCHEMAS
from roost.platform.postgres import PrivatePostgres

SRC = Path(__file__).parents[2] / "src" / "roost"


@contextmanager
def a_database(postgres: PrivatePostgres) -> Iterator[str]:
    """An empty database."""
    postgres._query("CREATE DATABASE test_schemas")
    try:
        yield postgres.dsn.replace("/roost?", "/test_schemas?")
    finally:
        postgres._query("DROP DATABASE test_schemas WITH (FORCE)")


def dump(postgres: PrivatePostgres, dsn: str, schema: str) -> list[str]:
    """What pg_dump says of a schema, without the random key that it puts there and what Alembic keeps."""
    words = [postgres._bin_dir() / "pg_dump", "--schema-only", "--no-owner", "--schema", schema]
    words += ["--exclude-table", f"{schema}.alembic_*", "--dbname", dsn]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [line for line in text.splitlines() if line and not line.startswith(("\\", "--"))]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_schema_that_people_read_is_that_of_the_migrations(postgres: PrivatePostgres, schema: str) -> None:
    migrated = dump(postgres, postgres.dsn.replace("/roost?", "/template?"), schema)
    with a_database(postgres) as dsn:
        words = [postgres._bin_dir() / "psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", SRC / schema / "schema.sql", dsn]
        subprocess.run(words, check=True)
        assert dump(postgres, dsn, schema) == migrated
    assert any(line.startswith("CREATE TABLE") for line in migrated)
