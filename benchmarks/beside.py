"""Two versions beside each other: `python -m benchmarks.beside COMMIT ROW ...` measures in turn this one and that.

A machine that has other work, or changes its speed, does so for both. Both run under these benchmarks, and with these
packages: only `src` is the commit's. Rows of processes run with any source that has what they ask for; those that
are measured in process want its modules to be where they are now.
"""

import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from tests import postgres_servers

from benchmarks import disk
from benchmarks.costs import FIGURES

HERE = Path(__file__).parents[1]
WORST = 0.95
"""Of the other version's: what is slower, or costs more, is worse, and not noise alone."""


@dataclass(frozen=True)
class Compared:
    """One figure of a row on both sides, in its unit, once a turn: of the other version and of this one."""

    row: str
    unit: str
    there: list[float] = field(default_factory=list)
    here: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """How good this version is, as a multiple of the other, the median of all turns: above 1 is better."""
        more_is_better = self.unit.endswith("/s")
        pairs = zip(self.here, self.there, strict=True) if more_is_better else zip(self.there, self.here, strict=True)
        return statistics.median(over / under if under else 1.0 for over, under in pairs)

    @property
    def holds(self) -> bool:
        """Whether this version is not worse."""
        return self.ratio >= WORST


def measure(source: Path, names: Sequence[str], options: Sequence[str]) -> tuple[list[dict[str, Any]], str]:
    """Return the rows as `python -m benchmarks --json` prints them with a source, and what their data lay on."""
    command = [sys.executable, "-m", "benchmarks", *names, *options, "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(HERE)])}
    done = subprocess.run(command, cwd=HERE, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:  # status 1 alone may say that a promise is not kept, which is not the question here
        raise typer.BadParameter(f"{' '.join(command)} ended with status {done.returncode} for {source}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return rows, rows[0]["postgresql"]["disk"]


def figures_of(row: dict[str, Any]) -> dict[str, float]:
    """Return a row's figures by unit: its own, and what each thing that it does cost; the medians of its rounds."""
    costs = {
        f"{name.replace('_', ' ')} for each {row['costs'][0]['thing']}": [cost[name] for cost in row["costs"]]
        for name in FIGURES
        if row["costs"]
    }
    return {unit: statistics.median(values) for unit, values in {row["unit"]: row["figures"], **costs}.items()}


def unpack(commit: str, directory: Path) -> Path:
    """Put the source of a commit there, and return where it is."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=HERE, stdout=subprocess.PIPE, check=False)
    if packed.returncode != 0:
        raise typer.BadParameter(f"git knows no src of {commit!r}", param_hint="COMMIT")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        postgres_servers.unpack(files, directory)
    return directory / "src"


def main(
    commit: Annotated[str, typer.Argument(help="The other version, as git names it.")],
    names: Annotated[list[str], typer.Argument(metavar="ROW...", help="Which rows; `python -m benchmarks --list`.")],
    rounds: Annotated[int, typer.Option(min=1, help="Of each row, each time.")] = 1,
    times: Annotated[int, typer.Option(min=1, help="How often each side has its turn.")] = 5,
    directory: Annotated[Path, typer.Option(help="Where data lies while it is measured.")] = disk.DIRECTORY,
) -> None:
    """Measure rows with this source and with another commit's, in turn, and compare turn by turn.

    Exit status 1: a row's figure, or what each thing costs in it, is worse than 0.95 of the other version.
    """
    options = [f"--rounds={rounds}", f"--directory={directory}"]
    compared: dict[tuple[str, str], Compared] = {}
    with tempfile.TemporaryDirectory() as folder:
        sources = (unpack(commit, Path(folder)), HERE / "src")
        for turn in range(times):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                rows, lies_on = measure(sources[side], names, options)
                for row in rows:
                    for unit, value in figures_of(row).items():
                        pair = compared.setdefault((row["name"], unit), Compared(row["name"], unit))
                        (pair.there, pair.here)[side].append(value)
    table = Table("row", commit, "here", "unit", "here is better by", "", box=None)
    for pair in compared.values():
        medians = [f"{statistics.median(side):.4g}" for side in (pair.there, pair.here)]
        table.add_row(pair.row, *medians, pair.unit, f"{pair.ratio:.2f}", "" if pair.holds else "WORSE")
    console = Console()
    console.print(table)
    console.print(f"data of both on {lies_on}; {times} turns of {rounds}", highlight=False)
    raise SystemExit(int(not all(pair.holds for pair in compared.values())))


if __name__ == "__main__":
    typer.run(main)
