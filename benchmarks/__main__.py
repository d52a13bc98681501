"""The program: `python -m benchmarks [ROW ...]` builds each row's world, measures, and says whether promises hold."""

import asyncio
import logging
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import msgspec
import structlog
import typer
from rich.console import Console
from rich.table import Table

from benchmarks import boot, ledger, mirror, moves, network, neutron, orders, polls
from benchmarks.machine import Machine, Server, this_machine
from benchmarks.rows import ROWS, Kind, Row

WIDTH_MIN = 110
"""Columns of a table: on a narrower terminal its lines are broken, but no figure is cut off."""


@dataclass(frozen=True)
class Result:
    """A row's figures, one for each round, in its unit; and the PostgreSQL that they were measured on."""

    row: Row
    figures: Sequence[float]
    server: Server

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
    measure = network.measure if row.kind in network.MEASUREMENTS else ledger.measure
    processes = {
        **{Kind.BOOT: boot.measure, Kind.POLL: polls.measure, Kind.ORDER: orders.measure, Kind.MIRROR: mirror.measure},
        **{Kind.MIGRATE: moves.measure, Kind.EVACUATE: moves.measure},
        **{Kind.NEUTRON_FIRST: neutron.measure, Kind.NEUTRON_IDLE: neutron.measure},
    }
    return Result(row, *asyncio.run(processes.get(row.kind, measure)(row)))


@app.command()
def main(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[ROW]...", help="The rows to run; all but the small ones if none.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Measure each row this often; else as the row says.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="Say which rows there are, and run none.")] = False,
) -> None:
    """Measure how fast Roost is, row by row, and hold the medians against what was promised.

    A row is a workload: a world of so many hosts and segments, and what is measured in it. Each runs on a private
    PostgreSQL of its own with fsync on, in a temporary directory; nothing is left behind.

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
        console.print(f"{machine}\n{results[0].server}", highlight=False)
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


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _json(results: Sequence[Result], machine: Machine) -> str:
    rows = [
        {
            **asdict(result.row), "kind": result.row.kind.name.lower(), "measured": result.row.kind.value,
            "median": result.median, "lowest": min(result.figures), "highest": max(result.figures),
            "figures": result.figures, "promise": result.row.promise or None,
            "holds": result.holds if result.row.promise else None, "postgresql": asdict(result.server),
        }
        for result in results
    ]  # fmt: skip
    return msgspec.json.encode({"machine": asdict(machine), "rows": rows}).decode()


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
