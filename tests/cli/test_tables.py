"""Tables in terminals that are too narrow for them, and where no terminal is."""

import io
import re

import pytest
from rich.console import Console

from roost.cli.tables import print_rows

ID = "8ac24bcc-7d72-41c2-8421-8a49032503b8"
HEADINGS = ("id", "memory MB free", "why")
ROWS = [(ID, "3,113,984", "no host has room"), (ID, "1", "the addresses of network public ran out in all three racks")]


def lines_at(width: int, *, terminal: bool = True) -> list[str]:
    """Return the lines of the table in a terminal of this width, without colours."""
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system="standard")
    print_rows(console, HEADINGS, ROWS, numbers=("memory MB free",))
    assert isinstance(console.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue()).splitlines()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 300])
def test_no_id_number_or_word_is_broken_in_a_terminal_of_any_width(width: int) -> None:
    lines = lines_at(width)
    words = " ".join(lines).split()
    assert words.count(ID) == 2
    assert "3,113,984" in words
    assert set(ROWS[1][2].split()) <= set(words)


def test_a_sentence_is_wrapped_to_the_terminal() -> None:
    lines = lines_at(80)
    assert max(map(len, lines)) <= 80
    assert len(lines) > 1 + len(ROWS)


@pytest.mark.parametrize(("width", "terminal"), [(60, True), (200, True), (200, False)])
def test_no_line_ends_with_blanks(width: int, terminal: bool) -> None:
    assert all(line == line.rstrip() for line in lines_at(width, terminal=terminal))


def test_a_table_that_fits_has_a_line_for_each_row() -> None:
    assert len(lines_at(200)) == 1 + len(ROWS)
