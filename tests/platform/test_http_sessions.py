"""One maker of sessions: tokens, time-outs, retries and decoding are those of every client."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
from aiohttp import web
from tests.ports import free_port

from roost.platform.http_sessions import HttpSession, Reply, Unanswered

Script = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Service:
    """Answers requests as a list says, the last one again and again. asked: (method, path, token) of each."""

    def __init__(self, *answers: int | Script) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append((request.method, request.path, request.headers.get("X-Auth-Token", "")))
        self.headers.append(dict(request.headers))
        script = self.answers[min(len(self.asked), len(self.answers)) - 1]
        return web.json_response({}, status=script) if isinstance(script, int) else await script(request)


@asynccontextmanager
async def asking(*answers: int | Script, **options: Any) -> AsyncIterator[tuple[Service, HttpSession]]:
    service = Service(*answers)
    runner = web.ServerRunner(web.Server(service.answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def no_time(_wait_s: float) -> None:
        return None

    session = HttpSession(**{"timeout_s": 5.0, "sleep": no_time, **options})
    try:
        yield service, session
    finally:
        await session.aclose()
        await runner.cleanup()


async def cut(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def stall(_request: web.BaseRequest) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def elsewhere(_request: web.BaseRequest) -> web.StreamResponse:
    raise web.HTTPTemporaryRedirect("/elsewhere")


def tokens(*made: str) -> Callable[[HttpSession], Awaitable[str]]:
    left = list(made)

    async def make(_session: HttpSession) -> str:
        return left.pop(0)

    return make


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_no_redirection_is_followed(method: str) -> None:
    async with asking(elsewhere, token="secret") as (service, session):
        assert (await session.ask(method, f"{service.url}/here", {"password": "p"})).status == 307
    assert service.asked == [(method, "/here", "secret")]


@pytest.mark.parametrize(
    ("method", "first", "times"),
    [
        ("GET", 503, 3), ("POST", 503, 3), ("POST", 429, 3), ("GET", 500, 3), ("PUT", 502, 3), ("DELETE", 504, 3),
        ("GET", cut, 3), ("PUT", cut, 3), ("POST", cut, 1), ("POST", 500, 1), ("POST", 502, 1), ("PATCH", 504, 1),
        ("GET", 404, 1), ("GET", 501, 1), ("POST", 409, 1),
    ],
)  # fmt: skip
async def test_what_does_no_harm_twice_is_tried_again(method: str, first: int | Script, times: int) -> None:
    async with asking(first, tries_max=3) as (service, session):
        try:
            reply: Reply | None = await session.ask(method, service.url)
        except Unanswered:
            reply = None
    assert session.requests == times
    assert reply is None if callable(first) else reply is not None and reply.status == first


@pytest.mark.parametrize(("options", "times"), [({}, 1), ({"tries_max": 4}, 4)])
async def test_who_is_not_there_is_said_to_refuse(options: dict[str, int], times: int) -> None:
    async with asking(200, **options) as (_, session):
        with pytest.raises(Unanswered, match="Connection refused"):
            await session.ask("POST", f"http://127.0.0.1:{free_port()}")
        assert session.requests == times


async def test_who_stalls_is_not_waited_for_nor_asked_again() -> None:
    async with asking(stall, timeout_s=0.1, tries_max=3) as (service, session):
        with pytest.raises(Unanswered, match="no answer in time"):
            await session.ask("GET", service.url)
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    ("options", "answers", "sent"),
    [
        pytest.param({}, (401,), [""], id="there is none"),
        pytest.param({"token": "fixed"}, (401,), ["fixed"], id="there is one only"),
        pytest.param({"make_token": tokens("a")}, (200, 200), ["a", "a"], id="it is kept"),
        pytest.param({"make_token": tokens("a", "b")}, (401, 200, 200), ["a", "b", "b"], id="another one, once"),
        pytest.param({"make_token": tokens("a", "b", "c")}, (401, 401, 200), ["a", "b", "b"], id="no third one"),
        pytest.param({"make_token": tokens("a"), "asks_late": True}, (200, 401, 200), ["", "", "a"], id="late"),
    ],
)
async def test_a_token_is_sent_and_had_anew(options: dict[str, Any], answers: tuple[int, ...], sent: list[str]) -> None:
    async with asking(*answers, **options) as (service, session):
        while len(service.asked) < len(sent):
            await session.ask("GET", service.url)
    assert [token for *_, token in service.asked] == sent


async def test_of_many_that_are_refused_at_once_one_has_a_token_made() -> None:
    made = 0

    async def make(session: HttpSession) -> str:
        nonlocal made
        made += 1
        await session.ask("POST", f"{service.url}/tokens", with_token=False)
        return f"token {made}"

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        good = request.path == "/tokens" or request.headers.get("X-Auth-Token") == "token 2"
        return web.json_response({}, status=200 if good else 401)

    async with asking(answer, make_token=make) as (service, session):
        replies = await asyncio.gather(*(session.ask("GET", service.url) for _ in range(5)))
    assert [reply.status for reply in replies] == [200] * 5
    assert made == 2
    assert [token for _, path, token in service.asked if path == "/tokens"] == ["", ""]


async def test_the_id_of_the_request_that_it_is_for_goes_along() -> None:
    async with asking(200) as (service, session):
        with structlog.contextvars.bound_contextvars(request_id="req-own", global_request_id="req-global"):
            await session.ask("GET", service.url)
        with structlog.contextvars.bound_contextvars(request_id="req-own"):
            await session.ask("GET", service.url)
    assert [headers.get("X-Openstack-Request-Id") for headers in service.headers] == ["req-global", "req-own"]


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"a": "\xff"}', b'{"a": ' + b"[" * 100_000, b'{"a": 1}'])
def test_what_cannot_be_read_is_no_answer(body: bytes) -> None:
    reply = Reply(200, {}, body)
    assert reply.find(dict[str, str]) is None
    with pytest.raises(Unanswered):
        reply.read(dict[str, str])
