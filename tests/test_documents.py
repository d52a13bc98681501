"""How documents are written: what people read in a diff or a terminal fits there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WIDTH = 120
DOCUMENTS = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
WORD = re.compile(r"(?:`+[^`]*`+|\S)+")
"""A code span is one word: nobody breaks a command."""


def prose_of(text: str) -> Iterator[tuple[int, str]]:
    """The lines that can be wrapped, with their numbers: neither of code blocks nor of tables, and no headings."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip("> ").startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and not line.lstrip().startswith(("|", "#", "![")):
            yield number, line


def too_long(text: str) -> list[int]:
    """The numbers of lines that are longer than allowed and could be broken."""
    return [number for number, line in prose_of(text) if len(line) > WIDTH and len(WORD.findall(line)) > 2]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("short\n", []),
        (f"{'word ' * 30}\n", [1]),
        (f"short\n- {'word ' * 30}\n", [2]),
        (f"> {'word ' * 30}\n", [1]),
        (f"| {'word ' * 30} |\n", []),
        (f"```\n{'word ' * 30}\n```\n{'word ' * 30}\n", [4]),
        (f"- `{'word ' * 30}`\n", []),
        (f"# {'word ' * 30}\n", []),
    ],
    ids=["short", "long", "item", "quote", "table", "code", "one command", "heading"],
)
def test_what_is_too_long_is_prose_that_can_be_wrapped(text: str, numbers: list[int]) -> None:
    assert too_long(text) == numbers


def test_documents_wrap_at_120_columns() -> None:
    lines = [f"{path.relative_to(ROOT)}:{number}" for path in DOCUMENTS for number in too_long(path.read_text())]
    assert lines == []
