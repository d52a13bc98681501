"""docs/races.md: every race has its test, and the code names no race that is not told there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "races.md").read_text()
NUMBERS = re.findall(r"^\*\*(R\d+)\.", TEXT, re.MULTILINE)


def test_races_are_numbered_in_order() -> None:
    assert [f"R{number}" for number in range(1, len(NUMBERS) + 1)] == NUMBERS


def test_every_race_names_a_test_that_exists() -> None:
    tests_named = re.findall(r"^`(tests/[\w/]+\.py)::(\w+)`$", TEXT, re.MULTILINE)
    assert len(tests_named) == len(NUMBERS)
    missing = [f"{path}::{name}" for path, name in tests_named if f"def {name}(" not in (ROOT / path).read_text()]
    assert missing == []


def test_the_code_names_each_race_where_it_is_kept_from_happening() -> None:
    files = (ROOT / "src" / "roost").rglob("*.py")
    numbers_cited = {number for path in files for number in re.findall(r"\bR\d+\b", path.read_text())}
    assert numbers_cited == set(NUMBERS)
