"""Cross-origin requests: what upstream's cors.yaml asks, and what a preflight must not grant."""

import msgspec
import pytest
from tests.platform.asgi import ask, say_who

from roost.platform.authentication import Authentication, noauth2
from roost.platform.cors import Cors
from roost.platform.settings import CorsSettings

ORIGIN = "http://valid.example.com"
SETTINGS = CorsSettings(allowed_origin=(ORIGIN,), allow_headers=("openstack-api-version",))


def app(settings: CorsSettings = SETTINGS) -> Cors:
    return Cors(Authentication(say_who, noauth2, open_paths=frozenset({"/"})), settings)


def preflight(origin: str = ORIGIN, method: str = "GET", asked: str = "openstack-api-version") -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": asked,
    }


def marks(headers: dict[str, str]) -> list[str]:
    return [name for name in headers if name.startswith("access-control")]


async def test_a_preflight_of_an_allowed_origin_needs_no_token() -> None:
    answer = await ask(app(), "/resource_providers", preflight(), method="OPTIONS")
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert answer.headers["access-control-allow-headers"] == "openstack-api-version"
    assert answer.headers["access-control-allow-methods"] == "GET"
    assert answer.headers["access-control-max-age"] == "3600"
    assert answer.headers["vary"] == "Origin"


@pytest.mark.parametrize(
    "headers",
    [
        preflight(origin="http://invalid.example.com"),
        preflight(method="TRACE"),
        preflight(asked="openstack-api-version, x-secret"),
        {"Origin": ORIGIN},
        {"Access-Control-Request-Method": "GET"},
    ],
)
async def test_a_preflight_that_asks_for_more_is_granted_nothing(headers: dict[str, str]) -> None:
    answer = await ask(app(), "/", headers, method="OPTIONS")
    assert (answer.status, marks(answer.headers)) == (200, [])


async def test_simple_headers_need_nobodys_leave() -> None:
    answer = await ask(app(), "/", preflight(asked="Content-Type,OpenStack-API-Version"), method="OPTIONS")
    assert answer.headers["access-control-allow-headers"] == "Content-Type,OpenStack-API-Version"


async def test_answers_to_an_allowed_origin_are_marked_even_refusals() -> None:
    for path, status in (("/", 200), ("/resource_providers", 401)):
        answer = await ask(app(), path, {"Origin": ORIGIN})
        assert answer.status == status
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert "OpenStack-API-Version" in answer.headers["access-control-expose-headers"]
        assert answer.headers["vary"] == "Origin"


async def test_answers_to_other_origins_are_not() -> None:
    for headers in ({"Origin": "http://invalid.example.com"}, {"Origin": ORIGIN + ".evil.example"}, {}):
        assert marks((await ask(app(), "/", headers)).headers) == []


async def test_a_star_allows_every_origin() -> None:
    answer = await ask(app(msgspec.structs.replace(SETTINGS, allowed_origin=("*",))), "/", {"Origin": "http://a.b"})
    assert answer.headers["access-control-allow-origin"] == "*"
