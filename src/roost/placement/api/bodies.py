"""Reads bodies and query strings as the API's JSON Schemas say, and phrases what they refuse as jsonschema does.

Clients and upstream's own tests know jsonschema's sentences, so it has the last word on what is refused and why.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema
import msgspec
from jsonschema.exceptions import best_match
from starlette.requests import Request

from roost.placement.api.protocol import Schema, Versions, version_of
from roost.platform.errors import BadRequest
from roost.platform.http import BODY_BYTES_MAX, is_uuid

FORMATS = jsonschema.FormatChecker(formats=())


@FORMATS.checks("uuid")
def _is_uuid(instance: object) -> bool:
    return not isinstance(instance, str) or is_uuid(instance)


async def read_body(request: Request, versions: Versions) -> Any:
    """The body as plain data, as the schema of the request's microversion has it. Raises BadRequest."""
    data = decode(await read_bytes(request))
    check(data, versions.at(version_of(request)), "JSON does not validate")
    return data


async def read_bytes(request: Request) -> bytes:
    """The body as it came. Raises BadRequest for one that is too long."""
    body = await request.body()
    if len(body) > BODY_BYTES_MAX:
        raise BadRequest(f"the body has {len(body)} bytes, {BODY_BYTES_MAX} are allowed")
    return body


def decode(body: bytes) -> Any:
    """Plain data from JSON. Raises BadRequest."""
    try:
        if rb"\u0000" in body:
            raise BadRequest("Malformed JSON: names and ids have no character \\u0000")
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:
            json.loads(body)
        except (ValueError, RecursionError) as known:
            raise BadRequest(f"Malformed JSON: {known}") from error
        raise BadRequest(f"Malformed JSON: {error}") from error


def read_query(request: Request, versions: Versions) -> Mapping[str, str]:
    """The parameters of the query string, the last one of each name. Raises BadRequest."""
    parameters = dict(request.query_params.multi_items())
    check(parameters, versions.at(version_of(request)), "Invalid query string parameters")
    if any("\0" in value for value in parameters.values()):
        raise BadRequest("Invalid query string parameters: the character \\u0000 is not accepted")
    return parameters


def check(data: Any, schema: Schema, opening: str) -> None:
    """Raise BadRequest, in jsonschema's words after the opening ones, unless the data is as the schema says."""
    error = best_match(_validator(_Identity(schema)).iter_errors(data))
    if error is not None:
        raise BadRequest(f"{opening}: {error}")


class _Identity:
    """A schema as a key: schemas are constants, and not hashable."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.schema is self.schema


@cache
def _validator(key: _Identity) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(key.schema, format_checker=FORMATS)
