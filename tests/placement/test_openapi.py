"""The OpenAPI document is valid, names every operation and no other, and says what is answered."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.placement.populated import (
    AGGREGATE,
    CLASS,
    HOST,
    MIGRATION,
    NOTHING,
    NUMA,
    PROJECT,
    SEGMENT,
    SERVER,
    TRAIT,
    USER,
    Api,
    populate,
)
from tests.platform.asgi import ask

from roost.cli.serving.wiring import Parts, ProcessConfig, main_listener, read_settings
from roost.placement.api import operations, routes
from roost.placement.api.bodies import FORMATS
from roost.placement.api.openapi import ABOUT
from roost.platform.auth import Unrestricted
from roost.platform.database import Database
from roost.platform.http import MethodRoute
from roost.platform.openapi import describe

NO_LEDGER: Any = None
OPERATIONS = operations(NO_LEDGER, Unrestricted())
HIGHEST = (1, 39)
VERSIONS = [(1, minor) for minor in range(HIGHEST[1] + 1)]
DOCUMENT = describe(ABOUT, OPERATIONS, HIGHEST, server="/placement")

PLACES = {
    "/resource_providers/{uuid}": [f"/resource_providers/{uuid}" for uuid in (HOST, NUMA, SEGMENT)],
    "/resource_providers/{uuid}/inventories/{resource_class}": [f"/resource_providers/{HOST}/inventories/VCPU"],
    "/resource_classes/{name}": [f"/resource_classes/{name}" for name in ("VCPU", CLASS)],
    "/traits/{name}": [f"/traits/{TRAIT}"],
    "/traits": ["/traits", "/traits?associated=true", "/traits?name=startswith:CUSTOM_"],
    "/usages": [
        f"/usages?project_id={PROJECT}",
        f"/usages?project_id={PROJECT}&user_id={USER}&consumer_type=all",
        "/usages?project_id=nobody",
    ],
    "/allocations/{uuid}": [f"/allocations/{uuid}" for uuid in (SERVER, MIGRATION, NOTHING)],
    "/allocation_candidates": [
        "/allocation_candidates?resources=VCPU:1,IPV4_ADDRESS:1",
        f"/allocation_candidates?resources=VCPU:1&resources_nic=IPV4_ADDRESS:1&member_of_nic={AGGREGATE}",
        f"/allocation_candidates?resources={CLASS}:1",
        "/allocation_candidates?resources=VCPU:9",
    ],
    "/explain": ["/explain?resources=VCPU:1", "/explain?resources=VCPU:9"],
    "/resource_providers": ["/resource_providers", f"/resource_providers?in_tree={HOST}"],
}
"""Path -> targets of the populated ledger to ask for; other paths with a uuid are asked of providers."""


@pytest.mark.parametrize("version", [*VERSIONS[::8], HIGHEST])
def test_the_document_of_a_microversion_is_valid(version: tuple[int, int]) -> None:
    OpenAPIV31SpecValidator(describe(ABOUT, OPERATIONS, version, server="/placement")).validate()


def test_every_route_of_the_api_is_in_the_document_and_no_other() -> None:
    served = {
        (method, route.path)
        for route in routes(NO_LEDGER, Unrestricted())
        if isinstance(route, MethodRoute)
        for method in route.methods_served
    }
    described = {(method.upper(), path) for path, method, _ in described_operations(DOCUMENT)}
    assert described == served


def test_an_operation_is_in_the_documents_of_the_microversions_that_have_it() -> None:
    for version in VERSIONS:
        described = {
            (path, method) for path, method, _ in described_operations(describe(ABOUT, OPERATIONS, version, server="/"))
        }
        assert described == {
            (path, method.lower())
            for path, methods in OPERATIONS.items()
            for method, operation in methods.items()
            if operation.serves(version)
        }


def described_operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(path, method, operation)."""
    for path, item in document["paths"].items():
        yield from ((path, method, operation) for method, operation in item.items() if method != "parameters")


def test_operations_have_names_of_their_own_that_programs_can_use() -> None:
    names = [operation["operationId"] for _, _, operation in described_operations(DOCUMENT)]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)


def test_what_nobody_needs_a_token_for_is_said() -> None:
    without = {path for path, _, operation in described_operations(DOCUMENT) if operation.get("security") == []}
    assert without == {"/", "/openapi.json"}


def test_where_nobody_is_asked_no_token_is_demanded() -> None:
    document = describe(ABOUT, OPERATIONS, HIGHEST, server="/placement", asks_callers=False)
    assert document["security"] == []
    answers = {status for _, _, operation in described_operations(document) for status in operation["responses"]}
    assert answers & {"401", "403"} == set()
    assert {"401", "403"} <= {
        status for _, _, operation in described_operations(DOCUMENT) for status in operation["responses"]
    }


def test_the_version_header_may_be_left_out() -> None:
    assert DOCUMENT["components"]["parameters"]["version"]["required"] is False


HOLDS_NOTHING = {
    "allocations": {}, "project_id": "p", "user_id": "u", "consumer_generation": 1, "consumer_type": "I",
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "method", "good", "bad"),
    [
        ("/resource_providers", "post", {"name": "a"}, [{"name": ""}, {"name": "a\0"}]),
        (
            "/resource_providers/{uuid}/inventories",
            "put",
            {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 1}}},
            [{"resource_provider_generation": 0, "inventories": {"no name": {"total": 1}}}],
        ),
        (
            "/resource_providers/{uuid}/traits",
            "put",
            {"resource_provider_generation": 0, "traits": ["HW_X"]},
            [{"resource_provider_generation": 0, "traits": ["a trait"]}],
        ),
        (
            "/allocations",
            "post",
            {HOST: HOLDS_NOTHING},
            [{"-" * 36: HOLDS_NOTHING}, {HOST: HOLDS_NOTHING | {"project_id": "\0"}}],
        ),
    ],
)  # fmt: skip
def test_what_is_refused_by_words_of_its_own_is_said(path: str, method: str, good: Any, bad: list[Any]) -> None:
    """So that who makes requests from the document makes such as can succeed."""
    body = DOCUMENT["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
    validator = jsonschema.Draft202012Validator({**body, "components": DOCUMENT["components"]})
    assert validator.is_valid(good)
    assert [one for one in bad if validator.is_valid(one)] == []


def test_parameters_say_what_they_may_be() -> None:
    (parameters,) = [
        {item["name"]: item["schema"] for item in operation["parameters"]}
        for path, _, operation in described_operations(DOCUMENT)
        if path == "/allocation_candidates"
    ]
    for name, good, bad in (
        ("resources", "VCPU:1,CUSTOM_A:2", "VCPU"),
        ("required", "A,!B", "A,,B"),
        ("member_of", f"!in:{HOST},{NUMA}", "x"),
        ("same_subtree", "_a,_b", "a"),
    ):
        validator = jsonschema.Draft202012Validator(parameters[name])
        assert (validator.is_valid(good), validator.is_valid(bad)) == (True, False), name
    for path in ("/traits/{name}", "/resource_classes/{name}"):
        (name,) = DOCUMENT["paths"][path]["put"]["parameters"]
        assert not jsonschema.Draft202012Validator(name["schema"]).is_valid("VCPU")


def test_parameters_of_groups_have_their_bare_names_one_suffix_and_a_pattern() -> None:
    (parameters,) = [
        operation["parameters"]
        for path, _, operation in described_operations(DOCUMENT)
        if path == "/allocation_candidates"
    ]
    by_name = {parameter["name"]: parameter["schema"] for parameter in parameters}
    assert {"limit", "group_policy", "same_subtree", "resources", "resources1", "in_tree", "in_tree1"} <= by_name.keys()
    names = by_name["by_pattern"]["patternProperties"]
    assert any(re.search(pattern, "member_of_nic0") for pattern in names)


@pytest.fixture
async def api(database: Database) -> Api:
    return await populate(database)


async def test_the_document_is_served_for_the_microversion_that_is_asked_for(api: Api) -> None:
    newest = await api.call("GET", "/openapi.json", version="1.0")
    assert newest.status == 200
    assert newest.body == describe(ABOUT, OPERATIONS, HIGHEST, server="/placement", asks_callers=False)
    old = await api.call("GET", "/openapi.json?microversion=1.5")
    assert old.body["info"]["version"] == "1.5"
    assert "/reshaper" not in old.body["paths"]
    for bad in ("1.40", "2.0", "x", "1.5%0A", "1.%D9%A3"):
        assert (await api.call("GET", f"/openapi.json?microversion={bad}")).status == 400, bad


async def test_a_placement_service_alone_has_the_document_at_the_root_too_for_who_has_no_token() -> None:
    nothing = dict.fromkeys((field.name for field in dataclasses.fields(Parts)), NO_LEDGER)
    parts = Parts(**nothing | {"settings": read_settings(None)})
    config = ProcessConfig(
        role="api", number=1, services=("placement",), dsn="", pool_size=1, host="", port=0, agent_host="",
        agent_port=0, auth="noauth2",
    )  # fmt: skip
    app = main_listener(config, parts)
    for path, server in (("/openapi.json", "/"), ("/placement/openapi.json", "/placement")):
        answer = await ask(app, path)
        assert (answer.status, answer.body["servers"]) == (200, [{"url": server}])
    assert (await ask(app, "/traits")).status == 401


async def test_answers_are_as_the_document_says(api: Api) -> None:
    """Every GET at the highest microversion, and what changes something, on a ledger with one of everything."""
    for path, methods in OPERATIONS.items():
        if "GET" not in methods:
            continue
        for target in PLACES.get(path) or [path.format(uuid=uuid) for uuid in (HOST, NUMA, SEGMENT)]:
            await assert_as_described(api, "GET", path, target)
    name, generation = {"name": "renamed"}, {"resource_provider_generation": 3}
    below = f"/resource_providers/{NUMA}"
    for method, path, target, body in [
        ("POST", "/resource_providers", "/resource_providers", {"name": "another"}),
        ("PUT", "/resource_providers/{uuid}", below, name),
        (
            "POST",
            "/resource_providers/{uuid}/inventories",
            f"{below}/inventories",
            {"resource_class": "VGPU", "total": 2},
        ),
        ("PUT", "/resource_providers/{uuid}/inventories/{resource_class}", f"{below}/inventories/VGPU", {"total": 3}),
        ("PUT", "/resource_providers/{uuid}/traits", f"{below}/traits", {"traits": [TRAIT]}),
        ("PUT", "/resource_providers/{uuid}/aggregates", f"{below}/aggregates", {"aggregates": [AGGREGATE]}),
    ]:
        if method == "PUT" and body is not name:
            body = {**body, **generation}
            generation = {"resource_provider_generation": generation["resource_provider_generation"] + 1}
        await assert_as_described(api, method, path, target, body)
    emptied = {"inventories": {}, **generation}
    answer = await api.call("PUT", f"/resource_providers/{NUMA}/inventories", emptied)
    assert (answer.status, answer.body["errors"][0]["code"]) == (409, "placement.inventory.inuse")
    assert problems(answer.body, "Errors") == []


async def assert_as_described(api: Api, method: str, path: str, target: str, body: Any = None) -> None:
    answer = await api.call(method, target, body)
    responses = DOCUMENT["paths"][path][method.lower()]["responses"]
    assert str(answer.status) in {status for status in responses if status < "300"}, (target, answer)
    content = responses[str(answer.status)].get("content")
    if content is None:
        assert answer.body is None, target
    else:
        name = re.sub(r".*/", "", content["application/json"]["schema"].get("$ref", ""))
        assert name or path == "/openapi.json", f"{path} answers something that has no name"
        assert problems(answer.body, name) == [], target


def problems(body: Any, component: str) -> list[str]:
    """What is wrong with a body, as the document describes it."""
    schema = {**DOCUMENT, "$ref": f"#/components/schemas/{component}"} if component else {"type": "object"}
    validator = jsonschema.Draft202012Validator(schema, format_checker=FORMATS)
    return [error.message for error in validator.iter_errors(body)]
