"""How a Placement service is asked over HTTP, and what its answers mean; what is asked is for others to say.

Source: Placement API, microversions 1.38 and 1.39; Identity API v3, POST /v3/auth/tokens.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog

from roost.platform.errors import BadRequest, DatabaseUnavailable
from roost.platform.http_sessions import NOT_BEGUN, NOT_KNOWN, HttpSession, Query, Reply, Unanswered
from roost.platform.keystone import credentials_body
from roost.platform.settings import PlacementClientSettings

log = structlog.get_logger()

NEWEST, OLDEST = "1.39", "1.38"
TRIES_MAX = 5
KEPT_S = 1.5
"""How long an idle connection is used again: servers close theirs after 2 s and more, under a claim if need be."""

ANSWERS = frozenset({200, 201, 204, 400, 404, 409})
"""What is an answer to the question, for whoever asked it."""

CONCURRENT_UPDATE, INVENTORY_IN_USE = "placement.concurrent_update", "placement.inventory.inuse"
DUPLICATE_NAME = "placement.duplicate_name"

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
    reply: Reply

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
            return self.reply.read(kind)
        except Unanswered as error:
            raise PlacementUnavailable(f"the answer to {self.request_line} is not Placement's: {error}") from error

    def read_nothing(self) -> None:
        """Raise PlacementRefusal for a refusal."""
        if not self.good:
            raise PlacementRefusal(f"the Placement service refuses {self.request_line}: {self.detail}")

    def _error(self) -> _Error:
        answer = self.reply.find(_Errors)
        return answer.errors[0] if answer and answer.errors else _Error()


def _operation(method: str, path: str) -> str:
    """Return what a user may do or not, as roles say it: the method and the kind of thing."""
    return f"{method} /{path.split('/')[1]}"


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
        self._settings = settings
        self._access_log = access_log
        self._version = NEWEST
        self._session = HttpSession(
            timeout_s=settings.timeout_s,
            connections_max=settings.connections_max,
            cafile=settings.cafile,
            insecure=settings.insecure,
            kept_s=KEPT_S,
            tries_max=TRIES_MAX,
            token=settings.token,
            make_token=self._make_token if settings.auth_url else None,
            finishes_writes=True,
            sleep=sleep,
            random=random or Random(),
        )
        self.back_off = self._session.back_off

    @property
    def requests(self) -> int:
        """Return how many were sent."""
        return self._session.requests

    async def close(self) -> None:
        """Close the connections."""
        await self._session.aclose()

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
        while True:
            version = self._version
            headers = {"OpenStack-API-Version": f"placement {version}"}
            try:
                reply = await self._session.ask(method, self.url + path, body, query=query, headers=headers)
            except Unanswered as error:
                raise PlacementUnavailable(f"the Placement service cannot be asked: {request_line}: {error}") from error
            answer = Answer(request_line, reply.status, reply)
            if reply.status in ANSWERS:
                return answer
            if reply.status != 406 or version == OLDEST:
                raise self._refusal(answer, _operation(method, path))
            self._version = OLDEST

    def _refusal(self, answer: Answer, operation: str) -> Exception:
        if answer.status in NOT_BEGUN | NOT_KNOWN:
            reason = f"{answer.status}: {answer.detail}"
            return PlacementUnavailable(f"the Placement service cannot be asked: {answer.request_line}: {reason}")
        if answer.status == 406:
            text = f"the Placement service at {self.url} is too old: Roost needs its API from {OLDEST} on"
            return PlacementRefusal(text)
        if answer.status == 401:
            what = "a credential is missing" if not self._session.token else "the credential is not valid"
            return PlacementClosed(f"the Placement service at {self.url} does not know Roost: {what} (401)")
        if answer.status == 403:
            what = f"its user may not {operation}: it needs the roles admin and service (403)"
            return PlacementClosed(
                f"the Placement service at {self.url} lets Roost in, and {what}", operation=operation
            )
        return PlacementUnavailable(f"{answer.request_line} was answered {answer.status}, which is not Placement's")

    async def _make_token(self, session: HttpSession) -> str:
        url = f"{self._settings.auth_url.rstrip('/').removesuffix('/v3')}/v3/auth/tokens"
        try:
            reply = await session.ask("POST", url, credentials_body(self._settings), with_token=False)
        except Unanswered as error:
            raise PlacementUnavailable(f"no token for the Placement service: {url}: {error}") from error
        if reply.status == 401:
            culprit = "the user, its password or secret, or the project is wrong"
            raise PlacementClosed(f"Keystone at {url} refuses Roost's user for the Placement service: {culprit}")
        token = reply.headers.get("X-Subject-Token", "")
        if reply.status != 201 or not token:
            raise PlacementUnavailable(f"no token for the Placement service: {url} answers {reply.status}")
        return token
