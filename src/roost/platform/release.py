"""What a release of Roost is to a database: how far its migrations go, schema by schema.

Every session says it in its `application_name`, so that a newer release sees who still needs what it would take away.
"""

import re
from functools import cache
from pathlib import Path

from msgspec import Struct

WINGS = Path(__file__).parents[1]
PROGRAM = "roost"


class Migration(Struct, frozen=True):
    """A step in the history of a schema. contracts: it takes away what the release before needs; else it only adds."""

    revision: str
    name: str
    contracts: bool


@cache
def list_migrations(schema: str) -> tuple[Migration, ...]:
    """Return the history of a schema, by the rule that `NNNN_expand_what.py` is `schema_NNNN`.

    A name with neither word counts as expand. `NNNN_first.py` is where the oldest release that can be upgraded ended.
    """
    names = sorted(path.stem for path in (WINGS / schema / "migrations").glob("[0-9]*.py"))
    return tuple(
        Migration(f"{schema}_{name.split('_')[0]}", name, contracts=name.split("_")[1] == "contract") for name in names
    )


def head(schema: str) -> str:
    """Return the last migration's revision."""
    return list_migrations(schema)[-1].revision


def last_by_kind(schema: str) -> dict[bool, str]:
    """Return the last migrations' revisions: whether they contract -> revision."""
    return {migration.contracts: migration.revision for migration in list_migrations(schema)}


@cache
def session_name() -> str:
    """Return what this release's sessions are called: `roost compute_0009 network_0004 placement_0004`."""
    schemas = sorted(folder.parent.name for folder in WINGS.glob("*/migrations") if list(folder.glob("[0-9]*.py")))
    return " ".join([PROGRAM, *map(head, schemas)])


def is_older(session: str, than: str) -> bool:
    """Return whether a session is a Roost's that does not know some migration of another one's.

    session, than: as `session_name` has them; a session without revisions is of a release before they were said.
    """
    program, *revisions = session.split(" ")
    if program != PROGRAM:
        return False
    known = {revision.rpartition("_")[0]: revision for revision in revisions if re.fullmatch(r"\w+_\d{4}", revision)}
    return any(known.get(revision.rpartition("_")[0], "") < revision for revision in than.split(" ")[1:])
