"""What every HTTP API of Roost shares: routes, bodies, microversions and errors in the API's own dialect.

A wing's `api/` gives an `Api` its endpoints: functions that decode, call one service function and encode. What a
service raises is turned into an answer here, by the wing's table of problems.
"""

import asyncio
import functools
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from roost.platform.auth import Forbidden
from roost.platform.bodies import BODY_BEGUN_KEY, BODY_KEY, JSON
from roost.platform.errors import (
    BadRequest,
    BodyTimeout,
    BodyTooLarge,
    Conflict,
    DatabaseUnavailable,
    NotFound,
    RequestTimeout,
    Retry,
    RoostError,
)
from roost.platform.metrics import observe_operation, observe_unserved
from roost.platform.mounts import whole
from roost.platform.outages import timeout_of, waiting
from roost.platform.request_log import note_reason
from roost.platform.turns import at_work

HEADERS_KNOWN_MAX = 1024
"""Headers of microversions that are not read anew: clients send a few, again and again."""
DETAIL_MAX = 40_000
"""So many characters an error has: some repeat what they were given, which may be a whole body."""
ROOT_KEY = "roost.root"
"""Where a request's scope holds what `root_url` returns."""
QUERY_PARAMETERS_MAX = 2_000
"""Of one query string: clients ask for a thousand things by id."""
Endpoint = Callable[[Request], Awaitable[Response]]
Version = tuple[int, int]

log = structlog.get_logger()


@dataclass(frozen=True)
class Problem:
    """How an error is answered: the status, a code for programs, a title for people."""

    status: int
    code: str = ""
    title: str = ""


class UnacceptableVersion(RoostError):
    """The microversion is not served."""


def _problem(status: int) -> Problem:
    return Problem(status, title=HTTPStatus(status).phrase)


FAILED, FAILED_TEXT = _problem(500), "Roost failed; its log has the details."

PROBLEMS: Mapping[type[Exception], Problem] = {
    BadRequest: _problem(400),
    Forbidden: _problem(403),
    NotFound: _problem(404),
    UnacceptableVersion: _problem(406),
    BodyTimeout: _problem(408),
    Conflict: _problem(409),
    BodyTooLarge: _problem(413),
    DatabaseUnavailable: _problem(503),
}
"""What a wing's own table falls back on."""

Dialect = Callable[[Problem, str, Request], Any]
"""(problem, detail, request) -> the error's JSON body in the words of one API, or its whole answer."""


def problem_details(problem: Problem, detail: str, _request: Request) -> dict[str, Any]:
    """Return an error's body on Roost's own paths. Source: RFC 9457."""
    return {"type": "about:blank", "title": problem.title, "status": problem.status, "detail": detail}


@dataclass(frozen=True)
class Microversions:
    """The range that an API serves. Source: OpenStack API working group, microversion specification."""

    service: str
    lowest: Version
    highest: Version
    default: Version | None = None
    legacy_header: str | None = None

    def negotiate(self, headers: Mapping[str, str]) -> Version:
        """Return the version that a request asks for, by default the lowest. Raises UnacceptableVersion, BadRequest."""
        legacy = headers.get(self.legacy_header.lower()) if self.legacy_header else None
        return self._read(headers.get("openstack-api-version", ""), legacy)

    @functools.lru_cache(maxsize=HEADERS_KNOWN_MAX)  # noqa: B019 - there are as many as APIs
    def _read(self, header: str, legacy: str | None) -> Version:
        words = [word.strip().partition(" ") for word in header.split(",")]
        texts = [legacy, *(version.strip() for service, _, version in words if service.lower() == self.service)]
        text = texts[-1]
        if text is None:
            return self.default or self.lowest
        if text == "latest":
            return self.highest
        match = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", text)
        if match is None:
            raise BadRequest(f"invalid version string: {text}")
        version_requested = (int(match[1]), int(match[2]))
        if not self.lowest <= version_requested <= self.highest:
            raise UnacceptableVersion(
                f"Unacceptable version header: {text}. {self.service} serves {show(self.lowest)} to "
                f"{show(self.highest)}."
            )
        return version_requested

    @functools.lru_cache(maxsize=HEADERS_KNOWN_MAX)  # noqa: B019 - there are as many as APIs
    def response_headers(self, version: Version) -> Sequence[tuple[bytes, bytes]]:
        """Return what tells the client which version answered, as ASGI has it."""
        headers = {"openstack-api-version": f"{self.service} {show(version)}"}
        vary = "openstack-api-version"
        if self.legacy_header:
            headers[self.legacy_header.lower()] = show(version)
            vary += f", {self.legacy_header}"
        return tuple((name.encode(), value.encode()) for name, value in (headers | {"vary": vary}).items())


def show(version: Version) -> str:
    """Return a version as people write it."""
    return f"{version[0]}.{version[1]}"


class MethodRoute(Route):
    """A path that answers every method itself, with a 405 where it must. methods_served: those with an endpoint."""

    def __init__(self, path: str, answer: Endpoint, *methods_served: str) -> None:
        super().__init__(path, answer)
        self.app = _without_handlers(answer)
        self.methods = None
        self.methods_served = methods_served
        self.path_regex = whole(self.path_regex)


def _without_handlers(answer: Endpoint) -> ASGIApp:
    """Return the endpoint as Starlette makes it an app, without its handlers of exceptions: an answer raises none."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await answer(Request(scope, receive, send))
        await response(scope, receive, send)

    return app


@dataclass(frozen=True)
class Api:
    """One API: its errors, its microversions, its endpoints.

    waits: a request waits for a database that is away; its endpoints commit once at most, and do nothing else before.
    `request.state.microversion` is set for an endpoint where the API has microversions.
    """

    problems: Mapping[type[Exception], Problem] = field(default_factory=dict)
    dialect: Dialect = problem_details
    microversions: Microversions | None = None
    waits: bool = False

    def route(self, path: str, endpoints: Mapping[str, Endpoint], *, held_s: float = 0.0) -> Route:
        """Return one path with an endpoint for each HTTP method; other methods get a 405 in the API's own words.

        held_s: how long an endpoint may keep a request on purpose; its time-out begins then.
        """
        if self.waits:
            endpoints = {method: waiting(endpoint, _is_gone) for method, endpoint in endpoints.items()}
        served = tuple(sorted(endpoints))
        allowed = ", ".join(served)

        async def answer(request: Request) -> Response:
            version, begun_s = None, time.perf_counter()
            try:
                if self.microversions:
                    version = self.microversions.negotiate(request.headers)
                    request.state.microversion = version
                endpoint = endpoints.get("GET" if request.method == "HEAD" else request.method)
                _check_query_string(request)
                if endpoint is None:
                    text = f"The method {request.method} is not allowed for this resource. Allowed: {allowed}."
                    response = self._refusal(_problem(405), text, request)
                    response.headers["Allow"] = allowed
                else:
                    with nullcontext() if held_s else at_work():
                        response = await _answer_in_time(endpoint, request, held_s=held_s)
            except Exception as error:
                response = self.problem_response(error, request)
                if isinstance(error, BodyTimeout | BodyTooLarge):
                    response.headers["Connection"] = "close"  # the rest of the body is not waited for
            if version is not None and self.microversions:
                response.raw_headers += self.microversions.response_headers(version)
            method = request.method if request.method in served else "other"
            api = request.scope.get("root_path", "")
            observe_operation(api, method, path, response.status_code, time.perf_counter() - begun_s)
            return response

        return MethodRoute(path, answer, *served)

    def not_found(self) -> Route:
        """Return the last route of an API: a 404 in its own words."""

        async def answer(request: Request) -> Response:
            begun_s = time.perf_counter()
            try:
                if self.microversions:
                    request.state.microversion = self.microversions.negotiate(request.headers)
                text = f"There is nothing at {request.scope['path']}: Roost does not serve it."
                response = self._refusal(_problem(404), text, request)
            except RoostError as error:
                response = self.problem_response(error, request)
            api = request.scope.get("root_path", "")
            observe_unserved(response.status_code, time.perf_counter() - begun_s, api=api)
            return response

        return MethodRoute("/{path:path}", answer)

    async def no_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose target is no path: 501 for CONNECT, as this is no proxy. Source: RFC 9110, 9.3.6."""
        text = f"The method {scope['method']} is served for paths only: expected a target that begins with /."
        observe_unserved(501, 0)
        await self._refusal(_problem(501), text, Request(scope))(scope, receive, send)

    def problem_response(self, error: Exception, request: Request) -> Response:
        """Return the answer to an exception; an unexpected one is logged whole and answered 500."""
        if isinstance(error, RoostError):
            response = self._refusal(self._problem_of(error), error.told(), request, for_log=str(error))
            if error.retry_after_s is not None:
                response.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
            return response
        if isinstance(error, ClientDisconnect):  # or the body's chunks are no chunks
            return self._refusal(_problem(400), "the body did not come to its end", request)
        if isinstance(error, HTTPException):
            return self._refusal(_problem(error.status_code), error.detail, request)
        log.exception("request failed", method=request.method, path=request.scope["path"])
        return self._refusal(FAILED, FAILED_TEXT, request)

    def _problem_of(self, error: RoostError) -> Problem:
        for table in (self.problems, PROBLEMS):
            for kind in type(error).__mro__:
                if kind in table:
                    return table[kind]
        if error.retry is Retry.NOW:
            return _problem(503)
        log.error("error without a problem", error=type(error).__name__, detail=str(error))
        return FAILED

    def _refusal(self, problem: Problem, detail: str, request: Request, *, for_log: str = "") -> Response:
        note_reason(request.scope, for_log or detail)
        if problem is FAILED:
            detail = FAILED_TEXT
        if len(detail) > DETAIL_MAX:
            detail = f"{detail[: DETAIL_MAX // 2]} ... {detail[-DETAIL_MAX // 2 :]}"
        answer = self.dialect(problem, detail, request)
        response: Response = answer if isinstance(answer, Response) else json_response(answer, problem.status)
        if problem.status == 503:
            response.headers["Retry-After"] = "1"
        return response


async def _is_gone(request: Request) -> bool:
    """Return whether the client has gone, as far as is known once the body was read: looking earlier would lose it."""
    return BODY_KEY in request.scope and await request.is_disconnected()


async def _answer_in_time(endpoint: Endpoint, request: Request, *, held_s: float) -> Response:
    """Return what the endpoint answers. Raises RequestTimeout after the listener's time-out, once the body has come.

    What is cut off is cancelled and rolls back in the background: that may need the database that kept it so long.
    """
    timeout_s = timeout_of(request)
    if timeout_s is None:
        return await endpoint(request)
    work = asyncio.ensure_future(endpoint(request))
    try:
        while True:
            await _wait_briefly(work, timeout_s + held_s)
            if work.done() or not request.scope.get(BODY_BEGUN_KEY) or BODY_KEY in request.scope:
                break  # else the body is still coming, for which [listeners] has a time-out
    except asyncio.CancelledError:
        work.cancel()
        await asyncio.wait((work,))
        raise
    if work.done():
        try:
            return work.result()
        finally:
            del work  # else a reference cycle, error to frame to task, keeps the connection open
    _ending.add(work)
    work.add_done_callback(_end)
    work.cancel()
    raise RequestTimeout(f"the request was not done within {timeout_s:g} s: the database is slow or stands still")


async def _wait_briefly(work: asyncio.Future[Response], timeout_s: float) -> None:
    """Return when the work is done or the time is over. Half the cost of asyncio.wait, which every request paid."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def end(_work: object) -> None:
        if not over.done():
            over.set_result(None)

    timer = loop.call_later(timeout_s, end, None)
    work.add_done_callback(end)
    try:
        await over
    finally:
        timer.cancel()
        work.remove_done_callback(end)


_ending: set[asyncio.Future[Response]] = set()
"""Requests that were cut off and are taking back what they began: the event loop alone would forget them."""


def _end(work: asyncio.Future[Response]) -> None:
    _ending.discard(work)
    if not work.cancelled() and (error := work.exception()) and not isinstance(error, RoostError):
        log.warning("a request that was cut off failed", reason=f"{type(error).__name__}: {error}")


def root_url(request: Request) -> str:
    """Return where the API is mounted, as the client came, whatever it calls the host."""
    root: str | None = request.scope.get(ROOT_KEY)
    if root is None:  # a page of servers asks 3,000 times
        host = request.headers.get("host") or ":".join(map(str, request.scope["server"]))
        root = f"{request.scope['scheme']}://{host}{request.scope.get('root_path', '').rstrip('/')}"
        request.scope[ROOT_KEY] = root
    return root


def _check_query_string(request: Request) -> None:
    """Raise BadRequest for what Starlette could not take apart, or not in a moment."""
    query: bytes = request.scope["query_string"]
    if (parameters := query.count(b"&") + 1) > QUERY_PARAMETERS_MAX:
        raise BadRequest(f"the query string has {parameters} parameters, {QUERY_PARAMETERS_MAX} are the most")
    try:
        query.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the query string is not UTF-8: {error}") from error


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encode with msgspec; None means no body at all."""
    content = b"" if body is None else msgspec.json.encode(body)
    media_type = None if body is None else JSON
    return Response(content, status, headers=dict(headers or {}), media_type=media_type)


def integer_parameter(request: Request, name: str, *, default: int, lowest: int = 0, highest: int = 2**31 - 1) -> int:
    """Return a whole number from the query string. Raises BadRequest outside lowest..highest."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,18}", text) or not lowest <= int(text) <= highest:
        raise BadRequest(f"{name}={text}: expected a whole number from {lowest} to {highest}")
    return int(text)


def is_uuid(text: str) -> bool:
    """Return whether text is a UUID as Roost writes it or as clients may: with or without hyphens, in any case."""
    return re.fullmatch(r"[0-9a-fA-F]{8}(-?)([0-9a-fA-F]{4}\1){3}[0-9a-fA-F]{12}", text) is not None


def canonical_uuid(text: str) -> str:
    """Return the UUID in lower case, with hyphens; text must be one."""
    digits = text.replace("-", "").lower()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
