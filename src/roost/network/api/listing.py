"""Lists as clients ask for them: filters, fields, order and pages. Source: Network API v2.0, "Filtering"."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from roost.network.api.documents import Document
from roost.network.errors import InvalidInput
from roost.platform.http import canonical_uuid, integer_parameter, is_uuid

RESERVED = {"fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"}
LIMIT_MAX = 100_000


def select(documents: Sequence[Document], request: Request, attributes: frozenset[str]) -> list[Document]:
    """Those that the query string asks for, in its order, with its fields.

    attributes: the names by which may be filtered and sorted. Raises InvalidInput, naming what is wrong.
    """
    chosen = [item for item in documents if _matches(item, request, attributes)]
    keys = request.query_params.getlist("sort_key") or ["id"]
    directions = request.query_params.getlist("sort_dir") or ["asc"]
    if len(directions) < len(keys):
        directions += ["asc"] * (len(keys) - len(directions))
    for key, direction in reversed(list(zip(keys, directions, strict=False))):
        if key not in attributes or direction not in ("asc", "desc"):
            raise InvalidInput(f"sort_key={key}, sort_dir={direction}: expected an attribute, and asc or desc.")
        chosen.sort(key=lambda item: _comparable(item[key]), reverse=direction == "desc")
    return [show_fields(item, request) for item in _page(chosen, request)]


def show_fields(item: Document, request: Request) -> Document:
    """Only the attributes that `fields` names, or all."""
    wanted = set(request.query_params.getlist("fields"))
    return {name: value for name, value in item.items() if name in wanted} if wanted else item


def fixed_ip_filters(request: Request) -> dict[str, list[str]]:
    """`fixed_ips=ip_address=10.0.0.1` and the like, by key. Raises InvalidInput."""
    found: dict[str, list[str]] = {}
    for text in request.query_params.getlist("fixed_ips"):
        for part in text.split(","):
            key, separator, value = part.partition("=")
            if not separator or key not in ("ip_address", "subnet_id"):
                raise InvalidInput(f"fixed_ips={text}: expected ip_address=<address> or subnet_id=<id>.")
            found.setdefault(key, []).append(canonical_uuid(value) if is_uuid(value) else value)
    return found


def _matches(item: Document, request: Request, attributes: frozenset[str]) -> bool:
    for name in set(request.query_params.keys()) - RESERVED:
        if name == "fixed_ips" and name in attributes:
            held = item["fixed_ips"]
            wanted = fixed_ip_filters(request)
            if not all(any(address[key] in values for address in held) for key, values in wanted.items()):
                return False
            continue
        if name not in attributes:
            raise InvalidInput(f"['{name}'] is invalid attribute for filtering")
        if _text(item[name]) not in {_wanted(text, item[name]) for text in request.query_params.getlist(name)}:
            return False
    return True


def _text(value: Any) -> str:
    return str(value)


def _wanted(text: str, like: Any) -> str:
    if isinstance(like, bool):
        return str(text.lower() in ("true", "1"))
    if like is None:
        return "None" if text in ("", "None", "null") else f"={text}"
    return canonical_uuid(text) if is_uuid(text) and is_uuid(str(like)) else text


def _comparable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if isinstance(value, (int, str)) else str(value))


def _page(items: list[Document], request: Request) -> list[Document]:
    limit = integer_parameter(request, "limit", default=0, highest=LIMIT_MAX)
    reverse = request.query_params.get("page_reverse", "false").lower() == "true"
    ordered = items[::-1] if reverse else items
    marker = request.query_params.get("marker")
    if marker is not None:
        known = [index for index, item in enumerate(ordered) if item["id"] == marker]
        if not known:
            raise InvalidInput(f"marker {marker}: there is no such resource in this list.")
        ordered = ordered[known[0] + 1 :]
    page = ordered[:limit] if limit else ordered
    return page[::-1] if reverse else page
