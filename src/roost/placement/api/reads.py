"""What the reads of the Placement API have in common: the API itself, cache headers and parts of the path."""

from email.utils import format_datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from roost.placement.api.errors import PROBLEMS, errors_list
from roost.placement.errors import ProviderNotFound
from roost.placement.service import Ledger
from roost.platform.http import Api, Microversions, canonical_uuid, is_uuid, json_response

MICROVERSIONS = Microversions("placement", lowest=(1, 0), highest=(1, 39))
API = Api(problems=PROBLEMS, dialect=errors_list, microversions=MICROVERSIONS)


def fresh_response(ledger: Ledger, body: Any) -> Response:
    """An answer that no cache may give again. Source: Placement API 1.15."""
    headers = {"Cache-Control": "no-cache", "Last-Modified": format_datetime(ledger.env.now(), usegmt=True)}
    return json_response(body, headers=headers)


def provider_uuid(request: Request) -> str:
    """The provider that the path names. Raises ProviderNotFound for what is no UUID: nothing has it."""
    text: str = request.path_params["uuid"]
    if not is_uuid(text):
        raise ProviderNotFound(f"No resource provider with uuid {text} found")
    return canonical_uuid(text)
