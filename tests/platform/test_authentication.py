"""Who gets to an API at all: noauth2's headers, open paths, 401."""

from typing import Any

import pytest
from starlette.datastructures import Headers
from tests.platform.asgi import ask, say_who

from roost.platform.auth import OPERATOR, AuthenticationUnavailable, Caller
from roost.platform.authentication import Authentication, noauth2


def listener(**kwargs: Any) -> Authentication:
    return Authentication(say_who, noauth2, open_paths=frozenset({"/", "/network"}), **kwargs)


@pytest.mark.parametrize(
    ("headers", "caller"),
    [
        ({"X-Auth-Token": "admin"}, Caller("admin", "admin", ("admin",))),
        ({"X-Auth-Token": "user"}, Caller("user", "user")),
        ({"X-Auth-Token": "admin:p1"}, Caller("admin", "p1", ("admin",))),
        ({"X-Auth-Token": "user:p1", "X-Project-Id": "p2"}, Caller("user", "p2")),
        ({"X-Auth-Token": "user", "X-Roles": "reader, member"}, Caller("user", "user", ("reader", "member"))),
        ({"X-Auth-Token": "admin", "X-Roles": ""}, Caller("admin", "admin")),
        ({"X-Auth-Token": "admin", "OpenStack-System-Scope": "all"}, Caller("admin", None, ("admin",), "all")),
        (
            {"X-Auth-Token": "u:p", "X-Project-Id": "q", "OpenStack-System-Scope": "all", "X-Roles": "reader"},
            Caller("u", None, ("reader",), "all"),
        ),
    ],
)
async def test_noauth2_believes_the_headers(headers: dict[str, str], caller: Caller) -> None:
    assert await noauth2(Headers(headers)) == caller


@pytest.mark.parametrize("headers", [{}, {"X-Auth-Token": ""}, {"X-Auth-Token": ":p1"}, {"X-Roles": "admin"}])
async def test_without_a_token_the_answer_is_401(headers: dict[str, str]) -> None:
    answer = await ask(listener(), "/placement/traits", headers)
    assert answer.status == 401
    assert answer.body["error"]["code"] == 401
    assert "www-authenticate" not in answer.headers


async def test_a_challenge_says_where_tokens_come_from() -> None:
    answer = await ask(listener(challenge='Keystone uri="http://keystone:5000"'), "/x")
    assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Keystone uri="http://keystone:5000"')


async def test_an_open_path_needs_no_token_and_makes_nobody_an_admin() -> None:
    answer = await ask(listener(), "/", {"X-Auth-Token": "admin"})
    assert answer.status == 200
    assert answer.body["roles"] == []
    assert (await ask(listener(), "/network")).status == 200


@pytest.mark.parametrize("path", ["//", "/network/", "/network/v2.0", "/Network", "/placement"])
async def test_what_only_looks_like_an_open_path_is_not_open(path: str) -> None:
    assert (await ask(listener(), path)).status == 401


async def test_the_caller_reaches_the_api() -> None:
    answer = await ask(listener(), "/placement/traits", {"X-Auth-Token": "u:p", "X-Roles": "reader"})
    assert (answer.body["user_id"], answer.body["project_id"], answer.body["roles"]) == ("u", "p", ["reader"])


async def test_without_authentication_the_caller_is_the_operator() -> None:
    assert (await ask(say_who, "/")).body["user_id"] == OPERATOR.user_id


async def test_where_callers_cannot_be_known_at_the_moment_the_answer_is_503() -> None:
    async def down(_headers: Headers, _address: str) -> Caller:
        raise AuthenticationUnavailable("Keystone does not answer.")

    app = Authentication(say_who, down, open_paths=frozenset({"/"}))
    answer = await ask(app, "/x", {"X-Auth-Token": "t"})
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert answer.body["error"]["message"] == "Keystone does not answer."
    assert (await ask(app, "/")).status == 200
