"""Links lead where clients came to, if an operator says that a proxy tells; without that, nobody can say so."""

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send
from tests.platform.asgi import ask

from roost.cli.serving.access import guarded
from roost.platform.http import Api, json_response, root_url
from roost.platform.mounts import mount
from roost.platform.proxies import ProxyAddress
from roost.platform.settings import CorsSettings, ProxySettings

SENT = {"Host": "roost.internal:8778"}
TOKEN = {"X-Auth-Token": "ann:mine"}
FORWARDED = {
    **SENT,
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "cloud.example.com",
    "X-Forwarded-Prefix": "/openstack",
}


async def say_root(request: Request) -> Response:
    return json_response({"root": root_url(request), "url": str(request.url)})


def app(*, believed: bool = True) -> Any:
    routes: list[BaseRoute] = [mount("/network", [Api().route("/v2.0/networks", {"GET": say_root})])]
    return guarded(
        Starlette(routes=routes), keystone=None, auth="noauth2", policy=None, services=("placement", "network"),
        proxy=ProxySettings(enable_proxy_headers_parsing=believed), cors=CorsSettings(),
    )  # fmt: skip


async def root(headers: dict[str, str], *, believed: bool = True) -> str:
    answer = await ask(app(believed=believed), "/network/v2.0/networks", headers | TOKEN)
    assert answer.status == 200
    assert answer.body["url"] == f"{answer.body['root']}/v2.0/networks"
    shown: str = answer.body["root"]
    return shown


async def test_nobody_is_believed_unless_an_operator_says_so() -> None:
    assert await root(FORWARDED, believed=False) == "http://roost.internal:8778/network"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (FORWARDED, "https://cloud.example.com/openstack/network"),
        (SENT, "http://roost.internal:8778/network"),
        ({**SENT, "X-Forwarded-Proto": "https"}, "https://roost.internal:8778/network"),
        ({**SENT, "X-Forwarded-Host": "a.example:8443, b.example"}, "http://a.example:8443/network"),
        ({**SENT, "X-Forwarded-Prefix": "/a/b/"}, "http://roost.internal:8778/a/b/network"),
        ({**SENT, "X-Forwarded-Prefix": "/"}, "http://roost.internal:8778/network"),
        ({**SENT, "Forwarded": 'for=192.0.2.60; proto=https;host="[2001:db8::1]:8443", host=b.example'},
            "https://[2001:db8::1]:8443/network"),
        ({**FORWARDED, "Forwarded": "host=a.example"}, "http://a.example/openstack/network"),
        ({**SENT, "X-Forwarded-Proto": "javascript"}, "http://roost.internal:8778/network"),
        ({**SENT, "X-Forwarded-Host": "a/b"}, "http://roost.internal:8778/network"),
        ({**SENT, "X-Forwarded-Prefix": "//evil.example"}, "http://roost.internal:8778/network"),
        ({**SENT, "X-Forwarded-Prefix": "no-slash?"}, "http://roost.internal:8778/network"),
    ],
)  # fmt: skip
async def test_links_lead_where_the_client_came_to(headers: dict[str, str], expected: str) -> None:
    assert await root(headers) == expected


async def test_a_prefix_opens_no_path_that_needs_a_token() -> None:
    guarded_app = app()
    assert (await ask(guarded_app, "/network/v2.0/networks", FORWARDED)).status == 401
    as_if_open = {**SENT, "X-Forwarded-Prefix": "/healthz"}
    assert (await ask(guarded_app, "/network/v2.0/networks", as_if_open)).status == 401


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        ({}, "10.0.0.10"),
        ({"X-Forwarded-For": "192.0.2.1"}, "192.0.2.1"),
        ({"X-Forwarded-For": "203.0.113.9, 192.0.2.1"}, "192.0.2.1"),
        ({"X-Forwarded-For": "2001:db8::1"}, "2001:db8::1"),
        ({"X-Forwarded-For": "192.0.2.1:4711"}, "192.0.2.1"),
        ({"X-Forwarded-For": "unknown"}, "10.0.0.10"),
        ({"Forwarded": 'for=203.0.113.9, for="[2001:db8::1]:4711";proto=https'}, "2001:db8::1"),
        ({"Forwarded": "proto=https", "X-Forwarded-For": "192.0.2.1"}, "10.0.0.10"),
    ],
)
async def test_a_request_is_of_the_address_that_the_last_proxy_names(headers: dict[str, str], address: str) -> None:
    """What a client may have made up before it does not count: it would have as many shares as it likes."""
    seen: list[str] = []

    async def note(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["client"][0])

    sent = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope: Any = {"type": "http", "headers": sent, "client": ("10.0.0.10", 5)}
    nothing: Any = None
    await ProxyAddress(note)(scope, nothing, nothing)
    assert seen == [address]
