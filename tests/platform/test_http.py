"""What every HTTP API shares."""

import gc
from typing import Any

import asyncpg
import pytest
from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message
from structlog.testing import capture_logs
from tests.platform.asgi import ask

from roost.platform.auth import Forbidden
from roost.platform.bodies import BODY_KEY, ONE, SET, Bounds, read_bytes, read_json
from roost.platform.errors import BadRequest, DatabaseUnavailable, NotFound, Retry, RoostError, TransactionVictim
from roost.platform.http import QUERY_PARAMETERS_MAX, Api, Problem, UnacceptableVersion, json_response

MANY = 100_000


class Body(Struct):
    """Takes anything."""

    anything: Any = None


@pytest.mark.parametrize("end", [b"]}", b"]"])
async def test_a_body_of_many_small_things_is_decoded_without_looking_for_garbage(end: bytes) -> None:
    """Time and again looked through all that it has made, a worker did nothing else for ten seconds."""
    looked: list[str] = []

    def count(phase: str, _: dict[str, int]) -> None:
        looked.append(phase)

    body = b'{"anything":[' + b"[]," * MANY + b"[]" + end
    request = Request({"type": "http", BODY_KEY: body, "headers": [(b"content-type", b"application/json")]})
    gc.callbacks.append(count)
    try:
        read = await read_json(request, Body)
    except BadRequest:
        assert end == b"]"
    else:
        assert len(read.anything) == MANY + 1
    finally:
        gc.callbacks.remove(count)
    assert looked.count("start") < 10
    assert gc.isenabled()


@pytest.mark.parametrize(("method", "media_type", "is_read"), [
    ("POST", "application/json", True), ("POST", "Application/JSON; charset=utf-8", True),
    ("POST", "text/plain", False), ("POST", "", False), ("POST", None, False),
    ("PUT", "application/json", True), ("PUT", "text/plain", False), ("PUT", None, True), ("DELETE", None, True),
])  # fmt: skip
async def test_a_body_that_a_web_page_may_send_unasked_is_not_read(
    method: str, media_type: str | None, *, is_read: bool
) -> None:
    """A page may post text of its own type, or of none; tempest's client of Neutron changes networks without one."""
    headers = [] if media_type is None else [(b"content-type", media_type.encode())]
    request = Request({"type": "http", BODY_KEY: b'{"anything": 1}', "headers": headers, "method": method})
    if is_read:
        assert (await read_json(request, Body)).anything == 1
    else:
        with pytest.raises(HTTPException, match="is not supported, use application/json"):
            await read_json(request, Body)


class Missing(NotFound):
    """There is no such host."""


class Odd(RoostError):
    """Nobody gave this a status."""


class Later(RoostError):
    """Nobody gave this one either; it can succeed later."""

    retry = Retry.NOW
    is_confidential = True


@pytest.mark.parametrize(
    ("error", "status", "title", "logged"),
    [
        (BadRequest("no"), 400, "Bad Request", []),
        (Forbidden(), 403, "Forbidden", []),
        (UnacceptableVersion("9.9"), 406, "Not Acceptable", []),
        (Missing(), 410, "the wing's own", []),
        (DatabaseUnavailable(), 503, "Service Unavailable", []),
        (TransactionVictim(), 503, "Service Unavailable", []),
        (ClientDisconnect(), 400, "Bad Request", []),
        (HTTPException(415, "not this"), 415, "Unsupported Media Type", []),
        (Odd(), 500, "Internal Server Error", ["error without a problem"]),
        (Later(), 503, "Service Unavailable", []),
        (asyncpg.InterfaceError("the server expects 1 argument"), 500, "Internal Server Error", ["request failed"]),
    ],
)
def test_an_error_has_one_status_and_a_bug_is_in_the_log(
    error: Exception, status: int, title: str, logged: list[str]
) -> None:
    api = Api(problems={Missing: Problem(410, title="the wing's own")})
    request = Request({"type": "http", "method": "GET", "path": "/", "headers": []})
    with capture_logs() as events:
        response = api.problem_response(error, request)
    assert response.status_code == status
    assert f'"title":"{title}"'.encode() in bytes(response.body)
    assert [event["event"] for event in events] == logged
    assert [event["event"] for event in events if event.get("exc_info")] == [
        event for event in logged if event == "request failed"
    ]
    assert (response.headers.get("Retry-After") == "1") == (status == 503)


API = Api()


async def send_body(
    bounds: Bounds, *chunks: bytes, length: int | None = None
) -> tuple[int, dict[str, str], list[bytes]]:
    """Status, headers and the chunks that were not read, of a body that comes in chunks."""

    async def read(request: Request) -> Response:
        return json_response({"read": len(await read_bytes(request, bounds))})

    app = Starlette(routes=[API.route("/", {"POST": read})])
    headers = [] if length is None else [(b"content-length", str(length).encode())]
    unread = list(chunks)
    sent: list[Message] = []

    async def receive() -> Message:
        chunk = unread.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(unread)}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "root_path": "", "query_string": b"", "headers": headers}
    await app(scope, receive, send)
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}, unread


@pytest.mark.parametrize(
    ("chunks", "length", "status", "unread"),
    [
        ((b"a" * 10,), 10, 200, 0),
        ((b"a" * 6, b"a" * 4), None, 200, 0),
        ((b"a" * 6, b"a" * 5, b"a"), None, 413, 0),
        ((b"a" * 11,), 11, 413, 0),
        ((b"a" * SET.bytes, b"a", b"a"), None, 413, 1),
        ((b"a",), SET.bytes + 1, 413, 1),
        ((b"[" * 4,), None, 400, 0),
        ((b"a" * 11,), None, 413, 0),
        ((b"a",), 10**30, 200, 0),
    ],
)
async def test_a_body_is_read_to_its_end_before_it_is_refused_unless_that_is_far_away(
    chunks: tuple[bytes, ...], length: int | None, status: int, unread: int
) -> None:
    got, headers, left = await send_body(Bounds(10, 3), *chunks, length=length)
    assert (got, len(left)) == (status, unread)
    assert (headers.get("connection") == "close") == (status == 413)


def test_what_members_send_is_smaller_than_what_agents_do() -> None:
    assert (ONE.bytes, SET.bytes) == (1024**2, 16 * 1024**2)


@pytest.mark.parametrize(
    ("parameters", "status"), [(1, 200), (QUERY_PARAMETERS_MAX, 200), (QUERY_PARAMETERS_MAX + 1, 400)]
)
async def test_a_query_has_a_bound_of_parameters(parameters: int, status: int) -> None:
    async def count(request: Request) -> Response:
        return json_response({"parameters": len(request.query_params.multi_items())})

    app = Starlette(routes=[API.route("/", {"GET": count})])
    answer = await ask(app, "/?" + "&".join(["id=x"] * parameters))
    assert answer.status == status
    said = f"the query string has {parameters} parameters, {QUERY_PARAMETERS_MAX} are the most"
    assert answer.body == {"parameters": parameters} if status == 200 else answer.body["detail"] == said
