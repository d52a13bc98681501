"""What every endpoint of the Compute API reads from a request, so that nothing malformed reaches the service."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, field
from starlette.requests import Request

from roost.platform.bodies import read_bytes, read_json
from roost.platform.errors import BadRequest
from roost.platform.http import Version, root_url
from roost.platform.operations import Schema, Versions
from roost.platform.times import read_time, show_microseconds, show_seconds

INTEGER_MAX = 2**31 - 1

T = TypeVar("T")
Name = Annotated[str, Meta(min_length=1, max_length=255)]
Whole = int | Annotated[str, Meta(pattern=r"^[0-9]{1,10}$")]
"""A number, or as older clients send it: its digits. Source: Compute API, parameter_types.positive_integer."""

YES = frozenset({"1", "t", "true", "on", "y", "yes"})
NO = frozenset({"0", "f", "false", "off", "n", "no", ""})


async def read_body(request: Request, kind: type[T]) -> T:
    """Return the body as `kind`. Raises BadRequest; also for the character NUL, which the database cannot keep."""
    if b"\\u0000" in await read_bytes(request):
        raise BadRequest("malformed body: the character NUL is not allowed")
    return await read_json(request, kind)


def one_of(words: Iterable[str]) -> Schema:
    """Return the schema of a text that is one of the words, in any case and with blanks around it."""
    choices = "|".join("".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in word) for word in sorted(words))
    return {"type": "string", "pattern": f"^ *({choices}) *$"}


class Attributes(Struct, frozen=True):
    """Attributes of a body that are not always there: name -> the first, or the last, microversion that has it.

    Those that may be left out have UNSET then.
    """

    since: Mapping[str, Version] = {}
    until: Mapping[str, Version] = {}


def check_attributes(body: Any, version: Version, attributes: Attributes) -> None:
    """Raise BadRequest for an attribute of the body that there is not at this microversion."""
    for name in (*attributes.since, *attributes.until):
        if getattr(body, name) is UNSET:
            continue
        first, last = attributes.since.get(name, version), attributes.until.get(name, version)
        if not first <= version <= last:
            word, (major, minor) = ("from", first) if version < first else ("up to", last)
            raise BadRequest(f"{name}: there is this attribute {word} microversion {major}.{minor}")


class Parameter(Struct, frozen=True, kw_only=True):
    """A parameter of a query string. since: the microversion that brought it. repeated: it may be given often."""

    schema: Schema = field(default_factory=lambda: {"type": "string"})
    since: Version = (2, 1)
    repeated: bool = False


Parameters = Mapping[str, Parameter]
"""By name."""

LIMIT = Parameter(schema={"type": "integer", "minimum": 0})
FLAG = Parameter(schema=one_of(YES | NO))


STRICT_FROM = (2, 75)
"""Below this microversion upstream overlooks parameters that it does not serve. Source: Compute API, 2.75."""


def query(parameters: Parameters, *, strict_from: Version = (2, 1)) -> Versions:
    """Return the schema of a query with these parameters and, from a microversion on, no others."""
    return Versions(
        {
            version: {
                "type": "object",
                "properties": {
                    name: {"type": "array", "items": parameter.schema} if parameter.repeated else parameter.schema
                    for name, parameter in parameters.items()
                    if parameter.since <= version
                },
                "additionalProperties": version < strict_from,
            }
            for version in sorted({(2, 1), strict_from, *(parameter.since for parameter in parameters.values())})
        }
    )


def check_parameters(request: Request, parameters: Parameters, *, strict_from: Version = (2, 1)) -> None:
    """Raise BadRequest for a parameter of the query string that is not served, or given twice, naming it."""
    version = request.state.microversion
    served = sorted(name for name, parameter in parameters.items() if version >= parameter.since)
    for name in request.query_params:
        _text(name, "the query string")
        if name not in served:
            if version < strict_from:
                continue
            expected = f"expected {', '.join(served)}" if served else "there is none"
            raise BadRequest(f"{name}: Roost does not serve this parameter here: {expected}")
        values = request.query_params.getlist(name)
        if not parameters[name].repeated and len(values) > 1:
            raise BadRequest(f"{name}: expected once, got {', '.join(values)}")
        for value in values:
            _text(value, name)


def text_parameter(request: Request, name: str) -> str | None:
    """Return a text from the query string, None where it is not given. Raises BadRequest for what is not text."""
    return None if name not in request.query_params else _text(request.query_params[name], name)


PROJECT_ID_MAX = 255


def path_project(request: Request) -> str:
    """Return the project that the path names. Raises BadRequest."""
    project_id = path_text(request, "project_id")
    if len(project_id) > PROJECT_ID_MAX:
        raise BadRequest(f"project {project_id[:64]}...: expected at most {PROJECT_ID_MAX} characters")
    return project_id


def path_text(request: Request, name: str) -> str:
    """Return a part of the path. Raises BadRequest for what is not text."""
    return _text(request.path_params[name], name)


def _text(text: str, name: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(f"{name}: expected UTF-8") from error
    if "\x00" in text:
        raise BadRequest(f"{name}: the character NUL is not allowed")
    return text


TIME = {"type": "string", "format": "date-time"}
"""The type of a time in the query string, for the OpenAPI document."""


def read_changed_between(request: Request) -> tuple[datetime | None, datetime | None]:
    """Return changes-since and changes-before, in UTC where they name no zone. Raises BadRequest."""
    since, before = (read_time(text_parameter(request, name), name) for name in ("changes-since", "changes-before"))
    if since and before and before < since:
        raise BadRequest("The value of changes-since must be less than or equal to changes-before.")
    return since, before


def flag(value: Any, name: str, *, default: bool) -> bool:
    """Return a yes or no as clients write it. Raises BadRequest. Source: Compute API, parameter_types.boolean."""
    if value is None:
        return default
    word = str(value).strip().lower()
    if word not in YES | NO:
        raise BadRequest(f"{name}={value}: expected true or false")
    return word in YES


def whole_number(value: int | str, name: str, *, lowest: int, highest: int = INTEGER_MAX) -> int:
    """Return a number within its range. Raises BadRequest."""
    number = int(value)
    if not lowest <= number <= highest:
        raise BadRequest(f"{name}={number}: expected a whole number from {lowest} to {highest}")
    return number


def links(request: Request, kind: str, item_id: str) -> list[dict[str, str]]:
    """Return where an item is. kind: its collection in the path."""
    root = root_url(request)
    return [
        {"rel": "self", "href": f"{root}/v2.1/{kind}/{item_id}"},
        {"rel": "bookmark", "href": f"{root}/{kind}/{item_id}"},
    ]


def timestamp(moment: datetime | None) -> str | None:
    """Return a time as the Compute API writes those of servers."""
    return None if moment is None else show_seconds(moment)


def timestamp_with_microseconds(moment: datetime | None) -> str | None:
    """Return a time as the Compute API writes all others."""
    return None if moment is None else show_microseconds(moment)
