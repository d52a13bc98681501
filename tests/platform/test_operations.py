"""A table of operations becomes routes, each endpoint behind its checks, and a document of what there is."""

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from tests.platform.asgi import ask

from roost.platform import operations
from roost.platform.auth import CALLER_KEY, Caller, Forbidden
from roost.platform.database import Database
from roost.platform.http import Api, Microversions, json_response
from roost.platform.openapi import About, describe, refusals
from roost.platform.operations import (
    Check,
    Operation,
    Operations,
    Rule,
    Versions,
    collect_defaults,
    make_routes,
    media_type_check,
    policy_check,
    version_check,
)

MICROVERSIONS = Microversions("test", lowest=(1, 0), highest=(1, 9))


async def endpoint(_request: Request) -> Response:
    return json_response({"done": True})


def operation(**more: Any) -> Operation:
    return Operation(summary="s", endpoint=endpoint, **more)


def app(table: Operations, *checks: Any) -> Starlette:
    api = Api(microversions=MICROVERSIONS)
    return Starlette(routes=make_routes(api, table, lambda _path, _method, one: [make(one) for make in checks]))


@pytest.mark.parametrize(
    ("answered", "status", "body"),
    [
        ({"done": True}, 202, {"done": True}),
        ([], 202, []),
        (None, 202, None),
        (json_response({"done": False}, 203), 203, {"done": False}),
    ],
)
async def test_what_an_endpoint_returns_has_the_operations_status(answered: Any, status: int, body: Any) -> None:
    async def serve(_request: Request) -> Any:
        return answered

    answer = await ask(app({"/a": {"POST": Operation(summary="s", endpoint=serve, status=202)}}), "/a", method="POST")
    assert (answer.status, answer.body) == (status, body)


@pytest.mark.parametrize(
    ("since", "until", "served"),
    [
        (None, None, {0, 4, 5, 6, 9}), ((1, 5), None, {5, 6, 9}), (None, (1, 5), {0, 4, 5}), ((1, 5), (1, 5), {5}),
    ],
)  # fmt: skip
async def test_an_operation_is_there_from_its_first_to_its_last_microversion(
    since: Any, until: Any, served: Any
) -> None:
    one = operation(since=since, until=until, status_before=405, text_before="elsewhere")
    routed = app({"/a": {"GET": one}}, version_check)
    for minor in (0, 4, 5, 6, 9):
        assert one.serves((1, minor)) == (minor in served)
        answer = await ask(routed, "/a", {"OpenStack-API-Version": f"test 1.{minor}"})
        assert answer.status == (200 if minor in served else 405)
        if minor not in served:
            assert answer.body["detail"] == "elsewhere"


async def test_what_only_reads_has_ten_seconds_and_its_statement_ends_then(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "READ_S", 0.2)

    async def read(_request: Request) -> Response:
        async with database.connection() as connection:
            await connection.fetch("SELECT pg_sleep(0.6) -- slow")
        return json_response({"done": True})

    slow = Operation(summary="s", endpoint=read)
    routed = app({"/a": {"GET": slow, "POST": slow}})
    answer = await ask(routed, "/a")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert answer.body["detail"].startswith("nothing was read within 0.2 s: ask for less")
    async with database.connection() as connection:
        running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%-- slow'"
        assert await connection.fetchval(running + " AND pid <> pg_backend_pid()") == 0
    assert (await ask(routed, "/a", method="POST")).status == 200


async def test_checks_stand_before_the_endpoint_in_their_order() -> None:
    seen: list[str] = []

    def sync(_one: Operation) -> Check:
        return lambda _request: seen.append("first")

    def waiting(_one: Operation) -> Check:
        async def check(_request: Request) -> None:
            seen.append("second")
            raise Forbidden("no")

        return check

    def never(_one: Operation) -> Check:
        return lambda _request: seen.append("third")

    answer = await ask(app({"/a": {"GET": operation()}}, sync, lambda _one: None, waiting, never), "/a")
    assert (answer.status, seen) == (403, ["first", "second"])


async def test_media_types_are_looked_at_where_an_api_wants_it() -> None:
    table = {"/a": {"GET": operation(result=dict[str, bool]), "PUT": operation(body=dict[str, int])}}
    routed = app(table, media_type_check)
    for method, headers, status in (
        ("GET", {}, 200), ("GET", {"Accept": "application/json"}, 200), ("GET", {"Accept": "text/html"}, 406),
        ("GET", {"Content-Length": "2"}, 400), ("PUT", {"Content-Type": "application/json; charset=utf-8"}, 200),
        ("PUT", {"Content-Type": "text/plain"}, 415), ("PUT", {}, 415),
    ):  # fmt: skip
        assert (await ask(routed, "/a", headers, method=method)).status == status, (method, headers)


async def test_a_rule_is_asked_about_the_callers_own_project() -> None:
    class Mine:
        def enforce(self, caller: Caller, rule: str, target: Any = None) -> None:
            assert (rule, target) == ("r", None)
            if caller.project_id != "mine":
                raise Forbidden("no")

    routed = app({"/a": {"GET": operation(rule=Rule("r", "@"))}}, lambda one: policy_check(Mine(), one))

    async def called(project_id: str) -> int:
        async def wrapped(scope: Any, receive: Any, send: Any) -> None:
            await routed({**scope, CALLER_KEY: Caller("u", project_id)}, receive, send)

        return (await ask(wrapped, "/a")).status

    assert [await called(project) for project in ("mine", "theirs")] == [200, 403]
    assert policy_check(Mine(), operation()) is None


def test_the_rules_of_operations_have_their_defaults() -> None:
    shown, changed = Rule("show", "@"), Rule("change", "role:admin")
    one = {"GET": operation(rule=shown), "PUT": operation(asks=(changed,)), "POST": operation()}
    table = {"/a": one, "/b": {"GET": operation(rule=shown)}}
    assert collect_defaults(table, {"part": "!"}) == {"part": "!", "show": "@", "change": "role:admin"}


@pytest.mark.parametrize(
    ("more", "others"),
    [({"rule": Rule("show", "!")}, {}), ({"asks": (Rule("show", "!"),)}, {}), ({}, {"show": "!"})],
)
def test_a_rule_has_one_default(more: Any, others: Any) -> None:
    table = {"/a": {"GET": operation(rule=Rule("show", "@")), "PUT": operation(**more)}}
    with pytest.raises(AssertionError, match="show has two defaults"):
        collect_defaults(table, others)


def test_a_schema_is_that_of_the_last_version_before() -> None:
    versions = Versions({(1, 2): {"a": 1}, (1, 5): {"a": 2}})
    assert [versions.at((1, minor))["a"] for minor in (0, 2, 4, 5, 9)] == [1, 1, 1, 2, 2]


def test_a_document_has_types_and_schemas_alike() -> None:
    about = About(
        title="t", description="d", microversions=MICROVERSIONS, path_parameters={"id": {"type": "string"}},
        error={"type": "object"}, refusals=(400,), body_refusals=(415,),
    )  # fmt: skip
    read = Versions({(1, 0): {"type": "string"}, (1, 5): dict[str, int]})
    one = operation(body=read, result={"type": "array"}, since=(1, 2), errors=(409,), rule=Rule("r", "@"))
    document = describe(about, {"/a/{id}": {"PUT": one}, "/b": {"GET": operation(until=(1, 4))}}, server="/")
    assert list(document["paths"]) == ["/a/{id}"]
    written = document["paths"]["/a/{id}"]["put"]
    assert written["x-openstack"] == {"min-ver": "1.2", "policy": "r"}
    body = written["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert written["responses"]["200"]["content"]["application/json"]["schema"] == {"type": "array"}
    assert sorted(written["responses"]) == ["200", "400", "401", "403", "404", "409", "415"]
    assert refusals(about, "/b", operation(needs_token=False)) == [400]
    older = describe(about, {"/a/{id}": {"PUT": one}, "/b": {"GET": operation(until=(1, 4))}}, (1, 4), server="/")
    assert older["paths"]["/b"]["get"]["x-openstack"] == {"min-ver": "1.0", "max-ver": "1.4"}
    old = older["paths"]["/a/{id}"]["put"]
    assert old["requestBody"]["content"]["application/json"]["schema"] == {"type": "string"}
    assert "content" not in old["responses"]["200"]  # what succeeds is described at the highest only
