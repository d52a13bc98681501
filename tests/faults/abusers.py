"""Four clients in a process of their own who ask for what costs most: `python -m tests.faults.abusers URL KIND TOKEN`.

They ask until standard input ends; then it prints how often each status was answered.
"""

import http.client
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

COUNT = 4
TIMEOUT_S = 60.0
NAME = "a" * 251
SLOW_PATTERN = quote("(a+)+(a+)+(a+)+b")


class Abuse(NamedTuple):
    """A request. body: made when it is sent."""

    method: str
    path: str
    body: Callable[[], bytes] = lambda: b""


# Of texts and parameters as many as are read to their end before they are refused: more is refused unread.
KINDS = {
    "filters": Abuse("GET", f"/compute/v2.1/servers?name={SLOW_PATTERN}"),
    "pages": Abuse("GET", "/compute/v2.1/servers/detail?limit=1000"),
    "texts": Abuse("POST", "/compute/v2.1/servers", lambda: b'{"server": {"name": "%b"}}' % ("é" * 8_000_000).encode()),
    "parameters": Abuse("GET", f"/network/v2.0/ports?{'&'.join(['id=1'] * 12_000)}"),
    "documents": Abuse("GET", "/compute/openapi.json"),
    "metrics": Abuse("GET", "/metrics"),
}


@contextmanager
def abusers(url: str, kind: str, token: str) -> Iterator[Callable[[], dict[str, int]]]:
    """Have four of a kind at work; what is given ends them and says what they were answered, by status."""
    command = [sys.executable, "-m", "tests.faults.abusers", url, kind, token]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"

    def end() -> dict[str, int]:
        answered: dict[str, int] = json.loads(process.communicate(timeout=TIMEOUT_S)[0])
        return answered

    try:
        yield end
    finally:
        process.kill()
        process.communicate()


def _ask(netloc: str, abuse: Abuse, token: str, statuses: Counter[str]) -> None:
    body = abuse.body()
    headers = {"X-Auth-Token": token, "X-Roles": "member,reader", "Content-Type": "application/json"}
    while True:
        connection = http.client.HTTPConnection(netloc, timeout=TIMEOUT_S)
        said: Any
        try:
            connection.request(abuse.method, abuse.path, body=body or None, headers=headers)
            answer = connection.getresponse()
            answer.read()
            said = answer.status
        except (OSError, http.client.HTTPException) as error:
            said = type(error).__name__
        statuses[str(said)] += 1
        connection.close()


def main() -> None:
    """Ask until standard input ends."""
    _, url, kind, token = sys.argv
    statuses: Counter[str] = Counter()
    for _ in range(COUNT):
        arguments = (urlsplit(url).netloc, KINDS[kind], token, statuses)
        threading.Thread(target=_ask, args=arguments, daemon=True).start()
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    sys.stdin.read()
    sys.stdout.write(json.dumps(statuses))


if __name__ == "__main__":
    main()
