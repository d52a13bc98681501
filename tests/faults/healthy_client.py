"""A client beside those of a test, in a process of its own so that what they do costs it nothing but the server's time.

`python -m tests.faults.healthy_client URL PATH [TOKEN]` asks for the path on a connection that stays and for /healthz
on new ones, until its standard input ends, and then prints how long the answers took.
"""

import http.client
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

PAUSE_S = 0.01
TIMEOUT_S = 10.0


class Waits(NamedTuple):
    """How long answers took, in seconds. refused: what was said instead of 200."""

    kept_s: list[float]
    health_s: list[float]
    refused: list[str]

    @property
    def median_s(self) -> float:
        """Of the requests on the connection that stays."""
        return statistics.median(self.kept_s)

    @property
    def p99_s(self) -> float:
        """Of the same."""
        return sorted(self.kept_s)[len(self.kept_s) * 99 // 100]

    def __str__(self) -> str:
        """Say what a run's note says."""
        return (
            f"{len(self.kept_s)} requests, median {self.median_s * 1000:.1f} ms, p99 {self.p99_s * 1000:.1f} ms; "
            f"/healthz {len(self.health_s)} times, at most {max(self.health_s) * 1000:.0f} ms"
        )


@contextmanager
def healthy_client(url: str, path: str = "/healthz", token: str = "") -> Iterator[Callable[[], Waits]]:
    """Have one running; what is given ends it and says how it fared. token: of a member, empty for none."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.healthy_client", url, path, token],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"

    def end() -> Waits:
        return Waits(**json.loads(process.communicate(timeout=2 * TIMEOUT_S)[0]))

    try:
        yield end
    finally:
        process.kill()
        process.communicate()


def _ask(netloc: str, path: str, token: str, *, keep: bool, waits_s: list[float], refused: list[str]) -> None:
    connection = http.client.HTTPConnection(netloc, timeout=TIMEOUT_S)
    headers = {"X-Auth-Token": token, "X-Roles": "member,reader"} if token else {}
    while True:
        begun_s = time.monotonic()
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            said: Any = answer.status
        except (OSError, http.client.HTTPException) as error:
            said = repr(error)
        waits_s.append(time.monotonic() - begun_s)
        if said != 200:
            refused.append(f"{path}: {said}")
        if said != 200 or not keep:
            connection.close()
        time.sleep(PAUSE_S)


def main() -> None:
    """Ask until standard input ends."""
    _, url, path, token = [*sys.argv, ""][:4]
    waits = Waits([], [], [])
    for arguments in (
        {"path": path, "keep": True, "waits_s": waits.kept_s},
        {"path": "/healthz", "keep": False, "waits_s": waits.health_s},
    ):
        target = {"netloc": urlsplit(url).netloc, "token": token, "refused": waits.refused, **arguments}
        threading.Thread(target=_ask, kwargs=target, daemon=True).start()
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    sys.stdin.read()
    sys.stdout.write(json.dumps(waits._asdict()))


if __name__ == "__main__":
    main()
