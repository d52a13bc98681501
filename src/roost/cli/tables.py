"""Tables for people: one look in all commands, and plain lines where a program or a file reads them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH_WITHOUT_TERMINAL = 200
SENTENCES_SHOWN = 10


def table_console() -> Console:
    """Return standard output, where names are only text; a file or a pipe is as wide as one long line."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDTH_WITHOUT_TERMINAL
    return console


def new_table(*headings: str, numbers: Collection[str] = ()) -> Table:
    """Return a table without rows. numbers: the headings whose columns are aligned to the right."""
    options: dict[str, Any] = {"box": None, "pad_edge": False, "padding": (0, 2, 0, 0), "header_style": "dim"}
    table = Table(**options)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left", overflow="fold")
    return table


def print_table(console: Console, table: Table) -> None:
    """Print a table, without the blanks at the ends of its lines that a program would have to strip."""
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    console.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


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
