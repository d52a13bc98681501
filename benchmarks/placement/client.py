"""The client under all of the load: one keep-alive HTTP/1.1 connection on a blocking socket, for one thread.

Client and server share the cores here, and each microsecond of the client is taken from the server under test: so no
library, and the client's own CPU time stands beside every figure.
"""

import json
import socket
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any

import msgspec

MICROVERSION = "1.39"
TOKEN = "admin"
"""The administrator, where nobody is asked for a password (noauth2)."""
TIMEOUT_S = 600.0
CHUNK_BYTES = 1 << 18


class HTTPFailure(Exception):
    """The server answered something that a step cannot go on with."""


class Closed(Exception):
    """The connection ended where an answer should have begun."""


class Client:
    """Asks one server, again and again. Not for sharing between threads."""

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        parts = urllib.parse.urlsplit(url)
        assert parts.scheme == "http", url
        self.address = (parts.hostname or "", parts.port or 80)
        self.timeout_s = timeout_s
        self._head = (
            f"Host: {self.address[0]}:{self.address[1]}\r\nX-Auth-Token: {TOKEN}\r\n"
            f"OpenStack-API-Version: placement {MICROVERSION}\r\nAccept: application/json\r\n"
        ).encode("ascii")
        self._socket: socket.socket | None = None
        self._chunk = bytearray(CHUNK_BYTES)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection; the next request opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """(status, body). body: to be encoded, or encoded already as bytes."""
        message = f"{method} {path} HTTP/1.1\r\n".encode("ascii") + self._head
        if body is None:
            message += b"\r\n"
        else:
            payload = body if isinstance(body, bytes) else msgspec.json.encode(body)
            message += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(payload), payload)
        while True:
            fresh = self._socket is None
            connection = self._socket or self._connect()
            try:
                connection.sendall(message)
                return self._read(connection)
            except (Closed, ConnectionResetError, BrokenPipeError):
                # A kept connection that the server has let go of meanwhile.
                self.close()
                if fresh:
                    raise

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """The decoded answer, None for an empty one. Raises HTTPFailure unless it is a success."""
        status, data = self.request(method, path, body)
        if not 200 <= status < 300:
            raise HTTPFailure(f"{method} {path}: {status} {data[:300]!r}")
        return json.loads(data) if data else None

    def _connect(self) -> socket.socket:
        self._socket = socket.create_connection(self.address, timeout=self.timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _read(self, connection: socket.socket) -> tuple[int, bytes]:
        data = bytearray()
        while (end := data.find(b"\r\n\r\n")) < 0:
            if not self._more(connection, data):
                if data:
                    raise HTTPFailure("the connection was closed inside the head of an answer")
                raise Closed("the connection was closed without an answer")
        first, *lines = bytes(data[:end]).split(b"\r\n")
        del data[: end + 4]
        version, word = first.split(None, 2)[:2]
        status = int(word)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        length = int(headers[b"content-length"]) if b"content-length" in headers else None
        if status in (204, 304) or status < 200:
            data.clear()
        elif b"chunked" in headers.get(b"transfer-encoding", b""):
            data = self._read_chunked(connection, data)
        else:
            while length is None or len(data) < length:
                if not self._more(connection, data):
                    if length is None:
                        break
                    raise HTTPFailure("the connection was closed inside the body of an answer")
        unknown = length is None and status not in (204, 304) and b"transfer-encoding" not in headers
        if unknown or version == b"HTTP/1.0" or b"close" in headers.get(b"connection", b""):
            self.close()
        return status, bytes(data)

    def _read_chunked(self, connection: socket.socket, data: bytearray) -> bytearray:
        out = bytearray()
        while True:
            while (end := data.find(b"\r\n")) < 0:
                self._must_get_more(connection, data)
            size = int(bytes(data[:end]).split(b";")[0], 16)
            del data[: end + 2]
            while len(data) < size + 2:
                self._must_get_more(connection, data)
            if size == 0:
                return out
            out += data[:size]
            del data[: size + 2]

    def _must_get_more(self, connection: socket.socket, data: bytearray) -> None:
        if not self._more(connection, data):
            raise HTTPFailure("the connection was closed inside a chunked body")

    def _more(self, connection: socket.socket, data: bytearray) -> int:
        got = connection.recv_into(self._chunk)
        data += memoryview(self._chunk)[:got]
        return got


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run work(number) in `count` threads at once; the first failure is raised."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Numbers:
    """Hands out 0 to limit - 1 to many threads, each once."""

    def __init__(self, limit: int) -> None:
        self._next, self._limit, self._lock = 0, limit, threading.Lock()

    def take(self) -> int | None:
        """The next one, None when all are taken."""
        with self._lock:
            if self._next >= self._limit:
                return None
            self._next += 1
            return self._next - 1


def for_each(url: str, count: int, work: Callable[[Client, int], None], *, clients: int) -> None:
    """Run work(client, number) for each number below count, on so many connections."""
    numbers = Numbers(count)

    def one(_client: int) -> None:
        with Client(url) as client:
            while (number := numbers.take()) is not None:
                work(client, number)

    in_threads(min(clients, count) or 1, one)
