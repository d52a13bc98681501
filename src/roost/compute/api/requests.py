"""What every endpoint of the Compute API reads from a request, so that nothing malformed reaches the service."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from msgspec import Meta
from starlette.requests import Request

from roost.platform.errors import BadRequest
from roost.platform.http import Version, integer_parameter, read_bytes, read_json, root_url

PAGE_MAX = 1000
INTEGER_MAX = 2**31 - 1

T = TypeVar("T")
Name = Annotated[str, Meta(min_length=1, max_length=255)]
Whole = int | Annotated[str, Meta(pattern=r"^[0-9]{1,10}$")]
"""A number, or as older clients send it: its digits. Source: Compute API, parameter_types.positive_integer."""

YES = frozenset({"1", "t", "true", "on", "y", "yes"})
NO = frozenset({"0", "f", "false", "off", "n", "no", ""})


async def read_body(request: Request, kind: type[T]) -> T:
    """The body as `kind`. Raises BadRequest; also for the character NUL, which the database cannot keep."""
    if b"\\u0000" in await read_bytes(request):
        raise BadRequest("malformed body: the character NUL is not allowed")
    return await read_json(request, kind)


def check_parameters(
    request: Request, first_versions: Mapping[str, Version], *, repeated: frozenset[str] = frozenset()
) -> None:
    """Raise BadRequest for a parameter of the query string that is not served, or given twice, naming it.

    first_versions: parameter -> the microversion that brought it. repeated: what may be given several times.
    """
    served = sorted(name for name, first in first_versions.items() if request.state.microversion >= first)
    for name in request.query_params:
        _text(name, "the query string")
        if name not in served:
            raise BadRequest(f"{name}: Roost does not serve this parameter here: expected {', '.join(served)}")
        values = request.query_params.getlist(name)
        if name not in repeated and len(values) > 1:
            raise BadRequest(f"{name}: expected once, got {', '.join(values)}")
        for value in values:
            _text(value, name)


def text_parameter(request: Request, name: str) -> str | None:
    """A text from the query string, None where it is not given. Raises BadRequest for what is not text."""
    return None if name not in request.query_params else _text(request.query_params[name], name)


def path_text(request: Request, name: str) -> str:
    """A part of the path. Raises BadRequest for what is not text."""
    return _text(request.path_params[name], name)


def _text(text: str, name: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(f"{name}: expected UTF-8") from error
    if "\x00" in text:
        raise BadRequest(f"{name}: the character NUL is not allowed")
    return text


def flag(value: Any, name: str, *, default: bool) -> bool:
    """A yes or no as clients write it. Raises BadRequest. Source: Compute API, parameter_types.boolean."""
    if value is None:
        return default
    word = str(value).strip().lower()
    if word not in YES | NO:
        raise BadRequest(f"{name}={value}: expected true or false")
    return word in YES


def whole_number(value: int | str, name: str, *, lowest: int, highest: int = INTEGER_MAX) -> int:
    """A number within its range. Raises BadRequest."""
    number = int(value)
    if not lowest <= number <= highest:
        raise BadRequest(f"{name}={number}: expected a whole number from {lowest} to {highest}")
    return number


def page_limit(request: Request) -> int:
    """How many a page may show: what was asked for, at most PAGE_MAX. Raises BadRequest."""
    asked = integer_parameter(request, "limit", default=PAGE_MAX, highest=10**18)
    return min(asked, PAGE_MAX)


def links(request: Request, kind: str, item_id: str) -> list[dict[str, str]]:
    """Where an item is. kind: its collection in the path."""
    root = root_url(request)
    return [
        {"rel": "self", "href": f"{root}/v2.1/{kind}/{item_id}"},
        {"rel": "bookmark", "href": f"{root}/{kind}/{item_id}"},
    ]


def next_link(request: Request, marker: str, *, limit: int) -> list[dict[str, str]]:
    """Where the next page is."""
    url = request.url.include_query_params(limit=limit, marker=marker)
    return [{"rel": "next", "href": str(url)}]


def timestamp(moment: datetime | None) -> str | None:
    """As the Compute API writes times of servers."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timestamp_with_microseconds(moment: datetime | None) -> str | None:
    """As the Compute API writes all other times."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
