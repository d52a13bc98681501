"""Prints how many tests passed, and each that failed with the last line of why; standard input: a subunit stream."""

import sys
from collections import Counter

from subunit import ByteStreamToStreamResult
from testtools import StreamResult, StreamToDict

STATUSES = ("success", "fail", "skip")


def main() -> None:
    """Read the stream to its end."""
    counts: Counter[str] = Counter()
    failed: dict[str, str] = {}

    def note(test: dict) -> None:
        counts[test["status"]] += 1
        if test["status"] == "fail":
            text = "\n".join(detail.as_text() for name, detail in test["details"].items() if "traceback" in name)
            failed[test["id"].partition("[")[0]] = (text.strip().splitlines() or ["no reason"])[-1]

    result = StreamToDict(note)
    result.startTestRun()
    ByteStreamToStreamResult(sys.stdin.buffer, non_subunit_name="stdout").run(result)
    result.stopTestRun()
    print(" ".join(f"{status}={counts[status]}" for status in STATUSES))
    for name, reason in sorted(failed.items()):
        print(f"{name}\n    {reason}")


assert StreamResult
main()
