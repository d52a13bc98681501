"""Tables for people: one look in all commands, and plain lines where a program or a file reads them."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

WIDTH_WITHOUT_TERMINAL = 200
SENTENCE_WIDTH_MIN = 20
SENTENCES_SHOWN = 10
PADDING = 2
TRAILING = re.compile(r"(?: |\x1b\[[0-9;]*m)+$")


def table_console() -> Console:
    """Return standard output, where names are only text; a file or a pipe is as wide as one long line."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDTH_WITHOUT_TERMINAL
    return console


def new_table(*headings: str, numbers: Collection[str] = ()) -> Table:
    """Return a table without rows. numbers: the headings whose columns are aligned to the right."""
    options: dict[str, Any] = {"box": None, "pad_edge": False, "padding": (0, PADDING, 0, 0), "header_style": "dim"}
    table = Table(**options)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left", overflow="fold")
    return table


def print_table(console: Console, table: Table) -> None:
    """Print a table, without the blanks at the ends of its lines that a program would have to strip.

    Sentences are wrapped to the terminal. Where words, ids and numbers do not fit side by side, the table is wider than
    the terminal, which wraps its lines: they can be copied whole.
    """
    width = console.width
    if console.is_terminal:
        _fit_columns(table, width)
    try:
        console.width = max(width, sum((column.width or 0) + PADDING for column in table.columns))
        with console.capture() as captured:
            console.print(table)
    finally:
        console.width = width
    console.file.writelines(f"{_without_trailing_blanks(line)}\n" for line in captured.get().splitlines())


def _without_trailing_blanks(line: str) -> str:
    """Return the line without the blanks at its end, and with the colours' ends among them."""
    return TRAILING.sub(lambda match: match[0].replace(" ", ""), line)


def _fit_columns(table: Table, width: int) -> None:
    """Give each column what its longest word needs, and share out the rest of the width by what each lacks."""
    narrow, wide = zip(*map(_column_widths, table.columns), strict=True)
    spare = max(width - PADDING * (len(narrow) - 1) - sum(narrow), 0)
    by_need = sorted(range(len(narrow)), key=lambda index: wide[index] - narrow[index])
    for rank, index in enumerate(by_need):
        more = min(wide[index] - narrow[index], spare // (len(by_need) - rank))
        table.columns[index].width = narrow[index] + more
        spare -= more


def _column_widths(column: Column) -> tuple[int, int]:
    """Return the width of the longest word, for sentences at least that of some words, and of the whole column."""
    cells = [str(cell) for cell in column.cells]
    widest = max(map(cell_len, cells), default=0)
    word = max((cell_len(word) for text in (str(column.header), *cells) for word in text.split()), default=0)
    return max(word, min(widest, SENTENCE_WIDTH_MIN)), max(widest, cell_len(str(column.header)))


def print_rows(
    console: Console, headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str] = ()
) -> None:
    """Print a table of these rows."""
    table = new_table(*headings, numbers=numbers)
    for row in rows:
        table.add_row(*row)
    print_table(console, table)


def print_some(console: Console, sentences: Sequence[str]) -> None:
    """Print the first sentences, and how many more there are."""
    for sentence in sentences[:SENTENCES_SHOWN]:
        console.print(Text(sentence, style="yellow"))
    if len(sentences) > SENTENCES_SHOWN:
        console.print(Text(f"... and {len(sentences) - SENTENCES_SHOWN:,} more like it: --json has them all."))
