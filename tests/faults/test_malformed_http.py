"""Bytes that are hardly HTTP, sent to a real `roost serve`: it answers 4xx or hangs up, and lives."""

import re
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.cluster import Cluster, cluster

ANSWER_TIMEOUT_S = 5.0
VERSION = b"OpenStack-API-Version: placement 1.39\r\n"
JSON = b"Content-Type: application/json\r\n"
HOST = b"Host: localhost\r\n"


def request(line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    return line + b" HTTP/1.1\r\n" + HOST + b"".join(headers) + b"\r\n" + body


POST = b"POST /placement/resource_providers"
NETWORKS = b"POST /network/v2.0/networks"
LONG = b'{"network":{"name":"' + b"a" * 16_999_978 + b'"}}'
CHUNKED = b"Transfer-Encoding: chunked\r\n"
MALFORMED: dict[str, bytes] = {
    "a negative length": request(POST, JSON, b"Content-Length: -1\r\n"),
    "a length that is no number": request(POST, JSON, b"Content-Length: abc\r\n", body=b"{}"),
    "a length beyond 64 bits": request(POST, JSON, b"Content-Length: 99999999999999999999\r\n", body=b"{}"),
    "two lengths": request(POST, JSON, b"Content-Length: 2\r\nContent-Length: 5\r\n", body=b"{}"),
    "a length and chunks": request(POST, JSON, CHUNKED, b"Content-Length: 4\r\n", body=b"0\r\n\r\n"),
    "chunks of no number": request(POST, JSON, CHUNKED, body=b"zz\r\n{}\r\n0\r\n\r\n"),
    "a chunk beyond 64 bits": request(POST, JSON, CHUNKED, body=b"fffffffffffffffff\r\n{}\r\n"),
    "a chunk without its end": request(POST, JSON, CHUNKED, body=b"2\r\n{}garbage\r\n0\r\n\r\n"),
    "an unknown transfer encoding": request(POST, JSON, b"Transfer-Encoding: gzip, potato\r\n", body=b"{}"),
    "a huge header": request(b"GET /placement/", b"X-Huge: " + b"a" * 2_000_000 + b"\r\n"),
    "many headers": request(b"GET /placement/", *[b"X-%d: a\r\n" % number for number in range(5000)]),
    "a huge path": request(b"GET /placement/" + b"a" * 1_000_000),
    "a header without a colon": request(b"GET /placement/", b"nonsense\r\n"),
    "a header with a NUL": request(b"GET /placement/", b"X-A: a\0b\r\n"),
    "a folded header": request(b"GET /placement/", b"X-A: a\r\n b\r\n"),
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
    "an unknown version": b"GET /placement/ HTTP/9.9\r\n\r\n",
    "a request line of three spaces": b"GET  /placement/  HTTP/1.1\r\n\r\n",
    "no host": b"GET /placement/resource_providers/nothing HTTP/1.1\r\n\r\n",
    "a raw NUL in the path": request(b"GET /placement/traits/a\0b"),
    "raw bytes in the path": request(b"GET /placement/traits/\xff\xfe", VERSION),
    "raw bytes in the query": request(b"GET /placement/traits?name=\xff", VERSION),
    "an encoded NUL in the path": request(b"GET /placement/traits/a%00b", VERSION),
    "an encoded line feed in the path": request(b"PUT /placement/traits/CUSTOM_A%0A", VERSION),
    "no UTF-8 in the path": request(b"GET /placement/traits/%FF%C3%28", VERSION),
    "broken percents": request(b"GET /placement/traits/%zz%", VERSION),
    "another line feed": request(b"GET /placement%0A/traits", VERSION),
    "an unknown method": request(b"FROB /placement/traits", VERSION),
    "CONNECT": request(b"CONNECT /placement/traits", VERSION),
    "another scheme in the path": request(b"GET gopher://[::/placement/traits/nothing", VERSION),
    "an odd host": b"GET /placement/nothing HTTP/1.1\r\nHost: [::1\r\n\r\n",
    "a version that is not ASCII": request(b"GET /placement/traits", b"OpenStack-API-Version: placement \xff\r\n"),
    "a body too long": request(POST, JSON, VERSION, b"Content-Length: 17000000\r\n", body=b"[" + b" " * 16_999_999),
    "a network's body too long": request(NETWORKS, JSON, b"Content-Length: %d\r\n" % len(LONG), body=LONG),
    "a network's body too deep": request(NETWORKS, JSON, b"Content-Length: 100000\r\n", body=b'{"network":' * 9091),
    "a network's body of no UTF-8": request(NETWORKS, JSON, b"Content-Length: 4\r\n", body=b'{"\xff"'),
    "a network's body that is gzip": request(
        NETWORKS, JSON, b"Content-Encoding: gzip\r\nContent-Length: 4\r\n", body=b"\x1f\x8b\x08\0"
    ),
    "a network's name cut in two": request(
        NETWORKS, JSON, CHUNKED, body=b'15\r\n{"network":{"name":"\xc3\r\n4\r\n\x28"}}\r\n0\r\n\r\n'
    ),
    "a network's body in chunks of no number": request(NETWORKS, JSON, CHUNKED, body=b"zz\r\n{}\r\n0\r\n\r\n"),
    "raw bytes in a port's path": request(b"GET /network/v2.0/ports/\xff\xfe"),
    "an encoded NUL in a port's path": request(b"DELETE /network/v2.0/ports/a%00b"),
    "an encoded line feed in a tag": request(b"PUT /network/v2.0/ports/none/tags/a%0Ab"),
    "no UTF-8 in a project": request(b"PUT /network/v2.0/quotas/%FF%C3%28", JSON, b"Content-Length: 2\r\n", body=b"[]"),
    "raw bytes in a list's query": request(b"GET /network/v2.0/ports?name=\xff"),
    "a revision that is not ASCII": request(
        b"DELETE /network/v2.0/ports/none", b"If-Match: revision_number=\xd9\xa3\r\n"
    ),
    "a method that the Network API has not": request(b"PATCH /network/v2.0/ports"),
    "deep nesting": request(POST, JSON, VERSION, b"Content-Length: 100000\r\n", body=b"[" * 100_000),
}
CUT_OFF: dict[str, bytes] = {
    "half a request line": b"GET /placem",
    "half a header": b"GET /placement/ HTTP/1.1\r\nHost: a\r\nX-A",
    "half a body": request(POST, JSON, VERSION, b"Content-Length: 100\r\n", body=b'{"name"'),
    "half a port": request(b"POST /network/v2.0/ports", JSON, b"Content-Length: 100\r\n", body=b'{"port":{'),
    "half a chunk": request(POST, JSON, VERSION, CHUNKED, body=b"ff\r\n{"),
    "HTTP/2 that is none": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
    "nothing": b"",
}
"""What is not finished: the client hangs up, and nobody may miss it."""


@pytest.fixture(scope="module")
def roost() -> Iterator[Cluster]:
    with cluster() as made:
        made.serve("placement", "network", "compute")
        yield made


def answer_to(url: str, sent: bytes, *, hang_up: bool = False) -> bytes:
    """What comes back until the server closes, or says no more."""
    where = urlsplit(url)
    assert where.hostname is not None
    received = b""
    with socket.create_connection((where.hostname, where.port or 80), timeout=ANSWER_TIMEOUT_S) as connection:
        try:
            connection.sendall(sent)
            if hang_up:
                return b""
            connection.settimeout(ANSWER_TIMEOUT_S)
            while not (received.endswith(b"}") or received.endswith(b"\r\n\r\n")):
                more = connection.recv(65536)
                if not more:
                    break
                received += more
        except OSError:  # the server has hung up, perhaps before it read everything
            pass
    return received


def processes(roost: Cluster) -> set[int]:
    """The supervisor's children."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == roost.processes[0].pid:
            found.add(int(stat.parent.name))
    return found


def assert_alive(roost: Cluster, before: set[int]) -> None:
    assert processes(roost) == before, roost.logs()
    with urllib.request.urlopen(f"{roost.url}/healthz", timeout=ANSWER_TIMEOUT_S) as response:
        assert response.status == 200


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_hardly_http_is_refused_or_hung_up_on(roost: Cluster, what: str) -> None:
    before = processes(roost)
    begun = time.monotonic()
    answer = answer_to(roost.url, MALFORMED[what])
    status = re.match(rb"HTTP/1\.[01] (\d\d\d)", answer)
    assert status or not answer, answer[:300]
    assert status is None or 400 <= int(status[1]) < 500, answer[:300]
    assert time.monotonic() - begun < ANSWER_TIMEOUT_S, "neither answered nor hung up"
    assert_alive(roost, before)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"CONNECT roost.test:80", 501),
        (b"OPTIONS *", 501),
        (b"CONNECT /placement/", 405),
        (b"FROB /healthz", 405),
        (b"POST /metrics", 405),
        (b"DELETE /agent/v1", 405),
        (b"TRACE /compute/", 405),
    ],
)
def test_a_method_that_nobody_serves_is_refused_and_not_sent_elsewhere(
    roost: Cluster, line: bytes, status: int
) -> None:
    answer = answer_to(roost.url, request(line))
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:300]
    assert b"location:" not in answer.lower()


@pytest.mark.parametrize("what", CUT_OFF)
def test_who_hangs_up_halfway_is_not_missed(roost: Cluster, what: str) -> None:
    before = processes(roost)
    for _ in range(20):
        answer_to(roost.url, CUT_OFF[what], hang_up=True)
    assert_alive(roost, before)
    assert "request failed" not in roost.logs()
