"""Reads bodies and query strings as the API's JSON Schemas say, and phrases what they refuse as jsonschema does.

Clients and upstream's own tests know jsonschema's sentences, so it has the last word on what is refused and why.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

import jsonschema
import msgspec
from jsonschema.exceptions import best_match
from starlette.requests import Request

from roost.platform.bodies import ONE, Bounds, count_values, read_bytes
from roost.platform.errors import BadRequest
from roost.platform.http import is_uuid
from roost.platform.operations import Schema, Versions, version_of

BOUNDS = Bounds(ONE.bytes, 10_000)
"""Of a body that jsonschema may have to look at, which takes 0.1 ms for some values."""
VALUES_AT_ONCE_MAX = 200
"""So many are looked at while other requests wait: 20 ms."""
ERRORS_MAX = 100
"""So many of a body's errors are looked at for the one that says most."""

SHOWN_MAX = 10_000
BRACKETS_MAX = 200
"""Characters of a refused value that are shown, and how many of them may open something: writing out megabytes in lines
takes minutes, and what is nested deeply is written out once for each level."""

T = TypeVar("T")

FORMATS = jsonschema.FormatChecker(formats=())


def _unique_strings(
    _validator: Any, unique: bool, instance: object, _schema: Any
) -> Iterator[jsonschema.ValidationError]:
    """Refuse repeated strings, and nothing else: jsonschema compares other things two by two, for hours."""
    if not unique or not isinstance(instance, list) or not all(isinstance(item, str) for item in instance):
        return
    if len(set(instance)) < len(instance):
        yield jsonschema.ValidationError(f"{instance!r} has non-unique elements")


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    """Refuse as JSON Schema means it: `$` is the end, not also before a last line feed as in Python."""
    if isinstance(instance, str) and not re.search(pattern.replace("$", r"\Z"), instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


VALIDATOR = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, {"uniqueItems": _unique_strings, "pattern": _pattern}
)


@FORMATS.checks("uuid")
def _is_uuid(instance: object) -> bool:
    return not isinstance(instance, str) or is_uuid(instance)


async def read_body(request: Request, versions: Versions) -> Any:
    """Return the body as plain data, as the schema of the request's microversion has it. Raises BadRequest."""
    body = await read_bytes(request, BOUNDS)
    data = decode(body)
    await work_on(body, check, data, versions.at(version_of(request)), "JSON does not validate")
    return data


async def work_on(body: bytes, work: Callable[..., T], *arguments: Any) -> T:
    """Return what the work on a body comes to; on one of many values it is done in a thread."""
    if count_values(body) <= VALUES_AT_ONCE_MAX:
        return work(*arguments)
    return await asyncio.to_thread(work, *arguments)


def decode(body: bytes) -> Any:
    """Return plain data from JSON. Raises BadRequest."""
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
    """Return the parameters of the query string, the last one of each name. Raises BadRequest."""
    parameters = dict(request.query_params.multi_items())
    check(parameters, versions.at(version_of(request)), "Invalid query string parameters")
    if any("\0" in value for value in parameters.values()):
        raise BadRequest("Invalid query string parameters: the character \\u0000 is not accepted")
    return parameters


def check(data: Any, schema: Schema, opening: str) -> None:
    """Raise BadRequest, in jsonschema's words after the opening ones, unless the data is as the schema says."""
    try:
        error = best_match(islice(_validator(schema).iter_errors(data), ERRORS_MAX))
        text = None if error is None else _phrase(error)
    except RecursionError:
        text = "it is nested too deeply"
    if text is not None:
        raise BadRequest(f"{opening}: {text}")


def _phrase(error: jsonschema.ValidationError) -> str:
    """Return jsonschema's words; of a large value only the beginning, since they show all of it."""
    shown = repr(error.instance)
    if len(shown) <= SHOWN_MAX and shown.count("[") + shown.count("{") <= BRACKETS_MAX:
        return str(error)
    return error.message if len(error.message) <= SHOWN_MAX else f"{error.message[:SHOWN_MAX]} …"


VALIDATORS: dict[int, jsonschema.Draft202012Validator] = {}
"""By the identities of schemas, which are constants, and not hashable; each keeps its schema."""


def _validator(schema: Schema) -> jsonschema.Draft202012Validator:
    validator = VALIDATORS.get(id(schema))
    if validator is None:
        validator = VALIDATORS[id(schema)] = VALIDATOR(schema, format_checker=FORMATS)
    return validator
