"""What every operation of the Placement API has in common: what stands before its endpoint, and what answers carry."""

from collections.abc import Mapping, Sequence
from email.utils import formatdate
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from roost.placement.api.errors import PROBLEMS, error_response
from roost.placement.errors import ProviderNotFound
from roost.platform.auth import Policy
from roost.platform.bodies import JSON
from roost.platform.errors import NotFound
from roost.platform.http import Api, Microversions, canonical_uuid, is_uuid, json_response
from roost.platform.operations import (
    Check,
    ChecksOf,
    Operation,
    media_type_check,
    policy_check,
    version_check,
    version_of,
)

MICROVERSIONS = Microversions("placement", lowest=(1, 0), highest=(1, 39))
API = Api(problems=PROBLEMS, dialect=error_response, microversions=MICROVERSIONS, waits=True)

CACHE_HEADERS_SINCE = (1, 15)


def checks(policy: Policy) -> ChecksOf:
    """Return the checks before each endpoint, in upstream's order: its clients rely on which error comes first."""

    def checks_of(_path: str, _method: str, operation: Operation) -> Sequence[Check | None]:
        media_types, policy_rule = media_type_check(operation), policy_check(policy, operation)
        return version_check(operation), _check_path, media_types, policy_rule

    return checks_of


def _check_path(request: Request) -> None:
    if any("\0" in segment for segment in request.path_params.values()):
        raise NotFound("Nothing has a name with the character \\u0000")


def answer(request: Request, body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer in JSON, None for none at all, that no cache may give again. Source: Placement API 1.15."""
    return _uncached(request, json_response(body, status, headers))


def answer_bytes(request: Request, body: bytes, headers: Mapping[str, str]) -> Response:
    """Return the same answer of JSON that is encoded already."""
    return _uncached(request, Response(body, headers=headers, media_type=JSON))


def _uncached(request: Request, response: Response) -> Response:
    if version_of(request) >= CACHE_HEADERS_SINCE:
        response.headers["Cache-Control"] = "no-cache"
        response.headers["Last-Modified"] = formatdate(usegmt=True)
    return response


def provider_uuid(request: Request) -> str:
    """Return the provider that the path names. Raises ProviderNotFound for what is no UUID: nothing has it."""
    text: str = request.path_params["uuid"]
    if not is_uuid(text):
        raise ProviderNotFound(f"No resource provider with uuid {text} found")
    return canonical_uuid(text)


def link_to(request: Request, path: str) -> str:
    """Return a path of this API as clients use it, below where it is mounted."""
    prefix: str = request.scope.get("root_path", "")
    return f"{prefix}{path}"
