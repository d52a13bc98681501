"""Without authentication, only who names this machine is answered."""

import pytest
from starlette.types import Receive, Scope, Send
from tests.platform.asgi import ask

from roost.platform.http import json_response
from roost.platform.local_hosts import LocalHosts


async def served(scope: Scope, receive: Receive, send: Send) -> None:
    await json_response({})(scope, receive, send)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (None, 200),
        ("localhost", 200),
        ("LOCALHOST:8778", 200),
        ("127.0.0.1", 200),
        ("127.9.9.9:1", 200),
        ("[::1]:8778", 200),
        ("evil.example.org", 421),
        ("localhost.evil.example.org:8778", 421),
        ("127.0.0.1.evil.example.org", 421),
        ("10.0.0.1:8778", 421),
        ("[fd00::1]", 421),
        ("[", 421),
        ("127.0.0.1@evil.example.org", 421),
    ],
)
async def test_a_page_that_was_pointed_at_this_machine_is_refused(host: str | None, status: int) -> None:
    answer = await ask(LocalHosts(served), "/", {} if host is None else {"Host": host})
    assert answer.status == status
    if status == 421:
        assert answer.body["detail"].startswith("Host: expected localhost or a loopback address")
