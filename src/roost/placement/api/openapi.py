"""GET /openapi.json: the Placement API as an OpenAPI document, generated from its operations.

A document describes one microversion, as clients and fuzzers ask for one: the highest, or that of `?microversion=1.N`.
What succeeds is described at the highest only; older shapes are in docs/reference/api.md.
"""

import re
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response

from roost.placement.api import answer_schemas, schemas
from roost.placement.api.bodies import read_query
from roost.placement.api.protocol import MICROVERSIONS, Operation, Operations, Versions, answer, link_to
from roost.placement.api.refinements import refine_body, refine_query
from roost.platform.errors import BadRequest
from roost.platform.http import Version, show
from roost.platform.openapi import About, Entry, Schema, document

QUERY = Versions({(1, 0): schemas.closed({"microversion": {"type": "string", "pattern": r"^1\.[0-9]{1,2}$"}})})
NAME = {"type": "string", "pattern": schemas.NAME, "minLength": 1, "maxLength": 255}
PATH_PARAMETERS: dict[str, Schema] = {"uuid": schemas.UUID, "name": NAME, "resource_class": NAME}


def document_operation(described: Operations, *, asks_callers: bool) -> Operations:
    """The operation of the document, which describes the others and itself. asks_callers: for a token."""

    async def show_document(request: Request) -> Response:
        version = _asked(read_query(request, QUERY).get("microversion"))
        server = link_to(request, "") or "/"
        return answer(request, describe({**described, **itself}, version, server=server, asks_callers=asks_callers))

    itself: Operations = {
        "/openapi.json": {
            "GET": Operation(
                summary="this API as an OpenAPI 3.1 document, at the highest microversion or at `microversion`",
                endpoint=show_document,
                query=QUERY,
                result={"type": "object"},
                needs_token=False,
            )
        }
    }
    return itself


def describe(operations: Operations, version: Version, *, server: str, asks_callers: bool = True) -> dict[str, object]:
    """The document of the operations that there are at a microversion; server: where the API is mounted."""
    about = About(
        title="Roost Placement",
        description="The OpenStack Placement API: what there is, what is taken, and who could still take it.",
        version=show(version),
        version_header="OpenStack-API-Version",
        version_value=f"{MICROVERSIONS.service} {show(version)}",
        path_parameters=PATH_PARAMETERS,
        error=answer_schemas.ERRORS,
        components=answer_schemas.COMPONENTS,
        asks_callers=asks_callers,
    )
    return document(about, _entries(operations, version), server=server)


def refusals(operation: Operation) -> list[int]:
    """The statuses of every refusal that an operation can answer with: its own, and those of what it has in common."""
    statuses = {400, 406, 503, *operation.errors}
    if operation.needs_token:
        statuses |= {401, 403}
    if operation.body is not None:
        statuses.add(415)
    return sorted(statuses)


def _asked(microversion: str | None) -> Version:
    if microversion is None:
        return MICROVERSIONS.highest
    match = re.fullmatch(r"1\.([0-9]{1,2})", microversion)
    version = (1, int(match[1])) if match else None
    if version is None or version > MICROVERSIONS.highest:
        raise BadRequest(f"Invalid query string parameters: microversion={microversion}: expected 1.0 to 1.39")
    return version


def _entries(operations: Operations, version: Version) -> Iterator[Entry]:
    for path, methods in operations.items():
        for method, operation in methods.items():
            if version < operation.since:
                continue
            result = operation.result if version == MICROVERSIONS.highest else None
            answers = {operation.status: result}
            if operation.other_status is not None:
                answers[operation.other_status] = None
            yield Entry(
                method=method,
                path=path,
                summary=operation.summary,
                query=None if operation.query is None else refine_query(operation.query.at(version), path),
                body=None if operation.body is None else refine_body(operation.body.at(version)),
                path_parameters=operation.path,
                answers=answers,
                errors=refusals(operation),
                needs_token=operation.needs_token,
                since=show(operation.since),
                policy=operation.rule,
            )
