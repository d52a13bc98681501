"""The Network API's OpenAPI document is valid, has every route, says who needs a token and what bodies are accepted."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import jsonschema
import msgspec
import pytest
from msgspec import UNSET
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.network.cloud import Cloud
from tests.network.test_api import Api

from roost.cli.serving.access import VERSION_PATHS
from roost.network.api import ABOUT, operations, routes
from roost.platform.http import MethodRoute
from roost.platform.openapi import describe

NOTHING: Any = None
ID = "00000000-0000-4000-8000-00000000000f"
OPERATIONS = operations(NOTHING)
DOCUMENT: Any = describe(ABOUT, OPERATIONS, server="/network")
PALETTE: list[Any] = [
    None, True, False, 0, 1, -1, -2, 1.5, 69, 65536, 2**31, 2**63, 2**64, "", "x", "1", "-1", "a" * 255, "a" * 256,
    "a\0b", "é", "1" * 9, [], ["a"], [1], [None], [{}], [[]], {}, {"a": 1}, [{"start": "x", "end": "y"}],
    [{"start": "x", "end": 1}], [{"subnet_id": None}], [{"ip_address": "x", "a": 1}], ["x"] * 51,
]  # fmt: skip
"""One value of each kind that a body can have, and what is just too much.

Not 1.0: to JSON Schema it is a whole number, to Roost the mistake of a client.
"""


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


def bodies() -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """(method, path, the schema of the body, a schema of the same that says where its parts are)."""
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            if method != "parameters" and "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                yield method.upper(), path, operation, {**schema, "components": DOCUMENT["components"]}


def resolved(schema: Any) -> Any:
    """The schema that a reference stands for; of several, the one of objects."""
    if "$ref" in schema:
        return resolved(DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
    if "anyOf" in schema:
        return next((one for one in map(resolved, schema["anyOf"]) if one.get("type") == "object"), schema)
    return schema


def smallest(schema: Any) -> Any:
    """A value that has no more than it needs."""
    schema = resolved(schema)
    if schema.get("type") == "object":
        return {name: smallest(schema["properties"][name]) for name in schema.get("required", ())}
    if schema.get("type") == "array":
        return [smallest(schema["items"])] * schema.get("minItems", 0)
    return {"string": "x", "boolean": True, "integer": schema.get("minimum", 0)}[schema["type"]]


def variants(schema: Any) -> Iterator[tuple[str, Any]]:
    """(what it is about, a body) for everything in the palette, in place of the body and of each part of it.

    A body is an envelope around one, or around many.
    """
    envelope = resolved(schema)
    yield from (("the body", value) for value in PALETTE)
    yield "an unknown part", {**smallest(schema), "none": 1}
    for name, part in envelope["properties"].items():
        yield from ((name, {**smallest(schema), name: value}) for value in PALETTE)
        many = part.get("type") == "array"
        inner = resolved(part["items"]) if many else resolved(part)
        if inner.get("type") != "object":
            continue
        around = partial(_around, smallest(schema), name, many=many)
        least = smallest(inner)
        yield f"{name}: least", around(least)
        yield f"{name}: an unknown attribute", around({**least, "none": 1})
        for needed in inner.get("required", ()):
            yield f"{name} without {needed}", around({key: value for key, value in least.items() if key != needed})
        for attribute in inner["properties"]:
            yield from ((f"{name}.{attribute}", around({**least, attribute: value})) for value in PALETTE)


def _around(envelope: dict[str, Any], name: str, value: Any, *, many: bool) -> dict[str, Any]:
    return {**envelope, name: [value] if many else value}


def is_accepted(body: bytes, kind: Any) -> bool:
    """Whether an operation that reads this kind of body has nothing to say against its form."""
    try:
        decoded = msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError:
        return False
    fields = msgspec.structs.fields(kind)
    # An envelope around one or around many is around either.
    given = sum(getattr(decoded, item.name) is not UNSET for item in fields)
    return given == 1 or not all(item.default is UNSET for item in fields)


def test_the_document_is_valid() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_every_route_of_the_api_is_in_the_document_and_no_other() -> None:
    served = {
        (path, method.lower())
        for route in routes(NOTHING)
        if isinstance(route, MethodRoute)
        for path, method in ((route.path, one) for one in route.methods_served)
    }
    described = {
        (path, method) for path, item in DOCUMENT["paths"].items() for method in item if method != "parameters"
    }
    assert described == served


def test_what_nobody_needs_a_token_for_is_said_and_let_through() -> None:
    """What the document gives away freely, authentication must not ask for; and the other way round."""
    open_paths = {
        path
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if method != "parameters" and operation.get("security") == []
    }
    assert open_paths == {path for path in VERSION_PATHS["network"] if path}


def test_where_nobody_is_asked_no_token_is_demanded() -> None:
    document: Any = describe(ABOUT, OPERATIONS, server="/network", asks_callers=False)
    assert document["security"] == []
    answers = {
        status
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
        for status in operation["responses"]
    }
    assert answers & {"401", "403"} == set()


def test_bodies_are_decoded_as_the_document_has_them() -> None:
    """What a schema allows is no mistake of form; what is one, it forbids."""
    told = 0
    for method, path, _, schema in bodies():
        validator = jsonschema.Draft202012Validator(schema)
        kind = OPERATIONS[path][method].body
        for what, value in variants(schema):
            decoded = is_accepted(json.dumps(value).encode(), kind)
            assert decoded or not validator.is_valid(value), f"{method} {path}: {what} = {str(value)[:200]}"
            told += decoded and validator.is_valid(value)
    assert told > 300


async def test_what_the_document_forbids_in_a_body_is_refused_by_every_operation(api: Api) -> None:
    for method, path, _, schema in bodies():
        target = path
        for name in ("id", "port_id"):
            target = target.replace(f"{{{name}}}", ID)
        target = target.replace("{project_id}", "p").replace("{host}", "h")
        validator = jsonschema.Draft202012Validator(schema)
        refused: set[tuple[str, bool]] = set()
        for what, value in variants(schema):
            content = json.dumps(value).encode()
            malformed = not is_accepted(content, OPERATIONS[path][method].body)
            if (what, malformed) in refused or validator.is_valid(value):
                continue
            refused.add((what, malformed))
            status, answer = await api.call(method, target, raw=content)
            # What is read later may be looked at after what there is, and here there is nothing.
            assert status in ((400,) if malformed else (400, 404)), (method, path, what, value, answer)
            if malformed:
                assert answer["NeutronError"]["type"] == "HTTPBadRequest", (method, path, what, answer)
                assert answer["NeutronError"]["message"].startswith(("malformed body: ", "Unrecognized attribute(s) "))
