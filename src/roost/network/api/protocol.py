"""The errors of the Network API, and what its operations read from a path and a header."""

import re

from starlette.requests import Request

from roost.network.api.errors import PROBLEMS, neutron_error
from roost.network.errors import InvalidInput
from roost.platform.errors import NotFound
from roost.platform.http import Api, canonical_uuid, is_uuid

API = Api(problems=PROBLEMS, dialect=neutron_error)


def path_id(request: Request, kind: str, missing: type[NotFound]) -> str:
    """Return the id in the path. Raises `missing` if it is no UUID. kind: like "Port", for the message."""
    text: str = request.path_params["id"]
    if not is_uuid(text):
        raise missing(f"{kind} {text} could not be found.")
    return canonical_uuid(text)


def revision(request: Request) -> int | None:
    """Return the revision that the request insists on; None for any. Raises InvalidInput.

    Source: Network API, extension revision-if-match.
    """
    text = request.headers.get("if-match")
    if text is None:
        return None
    match = re.fullmatch(r"revision_number=([0-9]{1,9})", text)
    if match is None:
        raise InvalidInput("If-Match: expected revision_number=<number>.")
    return int(match[1])
