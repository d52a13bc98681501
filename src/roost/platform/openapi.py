"""An API's operations as an OpenAPI document: a wing says what they have in common, this file how all is written.

A document describes one microversion, as clients and fuzzers ask for one: the highest, or that of `?microversion=`.
What succeeds is described at the highest only. A schema that has a name, the very same object or a struct, is written
once and referred to. Source: OpenAPI Specification 3.1.1.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.platform.auth import Policy, Unrestricted
from roost.platform.bodies import JSON
from roost.platform.errors import BadRequest
from roost.platform.http import Microversions, Version, json_response, show
from roost.platform.operations import Operation, Operations, Schema, Versions

OPENAPI = "3.1.1"
DOCUMENTS_MAX = 128
"""Documents that are kept, one a microversion, of about 100 KB: a stranger may ask for all of them, again and again."""
SECURITY_SCHEME = "keystone"
OPENSTACK = "x-openstack"
REF_TEMPLATE = "#/components/schemas/{name}"
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
"""The body of a 401 or 503 of authentication, in a dialect of its own. Source: keystonemiddleware, auth_token."""

RESPONSES = {401: "unauthenticated", 503: "unavailable"}
"""The names of the answers that any API may give before it looks at a request."""

Components = Mapping[str, Schema]
"""Name -> schema."""


class About(Struct, frozen=True, kw_only=True):
    """What all operations of an API have in common.

    version: of the API, where it has no microversions. path_parameters: by name. error: the body of every refusal, a
    schema or a type. components: schemas that deserve a name in generated clients; those of structs have theirs.
    refusals: statuses that any operation may answer with; body_refusals: any that reads a body. refine_*: what is said
    beyond the schemas by which Roost decodes, of (a query, its path), of a body, and of (the schemas of structs, the
    types of all bodies, the microversion).
    """

    title: str
    description: str
    microversions: Microversions | None = None
    version: str = ""
    path_parameters: Components
    error: Any
    components: Components = {}
    refusals: tuple[int, ...] = (400, 503)
    body_refusals: tuple[int, ...] = (413, 415)
    refine_query: Callable[[Schema, str], Schema] = lambda schema, _path: schema
    refine_body: Callable[[Schema], Schema] = lambda schema: schema
    refine_structs: Callable[[Components, Sequence[Any], Version | None], Components] = lambda known, *_: known


def with_document(
    about: About,
    described: Operations,
    policy: Policy,
    *,
    answer: Callable[[Request, Any], Response] = lambda _request, body: json_response(body),
) -> Operations:
    """Return the operations and GET /openapi.json, which describes them and itself."""
    asks_callers = not isinstance(policy, Unrestricted)

    async def show_document(request: Request) -> Response:
        version = _read_version(about.microversions, request) if about.microversions else None
        server = request.scope.get("root_path", "") or "/"
        return answer(request, write(version, server))

    @functools.lru_cache(maxsize=DOCUMENTS_MAX)
    def write(version: Version | None, server: str) -> msgspec.Raw:
        document = describe(about, operations, version, server=server, asks_callers=asks_callers)
        return msgspec.Raw(msgspec.json.encode(document))

    summary, query = "this API as an OpenAPI 3.1 document", None
    if about.microversions:
        summary += ", at the highest microversion or at `microversion`"
        version_schema = {"type": "string", "pattern": rf"^{about.microversions.highest[0]}\.[0-9]{{1,2}}$"}
        schema = {"type": "object", "properties": {"microversion": version_schema}, "additionalProperties": False}
        query = Versions({about.microversions.lowest: schema})
    itself = Operation(
        summary=summary, endpoint=show_document, query=query, result={"type": "object"}, needs_token=False
    )
    operations: Operations = {**described, "/openapi.json": {"GET": itself}}
    return operations


def _read_version(microversions: Microversions, request: Request) -> Version:
    """Return the version that a document is asked for. Raises BadRequest."""
    version = microversions.highest
    lowest, highest = show(microversions.lowest), show(microversions.highest)
    for name, text in request.query_params.multi_items():
        match = re.fullmatch(r"([0-9]{1,2})\.([0-9]{1,2})", text)
        version = (int(match[1]), int(match[2])) if match else (0, 0)
        if name != "microversion" or not microversions.lowest <= version <= microversions.highest:
            text = f"{name}={text}: expected microversion, {lowest} to {highest}"
            raise BadRequest(f"Invalid query string parameters: {text}")
    return version


def describe(
    about: About, operations: Operations, version: Version | None = None, *, server: str, asks_callers: bool = True
) -> dict[str, Any]:
    """Return the whole document of the operations that there are at a microversion; None: the highest.

    server: where the API is mounted, as a URL or a path.
    """
    if about.microversions and version is None:
        version = about.microversions.highest
    served = [
        (path, method, operation)
        for path, methods in operations.items()
        for method, operation in methods.items()
        if version is None or operation.serves(version)
    ]
    writer = _Writer(about, [operation for *_, operation in served], version, asks_callers=asks_callers)
    paths: dict[str, dict[str, Any]] = {}
    for path, method, operation in served:
        item = paths.setdefault(path, _path_item(about, path))
        item[method.lower()] = writer.operation(path, method, operation)
    return {
        "openapi": OPENAPI,
        "info": {"title": about.title, "version": writer.version_text, "description": about.description},
        "servers": [{"url": server}],
        "security": [{SECURITY_SCHEME: []}] if asks_callers else [],
        "paths": paths,
        "components": writer.components(),
    }


def refusals(about: About, path: str, operation: Operation) -> list[int]:
    """Return the statuses of every refusal that an operation can answer with."""
    statuses = {*about.refusals, *operation.errors}
    if operation.needs_token:
        statuses |= {401, 403}
    if operation.body is not None:
        statuses |= {*about.body_refusals}
    if "{" in path:
        statuses.add(404)
    return sorted(statuses)


def _path_item(about: About, path: str) -> dict[str, Any]:
    named = [_path_parameter(name, about.path_parameters[name]) for name in re.findall(r"{(\w+)}", path)]
    version = [{"$ref": "#/components/parameters/version"}] if about.microversions else []
    return {"parameters": [*version, *named]}


def _path_parameter(name: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": dict(schema)}


def _tag(path: str) -> str:
    """Return the first word of the path that is no version."""
    words = [word for word in path.split("/") if word and not re.fullmatch(r"v[0-9.]+", word)]
    return words[0] if words else "versions"


def _operation_id(path: str, method: str) -> str:
    words = re.sub(r"{(\w+)}", r"by_\1", path).replace(".", "_").replace("-", "_").split("/")
    slash = ["slash"] if len(path) > 1 and path.endswith("/") else []
    return "_".join([method.lower(), *filter(None, words), *slash])


class _Writer:
    """Writes one document's operations, with references to the schemas that have a name."""

    def __init__(
        self, about: About, operations: Sequence[Operation], version: Version | None, *, asks_callers: bool
    ) -> None:
        self.about = about
        self.version = version
        self.version_text = about.version if version is None else show(version)
        self.asks_callers = asks_callers
        bodies = [kind for operation in operations for kind in _types_in(self._at(operation.body))]
        results = [kind for operation in operations for kind in _types_in(operation.result)]
        kinds = list(dict.fromkeys([*bodies, *results, *_types_in(about.error)]))
        schemas, structs = msgspec.json.schema_components(kinds, ref_template=REF_TEMPLATE)
        self._by_kind = dict(zip(kinds, schemas, strict=True))
        self._components = {**about.components, **about.refine_structs(structs, bodies, version)}
        self._names = {id(schema): name for name, schema in about.components.items()}

    def operation(self, path: str, method: str, operation: Operation) -> dict[str, Any]:
        """Return one operation."""
        microversions = self.about.microversions
        first = operation.since or (microversions.lowest if microversions else None)
        versions = {"min-ver": self.version_text if first is None else show(first)}
        if operation.until is not None:
            versions["max-ver"] = show(operation.until)
        written: dict[str, Any] = {
            "operationId": _operation_id(path, method),
            "summary": operation.summary,
            "tags": [_tag(path)],
            OPENSTACK: {**versions, **({"policy": operation.rule.name} if operation.rule else {})},
        }
        if not operation.needs_token:
            written["security"] = []
        parameters = [_path_parameter(name, schema) for name, schema in operation.path.items()]
        if operation.query is not None:
            parameters += self._query_parameters(self.about.refine_query(self._at(operation.query), path))
        if parameters:
            written["parameters"] = parameters
        if operation.body is not None:
            body = self._at(operation.body)
            schema = self.schema(body if _is_type(body) else self.about.refine_body(body))
            written["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
        written["responses"] = self._responses(path, operation)
        return written

    def components(self) -> dict[str, Any]:
        """Return what operations refer to."""
        error, service = self.schema(self.about.error), self.about.microversions
        return {
            "schemas": {name: self._inner(schema) for name, schema in self._components.items()},
            **({} if service is None else _version_components(f"{service.service} {self.version_text}")),
            "responses": {
                "refusal": self._response("what is wrong", error),
                "unauthenticated": {
                    "description": "the caller is unknown",
                    "headers": {"WWW-Authenticate": {"schema": {"type": "string"}}},
                    "content": {JSON: {"schema": UNAUTHENTICATED}},
                },
                "unavailable": {
                    "description": "ask again",
                    "headers": {"Retry-After": {"schema": {"type": "string", "pattern": "^[0-9]+$"}}},
                    "content": {JSON: {"schema": {"anyOf": [error, UNAUTHENTICATED]}}},
                },
            },
            "securitySchemes": {SECURITY_SCHEME: {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        }

    def schema(self, schema: Any) -> Any:
        """Return the schema, of a type or as it is given, or a reference to it."""
        if _is_type(schema):
            return self._by_kind[schema]
        name = self._names.get(id(schema))
        return self._inner(schema) if name is None else {"$ref": REF_TEMPLATE.format(name=name)}

    def _inner(self, schema: Any) -> Any:
        """Return the schema itself, whose parts may be references."""
        if isinstance(schema, Mapping):
            return {key: self.schema(value) for key, value in schema.items()}
        if isinstance(schema, list | tuple):
            return [self.schema(value) for value in schema]
        return schema

    def _at(self, schema: Any) -> Any:
        """Return what is read at the document's microversion."""
        return schema.at(self.version) if isinstance(schema, Versions) and self.version else schema

    def _responses(self, path: str, operation: Operation) -> dict[str, Any]:
        microversions = self.about.microversions
        highest = min(filter(None, (operation.until, microversions.highest))) if microversions else None
        result = operation.result if self.version == highest else None
        answers = {operation.status: result}
        answers |= dict.fromkeys(operation.other_statuses)
        return {
            **{
                str(status): self._response(HTTPStatus(status).phrase, None if body is None else self.schema(body))
                for status, body in answers.items()
            },
            **{
                str(status): {"$ref": f"#/components/responses/{RESPONSES.get(status, 'refusal')}"}
                for status in refusals(self.about, path, operation)
                if self.asks_callers or status not in (401, 403)
            },
        }

    def _response(self, description: str, schema: Any) -> dict[str, Any]:
        response: dict[str, Any] = {"description": description}
        if self.about.microversions:
            response["headers"] = {"OpenStack-API-Version": {"$ref": "#/components/headers/version"}}
        if schema is not None:
            response["content"] = {JSON: {"schema": schema}}
        return response

    def _query_parameters(self, query: Schema) -> Iterator[dict[str, Any]]:
        """Yield a parameter for each property; those whose names are only known by patterns are one more's properties.

        OpenAPI has no patterns of names: where a pattern is a name with an optional suffix, the bare name is a
        parameter too, and the name with one suffix, so that generated clients can ask for groups.
        """
        required = query.get("required", ())
        for name, schema in query.get("properties", {}).items():
            yield {"name": name, "in": "query", "required": name in required, "schema": self.schema(schema)}
        if "patternProperties" in query:
            for pattern, schema in query["patternProperties"].items():
                if suffixed := OPTIONAL_SUFFIX.fullmatch(pattern):
                    for name in (suffixed[1], f"{suffixed[1]}{SUFFIX}"):
                        yield {"name": name, "in": "query", "required": False, "schema": self.schema(schema)}
            patterns = {
                "type": "object", "patternProperties": query["patternProperties"], "additionalProperties": False,
            }  # fmt: skip
            yield {
                "name": "by_pattern", "in": "query", "style": "form", "explode": True, "schema": self.schema(patterns),
                "description": "each property is a parameter of its own; its name is one that a pattern allows",
            }  # fmt: skip


def _is_type(schema: Any) -> bool:
    """Return whether it is a type that msgspec describes: a struct, or such as dict[str, str]."""
    return schema is not None and not isinstance(schema, Mapping | Versions | list | tuple | str | int | float)


def _types_in(schema: Any) -> Iterator[Any]:
    """Yield the types that are a schema, or parts of one."""
    if isinstance(schema, Mapping):
        schema = list(schema.values())
    if isinstance(schema, list | tuple):
        for part in schema:
            yield from _types_in(part)
    elif _is_type(schema):
        yield schema


def _version_components(version: str) -> dict[str, Any]:
    parameter = {
        "name": "OpenStack-API-Version", "in": "header", "required": False, "schema": {"const": version},
        "description": "the version that this document describes; without it, the lowest one answers",
    }  # fmt: skip
    header = {"description": "the version that answers", "schema": {"type": "string"}}
    return {"parameters": {"version": parameter}, "headers": {"version": header}}
