"""What every operation of the Network API has in common: declared once, routed, described and asked for alike.

An operation is one method of one path. Whoever adds one writes it into a table `Operations`, with the types of what is
read and answered, and adds that table to `roost.network.api.operations`: routes and the OpenAPI document follow.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from starlette.requests import Request

from roost.network.api.errors import PROBLEMS, neutron_error
from roost.network.errors import InvalidInput
from roost.platform.errors import NotFound
from roost.platform.http import Api, Endpoint, canonical_uuid, is_uuid

API = Api(problems=PROBLEMS, dialect=neutron_error)

Schema = Mapping[str, Any]
"""A JSON Schema."""


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one path.

    rule: of upstream's policy, as `create_network`; None where nobody is asked. body: the struct of the whole body,
    envelope and all; None when none is read. query: the parameters that are read. status: of success. result: the type
    of the whole answer, of which `fields` and policy may leave attributes out; None for none. errors: statuses of
    refusals besides those that every operation can give. needs_token: whether callers are asked who they are.
    owner_may: the rule is not asked about the caller's own project, which the path names.
    """

    summary: str
    endpoint: Endpoint
    rule: str | None = None
    body: Any = None
    query: Schema | None = None
    status: int = 200
    result: Any = None
    errors: tuple[int, ...] = ()
    needs_token: bool = True
    owner_may: bool = False


Operations = Mapping[str, Mapping[str, Operation]]
"""Path -> method -> operation."""


def path_id(request: Request, kind: str, missing: type[NotFound]) -> str:
    """The id in the path; what is no UUID names nothing. kind: as in "Port", for the message."""
    text: str = request.path_params["id"]
    if not is_uuid(text):
        raise missing(f"{kind} {text} could not be found.")
    return canonical_uuid(text)


def revision(request: Request) -> int | None:
    """The revision that the request insists on; None for any. Raises InvalidInput.

    Source: Network API, extension revision-if-match.
    """
    text = request.headers.get("if-match")
    if text is None:
        return None
    match = re.fullmatch(r"revision_number=([0-9]{1,9})", text)
    if match is None:
        raise InvalidInput("If-Match: expected revision_number=<number>.")
    return int(match[1])
