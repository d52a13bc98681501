"""Pages of a list: which the client asks for, and where the next one is."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.requests import Request

from roost.compute.api.requests import text_parameter
from roost.platform.http import integer_parameter

PAGE_MAX = 1000

T = TypeVar("T")
More = dict[str, list[dict[str, str]]]
"""What an answer has beside the items: a link to the next page, if there may be one."""


def page_limit(request: Request) -> int:
    """Return how many a page may show: what was asked for, at most PAGE_MAX. Raises BadRequest."""
    limit = integer_parameter(request, "limit", default=PAGE_MAX, highest=10**18)
    return min(limit, PAGE_MAX)


async def read_page(
    request: Request,
    many: str,
    load: Callable[[str | None, int], Awaitable[list[T]]],
    marker_of: Callable[[T], Any],
) -> tuple[list[T], More]:
    """Return the page that is asked for. load: of (marker, limit), which reads no more than the page.

    Raises BadRequest, and what `load` raises for a marker that is none.
    """
    limit = page_limit(request)
    items = await load(text_parameter(request, "marker"), limit)
    if len(items) < limit or not items:
        return items, {}
    url = request.url.include_query_params(limit=limit, marker=str(marker_of(items[-1])))
    return items, {f"{many}_links": [{"rel": "next", "href": str(url)}]}
