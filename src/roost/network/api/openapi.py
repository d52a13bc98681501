"""GET /openapi.json: the Network API as an OpenAPI document, generated from its operations.

Attributes of networks, segments, subnets and ports are never `required`: `fields` and policy leave some out.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.network.api.agents import AgentDocument, ZoneDocument
from roost.network.api.availability import AvailabilityDocument
from roost.network.api.bindings import BindingDocument
from roost.network.api.documents import Document
from roost.network.api.protocol import Operation, Operations, Schema
from roost.network.api.quotas import QUOTA_DOCUMENTS
from roost.network.api.refinements import body_structs, refine_bodies
from roost.platform.http import json_response
from roost.platform.openapi import About, Entry, document

ENVELOPES = ("Envelope", "MadeAnswer")
"""How the names of structs end that are around one thing."""
REF_TEMPLATE = "#/components/schemas/{name}"
UUID_PARAMETER: Schema = {"type": "string", "format": "uuid"}
NAME_PARAMETER: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
PATH_PARAMETERS: dict[str, Schema] = {
    "id": UUID_PARAMETER, "port_id": UUID_PARAMETER, "project_id": NAME_PARAMETER, "alias": NAME_PARAMETER,
    "tag": NAME_PARAMETER, "host": NAME_PARAMETER,
}  # fmt: skip


class Refusal(Struct, forbid_unknown_fields=True):
    """What is wrong: the name of the error, a sentence for people."""

    type: str
    message: str
    detail: str


class RefusalAnswer(Struct, forbid_unknown_fields=True):
    """The body of every refusal."""

    NeutronError: Refusal


def document_operation(described: Operations, *, asks_callers: bool) -> Operations:
    """The operation of the document, which describes the others and itself. asks_callers: for a token."""

    async def show_document(request: Request) -> Response:
        server: str = request.scope.get("root_path", "")
        return json_response(describe({**described, **itself}, server=server or "/", asks_callers=asks_callers))

    itself: Operations = {
        "/openapi.json": {
            "GET": Operation(
                summary="this API as an OpenAPI 3.1 document",
                endpoint=show_document,
                result=dict[str, Any],
                needs_token=False,
            )
        }
    }
    return itself


def describe(operations: Operations, *, server: str, asks_callers: bool = True) -> dict[str, object]:
    """The document; server: where the API is mounted."""
    found = [operation for methods in operations.values() for operation in methods.values()]
    bodies = [operation.body for operation in found if operation.body is not None]
    results = [operation.result for operation in found if operation.result is not None]
    kinds = list(dict.fromkeys([*bodies, *results, RefusalAnswer]))
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REF_TEMPLATE)
    components = refine_bodies(components, body_structs(bodies, components))
    by_kind = dict(zip(kinds, schemas, strict=True))
    partial: list[type[Struct]] = [
        *Document.__subclasses__(), AgentDocument, AvailabilityDocument, BindingDocument, ZoneDocument,
        *QUOTA_DOCUMENTS,
    ]  # fmt: skip
    optional = {kind.__name__ for kind in partial}
    about = About(
        title="Roost Network",
        description="The OpenStack Network API v2.0: networks, segments, subnets, ports and their addresses.",
        version="2.0",
        path_parameters=PATH_PARAMETERS,
        error=by_kind[RefusalAnswer],
        components={
            name: _partial(schema) if name in optional else _one_of(name, schema) for name, schema in components.items()
        },
        asks_callers=asks_callers,
    )
    return document(about, _entries(operations, by_kind), server=server)


def refusals(operation: Operation, path: str) -> list[int]:
    """The statuses of every refusal that an operation can answer with."""
    statuses = {400, 503, *operation.errors}
    if operation.needs_token:
        statuses |= {401, 403}
    if "{" in path:
        statuses.add(404)
    return sorted(statuses)


def _entries(operations: Operations, by_kind: Mapping[Any, Schema]) -> Iterator[Entry]:
    for path, methods in operations.items():
        for method, operation in methods.items():
            yield Entry(
                method=method,
                path=path,
                summary=operation.summary,
                query=operation.query,
                body=None if operation.body is None else by_kind[operation.body],
                answers={operation.status: None if operation.result is None else by_kind[operation.result]},
                errors=refusals(operation, path),
                needs_token=operation.needs_token,
                since="2.0",
                policy=operation.rule,
            )


def _one_of(name: str, schema: Schema) -> Schema:
    """An envelope has one thing in it, whichever it is of those that it may have."""
    return {**schema, "minProperties": 1, "maxProperties": 1} if name.endswith(ENVELOPES) else schema


def _partial(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name != "required"}
