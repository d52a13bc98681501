"""Reads the body of a request, within the bounds of its kind, as JSON of a type."""

import re
from typing import TypeVar

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request

from roost.platform.errors import BadRequest, BodyTooLarge
from roost.platform.garbage import without_collecting

JSON = "application/json"
"""The media type of all bodies."""

BODY_KEY = "roost.body"
"""Where a request's scope holds its body once it was read: it comes only once."""

BODY_BEGUN_KEY = "roost.body_begun"
"""Whether a request's scope says that its body is being read."""

MIB = 1024 * 1024
T = TypeVar("T")


class Bounds(Struct, frozen=True):
    """The most that a body may have. values: members of objects and items of lists, nested ones too."""

    bytes: int
    values: int


ONE = Bounds(MIB, 100_000)
"""Of an operation on one thing, or on a few, which members may ask for. Measured: what is made of a million values
holds a worker up for 2 to 70 s."""

SET = Bounds(16 * MIB, 300_000)
"""Of an operation on a set of hosts, reports or guests, which agents and operators ask for: 20,000 hosts are 4 MB."""


async def read_bytes(request: Request, bounds: Bounds = ONE) -> bytes:
    """Return the body as it came, also a second time.

    Raises BodyTooLarge for one that is too long, of which no more is kept than is allowed, and BadRequest for one with
    too many values, which is looked at no further.
    """
    if BODY_KEY in request.scope:
        read: bytes = request.scope[BODY_KEY]
        return read
    request.scope[BODY_BEGUN_KEY] = True
    parts, size = [], _announced_size(request)
    if size <= SET.bytes:
        size = 0
        async for part in request.stream():
            size += len(part)
            if size <= bounds.bytes:
                parts.append(part)
            elif size > SET.bytes:  # else what is too long is read to its end: most clients read no answer before
                break
    if size > bounds.bytes:
        raise BodyTooLarge(f"the body has more than {bounds.bytes} bytes, which are the most here")
    body = b"".join(parts)
    if len(body) > bounds.values and (values := count_values(body)) > bounds.values:
        raise BadRequest(
            f"the body has {values} values (members of objects, items of lists), {bounds.values} are the most"
        )
    request.scope[BODY_KEY] = body
    return body


def _announced_size(request: Request) -> int:
    text = request.headers.get("content-length", "")
    return int(text) if text.isdecimal() and len(text) < 20 else 0


def count_values(body: bytes) -> int:
    """Return a bound of the values in a JSON text: none comes without a comma before it or a bracket around it.

    Cost: 1 ms for each megabyte. Commas and brackets in texts are counted as well.
    """
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def check_media_type(request: Request) -> None:
    """Raise the HTTPException of 415 unless the request says that its body is JSON."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip()
    if media_type.lower() != JSON:
        raise HTTPException(415, f"The media type {media_type or None} is not supported, use {JSON}")


def replace_body(request: Request, body: bytes) -> None:
    """Replace the body for everything that reads it later."""
    request.scope[BODY_KEY] = body


async def read_json(request: Request, kind: type[T], bounds: Bounds = ONE) -> T:
    """Return the request's body as `kind`. Raises BodyTooLarge, BadRequest, naming the field and what was expected.

    One that says that it is something else is 415, and so is one of a POST that says nothing: a web page may post both
    to this machine without asking first. Neutron looks at no type, and some clients change things without one.
    """
    body = await read_bytes(request, bounds)
    if body and ("content-type" in request.headers or request.method == "POST"):
        check_media_type(request)
    try:
        with without_collecting():  # of 5 million empty lists in one body 0.7 s instead of 5.1 s
            return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"malformed body: {error}{_choices(kind, str(error))}") from error


def _choices(kind: type, error: str) -> str:
    """Return the values that a field of `kind` takes whose value was refused: msgspec does not name them."""
    refused = re.fullmatch(r"Invalid enum value .* - at `\$.*?([^.\[\]`]+)(?:\[[^.`]*\])?`", error, re.DOTALL)
    if refused is None:
        return ""
    _, structs = msgspec.json.schema_components([kind])
    for schema in (struct["properties"].get(refused[1], {}) for struct in structs.values()):
        for part in (schema, schema.get("items", {}), *schema.get("anyOf", ())):
            if "enum" in part:
                return f": expected one of {', '.join(map(str, part['enum']))}"
    return ""
