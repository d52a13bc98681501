"""How Roost asks other services over HTTP: an `HttpSession`, and in each client the words of its service.

- A session opens with its first request, holds so many connections at most, and keeps no cookies.
- It follows no redirection: no other address gets a token or a password.
- It ends a request after timeout_s, which begin when it is the request's turn.
- It sends the token that make_token gives, and has another one made, once, if that is refused (401).
- It sends the id of the request that it asks for.
- It tries again what a server did not begin (no connection, 429, 503). What may have been done (500, 502, 504, a
  connection that was cut) is tried again where doing it twice does nothing: not a POST.
- It raises Unanswered where there is no answer, or none that can be read. What an answer means, the client says.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, TypeVar

import aiohttp
import msgspec
import structlog

from roost.platform.errors import Retry, RoostError, reason_of
from roost.platform.tls import client_context

PAUSE_FIRST_S, PAUSE_MAX_S = 0.1, 2.0
NOT_BEGUN = frozenset({429, 503})
NOT_KNOWN = frozenset({500, 502, 504})
UNREACHED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
FINAL = (TimeoutError, aiohttp.InvalidURL)
"""timeout_s have passed, though a timer may be a little early; or it will never be an address."""
REPEATABLE = frozenset({"GET", "PUT", "DELETE"})

Query = Sequence[tuple[str, str]]
T = TypeVar("T")


class Unanswered(RoostError):
    """Another service gave no answer that can be read."""

    retry = Retry.NOW
    is_confidential = True


class Reply(NamedTuple):
    """An answer, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def retry_after_s(self) -> float:
        """Return how long the server asks to wait, 0 where it does not."""
        text = self.headers.get("Retry-After", "")
        return float(text) if text.isdecimal() else 0.0

    def read(self, kind: type[T]) -> T:
        """Return the body, which is JSON of that type. Raises Unanswered."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unanswered(str(error)) from error

    def find(self, kind: type[T]) -> T | None:
        """Return the body as `read` does, None if it is no such thing."""
        try:
            return self.read(kind)
        except Unanswered:
            return None


class _Request(NamedTuple):
    method: str
    url: str
    data: bytes | None
    query: Query
    headers: Mapping[str, str]


@dataclass(kw_only=True, eq=False)
class HttpSession:
    """How one process asks one service. tries_max: of a request. kept_s: for so long an idle connection is used again.

    tls: what it shows and trusts; else cafile: whose certificates it trusts, "" for the machine's; insecure: all.
    token: the first one, "" for none. make_token: returns another one, None where there is only one; asks_late: only
    once one is wanted. finishes_writes: a request that writes is waited for though it is cancelled: who takes it back
    must not come before.
    """

    timeout_s: float
    connections_max: int = 100
    tls: ssl.SSLContext | None = None
    cafile: str = ""
    insecure: bool = False
    kept_s: float = 15.0
    tries_max: int = 1
    token: str = ""
    make_token: Callable[["HttpSession"], Awaitable[str]] | None = None
    asks_late: bool = False
    finishes_writes: bool = False
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    random: Random = field(default_factory=Random)
    requests: int = field(default=0, init=False)
    _session: aiohttp.ClientSession | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Make what its requests share."""
        self._turns = asyncio.Semaphore(self.connections_max)
        self._token_lock = asyncio.Lock()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def ask(
        self,
        method: str,
        url: str,
        body: Any = None,
        *,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        with_token: bool = True,
    ) -> Reply:
        """Return the answer. body: what is sent as JSON. with_token: False where one is to be had. Raises Unanswered.

        Cost: one request; more after 401, and up to tries_max until timeout_s have passed.
        """
        sent = {"Accept": "application/json", **(headers or {})}
        ids = structlog.contextvars.get_contextvars()
        if request_id := ids.get("global_request_id") or ids.get("request_id"):
            sent["X-Openstack-Request-Id"] = request_id
        if body is not None:
            sent["Content-Type"] = "application/json"
        request = _Request(method, url, None if body is None else msgspec.json.encode(body), query, sent)
        if not with_token:
            return await self._try(request, "")
        makes_token = self.make_token is not None
        token = await self._another_token("") if makes_token and not self.asks_late else self.token
        reply = await self._try(request, token)
        if reply.status == 401 and makes_token:
            reply = await self._try(request, await self._another_token(token))
        return reply

    async def back_off(self, tries: int, *, least_s: float = 0.0) -> None:
        """Wait before something is tried again: longer each time, and not as long as others do."""
        pause_s = max(PAUSE_FIRST_S * 2 ** (tries - 1), least_s)
        await self.sleep(min(pause_s, PAUSE_MAX_S) * self.random.uniform(0.5, 1.5))

    async def _another_token(self, refused: str) -> str:
        """Return a token instead of the refused one: another request's, if it had one made meanwhile."""
        assert self.make_token is not None
        async with self._token_lock:
            if self.token == refused:
                self.token = await self.make_token(self)
            return self.token

    async def _try(self, request: _Request, token: str) -> Reply:
        began_s, tries = time.monotonic(), 0
        while True:
            tries += 1
            outcome: Reply | Exception
            try:
                sending = self._send(request, token)
                outcome = await (_to_its_end(sending) if self.finishes_writes and request.method != "GET" else sending)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                outcome = error
            is_over = tries >= self.tries_max or time.monotonic() - began_s >= self.timeout_s
            if is_over or not _may_repeat(request.method, outcome):
                if isinstance(outcome, Reply):
                    return outcome
                raise Unanswered(reason_of(outcome)) from outcome
            await self.back_off(tries, least_s=outcome.retry_after_s if isinstance(outcome, Reply) else 0.0)

    async def _send(self, request: _Request, token: str) -> Reply:
        headers = {**request.headers, "X-Auth-Token": token} if token else request.headers
        async with self._turns:
            self.requests += 1
            async with self._open().request(
                request.method,
                request.url,
                params=request.query or None,
                data=request.data,
                headers=headers,
                allow_redirects=False,
            ) as response:
                return Reply(response.status, response.headers, await response.read())

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            tls = not self.insecure and (self.tls or client_context(self.cafile or None, None, None) or True)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self.connections_max, keepalive_timeout=self.kept_s, ssl=tls),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self.timeout_s),
            )
        return self._session


def _may_repeat(method: str, outcome: Reply | Exception) -> bool:
    """Return whether the same may be asked again: it was not begun, or does nothing when it is done twice."""
    if isinstance(outcome, Reply):
        return outcome.status in NOT_BEGUN or (outcome.status in NOT_KNOWN and method in REPEATABLE)
    return isinstance(outcome, UNREACHED) or (method in REPEATABLE and not isinstance(outcome, FINAL))


async def _to_its_end(sending: Coroutine[Any, Any, T]) -> T:
    """Return what a write gives, also to who is cancelled meanwhile and waits for it."""
    task = asyncio.ensure_future(sending)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
