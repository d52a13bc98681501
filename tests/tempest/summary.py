"""Prints how many tests passed, failed as expected and failed otherwise; each of the last with its last line of why.

summary.py EXPECTED SECTION, standard input: a subunit stream. Exit status 1 if a test failed otherwise, or none passed.
What is expected: the patterns in backticks in the first column of the table of EXPECTED whose heading has SECTION.
"""

import re
import sys
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

from subunit import ByteStreamToStreamResult
from testtools import StreamToDict


def main() -> int:
    """Read the stream to its end."""
    counts: Counter[str] = Counter()
    failed: dict[str, str] = {}
    passed: list[str] = []

    def note(test: dict) -> None:
        name, status = test["id"].partition("[")[0], test["status"]
        if status == "fail":
            text = "\n".join(detail.as_text() for name, detail in test["details"].items() if "traceback" in name)
            failed[name] = (text.strip().splitlines() or ["no reason"])[-1]
        else:
            counts[status] += 1
            passed.extend([name] if status == "success" else [])

    result = StreamToDict(note)
    result.startTestRun()
    ByteStreamToStreamResult(sys.stdin.buffer, non_subunit_name="stdout").run(result)
    result.stopTestRun()
    patterns = read_patterns(Path(sys.argv[1]).read_text(), sys.argv[2])
    unexpected = {name: reason for name, reason in failed.items() if not is_any(name, patterns)}
    print(
        f"passed={counts['success']} failed-as-expected={len(failed) - len(unexpected)} "
        f"failed-otherwise={len(unexpected)} skipped={counts['skip']}"
    )
    for name, reason in sorted(unexpected.items()):
        print(f"{name}\n    {reason}")
    for pattern in patterns:
        if not any(is_any(name, [pattern]) for name in failed) and any(is_any(name, [pattern]) for name in passed):
            print(f"expected to fail, and passed: {pattern}")
    return 1 if unexpected or not passed else 0


def read_patterns(text: str, section: str) -> list[str]:
    """Return what the table of that section expects to fail."""
    below = next(part for part in text.split("\n## ") if section in part.partition("\n")[0].lower())
    rows = re.findall(r"^\| (`[^|]*) \|", below, re.MULTILINE)
    return [pattern for row in rows for pattern in re.findall(r"`([^`]+)`", row)]


def is_any(name: str, patterns: list[str]) -> bool:
    """Return whether one of the patterns is the end of the name or of its class, as also in `setUpClass (CLASS)`."""
    return any(fnmatchcase(name, f"*{pattern}{end}") for pattern in patterns for end in ("", ".*", ")"))


sys.exit(main())
