"""Describes an HTTP API as an OpenAPI document: a wing says what is read and answered, this file how that is written.

Schemas are plain JSON Schemas. One that is among the components, the very same object, is written once and referred to.
Source: OpenAPI Specification 3.1.1.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from msgspec import Struct

OPENAPI = "3.1.1"
JSON = "application/json"
SECURITY_SCHEME = "keystone"
OPENSTACK = "x-openstack"
OPTIONAL_SUFFIX = re.compile(r"\^(\w+)\(.*\)\?\$")
SUFFIX = "1"

UNAUTHENTICATED = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "integer"}, "title": {"type": "string"}, "message": {"type": "string"},
            },
            "required": ["code", "title", "message"], "additionalProperties": False,
        },
    },
    "required": ["error"], "additionalProperties": False,
}  # fmt: skip
"""What authentication says in a dialect of its own. Source: keystonemiddleware, auth_token."""

RESPONSES = {401: "unauthenticated", 503: "unavailable"}
"""The names of the answers that any API may give before it looks at a request."""

Schema = Mapping[str, Any]
"""A JSON Schema of 2020-12, as OpenAPI 3.1 has it."""


class About(Struct, frozen=True, kw_only=True):
    """What all operations of an API have in common.

    version: of the API, which the header of that name asks for, as in "placement 1.39"; "" where there is no such
    header. path_parameters: by name. error: the body of every refusal. components: name -> schema, those that deserve
    a name in generated clients. asks_callers: whether anybody is asked for a token.
    """

    title: str
    description: str
    version: str
    version_header: str = ""
    version_value: str = ""
    path_parameters: Mapping[str, Schema]
    error: Schema
    components: Mapping[str, Schema]
    asks_callers: bool


class Entry(Struct, frozen=True, kw_only=True):
    """One operation. query: an object by parameter; body: what is read; None for none. path_parameters: those that
    are narrower than the API's of their name.

    answers: status -> body, None for none. errors: statuses of refusals. needs_token: whether callers are asked who
    they are. since: the first version that has it. policy: the rule that is asked.
    """

    method: str
    path: str
    summary: str
    query: Schema | None
    body: Schema | None
    path_parameters: Mapping[str, Schema] = {}
    answers: Mapping[int, Schema | None]
    errors: Sequence[int]
    needs_token: bool
    since: str
    policy: str | None


def document(about: About, entries: Iterable[Entry], *, server: str) -> dict[str, Any]:
    """The whole document; server: where the API is mounted, as a URL or a path."""
    writer = _Writer(about.components)
    paths: dict[str, dict[str, Any]] = {}
    for entry in entries:
        item = paths.setdefault(entry.path, _path_item(about, entry.path))
        item[entry.method.lower()] = _operation(about, writer, entry)
    return {
        "openapi": OPENAPI,
        "info": {"title": about.title, "version": about.version, "description": about.description},
        "servers": [{"url": server}],
        "security": [{SECURITY_SCHEME: []}] if about.asks_callers else [],
        "paths": paths,
        "components": {
            "schemas": {name: writer.inner(schema) for name, schema in about.components.items()},
            **(_version_components(about) if about.version_header else {}),
            "responses": {
                "refusal": _response(about, "what is wrong", writer.schema(about.error)),
                "unauthenticated": {
                    "description": "nobody knows who asks",
                    "headers": {"WWW-Authenticate": {"schema": {"type": "string"}}},
                    "content": {JSON: {"schema": UNAUTHENTICATED}},
                },
                "unavailable": {
                    "description": "ask again",
                    "headers": {"Retry-After": {"schema": {"type": "string", "pattern": "^[0-9]+$"}}},
                    "content": {JSON: {"schema": {"anyOf": [writer.schema(about.error), UNAUTHENTICATED]}}},
                },
            },
            "securitySchemes": {SECURITY_SCHEME: {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    }


def _path_item(about: About, path: str) -> dict[str, Any]:
    named = [_path_parameter(name, about.path_parameters[name]) for name in re.findall(r"{(\w+)}", path)]
    version = [{"$ref": "#/components/parameters/version"}] if about.version_header else []
    return {"parameters": [*version, *named]}


def _path_parameter(name: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": dict(schema)}


def _operation(about: About, writer: "_Writer", entry: Entry) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(entry),
        "summary": entry.summary,
        "tags": [_tag(entry.path)],
        OPENSTACK: {"min-ver": entry.since, **({"policy": entry.policy} if entry.policy else {})},
    }
    if not entry.needs_token:
        operation["security"] = []
    parameters = [_path_parameter(name, schema) for name, schema in entry.path_parameters.items()]
    if entry.query is not None:
        parameters += _query_parameters(writer, entry.query)
    if parameters:
        operation["parameters"] = parameters
    if entry.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": writer.schema(entry.body)}}}
    operation["responses"] = {
        **{
            str(status): _response(about, HTTPStatus(status).phrase, None if body is None else writer.schema(body))
            for status, body in entry.answers.items()
        },
        **{
            str(status): {"$ref": f"#/components/responses/{RESPONSES.get(status, 'refusal')}"}
            for status in entry.errors
            if about.asks_callers or status not in (401, 403)
        },
    }
    return operation


def _tag(path: str) -> str:
    """The first word of the path that is no version."""
    words = [word for word in path.split("/") if word and not re.fullmatch(r"v[0-9.]+", word)]
    return words[0] if words else "versions"


def _operation_id(entry: Entry) -> str:
    words = re.sub(r"{(\w+)}", r"by_\1", entry.path).replace(".", "_").replace("-", "_").split("/")
    slash = ["slash"] if len(entry.path) > 1 and entry.path.endswith("/") else []
    return "_".join([entry.method.lower(), *filter(None, words), *slash])


def _query_parameters(writer: "_Writer", query: Schema) -> Iterable[dict[str, Any]]:
    """A parameter for each property; those whose names are only known by patterns are the properties of one more.

    OpenAPI has no patterns of names: where a pattern is a name with an optional suffix, the bare name is a parameter
    too, and the name with one suffix, so that generated clients can ask for groups.
    """
    required = query.get("required", ())
    for name, schema in query.get("properties", {}).items():
        yield {"name": name, "in": "query", "required": name in required, "schema": writer.schema(schema)}
    if "patternProperties" in query:
        for pattern, schema in query["patternProperties"].items():
            if suffixed := OPTIONAL_SUFFIX.fullmatch(pattern):
                for name in (suffixed[1], f"{suffixed[1]}{SUFFIX}"):
                    yield {"name": name, "in": "query", "required": False, "schema": writer.schema(schema)}
        patterns = {
            "type": "object", "patternProperties": query["patternProperties"], "additionalProperties": False,
        }  # fmt: skip
        yield {
            "name": "by_pattern", "in": "query", "style": "form", "explode": True, "schema": writer.schema(patterns),
            "description": "each property is a parameter of its own; its name is one that a pattern allows",
        }  # fmt: skip


def _response(about: About, description: str, schema: Any) -> dict[str, Any]:
    response: dict[str, Any] = {"description": description}
    if about.version_header:
        response["headers"] = {"OpenStack-API-Version": {"$ref": "#/components/headers/version"}}
    if schema is not None:
        response["content"] = {JSON: {"schema": schema}}
    return response


def _version_components(about: About) -> dict[str, Any]:
    return {
        "parameters": {"version": _version_parameter(about)},
        "headers": {"version": {"description": "the version that answers", "schema": {"type": "string"}}},
    }


def _version_parameter(about: About) -> dict[str, Any]:
    return {
        "name": about.version_header, "in": "header", "required": False, "schema": {"const": about.version_value},
        "description": "the version that this document describes; without it, the lowest one answers",
    }  # fmt: skip


class _Writer:
    """Writes schemas with references to those that have a name."""

    def __init__(self, components: Mapping[str, Schema]) -> None:
        self._names = {id(schema): name for name, schema in components.items()}

    def schema(self, schema: Any) -> Any:
        """The schema, or a reference to it."""
        name = self._names.get(id(schema))
        return self.inner(schema) if name is None else {"$ref": f"#/components/schemas/{name}"}

    def inner(self, schema: Any) -> Any:
        """The schema itself, whose parts may be references."""
        if isinstance(schema, Mapping):
            return {key: self.schema(value) for key, value in schema.items()}
        if isinstance(schema, list | tuple):
            return [self.schema(value) for value in schema]
        return schema
