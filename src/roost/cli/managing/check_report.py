"""Checks for operators, as `nova-status` prints them: a table or JSON, and an exit status."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from rich.console import Console

from roost.cli.tables import print_rows

READY, WARNING, FAILURE = 0, 1, 2
WORDS = {READY: "ready", WARNING: "warning", FAILURE: "failure"}


class CheckResult(Struct, frozen=True, kw_only=True):
    """One check. result: READY, WARNING or FAILURE. details: sentences for operators."""

    name: str
    result: int
    details: str


def print_checks(console: Console, checks: Sequence[CheckResult], *, as_json: bool) -> int:
    """Print the checks; return the exit status, which is the worst of their results."""
    status = max(check.result for check in checks)
    if as_json:
        rows = [{"name": c.name, "result": WORDS[c.result], "details": c.details} for c in checks]
        console.file.write(msgspec.json.encode({"result": WORDS[status], "checks": rows}).decode() + "\n")
    else:
        cells = [(check.name, WORDS[check.result], check.details) for check in checks]
        print_rows(console, ("check", "result", "details"), cells)
    return status
