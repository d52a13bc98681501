"""What commands print: answers on standard output, all else on standard error."""

import sys
from pathlib import Path


def print_answer(text: str) -> None:
    """Print the answer of a command, for which programs wait, on standard output."""
    print(text, flush=True)  # noqa: T201


def print_note(text: str) -> None:
    """Print what no program waits for on standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def stopped_text(data_dir: Path) -> str:
    """Return what is said when a Roost that has a data directory has stopped."""
    return f"Roost has stopped. The data is in {data_dir.absolute()}: the same command goes on from there."
