"""What an agent says of an address where it finds no listener, or one that sends it elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs
from tests.agent.cloud import until_true

from roost.agent.connection import Connection
from roost.agent.token import TokenSource

NO_COMPUTE = (
    "{url} serves no Compute API and no listener for agents: --api names a Roost that does, as `roost serve all`; "
    "it is asked again and again"
)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, '{"errors": [{"status": 404,\n "detail": "Not Found\\n\\n"}]}', NO_COMPUTE),
        (200, "<html>It works!</html>", NO_COMPUTE),
        (403, "no\n\n  way\n", "{url} names no listener for agents: 403: no way"),
    ],
)
async def test_an_address_without_a_listener_is_told_in_one_sentence(status: int, body: str, said: str) -> None:
    requests = 0

    async def answer(_request: web.BaseRequest) -> web.Response:
        nonlocal requests
        requests += 1
        return web.Response(status=status, text=body)

    async with serving(answer) as url, aiohttp.ClientSession() as session:
        with capture_logs() as logs:
            call = asyncio.create_task(Connection(session, url).call("PUT", "/hosts", None, dict[str, Any]))
            await until_true(lambda: requests > 2)
            call.cancel()
            await asyncio.wait([call])
    (line,) = logs
    assert (line["event"], line["error"]) == ("the API serves no agents", said.format(url=url))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_redirection_is_followed(tmp_path: Path, status: int) -> None:
    """Another address would get the token, and with the body the agent's secret."""
    token, paths = tmp_path / "token", list[str]()
    token.write_text("agent-token")

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        paths.append(request.path)
        if request.path == "/agent/v1":
            return web.json_response({"url": f"http://{request.host}"})
        return web.Response(status=status, headers={"Location": f"http://{request.host}/elsewhere"})

    async with serving(answer) as url, aiohttp.ClientSession() as session:
        connection = Connection(session, url, TokenSource(token, {}))
        with capture_logs() as logs:
            call = asyncio.create_task(connection.call("POST", "/poll", {"secret": "own"}, dict[str, Any]))
            await until_true(lambda: len(paths) > 3)
            call.cancel()
            await asyncio.wait([call])
    assert set(paths) == {"/agent/v1", "/agent/v1/poll"}
    (line,) = [line for line in logs if line["event"] == "the API does not answer"]
    assert line["error"] == f"it answers {status}, a redirection, which is not followed"


@asynccontextmanager
async def serving(answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
