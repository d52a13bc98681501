"""What `export-placement` says when it is done: a table for people, JSON for programs, and its exit status."""

from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.text import Text

from roost.cli.managing.placement_target import Refusal
from roost.cli.plurals import many
from roost.cli.tables import new_table, print_some, print_table
from roost.placement.model import Kind
from roost.placement.rules.imports import Change, Detail, Difference, LeftOut

ROWS_SHOWN = 40
DONE, DIFFERS, INCOMPLETE = 0, 3, 4
WORDS = {Change.NEW: "only in Roost", Change.CHANGED: "different", Change.ONLY_HERE: "only there"}
"""Compared from the other's side: what is new there is only in Roost today."""


class Exported(Struct, frozen=True, kw_only=True):
    """What an export did. differences: before it; remaining: after it, all of them on a dry run."""

    url: str
    providers: int
    consumers: int
    requests: int
    dry_run: bool
    differences: tuple[Difference, ...]
    remaining: tuple[Difference, ...]
    left_out: tuple[LeftOut, ...]
    refusals: tuple[Refusal, ...]

    @property
    def exit_status(self) -> int:
        """Return INCOMPLETE where something stays different, DIFFERS on a dry run that found something."""
        if self.dry_run:
            return DIFFERS if self.differences or self.left_out else DONE
        return INCOMPLETE if self.remaining or self.left_out or self.refusals else DONE


def report_json(exported: Exported) -> bytes:
    """Return every difference, before and after."""
    return msgspec.json.encode(
        {
            "target": exported.url,
            "providers": exported.providers,
            "consumers": exported.consumers,
            "requests": exported.requests,
            "dry_run": exported.dry_run,
            "summary": _summary(exported.differences),
            "differences": [_document(item) for item in exported.differences],
            "remaining": [_document(item) for item in exported.remaining],
            "left_out": exported.left_out,
            "refusals": exported.refusals,
        }
    )


def _document(difference: Difference) -> dict[str, Any]:
    return {
        "kind": difference.kind,
        "key": difference.key,
        "name": difference.name,
        "change": WORDS[difference.change],
        "details": [{"part": item.part, "roost": item.source, "there": item.roost} for item in difference.details],
    }


def print_report(console: Console, exported: Exported) -> None:
    """Print for people how much differs, the first ROWS_SHOWN of it, what was refused, and what was done."""
    requests = many(exported.requests, "request")
    amounts_held = f"{many(exported.providers, 'provider')} and {many(exported.consumers, 'consumer')}"
    console.print(Text(f"Roost has {amounts_held}; {requests} of the other Placement."))
    shown = exported.differences if exported.dry_run else exported.remaining
    if exported.differences:
        changes = list(WORDS.values())
        table = new_table("", *changes, numbers=changes)
        for kind, counts in _summary(exported.differences).items():
            if any(counts.values()):
                table.add_row(kind, *(f"{count:,}" for count in counts.values()))
        print_table(console, table)
    if shown:
        _print_details(console, shown)
    print_some(console, [f"Left out: {item.kind.value} {item.key}: {item.reason}." for item in exported.left_out])
    print_some(console, [f"Refused: {item.kind.value} {item.key}: {item.reason}." for item in exported.refusals])
    console.print(Text(_conclusion(exported)))


def _print_details(console: Console, differences: tuple[Difference, ...]) -> None:
    table = new_table("what", "which", "difference", "in Roost", "there")
    rows = 0
    for difference in differences:
        which = f"{difference.name} ({difference.key})" if difference.name else difference.key
        for detail in difference.details or (Detail(WORDS[difference.change], None, None),):
            rows += 1
            if rows <= ROWS_SHOWN:
                # The comparison is made from the other's side, so its "source" is Roost.
                table.add_row(
                    difference.kind.value, which, detail.part, _show(detail.source), _show(detail.roost)
                )  # fmt: skip
    print_table(console, table)
    if rows > ROWS_SHOWN:
        console.print(Text(f"... and {rows - ROWS_SHOWN:,} more lines: --json has them all."))


def _summary(differences: tuple[Difference, ...]) -> dict[str, dict[str, int]]:
    counts = Counter((difference.kind, difference.change) for difference in differences)
    return {kind.value: {word: counts[kind, change] for change, word in WORDS.items()} for kind in Kind}


def _show(value: object) -> str:
    if value is None:
        return ""
    return "yes" if value is True else str(msgspec.to_builtins(value))


def _conclusion(exported: Exported) -> str:
    if not exported.differences and not exported.left_out:
        return "Nothing differs."
    if exported.dry_run:
        return f"{many(len(exported.differences), 'difference')}. Nothing was written."
    if exported.remaining:
        only_there = all(item.change is Change.ONLY_HERE for item in exported.remaining)
        advice = ", of what only the other has: --delete removes it" if only_there else ""
        return f"Exported. {many(len(exported.remaining), 'difference')} left{advice}."
    return "Exported: the other Placement holds what Roost holds, but for generations, which are its own."
