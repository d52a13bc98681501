"""What every HTTP API shares."""

import gc
from typing import Any

import asyncpg
import pytest
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from structlog.testing import capture_logs

from roost.platform.auth import Forbidden
from roost.platform.errors import BadRequest, DatabaseUnavailable, NotFound, RoostError, TransactionVictim
from roost.platform.http import BODY_KEY, Api, Problem, UnacceptableVersion, read_json

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


class Missing(NotFound):
    """There is no such host."""


class Odd(RoostError):
    """Nobody gave this a status."""


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
