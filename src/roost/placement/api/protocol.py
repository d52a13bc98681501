"""What every operation of the Placement API has in common: who may, since which microversion, what is read and said.

An operation is one method of one path. `guard` puts the checks before its endpoint in upstream's order, since its
clients rely on which error comes first: microversion, media types, policy, and then whatever the endpoint finds.
"""

from collections.abc import Mapping
from email.utils import formatdate
from typing import Any

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from roost.placement.api.errors import PROBLEMS, error_response
from roost.placement.errors import ProviderNotFound
from roost.platform.auth import Policy, caller_of
from roost.platform.errors import BadRequest, NotFound
from roost.platform.http import Api, Endpoint, Microversions, Version, canonical_uuid, is_uuid, json_response

MICROVERSIONS = Microversions("placement", lowest=(1, 0), highest=(1, 39))
API = Api(problems=PROBLEMS, dialect=error_response, microversions=MICROVERSIONS)

CACHE_HEADERS_SINCE = (1, 15)
JSON = "application/json"

Schema = Mapping[str, Any]
"""A JSON Schema."""


class Versions(Struct, frozen=True):
    """A schema that changes with the microversion. schemas: the first version of each, ascending -> the schema."""

    schemas: Mapping[Version, Schema]

    def at(self, version: Version) -> Schema:
        """The schema in force; the lowest one below all of them."""
        found = next(iter(self.schemas.values()))
        for since, schema in self.schemas.items():
            if version >= since:
                found = schema
        return found


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one path.

    rule: of oslo.policy; None where the endpoint enforces one itself, or nobody is asked. since: the first
    microversion; before it, the answer is status_before. body, query: what is read. path: parameters of the path that
    are narrower than others of their name. status: of success; other_status:
    of success that changed nothing. result: the body of success at the highest microversion, None for none. errors:
    statuses of refusals that do not follow from all this. needs_token: whether callers are asked who they are.
    """

    summary: str
    endpoint: Endpoint
    rule: str | None = None
    since: Version = (1, 0)
    status_before: int = 404
    body: Versions | None = None
    query: Versions | None = None
    path: Mapping[str, Schema] = {}
    status: int = 200
    other_status: int | None = None
    result: Schema | None = None
    errors: tuple[int, ...] = ()
    needs_token: bool = True


Operations = Mapping[str, Mapping[str, Operation]]
"""Path -> method -> operation."""


def guard(operation: Operation, policy: Policy) -> Endpoint:
    """The operation's endpoint behind its checks."""

    async def guarded(request: Request) -> Response:
        if version_of(request) < operation.since:
            raise HTTPException(operation.status_before)
        if any("\0" in segment for segment in request.path_params.values()):
            raise NotFound("Nothing has a name with the character \\u0000")
        _check_content_type(request, required=operation.body is not None)
        if operation.result is not None and operation.body is None:
            _check_accept(request)
        if operation.rule is not None:
            policy.enforce(caller_of(request.scope), operation.rule)
        return await operation.endpoint(request)

    return guarded


def version_of(request: Request) -> Version:
    """The microversion that the request asked for."""
    version: Version = request.state.microversion
    return version


def answer(request: Request, body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON, None for none at all, that no cache may give again. Source: Placement API 1.15."""
    return _uncached(request, json_response(body, status, headers))


def answer_bytes(request: Request, body: bytes, headers: Mapping[str, str]) -> Response:
    """The same, of JSON that is encoded already."""
    return _uncached(request, Response(body, headers=headers, media_type=JSON))


def _uncached(request: Request, response: Response) -> Response:
    if version_of(request) >= CACHE_HEADERS_SINCE:
        response.headers["Cache-Control"] = "no-cache"
        response.headers["Last-Modified"] = formatdate(usegmt=True)
    return response


def provider_uuid(request: Request) -> str:
    """The provider that the path names. Raises ProviderNotFound for what is no UUID: nothing has it."""
    text: str = request.path_params["uuid"]
    if not is_uuid(text):
        raise ProviderNotFound(f"No resource provider with uuid {text} found")
    return canonical_uuid(text)


def link_to(request: Request, path: str) -> str:
    """A path of this API as clients use it, below where it is mounted."""
    prefix: str = request.scope.get("root_path", "")
    return f"{prefix}{path}"


def _check_content_type(request: Request, *, required: bool) -> None:
    given = request.headers.get("content-type", "").partition(";")[0].strip()
    if not given and request.headers.get("content-length", "0") != "0":
        raise BadRequest("content-type header required when content-length > 0")
    if required and given.lower() != JSON:
        raise HTTPException(415, f"The media type {given or None} is not supported, use {JSON}")


def _check_accept(request: Request) -> None:
    accept = request.headers.get("accept")
    if accept and "*/*" not in accept and JSON not in accept and "application/*" not in accept:
        raise HTTPException(406, f"Only {JSON} is provided")
