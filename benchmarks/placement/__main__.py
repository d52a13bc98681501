"""The program: `python -m benchmarks.placement side-by-side` beside upstream, `alone` for Roost by itself."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from benchmarks import disk
from benchmarks.machine import Machine, this_machine
from benchmarks.placement import alone as by_itself
from benchmarks.placement import implied
from benchmarks.placement.cloud import Cloud
from benchmarks.placement.rows import COMPARED, Compared, Figure
from benchmarks.placement.servers import roost, upstream
from benchmarks.placement.side_by_side import Effort, Pair, compare, fill, settle

WIDTH_MIN = 120
"""Columns of a table: on a narrower terminal its lines are broken, but no figure is cut off."""
HOSTS = (1000, 5000)
"""The sizes that something was promised of."""

Rounds = Annotated[int, typer.Option(min=1, help="Stretches of each row on each server; medians are shown.")]
Seconds = Annotated[float, typer.Option(min=0.1, help="Of one stretch of questions.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]

app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)


@app.callback()
def _program(
    directory: Annotated[Path, typer.Option(help="Where all databases lie while they are measured.")] = disk.DIRECTORY,
    in_memory: Annotated[bool, typer.Option("--in-memory", help="Take a directory that is held in memory.")] = False,
) -> None:
    """Placement under load, over HTTP: Roost beside upstream Placement in one run, and Roost by itself."""
    try:
        disk.choose(directory, may_be_memory=in_memory)
    except (disk.InMemory, OSError) as error:
        raise typer.BadParameter(str(error), param_hint="--directory") from None


@app.command("side-by-side")
def side_by_side(
    upstream_venv: Annotated[Path, typer.Option(help="A virtual environment with openstack-placement and uwsgi.")],
    hosts: Annotated[list[int] | None, typer.Option(min=40, help="Of a cloud; may be repeated. [1000, 5000]")] = None,
    row: Annotated[list[str] | None, typer.Option(help="Measure this row; may be repeated. [the promised]")] = None,
    rounds: Rounds = 3,
    seconds: Seconds = 3.0,
    claim_seconds: Annotated[float, typer.Option(min=0.1, help="Of one race of claims.")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Run upstream Placement and Roost at once, load the same cloud into both, and put them side by side, row by row.

    Each has two workers and a PostgreSQL of its own, of the same version. Exit status 0: Roost is as far ahead as was
    promised, and all answers were right; 1: not; 2: asked wrongly.

    Example: `python -m benchmarks.placement side-by-side --hosts 1000 --upstream-venv ~/upstream`
    """
    rows = _chosen(row or [one.name for one in COMPARED if one.factors])
    effort = Effort(rounds=rounds, seconds=seconds, claim_s=claim_seconds)
    machine, pairs, disks = this_machine(), [], {}
    for size in hosts or HOSTS:
        cloud = Cloud(size)
        with ExitStack() as held:
            ours = held.enter_context(roost())
            theirs = held.enter_context(upstream(upstream_venv, postgres_like=ours))
            for side in (ours, theirs):
                disks[side.name] = side.disk
                fill(side, cloud.providers(), _say)
            settle(effort)
            pairs += compare(theirs, ours, cloud, rows, effort, _say)
    if as_json:
        _write_json(machine, disks=disks, rows=[_pair_json(pair) for pair in pairs])
    else:
        _write_table(_pair_table(pairs), machine)
        _say("; ".join(f"{name}'s data on {lies_on}" for name, lies_on in disks.items()))
    for pair in pairs:
        for problem in pair.problems:
            _say(f"{pair.row.name} at {pair.hosts:,} hosts: {problem}")
    if not all(pair.kept for pair in pairs):
        raise typer.Exit(1)


@app.command("alone")
def alone(
    hosts: Annotated[int, typer.Option(min=400, help="Of the large cloud; the small one has a tenth.")] = 10_000,
    rounds: Rounds = 3,
    seconds: Seconds = 3.0,
    as_json: AsJson = False,
) -> None:
    """Hold Roost by itself to the limits that were promised of it at 10,000 hosts.

    Exit status 0: every promise is kept; 1: one is not; 2: asked wrongly.
    """
    machine = this_machine()
    effort = Effort(rounds=rounds, seconds=seconds)
    figures = [*by_itself.measure(by_itself.Size(hosts), effort, _say), *implied.measure(hosts, effort, _say)]
    if as_json:
        _write_json(machine, hosts=hosts, rows=[_figure_json(figure) for figure in figures])
    else:
        _write_table(_figure_table(figures), machine)
    if not all(figure.kept for figure in figures):
        raise typer.Exit(1)


def _chosen(names: Sequence[str]) -> list[Compared]:
    known = {row.name: row for row in COMPARED}
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"there is no row {name!r}; there are {', '.join(known)}", param_hint="--row")
    return [known[name] for name in names]


def _pair_table(pairs: Sequence[Pair]) -> Table:
    table = Table(box=None)
    table.add_column("row", no_wrap=True)
    for heading in (
        *("hosts", "upstream p50 ms", "CPU ms", "placed/s", "Roost p50 ms", "CPU ms", "web + db", "placed/s"),
        *("factor", "required", "kept"),
    ):
        table.add_column(heading, justify="right")
    for pair in pairs:
        left, right = pair.upstream, pair.roost
        table.add_row(
            pair.row.name, f"{pair.hosts:,}",
            _number(left.p50_ms), _number(left.cpu_ms), _number(left.per_s),
            _number(right.p50_ms), _number(right.cpu_ms), f"{right.web_cpu_ms:.2f}+{right.db_cpu_ms:.2f}",
            _number(right.per_s),
            f"{pair.factor:.0f}x", "" if pair.required is None else f"{pair.required:g}x",
            _kept(pair.kept, promised=pair.required is not None),
        )  # fmt: skip
    return table


def _figure_table(figures: Sequence[Figure]) -> Table:
    table = Table(box=None)
    for heading in ("row", "measured"):
        table.add_column(heading)
    table.add_column("figure", justify="right")
    for heading in ("unit", "promise", "kept"):
        table.add_column(heading, no_wrap=True)
    for figure in figures:
        kept = _kept(figure.kept, promised=bool(figure.promise))
        table.add_row(figure.row, figure.measured, _number(figure.value), figure.unit, figure.promise, kept)
    return table


def _kept(kept: bool, *, promised: bool) -> str:
    if kept:
        return "yes" if promised else ""
    return "[bold red]NO[/]"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _pair_json(pair: Pair) -> dict[str, object]:
    return {
        "row": pair.row.name, "title": pair.row.title, "hosts": pair.hosts, "upstream": asdict(pair.upstream),
        "roost": asdict(pair.roost), "factor": pair.factor, "required": pair.required, "kept": pair.kept,
        "problems": pair.problems,
    }  # fmt: skip


def _figure_json(figure: Figure) -> dict[str, object]:
    return {**asdict(figure), "promise": figure.promise or None, "kept": figure.kept if figure.promise else None}


def _write_table(table: Table, machine: Machine) -> None:
    console = Console()
    if console.width < WIDTH_MIN:
        console = Console(width=WIDTH_MIN)
    console.print(table)
    console.print(f"{machine}\ndata on {disk.disk_of(disk.PLACE.directory)}", highlight=False)


def _write_json(machine: Machine, **content: object) -> None:
    sys.stdout.write(msgspec.json.encode({"machine": asdict(machine), **content}).decode() + "\n")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.placement")
