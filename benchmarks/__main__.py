"""The program: `python -m benchmarks [ROW ...]` builds each row's world, measures, and says whether promises hold."""

import importlib
import logging
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
import structlog
import typer
from rich.console import Console
from rich.table import Table

from benchmarks import disk
from benchmarks.costs import FIGURES, Stretch
from benchmarks.machine import Machine, Measured, this_machine
from benchmarks.rows import ROWS, Kind, Row

WIDTH_MIN = 110
"""Columns of a table: on a narrower terminal its lines are broken, but no figure is cut off."""


MODULES: Mapping[Kind, str] = {
    **{Kind.BOOT: "boot", Kind.ORDER: "orders", Kind.MIGRATE: "moves", Kind.EVACUATE: "moves", Kind.POLL: "polls"},
    **{
        Kind.SHARES: "shares",
        Kind.POLL_FLEET: "polls",
        Kind.PORT_CREATE: "ports",
        Kind.PORT_LIST: "ports",
        Kind.PORT_READDRESS: "ports",
        Kind.LISTS: "lists",
        Kind.PUT: "puts",
        Kind.MIRROR: "mirror",
    },
    **{Kind.BIND: "network", Kind.FILL: "network", Kind.NEUTRON_FIRST: "neutron", Kind.NEUTRON_IDLE: "neutron"},
}
"""What measures a row; the others are measured by `ledger`. Imported when it is needed: an old source may have less."""


@dataclass(frozen=True)
class Result:
    """A row and what was measured."""

    row: Row
    measured: Measured

    @property
    def figures(self) -> Sequence[float]:
        """One for each round, in the row's unit."""
        return self.measured.figures

    @property
    def median(self) -> float:
        """What is held against the promise."""
        return statistics.median(self.figures)

    @property
    def holds(self) -> bool:
        """Whether the promise is kept."""
        return self.row.holds(self.median)


app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)


def run(row: Row) -> Result:
    """Build the row's world, measure, and take the world down again."""
    return Result(row, importlib.import_module(f"benchmarks.{MODULES.get(row.kind, 'ledger')}").measure(row))


@app.command()
def main(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[ROW]...", help="The rows to run; all but the small ones if none.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Measure each row this often; else as the row says.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    directory: Annotated[Path, typer.Option(help="Where data lies while it is measured.")] = disk.DIRECTORY,
    in_memory: Annotated[bool, typer.Option("--in-memory", help="Take a directory that is held in memory.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="Say which rows there are, and run none.")] = False,
) -> None:
    """Measure how fast Roost is, row by row, and hold the medians against what was promised.

    A row is a workload: a world of so many hosts and segments, and what is measured in it. Each runs on a private
    PostgreSQL of its own with fsync on, on a disk; nothing is left behind. The second table says what each server,
    claim, move or poll costs: CPU by process, transactions, statements, WAL and fsyncs.

    Examples:

    - `python -m benchmarks` runs all rows but the small ones: some minutes
    - `python -m benchmarks boot-1000 --rounds 9` runs one row, nine times
    - `python -m benchmarks claims-256 --json` answers a program

    Exit status 0: every promise is kept; 1: one is not; 2: asked wrongly.
    """
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    if listing:
        _wide_console().print(_listing())
        return
    try:
        disk.choose(directory, may_be_memory=in_memory)
    except (disk.InMemory, OSError) as error:
        raise typer.BadParameter(str(error), param_hint="--directory") from None
    rows = _chosen(names or [row.name for row in ROWS if not row.small])
    machine, errors, results = this_machine(), Console(stderr=True), []
    for row in rows:
        with errors.status(f"{row.name}: {row.kind.value}"):
            results.append(run(row if rounds is None else replace(row, rounds=rounds)))
    if as_json:
        sys.stdout.write(_json(results, machine) + "\n")
    else:
        console = _wide_console()
        console.print(_table(results))
        if any(result.measured.stretches for result in results):
            console.print(_costs_table(results))
        console.print(f"{machine}\n{results[0].measured.server}", highlight=False)
    if not all(result.holds for result in results):
        raise typer.Exit(1)


def _wide_console() -> Console:
    console = Console()
    return console if console.width >= WIDTH_MIN else Console(width=WIDTH_MIN)


def _chosen(names: Sequence[str]) -> list[Row]:
    rows = {row.name: row for row in ROWS}
    for name in names:
        if name not in rows:
            raise typer.BadParameter(f"there is no row {name!r}; there are {', '.join(rows)}", param_hint="ROW")
    return [rows[name] for name in names]


def _listing() -> Table:
    table = Table("row", "measured", "hosts", "segments", "held", "amount", "batch", "promise", box=None)
    for row in ROWS:
        numbers = (f"{n:,}" for n in (row.hosts, row.segments, row.held, row.amount, row.batch))
        table.add_row(row.name, row.kind.value, *numbers, f"{row.promise} {row.unit if row.promise else ''}")
    return table


def _table(results: Sequence[Result]) -> Table:
    table = Table(box=None)
    for heading in ("row", "measured"):
        table.add_column(heading, no_wrap=True)
    for heading in ("median", "lowest", "highest"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("unit", "promise", "holds"):
        table.add_column(heading, no_wrap=True)
    for result in results:
        row = result.row
        figures = (result.median, min(result.figures), max(result.figures))
        holds = "" if not row.promise else "yes" if result.holds else "[bold red]NO[/]"
        table.add_row(row.name, row.kind.value, *map(_figure, figures), row.unit, row.promise, holds)
    return table


def _costs_table(results: Sequence[Result]) -> Table:
    table = Table("row", box=None)
    for heading in ("for each", "CPU ms", *FIGURES[1:]):
        table.add_column(heading.replace("_", " "), justify="right")
    table.add_column("CPU ms of")
    for result in results:
        if stretches := result.measured.stretches:
            cpu = {name: statistics.median(each.cpu.get(name, 0.0) for each in stretches) for name in stretches[0].cpu}
            figures = [_figure(_median(stretches, name)) for name in FIGURES]
            parts = ", ".join(f"{name} {_figure(value)}" for name, value in sorted(cpu.items()))
            table.add_row(result.row.name, stretches[0].thing, *figures, parts)
    return table


def _median(stretches: Sequence[Stretch], name: str) -> float:
    return statistics.median(getattr(stretch, name) for stretch in stretches)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _json(results: Sequence[Result], machine: Machine) -> str:
    rows = [
        {
            **asdict(result.row), "kind": result.row.kind.name.lower(), "measured": result.row.kind.value,
            "median": result.median, "lowest": min(result.figures), "highest": max(result.figures),
            "figures": result.figures, "promise": result.row.promise or None,
            "holds": result.holds if result.row.promise else None, "postgresql": asdict(result.measured.server),
            "costs": [asdict(stretch) | {"cpu_ms": stretch.cpu_ms} for stretch in result.measured.stretches],
        }
        for result in results
    ]  # fmt: skip
    return msgspec.json.encode({"machine": asdict(machine), "rows": rows}).decode()


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
