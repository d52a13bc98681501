"""How a Placement service is asked over HTTP: tokens, time-outs, retries; what is asked is for others to say.

A request whose outcome is not known (no answer in time, a connection that was cut) is repeated only where doing it
twice does nothing: POST is not. What a server did not begin (503, connection refused) is repeated always.

Source: Placement API, microversions 1.38 and 1.39; Identity API v3, POST /v3/auth/tokens.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

import aiohttp
import msgspec
import structlog

from roost.platform.errors import BadRequest, DatabaseUnavailable, reason_of
from roost.platform.http_sessions import new_session, trust
from roost.platform.keystone import credentials_body
from roost.platform.settings import PlacementClientSettings

log = structlog.get_logger()

NEWEST, OLDEST = "1.39", "1.38"
TRIES_MAX = 5
PAUSE_FIRST_S, PAUSE_MAX_S = 0.1, 2.0
KEPT_S = 1.5
"""How long an idle connection is used again: servers close theirs after 2 s and more, under a claim if need be."""

ANSWERS = frozenset({200, 201, 204, 400, 404, 409})
"""What is an answer to the question, for whoever asked it."""

NOT_BEGUN = frozenset({429, 503})
NOT_KNOWN = frozenset({500, 502, 504})
UNREACHED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
CONCURRENT_UPDATE, INVENTORY_IN_USE = "placement.concurrent_update", "placement.inventory.inuse"
DUPLICATE_NAME = "placement.duplicate_name"

Query = Sequence[tuple[str, str]]
T = TypeVar("T")


class PlacementUnavailable(DatabaseUnavailable):
    """The Placement service cannot be asked at the moment; the request can be repeated."""

    service = "the Placement service"


class PlacementClosed(PlacementUnavailable):
    """The Placement service does not let Roost in: a credential is missing, wrong, or without the role.

    operation: what its user may not do; "" where it knows no such user.
    """

    is_logged = True

    def __init__(self, sentence: str, *, operation: str = "") -> None:
        super().__init__(sentence)
        self.operation = operation


class PlacementRefusal(BadRequest):
    """The Placement service refuses what Roost asks of it for this request."""

    is_confidential = True


class AccessLog:
    """Says once that the service refuses Roost, and once that it lets it in again, whoever in this process asks."""

    def __init__(self) -> None:
        self._refused: str | None = None
        self._requests_at_refusal = 0

    def note_refusal(self, refusal: PlacementClosed, *, requests: int) -> None:
        """Record that a request was refused. requests: how many were sent until now."""
        if self._refused is None:
            self._refused = refusal.operation
            log.warning("the ledger elsewhere refuses Roost's credentials: servers wait in BUILD", reason=str(refusal))
        self._requests_at_refusal = requests

    def note_answer(self, operation: str, *, requests: int) -> None:
        """Record that an operation was answered. requests: how many were sent when it began; older ones say nothing."""
        if self._refused in ("", operation) and requests >= self._requests_at_refusal:
            self._refused = None
            log.info("the ledger elsewhere lets Roost in again")


class _Error(msgspec.Struct):
    detail: str = ""
    code: str = ""


class _Errors(msgspec.Struct):
    errors: list[_Error] = []


class Answer(NamedTuple):
    """What was answered to `request_line`, a method and a path."""

    request_line: str
    status: int
    body: bytes

    @property
    def good(self) -> bool:
        """Return whether it is done."""
        return self.status < 400

    @property
    def code(self) -> str:
        """Return the code of a refusal, such as CONCURRENT_UPDATE; "" for none."""
        return self._error().code

    @property
    def detail(self) -> str:
        """Return the sentence of a refusal."""
        return " ".join(self._error().detail.split()) or f"it answers {self.status}"

    def read(self, kind: type[T]) -> T:
        """Return the body of a good answer. Raises PlacementUnavailable for one that is not Placement's."""
        self.read_nothing()
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PlacementUnavailable(f"the answer to {self.request_line} is not Placement's: {error}") from error

    def read_nothing(self) -> None:
        """Raise PlacementRefusal for a refusal."""
        if not self.good:
            raise PlacementRefusal(f"the Placement service refuses {self.request_line}: {self.detail}")

    def _error(self) -> _Error:
        try:
            errors = msgspec.json.decode(self.body, type=_Errors).errors
        except (msgspec.DecodeError, UnicodeDecodeError):
            errors = []
        return errors[0] if errors else _Error()


def _operation(method: str, path: str) -> str:
    """Return what a user may do or not, as roles say it: the method and the kind of thing."""
    return f"{method} /{path.split('/')[1]}"


async def _to_its_end(sending: Coroutine[Any, Any, T]) -> T:
    """Return what a write gives; one that is cancelled is waited for, as who takes it back must not come before it."""
    task = asyncio.ensure_future(sending)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


class PlacementHttp:
    """One Placement service, as one process asks it, on a pool of connections that the first request opens."""

    def __init__(
        self,
        settings: PlacementClientSettings,
        *,
        access_log: AccessLog | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Random | None = None,
    ) -> None:
        self.url = settings.url.rstrip("/")
        self.requests = 0
        self._settings = settings
        self._access_log = access_log
        self._sleep = sleep
        self._random = random or Random()
        self._version = NEWEST
        self._session: aiohttp.ClientSession | None = None
        self._turns = asyncio.Semaphore(settings.connections_max)
        self._token = settings.token
        self._token_lock = asyncio.Lock()

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, kind: type[T], query: Query = ()) -> T | None:
        """Return what is there, None for 404. Raises BadRequest, PlacementUnavailable."""
        answer = await self.ask("GET", path, query=query)
        return None if answer.status == 404 else answer.read(kind)

    async def ask(self, method: str, path: str, body: Any = None, *, query: Query = ()) -> Answer:
        """Return one of ANSWERS. Raises PlacementUnavailable with what stands against it, BadRequest for an old server.

        Cost: one request; more after 401, 503 and the like, until timeout_s have passed or TRIES_MAX were made.
        """
        requests = self.requests
        try:
            answer = await self._ask(method, path, body, query)
        except PlacementClosed as refusal:
            if self._access_log:
                self._access_log.note_refusal(refusal, requests=self.requests)
            raise
        if self._access_log:
            self._access_log.note_answer(_operation(method, path), requests=requests)
        return answer

    async def _ask(self, method: str, path: str, body: Any, query: Query) -> Answer:
        request_line = f"{method} {self.url}{path}"
        began_s, renewed = time.monotonic(), False
        tries = 0
        while True:
            tries += 1
            token = await self._get_token()
            reason, pause_s, may_repeat = "", 0.0, True
            try:
                sending = self._send(method, path, query, body, token)
                status, retry_after, content = await (sending if method == "GET" else _to_its_end(sending))
            except UNREACHED as error:
                reason = reason_of(error)
            except TimeoutError as error:  # timeout_s have passed, though the loop's timer may be a little early
                reason, may_repeat = reason_of(error), False
            except (aiohttp.ClientError, OSError) as error:
                reason, may_repeat = reason_of(error), method in REPEATABLE
            else:
                if status in ANSWERS:
                    return Answer(request_line, status, content)
                if status == 401 and self._settings.auth_url and not renewed:
                    renewed = True
                    await self._renew(token)
                    continue
                if status == 406 and self._version == NEWEST:
                    self._version = OLDEST
                    continue
                refusal = Answer(request_line, status, content)
                if status not in NOT_BEGUN | NOT_KNOWN:
                    raise self._refusal(refusal, _operation(method, path))
                reason, may_repeat = f"{status}: {refusal.detail}", status in NOT_BEGUN or method in REPEATABLE
                pause_s = retry_after
            spent_s = time.monotonic() - began_s
            if not may_repeat or tries >= TRIES_MAX or spent_s >= self._settings.timeout_s:
                raise PlacementUnavailable(f"the Placement service cannot be asked: {request_line}: {reason}")
            await self.back_off(tries, least_s=pause_s)

    async def back_off(self, tries: int, *, least_s: float = 0.0) -> None:
        """Wait before something is tried again: longer each time, and not as long as others do."""
        pause_s = max(PAUSE_FIRST_S * 2 ** (tries - 1), least_s)
        await self._sleep(min(pause_s, PAUSE_MAX_S) * self._random.uniform(0.5, 1.5))

    # How it is done.

    def _refusal(self, answer: Answer, operation: str) -> Exception:
        if answer.status == 406:
            return PlacementRefusal(f"the Placement service at {self.url} is too old: Roost needs its API from {OLDEST} on")
        if answer.status == 401:
            what = "a credential is missing" if not self._token else "the credential is not valid"
            return PlacementClosed(f"the Placement service at {self.url} does not know Roost: {what} (401)")
        if answer.status == 403:
            what = f"its user may not {operation}: it needs the roles admin and service (403)"
            return PlacementClosed(
                f"the Placement service at {self.url} lets Roost in, and {what}", operation=operation
            )
        return PlacementUnavailable(f"{answer.request_line} was answered {answer.status}, which is not Placement's")

    async def _send(self, method: str, path: str, query: Query, body: Any, token: str) -> tuple[int, float, bytes]:
        """Return (status, Retry-After in seconds, body). No redirection gets a token."""
        headers = {"Accept": "application/json", "OpenStack-API-Version": f"placement {self._version}"}
        if token:
            headers["X-Auth-Token"] = token
        ids = structlog.contextvars.get_contextvars()
        if request_id := ids.get("global_request_id") or ids.get("request_id"):
            headers["X-Openstack-Request-Id"] = request_id
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = msgspec.json.encode(body)
        async with self._turns:  # time-outs begin when it is a request's turn
            self.requests += 1
            async with self._get_session().request(
                method, self.url + path, params=query or None, data=data, headers=headers, allow_redirects=False
            ) as response:
                content = await response.read()
        after = response.headers.get("Retry-After", "")
        return response.status, float(after) if after.isdecimal() else 0.0, content

    def _get_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            settings = self._settings
            tls = trust(settings.cafile, insecure=settings.insecure)
            self._session = new_session(
                timeout_s=settings.timeout_s, connections_max=settings.connections_max, tls=tls, kept_s=KEPT_S
            )
        return self._session

    async def _get_token(self) -> str:
        if not self._token and self._settings.auth_url:
            await self._renew("")
        return self._token

    async def _renew(self, refused: str) -> None:
        """Get a token instead of the refused one, unless another request did so meanwhile."""
        url = f"{self._settings.auth_url.rstrip('/').removesuffix('/v3')}/v3/auth/tokens"
        async with self._token_lock:
            if self._token != refused:
                return
            try:
                async with self._get_session().post(
                    url, json=credentials_body(self._settings), allow_redirects=False
                ) as response:
                    await response.read()
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise PlacementUnavailable(f"no token for the Placement service: {url}: {reason_of(error)}") from error
            if response.status == 401:
                culprit = "the user, its password or secret, or the project is wrong"
                raise PlacementClosed(f"Keystone at {url} refuses Roost's user for the Placement service: {culprit}")
            token = response.headers.get("X-Subject-Token", "")
            if response.status != 201 or not token:
                raise PlacementUnavailable(f"no token for the Placement service: {url} answers {response.status}")
            self._token = token
