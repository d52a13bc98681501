"""How many connections a listener's process holds, for how long, and how many of one address.

granian closes a connection that brings no whole request head in time, and accepts up to a number of connections. It
knows neither which of them are idle nor whose they are: at that number it accepts no connection until one closes. So it
gets a higher number here, and connections above the limit are closed, the longest idle first. The kernel knows which
those are, so that no request pays for bookkeeping.
"""

import asyncio
import contextlib
import os
import resource
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roost.platform.errors import BodyTimeout
from roost.platform.http import json_response
from roost.platform.settings import ListenerSettings

LOOK_S = 0.1
LOOK_AGAIN_S = 0.01
LOOK_SHARE_MAX = 0.2
"""How often connections are counted: with the reserve, what keeps /healthz within its second. Sooner where some were
just closed, since others wait to be accepted; later where counting takes long, as it does before Linux 6.2."""
LISTENING_CHECK_S = 0.005
RESERVE = 0.1
"""Of the limit: so many are accepted above it until the next look, which then closes as many below it."""
RESERVE_MIN = 64
DESCRIPTORS_SPARE = 256
"""For the database, logs and libraries."""
WARNING_PAUSE_S = 60.0
ALWAYS_ANSWERED = frozenset({"/healthz", "/readyz", "/healthcheck"})
LAST_DATA_RECEIVED_OFFSET = 52
TCP_INFO_BYTES = LAST_DATA_RECEIVED_OFFSET + 4
"""Source: linux/tcp.h, struct tcp_info, tcpi_last_data_recv: milliseconds."""

Peer = tuple[str, int]
"""A client's address and port, as ASGI gives it."""

log = structlog.get_logger()


class Connection(NamedTuple):
    """One connection of a client. idle_ms: since it last brought anything."""

    peer: Peer
    idle_ms: int
    descriptor: int


def choose_surplus(
    connections: Sequence[Connection], answering: Collection[Peer], *, most: int, most_per_address: int
) -> list[Connection]:
    """Return the connections to close; those of `answering` are owed an answer.

    Of an address with more than most_per_address (0: no limit), the surplus, idle ones first. Where more than `most`
    are left, the longest idle, until a reserve is free again; never one that is owed an answer.
    """
    by_idleness = sorted(connections, key=lambda connection: (connection.peer in answering, -connection.idle_ms))
    surplus: list[Connection] = []
    if most_per_address:
        by_address: dict[str, list[Connection]] = defaultdict(list)
        for connection in by_idleness:
            by_address[connection.peer[0]].append(connection)
        for of_address in by_address.values():
            surplus += of_address[: max(0, len(of_address) - most_per_address)]
    closed = set(surplus)
    remaining = [connection for connection in by_idleness if connection not in closed]
    if len(remaining) > most:
        idle = [connection for connection in remaining if connection.peer not in answering]
        surplus += idle[: len(remaining) - most + reserve(most)]
    return surplus


def reserve(most: int) -> int:
    """Return how many connections above the limit are accepted for the moment."""
    return max(RESERVE_MIN, int(most * RESERVE))


def raise_descriptor_limit(settings: ListenerSettings) -> int:
    """Raise the limit of open files to what connections need; returns the limit of connections that this allows.

    That is the one of the settings, or less, with a warning, where the hard limit is too low.
    """
    needed = settings.connections_max + reserve(settings.connections_max) + DESCRIPTORS_SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed == needed:
        return settings.connections_max
    most = max(1, int((allowed - DESCRIPTORS_SPARE - RESERVE_MIN) / (1 + RESERVE)))
    log.warning(
        "the limit of open files allows fewer connections than [listeners] connections_max",
        open_files_max=hard, open_files_needed=needed, connections_max=most,
    )  # fmt: skip
    return most


class ConnectionLimits:
    """A listener's app within its limits. Run `watch()` beside it.

    port: where it listens. connections_max: of this process. A request is owed an answer once its body has come whole;
    whose that is is all that is remembered.
    """

    def __init__(self, app: ASGIApp, settings: ListenerSettings, *, port: int, connections_max: int) -> None:
        self._app = app
        self._settings = settings
        self._port = port
        self._most = connections_max
        self._answering: set[Peer] = set()
        self._busy_count = 0
        self._warned_at_s = -WARNING_PAUSE_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, within the time that a body may take; 503 where as many answers as connections are owed already."""
        peer: Peer = (scope["client"][0], int(scope["client"][1]))  # granian says the port in a text
        if len(self._answering) >= self._most and scope["path"] not in ALWAYS_ANSWERED:
            self._busy_count += 1
            return await _BUSY(scope, receive, send)
        if _has_body(scope):
            receive = self._in_time(receive, peer)
        else:
            self._answering.add(peer)
        try:
            await self._app(scope, receive, send)
        finally:
            self._answering.discard(peer)

    def _in_time(self, receive: Receive, peer: Peer) -> Receive:
        deadline_s = asyncio.get_running_loop().time() + self._settings.body_timeout_s
        whole = False

        async def receive_in_time() -> Message:
            nonlocal whole
            if whole:
                return await receive()
            message = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline_s):
                    message = await receive()
            if message is None:
                # Not raised from the TimeoutError, which refers to the task that will hold this error: such a
                # reference cycle keeps granian's connection open until garbage is collected.
                whole = True
                raise BodyTimeout(f"the body did not come to its end within {self._settings.body_timeout_s:g} s")
            if not message.get("more_body"):
                whole = True
                self._answering.add(peer)
            return message

        return receive_in_time

    async def watch(self) -> None:
        """Close what is above the limits, until cancelled."""
        while not self.limit_answers():
            await asyncio.sleep(LISTENING_CHECK_S)
        while True:
            begun_s = time.monotonic()
            try:
                closed = 0 if self._are_few() else await asyncio.to_thread(self._look, frozenset(self._answering))
            except Exception:
                log.exception("the connections could not be looked at")
                closed = 0
            self._warn(closed)
            took_s = time.monotonic() - begun_s
            await asyncio.sleep(LOOK_AGAIN_S if closed else max(LOOK_S, took_s / LOOK_SHARE_MAX))

    def _warn(self, closed: int) -> None:
        busy_count, self._busy_count = self._busy_count, 0
        if not (closed or busy_count) or time.monotonic() < self._warned_at_s + WARNING_PAUSE_S:
            return
        self._warned_at_s = time.monotonic()
        log.warning(
            "a limit of connections is reached: [listeners] in roost.toml sets it",
            closed=closed, refused=busy_count, connections_max=self._most,
            connections_per_address_max=self._settings.connections_per_address_max,
        )  # fmt: skip

    def _are_few(self) -> bool:
        """Return whether Linux, since 6.2, says at once that there are too few for any to be closed."""
        return not self._settings.connections_per_address_max and 0 < _stat_descriptors() <= self._most

    def _look(self, answering: Collection[Peer]) -> int:
        """Close the surplus; how many that were."""
        if _count_descriptors() <= self._most and not self._settings.connections_per_address_max:
            return 0
        connections = list(self._list_connections())
        surplus = choose_surplus(
            connections, answering, most=self._most, most_per_address=self._settings.connections_per_address_max
        )
        return sum(self._close(connection) for connection in surplus)

    def limit_answers(self) -> bool:
        """Set the kernel to cut connections that take nothing of their answers; False while nobody listens yet.

        They inherit it from the sockets that listen, which are granian's: for a while two, where certificates changed.
        """
        timeout_ms = int(self._settings.answer_timeout_s * 1000)
        listening = False
        for descriptor in _list_descriptors():
            with _socket(descriptor) as own:
                if own is None or not own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    continue
                if own.getsockname()[1] == self._port:
                    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
                    listening = True
        return listening

    def _list_connections(self) -> Iterator[Connection]:
        for descriptor in _list_descriptors():
            with _socket(descriptor) as own:
                peer = None if own is None else self._peer(own)
                if own is not None and peer is not None:
                    information = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
                    idle_ms = struct.unpack_from("I", information, LAST_DATA_RECEIVED_OFFSET)[0]
                    yield Connection(peer, idle_ms, descriptor)

    def _close(self, connection: Connection) -> bool:
        """End it for both sides, unless its descriptor is another's meanwhile."""
        with _socket(connection.descriptor) as own:
            if own is None or self._peer(own) != connection.peer:
                return False
            with contextlib.suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)
            return True

    def _peer(self, own: socket.socket) -> Peer | None:
        """Return the client, where this is a connection to the listener."""
        try:
            if own.getsockname()[1] != self._port:
                return None
            peer = own.getpeername()
        except OSError:  # it listens, or has just been closed
            return None
        return peer[0], peer[1]


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


@contextlib.contextmanager
def _socket(descriptor: int) -> Iterator[socket.socket | None]:
    """Yield a TCP socket of this process by a descriptor of our own: it stays the same one while it is looked at."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        yield None
        return
    try:
        own = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        yield None
        return
    with own:
        yield own if own.family in (socket.AF_INET, socket.AF_INET6) and own.type == socket.SOCK_STREAM else None


def _count_descriptors() -> int:
    """Return how many there are; Linux 6.2 and later say it at once."""
    return _stat_descriptors() or len(_list_descriptors())


def _stat_descriptors() -> int:
    return os.stat("/proc/self/fd").st_size


def _list_descriptors() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/fd")]


_BUSY = json_response(
    {
        "type": "about:blank",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "As many requests are being answered as [listeners] connections_max allows.",
    },
    503,
    {"Retry-After": "1", "Connection": "close"},
)
