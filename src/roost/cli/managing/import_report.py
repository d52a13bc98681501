"""What `import-placement` says when it is done: a table for people, JSON for programs, and its exit status."""

from collections import Counter
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from roost.cli.managing.placement_source import Read
from roost.cli.plurals import many
from roost.cli.tables import new_table, print_some, print_table
from roost.placement.model import Kind
from roost.placement.rules.imports import Change, Detail, Difference
from roost.placement.service.imports import Imported
from roost.seams.placement import Inventory

ROWS_SHOWN = 40
DONE, FAILED, DIFFERS, INCOMPLETE = 0, 1, 3, 4


def exit_status(read: Read, imported: Imported, *, dry_run: bool) -> int:
    """Return the exit status. INCOMPLETE: something stays different, or the source changed while it was read."""
    plan = imported.plan
    if dry_run and plan.differences:
        return DIFFERS
    if plan.obstacles:
        return FAILED
    return INCOMPLETE if plan.remaining or imported.left_out or not read.settled else DONE


def report_json(url: str, read: Read, imported: Imported, *, dry_run: bool) -> bytes:
    """Return every difference, and all that the table says."""
    plan = imported.plan
    stays = {(difference.kind, difference.key) for difference in plan.remaining}
    return msgspec.json.encode(
        {
            "source": url,
            "providers": len(read.state.providers),
            "consumers": len(read.state.consumers),
            "requests": read.requests,
            "settled": read.settled,
            "dry_run": dry_run,
            "written": imported.written,
            "summary": _summary(plan.differences),
            "differences": [
                {
                    **msgspec.structs.asdict(difference),
                    "stays": not imported.written or (difference.kind, difference.key) in stays,
                }
                for difference in plan.differences
            ],
            "left_out": imported.left_out,
            "obstacles": plan.obstacles,
        }
    )


def print_report(console: Console, read: Read, imported: Imported, *, dry_run: bool) -> None:
    """Print for people how much of what differs, the first ROWS_SHOWN of it, and what was done."""

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style=style))

    plan = imported.plan
    say(f"The source has {many(len(read.state.providers), 'provider')} and "
        f"{many(len(read.state.consumers), 'consumer')}; {many(read.requests, 'request')} read them.")  # fmt: skip
    if not read.settled:
        say("It changed all the time while it was read: import it again when nobody writes to it.", "yellow")
    if plan.differences:
        print_table(console, _summary_table(plan.differences))
        print_table(console, _details_table(plan.differences))
    rows = sum(len(difference.details) or 1 for difference in plan.differences)
    if rows > ROWS_SHOWN:
        say(f"... and {rows - ROWS_SHOWN:,} more lines: --json has them all.")
    print_some(console, [f"Left out: {item.kind.value} {item.key}: {item.reason}." for item in imported.left_out])
    print_some(console, [f"In the way: {sentence}." for sentence in plan.obstacles])
    say(_conclusion(imported, dry_run=dry_run))


def _conclusion(imported: Imported, *, dry_run: bool) -> str:
    plan = imported.plan
    if not plan.differences:
        return "Nothing differs." if not imported.left_out else "Nothing else differs."
    if dry_run:
        return f"{many(len(plan.differences), 'difference')}. Nothing was written."
    if plan.obstacles:
        return "Nothing was written."
    stay = len(plan.remaining)
    if stay:
        text = f"{many(stay, 'difference')} left, of what only Roost has: --delete removes it."
        return f"Imported. {text}" if imported.written else text
    return "Imported: Roost's ledger is as the source."


def _summary(differences: tuple[Difference, ...]) -> dict[str, dict[str, int]]:
    """Return how many differ, by kind and by how."""
    counts = Counter((difference.kind, difference.change) for difference in differences)
    return {kind.value: {change.value: counts[kind, change] for change in Change} for kind in Kind}


def _summary_table(differences: tuple[Difference, ...]) -> Table:
    changes = [change.value for change in Change]
    table = new_table("", *changes, numbers=changes)
    for kind, counts in _summary(differences).items():
        if any(counts.values()):
            table.add_row(kind, *(f"{count:,}" for count in counts.values()))
    return table


def _details_table(differences: tuple[Difference, ...]) -> Table:
    """Return the first rows; what is new comes last, as there is least to say about it."""
    table = new_table("what", "which", "difference", "in Roost", "at the source")
    for difference in sorted(differences, key=lambda difference: difference.change is Change.NEW):
        which = f"{difference.name} ({difference.key})" if difference.name else difference.key
        for detail in difference.details or (Detail(difference.change.value, None, None),):
            if table.row_count == ROWS_SHOWN:
                return table
            table.add_row(difference.kind.value, which, detail.part, _show(detail.roost), _show(detail.source))
    return table


def _show(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Inventory):
        fields: dict[str, Any] = msgspec.structs.asdict(value)
        return " ".join(f"{name}={number:g}" if isinstance(number, float) else f"{name}={number}"
                        for name, number in fields.items())  # fmt: skip
    return "yes" if value is True else str(value)
