"""What a migration is called says what it may do; how far a schema is, and whose session is an older release's."""

import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import MagicMock, patch

import pytest
from alembic import op
from alembic.script import ScriptDirectory
from tests.upgrade.kept import ARCHIVE, ROOT

from roost.cli.serving.roles import SCHEMAS
from roost.platform.migrate import SchemaTooNew, SchemaTooOld, configuration, judge
from roost.platform.release import Migration, is_older, list_migrations, session_name

NAMED_FROM = {"placement": 8, "network": 8, "compute": 14, "seeing": 1}
"""The numbers below were given away before migrations said in their names which step they are: those expand."""

TAKES_AWAY = re.compile(
    r"\b(DROP|RENAME|TRUNCATE|DELETE\s+FROM|SET\s+NOT\s+NULL|(ALTER|MODIFY)\s+COLUMN\s+\w+\s+(SET\s+DATA\s+)?TYPE)\b",
    re.IGNORECASE,
)
COLUMN = re.compile(r"ADD\s+COLUMN\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)\s+([^,;]*)", re.IGNORECASE)
CONSTRAINT = re.compile(r"\bADD\s+(CONSTRAINT|CHECK|UNIQUE|FOREIGN|PRIMARY)\b", re.IGNORECASE)
UNIQUE_INDEX = re.compile(r"CREATE\s+UNIQUE\s+INDEX\s+\w+\s+ON\s+(\S+)", re.IGNORECASE)
COMMENT = re.compile(r"--[^\n]*")


def list_takings(sql: str) -> list[str]:
    """What a statement does that the release before would notice.

    A CHECK may be dropped where the same statement adds a wider one: whether it is wider is for people to see.
    """
    sql = COMMENT.sub("", sql)
    widened = set(re.findall(r"DROP\s+CONSTRAINT\s+(\w+)", sql, re.IGNORECASE)) & set(
        re.findall(r"ADD\s+CONSTRAINT\s+(\w+)\s+CHECK", sql, re.IGNORECASE)
    )
    for name in widened:
        sql = re.sub(rf"(DROP|ADD)\s+CONSTRAINT\s+{name}\b(\s+CHECK)?", "", sql, flags=re.IGNORECASE)
    takings = [match[0] for pattern in (TAKES_AWAY, CONSTRAINT) for match in pattern.finditer(sql)]
    made_here = set(re.findall(r"CREATE\s+TABLE\s+(\S+)", sql, re.IGNORECASE))
    takings += [f"unique on {table}" for table in UNIQUE_INDEX.findall(sql) if table not in made_here]
    for name, rest in COLUMN.findall(sql):
        kind = rest.upper()
        if "NOT NULL" in kind and "DEFAULT" not in kind and "GENERATED" not in kind:
            takings.append(f"{name} NOT NULL without a default")
    return takings


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("CREATE TABLE a.b (c text NOT NULL, PRIMARY KEY (c))", 0),
        ("CREATE INDEX x ON a.b (c) -- DROP", 0),
        ("ALTER TABLE a.b ADD COLUMN c text, ADD COLUMN d int NOT NULL DEFAULT 0", 0),
        ("ALTER TABLE a.b ADD COLUMN c bigint GENERATED ALWAYS AS IDENTITY", 0),
        ("ALTER TABLE a.b DROP CONSTRAINT k, ADD CONSTRAINT k CHECK (c IN ('x', 'y'))", 0),
        ("CREATE TABLE a.b (c int); CREATE UNIQUE INDEX x ON a.b (c)", 0),
        ("CREATE UNIQUE INDEX x ON a.b (c)", 1),
        ("ALTER TABLE a.b ADD COLUMN c text NOT NULL", 1),
        ("ALTER TABLE a.b ADD COLUMN c text NOT NULL, ADD COLUMN d text DEFAULT ''", 1),
        ("ALTER TABLE a.b DROP COLUMN c", 1),
        ("ALTER TABLE a.b DROP CONSTRAINT k", 1),
        ("ALTER TABLE a.b RENAME COLUMN c TO d", 1),
        ("ALTER TABLE a.b ALTER COLUMN c SET NOT NULL", 1),
        ("ALTER TABLE a.b ALTER COLUMN c TYPE bigint", 1),
        ("ALTER TABLE a.b ADD CONSTRAINT k CHECK (c > 0)", 1),
        ("DROP TABLE a.b", 1),
        ("DELETE FROM a.b", 1),
    ],
)
def test_what_an_older_release_would_notice_is_seen(sql: str, count: int) -> None:
    assert len(list_takings(sql)) == count, list_takings(sql)


@contextmanager
def statements_noted() -> Iterator[list[str]]:
    """What a migration says to an empty database, through Alembic or over its connection."""
    noted: list[str] = []
    connection = MagicMock()
    connection.execute.side_effect = lambda sql, *_: (
        noted.append(str(sql)) or MagicMock(scalars=lambda: MagicMock(all=list))
    )
    with patch.object(op, "execute", connection.execute), patch.object(op, "get_bind", lambda: connection):
        yield noted


def read_kept() -> dict[str, bytes]:
    """Path -> text of the kept release's migrations."""
    with tarfile.open(ARCHIVE) as archive:
        names = [name for name in archive.getnames() if re.search(r"/migrations/\d", name)]
        return {name: file.read() for name in names if (file := archive.extractfile(name)) is not None}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_migrations_say_which_step_they_are_and_an_expand_only_adds(schema: str) -> None:
    scripts = ScriptDirectory.from_config(configuration("", schema))
    contracting = {migration.revision: migration.contracts for migration in list_migrations(schema)}
    kept = {path.rpartition("/")[2] for path in read_kept()}
    first, *others = list_migrations(schema)
    assert first.name.endswith("_first")
    for migration in others:
        if f"{migration.name}.py" in kept:
            continue
        name = r"\d{4}_(expand|contract)_\w+" if int(migration.name[:4]) >= NAMED_FROM[schema] else r"\d{4}_\w+"
        assert re.fullmatch(name, migration.name), f"{migration.name}: expected NNNN_expand_what or NNNN_contract_what"
        script = scripts.get_revision(migration.revision)
        assert script.dependencies is None
        before = script.down_revision
        assert contracting.get(before, True) == migration.contracts, f"{migration.name}: each kind is a line of its own"
        if not migration.contracts:
            with statements_noted() as noted:
                script.module.upgrade()
            assert list_takings(";\n".join(noted)) == [], migration.name


def test_no_released_migration_is_edited_and_those_of_the_kept_release_can_be_gone_on_from() -> None:
    kept = read_kept()
    assert len(kept) == 17
    for schema in SCHEMAS:
        first = list_migrations(schema)[0].name[:4]
        of_schema = {name: text for name, text in kept.items() if name.startswith(f"src/roost/{schema}/")}
        numbers = {name: name.rpartition("/")[2][:4] for name in of_schema}
        assert max(numbers.values(), default=first) >= first
        assert not numbers or f"`{schema}_{first}`" in (ROOT / "docs" / "upgrade" / "roost.md").read_text()
        later = [name for name, number in numbers.items() if number > first]
        assert [name for name in later if (ROOT / name).read_bytes() != of_schema[name]] == []


ONE = Migration("a_0001", "0001_a", contracts=False)
TWO = Migration("a_0002", "0002_expand_b", contracts=False)
THREE = Migration("a_0003", "0003_contract_c", contracts=True)
FOUR = Migration("a_0004", "0004_expand_d", contracts=False)
ALL = (ONE, TWO, THREE, FOUR)


@pytest.mark.parametrize(
    ("migrations", "oldest", "steps", "expands", "contracts", "to_contract", "for_newer"),
    [
        (ALL, None, [], [], [], False, False),  # made whole
        (ALL, "a_0001", [], [TWO, FOUR], [THREE], True, False),
        (ALL, "a_0001", ["a_0001"], [TWO, FOUR], [THREE], True, False),
        (ALL, "a_0001", ["a_0002"], [FOUR], [THREE], True, False),
        (ALL, "a_0001", ["a_0004"], [], [THREE], True, False),
        (ALL, "a_0001", ["a_0003", "a_0004"], [], [], True, False),
        (ALL, "a_0004", ["a_0003", "a_0004"], [], [], False, False),
        # The release before, whose code has not all of them:
        (ALL[:1], "a_0001", ["a_0004"], [], [], False, True),
        (ALL[:1], "a_0001", ["a_0001"], [], [], False, False),
        (ALL[:3], "a_0003", ["a_0003", "a_0004"], [], [], False, True),
        # Two releases at once: what was contracted before, and what comes now.
        (ALL, "a_0003", ["a_0002", "a_0003"], [FOUR], [], True, False),
        # An older release, whose database another one expanded as far as this one needs it:
        (ALL[1:], "a_0001", ["a_0002"], [FOUR], [THREE], True, False),
    ],
)
def test_how_far_a_schema_is(
    migrations: tuple[Migration, ...],
    oldest: str | None,
    steps: list[str],
    expands: list[Migration],
    contracts: list[Migration],
    to_contract: bool,
    for_newer: bool,
) -> None:
    with patch("roost.platform.migrate.head", lambda _: migrations[-1].revision):
        state = judge("a", migrations, oldest=oldest, steps=steps)
        assert state.to_contract == to_contract
    assert state.expands == tuple(one.name for one in expands)
    assert state.contracts == tuple(one.name for one in contracts)
    assert state.for_newer == for_newer


def test_a_schema_that_a_newer_release_contracted_is_refused() -> None:
    with pytest.raises(SchemaTooNew, match="at a_0004, and this Roost knows it up to a_0003"):
        judge("a", ALL[:3], oldest="a_0004", steps=["a_0003", "a_0004"])


@pytest.mark.parametrize("steps", [[], ["a_0001"]])
def test_a_schema_that_ends_before_the_migrations_begin_is_refused(steps: list[str]) -> None:
    sentence = "at a_0001, and this Roost upgrades from a_0002 on: have an earlier release upgrade it first"
    with pytest.raises(SchemaTooOld, match=sentence):
        judge("a", ALL[1:], oldest="a_0001", steps=steps)


@pytest.mark.parametrize(
    ("session", "older"),
    [
        ("roost", True),
        ("roost a_0001 b_0001", True),
        ("roost a_0002", True),
        ("roost a_0002 b_0001", False),
        ("roost a_0002 b_0001 c_0001", False),
        ("roost a_0003 b_0001", False),
        ("psql", False),
        ("", False),
        ("rooster a_0001", False),
    ],
)
def test_a_session_that_lacks_a_migration_is_older(session: str, older: bool) -> None:
    assert is_older(session, "roost a_0002 b_0001") == older


def test_sessions_have_a_name_that_postgresql_does_not_cut() -> None:
    assert session_name().split(" ")[0] == "roost"
    assert len(session_name()) < 64
