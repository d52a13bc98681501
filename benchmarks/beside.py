"""Two versions beside each other: `python -m benchmarks.beside CHECKOUT ROW ...` measures in turn here and there.

A machine that has other work, or changes its speed, does so for both. CHECKOUT is a work tree of another commit with
its own `.venv`; rows that it does not have cannot be compared.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parents[1]
WORST = 0.95
"""Of the other version's speed: what is slower than that is worse, and not noise alone."""


class Compared(NamedTuple):
    """A row's figures on both sides, in its unit: of this version, and of the other."""

    name: str
    unit: str
    here: list[float]
    there: list[float]

    @property
    def speed(self) -> float:
        """How fast this version is, as a multiple of the other: of amounts by time, more is faster; of times, less."""
        here, there = statistics.median(self.here), statistics.median(self.there)
        return here / there if self.unit.endswith("/s") else there / here


def measure(checkout: Path, python: str, names: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """Return the rows as `python -m benchmarks --json` prints them in a checkout."""
    command = [python, "-m", "benchmarks", *names, "--rounds", str(rounds), "--json"]
    done = subprocess.run(command, cwd=checkout, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: a promise is not kept, which is not the question here
        raise typer.BadParameter(f"the benchmarks in {checkout} ended with status {done.returncode}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return rows


def main(
    checkout: Annotated[Path, typer.Argument(help="A work tree of the other version.", exists=True, file_okay=False)],
    names: Annotated[list[str], typer.Argument(metavar="ROW...", help="Which rows; `python -m benchmarks --list`.")],
    rounds: Annotated[int, typer.Option(min=1, help="Of each row, each time.")] = 3,
    times: Annotated[int, typer.Option(min=1, help="How often each side has its turn.")] = 2,
) -> None:
    """Measure rows here and in another checkout, in turn, and compare the medians.

    Exit status 1: a row is slower than 0.95 of the other version.
    """
    there_python = checkout / ".venv" / "bin" / "python"
    if not there_python.exists():
        raise typer.BadParameter(f"{there_python} does not exist: make that checkout's .venv first")
    figures: dict[str, Compared] = {}
    for _ in range(times):
        for side, (place, python) in enumerate(((checkout, str(there_python)), (HERE, sys.executable))):
            for measured in measure(place, python, names, rounds):
                compared = figures.setdefault(measured["name"], Compared(measured["name"], measured["unit"], [], []))
                (compared.there, compared.here)[side].extend(measured["figures"])
    table = Table("row", "there", "here", "unit", "speed")
    for row in figures.values():
        medians = [f"{statistics.median(side):.4g}" for side in (row.there, row.here)]
        table.add_row(row.name, *medians, row.unit, f"{row.speed:.2f}")
    Console().print(table)
    raise SystemExit(int(any(row.speed < WORST for row in figures.values())))


if __name__ == "__main__":
    typer.run(main)
