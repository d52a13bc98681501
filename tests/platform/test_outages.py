"""What a request does while the database is away."""

from collections.abc import Sequence

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message
from tests.platform.asgi import ask

from roost.platform import outages
from roost.platform.bodies import read_bytes
from roost.platform.errors import Conflict, DatabaseAway, DatabaseUnavailable, LockTimeout, TransactionVictim
from roost.platform.http import Api, json_response


class Tried:
    """An endpoint that reads its body, and fails as often as there are errors."""

    def __init__(self, errors: Sequence[Exception]) -> None:
        self.errors = list(errors)
        self.bodies: list[bytes] = []

    async def answer(self, request: Request) -> Response:
        self.bodies.append(await read_bytes(request))
        if self.errors:
            raise self.errors.pop(0)
        return json_response({"done": True})

    def listener(self, *, waits: bool = True, timeout_s: float | None = 30.0) -> Starlette:
        app = Starlette(routes=[Api(waits=waits).route("/", {"PUT": self.answer})])
        app.state.request_timeout_s = timeout_s
        return app


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "PAUSE_FIRST_S", 0.0)


async def test_a_request_begins_anew_until_the_database_is_back() -> None:
    tried = Tried([DatabaseAway("gone")] * 3)
    answer = await ask(tried.listener(), "/", method="PUT", body=b"[1]")
    assert (answer.status, tried.bodies) == (200, [b"[1]"] * 4)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DatabaseUnavailable("the commit may have arrived"), 503),
        (LockTimeout("held"), 503),
        (TransactionVictim("for another"), 503),
        (Conflict("no"), 409),
    ],
)
async def test_what_may_have_been_done_or_was_decided_is_not_done_again(error: Exception, status: int) -> None:
    tried = Tried([error])
    assert (await ask(tried.listener(), "/", method="PUT")).status == status
    assert len(tried.bodies) == 1


@pytest.mark.parametrize(("waits", "timeout_s"), [(False, 30.0), (True, None), (True, 1e-9)])
async def test_who_does_not_wait_is_told_at_once(waits: bool, timeout_s: float | None) -> None:
    tried = Tried([DatabaseAway("gone")] * 3)
    app = tried.listener(waits=waits, timeout_s=timeout_s)
    answer = await ask(app, "/", method="PUT")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert len(tried.bodies) <= 1


async def test_nothing_is_begun_anew_for_a_client_that_has_gone() -> None:
    tried = Tried([DatabaseAway("gone")] * 3)
    messages: list[Message] = [{"type": "http.request", "body": b"[1]", "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "PUT", "path": "/", "query_string": b"", "headers": []}
    await tried.listener()(scope, receive, send)
    assert (sent[0]["status"], tried.bodies) == (503, [b"[1]"])
    assert msgspec.json.decode(sent[1]["body"])["detail"].startswith("The database does not answer at the moment")
