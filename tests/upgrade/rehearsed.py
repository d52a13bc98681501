"""A next release that differs by one more migration of each kind, so that each step has something to do at any time."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from tests.upgrade.kept import ROOT

from roost.platform import database, migrate, release
from roost.platform.release import last_by_kind

EXPAND, CONTRACT = "9001_expand_rehearsal", "9002_contract_rehearsal"
MIGRATION = '''"""For tests/upgrade alone."""

from alembic import op

revision = "compute_{number}"
down_revision = {before!r}


def upgrade() -> None:
    """See above."""
    op.execute("{sql}")
'''


def make_next_release(directory: Path) -> Path:
    """Copy this commit's source and add the migrations; returns what has to be on PYTHONPATH."""
    shutil.copytree(ROOT / "src" / "roost", directory / "roost", ignore=shutil.ignore_patterns("__pycache__"))
    _add_migrations(directory / "roost")
    return directory


@contextmanager
def two_more_migrations() -> Iterator[None]:
    """Have the migrations in this process while the block runs."""
    with tempfile.TemporaryDirectory() as name:
        for folder in release.WINGS.glob("*/migrations"):
            shutil.copytree(folder, Path(name) / folder.relative_to(release.WINGS))
        _add_migrations(Path(name))
        with patch.object(release, "WINGS", Path(name)), patch.object(migrate, "WINGS", Path(name)), _forgotten():
            with patch.dict(database.SETTINGS, application_name=release.session_name()):
                yield


@contextmanager
def _forgotten() -> Iterator[None]:
    """Forget which migrations there are, before and after."""
    _forget()
    try:
        yield
    finally:
        _forget()


def _forget() -> None:
    release.list_migrations.cache_clear()
    release.session_name.cache_clear()


def _add_migrations(wings: Path) -> None:
    last = last_by_kind("compute")
    for name, before, sql in (
        (EXPAND, last[False], "ALTER TABLE compute.server ADD COLUMN rehearsal text"),
        (CONTRACT, last.get(True), "ALTER TABLE compute.server DROP COLUMN rehearsal"),
    ):
        text = MIGRATION.format(number=name[:4], before=before, sql=sql)
        (wings / "compute" / "migrations" / f"{name}.py").write_text(text)
