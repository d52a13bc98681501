"""How callers ask of servers that do not exist: the same in a query string and in a body."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from roost.platform.errors import BadRequest
from roost.platform.mismatch import explain_mismatch, find_mismatch
from roost.platform.operations import Schema

T = TypeVar("T")
TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
PARAMETERS: Mapping[str, Schema] = {
    "flavor": TEXT,
    "network": {"type": "array", "items": TEXT},
    "like": TEXT,
    "zone": TEXT,
    "host": TEXT,
    "project": TEXT,
}


def query_schema(more: Mapping[str, Schema] = {}) -> Schema:
    """Return the schema of a query string about servers, with more parameters."""
    return {"type": "object", "properties": {**PARAMETERS, **more}, "additionalProperties": False}


def read_query(request: Request, kind: type[T], *numbers: str) -> T:
    """Return the query string as a body would say it. numbers: parameters that are whole numbers.

    Raises BadRequest for parameters that there are not, that are given twice, or have other values.
    """
    read: dict[str, Any] = {}
    for name in request.query_params:
        values = request.query_params.getlist(name)
        if name == "network":
            read["networks"] = values
        elif len(values) > 1:
            raise BadRequest(f"{name}: expected once, got {', '.join(values)}")
        elif name in numbers and values[0].isascii() and values[0].isdecimal():
            read[name] = int(values[0][:10])
        else:
            read[name] = values[0]
    try:
        return msgspec.convert(read, kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{find_mismatch(error) or 'query string'}: {explain_mismatch(error)}") from error
