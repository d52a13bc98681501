"""What an agent says of an address where it finds no listener."""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs
from tests.agent.cloud import until_true

from roost.agent.connection import Connection

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

    async def answer(_request: web.Request) -> web.Response:
        nonlocal requests
        requests += 1
        return web.Response(status=status, text=body)

    application = web.Application()
    application.router.add_get("/agent/v1", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with aiohttp.ClientSession() as session:
            with capture_logs() as logs:
                call = asyncio.create_task(Connection(session, url).call("PUT", "/hosts", None, dict[str, Any]))
                await until_true(lambda: requests > 2)
                call.cancel()
                await asyncio.wait([call])
    finally:
        await runner.cleanup()
    (line,) = logs
    assert (line["event"], line["error"]) == ("the API serves no agents", said.format(url=url))
