"""Every answer has an id of its own; the caller's is the global one, which the log has beside it."""

import re
import uuid
from typing import Any

import msgspec
import pytest
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from tests.platform.asgi import ask

from roost.cli.serving.access import guarded
from roost.platform.http import Api
from roost.platform.request_ids import RequestIds, request_id_of
from roost.platform.settings import CorsSettings, ProxySettings

REQUEST_ID = re.compile("req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CALLERS_ID = f"req-{uuid.UUID(int=7)}"


async def say_ids(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that answers with its id and with what every line of its log has."""
    body = {"own": request_id_of(scope), "log": structlog.contextvars.get_contextvars()}
    await Response(msgspec.json.encode(body))(scope, receive, send)


async def test_the_caller_keeps_its_id_and_gets_another() -> None:
    answer = await ask(RequestIds(say_ids), "/", {"X-Openstack-Request-Id": CALLERS_ID})
    own = answer.headers["x-openstack-request-id"]
    assert REQUEST_ID.fullmatch(own)
    assert own != CALLERS_ID
    assert answer.body["own"] == own
    assert answer.body["log"] == {"request_id": own, "global_request_id": CALLERS_ID}


@pytest.mark.parametrize("given", ["req-1", "\n", f"x{CALLERS_ID}", f"{CALLERS_ID}0", CALLERS_ID.upper()])
async def test_what_is_no_id_is_no_global_one(given: str) -> None:
    """It would be written to logs."""
    answer = await ask(RequestIds(say_ids), "/", {"X-Openstack-Request-Id": given})
    assert answer.body["log"].keys() == {"request_id"}


async def test_the_compute_api_calls_it_by_its_own_name_too() -> None:
    app = RequestIds(say_ids, compute_paths=("/compute",))
    headers = (await ask(app, "/compute/v2.1/servers")).headers
    assert headers["x-compute-request-id"] == headers["x-openstack-request-id"]
    for path in ("/network/v2.0", "/computer", "/"):
        assert "x-compute-request-id" not in (await ask(app, path)).headers, path
    alone = RequestIds(say_ids, compute_paths=("/compute", ""))
    assert "x-compute-request-id" in (await ask(alone, "/v2.1/servers")).headers


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/compute/v2.1/servers", 401)])
async def test_refusals_that_no_api_has_seen_carry_it_as_well(path: str, status: int) -> None:
    async def nothing(_request: Request) -> Response:
        return Response()

    app: Any = guarded(
        Api().route("/", {"GET": nothing}), keystone=None, auth="noauth2", policy=None, services=("compute",),
        proxy=ProxySettings(), cors=CorsSettings(allowed_origin=("*",)),
    )  # fmt: skip
    answer = await ask(app, path)
    assert answer.status == status
    assert REQUEST_ID.fullmatch(answer.headers["x-openstack-request-id"])
    assert answer.headers["x-compute-request-id"] == answer.headers["x-openstack-request-id"]
