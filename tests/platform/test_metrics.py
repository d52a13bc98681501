"""Every request is counted, whatever answered it, and clients make up no labels."""

from collections.abc import Callable, Mapping

import pytest
from prometheus_client import REGISTRY
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp
from tests.platform.asgi import ask, say_who

from roost.compute.api.agent_access import AgentAuthentication
from roost.compute.service.agent_tokens import AgentTokens
from roost.platform.auth import AuthenticationUnavailable, Caller
from roost.platform.authentication import Authentication, noauth2
from roost.platform.database import Database
from roost.platform.http import Api, Microversions, json_response
from roost.platform.mounts import mount

COUNT = "roost_operation_seconds_count"


async def answer(_request: Request) -> Response:
    return json_response({})


async def nobody_knows(_headers: Headers, _address: str) -> Caller:
    raise AuthenticationUnavailable


def served(_database: Database) -> ASGIApp:
    api = Api(microversions=Microversions("counted", (1, 0), (1, 1)))
    app = Starlette(routes=[mount("/counted", [api.route("/x/{id}", {"GET": answer}), api.not_found()])])
    app.router.default = api.no_path
    return app


def guarded(_database: Database) -> ASGIApp:
    return Authentication(say_who, noauth2, open_paths=frozenset())


def guarded_without_keystone(_database: Database) -> ASGIApp:
    return Authentication(say_who, nobody_knows, open_paths=frozenset())


def guarded_agents(database: Database) -> ASGIApp:
    return AgentAuthentication(say_who, AgentTokens(database))


@pytest.mark.parametrize(
    ("app", "method", "path", "headers", "labels"),
    [
        (served, "GET", "/counted/x/1", {}, ("/counted", "GET", "/x/{id}", "200")),
        (served, "BREW", "/counted/x/1", {}, ("/counted", "other", "/x/{id}", "405")),
        (served, "GET", "/counted/y/1", {}, ("/counted", "-", "-", "404")),
        (served, "BREW", "/counted/y/2", {}, ("/counted", "-", "-", "404")),
        (served, "GET", "/counted/y", {"OpenStack-API-Version": "counted 9.9"}, ("/counted", "-", "-", "406")),
        (served, "CONNECT", "other:80", {}, ("-", "-", "-", "501")),
        (guarded, "GET", "/counted/x/1", {}, ("-", "-", "-", "401")),
        (guarded_without_keystone, "PUT", "/x", {"X-Auth-Token": "t"}, ("-", "-", "-", "503")),
        (guarded_agents, "GET", "/agent/v1/x", {}, ("-", "-", "-", "401")),
    ],
)
async def test_a_request_is_counted_once_by_who_answered_it(
    database: Database,
    app: Callable[[Database], ASGIApp],
    method: str,
    path: str,
    headers: Mapping[str, str],
    labels: tuple[str, str, str, str],
) -> None:
    def count() -> dict[tuple[str, ...], float]:
        return {
            tuple(sample.labels[name] for name in ("api", "method", "path", "status")): sample.value
            for metric in REGISTRY.collect()
            for sample in metric.samples
            if sample.name == COUNT
        }

    before = count()
    answered = await ask(app(database), path, headers, method=method)
    assert str(answered.status) == labels[-1]
    after = count()
    assert {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)} == {
        labels: 1
    }
