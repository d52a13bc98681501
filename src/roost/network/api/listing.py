"""Lists as clients ask for them: filters, fields, order and pages. Source: Network API v2.0, "Filtering"."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import UNSET, Struct
from starlette.requests import Request

from roost.network.api.documents import attributes
from roost.network.errors import InvalidInput
from roost.platform.errors import BadRequest
from roost.platform.http import canonical_uuid, integer_parameter, is_uuid

RESERVED = {"fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"}
LIMIT_MAX = 100_000

D = TypeVar("D", bound=Struct)


def select(
    documents: Sequence[D], request: Request, kind: type[D], *, key: str = "id", besides: frozenset[str] = frozenset()
) -> list[D] | list[dict[str, Any]]:
    """Those that the query string asks for, in its order, with its fields. Raises InvalidInput, naming what is wrong.

    kind: of the documents; all of its attributes can be filtered and sorted by. key: the attribute that tells them
    apart. besides: other filters, which the caller has applied.
    """
    names = attributes(kind)
    chosen = [item for item in documents if _matches(item, request, names, besides)]
    keys = request.query_params.getlist("sort_key") or [key]
    directions = request.query_params.getlist("sort_dir") or ["asc"]
    if len(directions) < len(keys):
        directions += ["asc"] * (len(keys) - len(directions))
    for name, direction in reversed(list(zip(keys, directions, strict=False))):
        if name not in names or direction not in ("asc", "desc"):
            raise BadRequest(f"sort_key={name}, sort_dir={direction}: expected an attribute, and asc or desc.")
        chosen.sort(key=_sorting_by(names[name]), reverse=direction == "desc")
    page = _page(chosen, request, names[key])
    if wanted := request.query_params.getlist("fields"):
        return [_some(item, wanted) for item in page]
    return page


def show_fields(item: D, request: Request) -> D | dict[str, Any]:
    """Only the attributes that `fields` names, or all."""
    wanted = request.query_params.getlist("fields")
    return _some(item, wanted) if wanted else item


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


def _some(item: Struct, wanted: Sequence[str]) -> dict[str, Any]:
    names = attributes(type(item))
    return {name: getattr(item, names[name]) for name in names if name in wanted}


def _matches(item: Struct, request: Request, names: Mapping[str, str], besides: frozenset[str]) -> bool:
    for name in set(request.query_params.keys()) - RESERVED - besides:
        if name not in names:
            raise BadRequest(f"['{name}'] is invalid attribute for filtering")
        if name == "fixed_ips":
            wanted = fixed_ip_filters(request)
            held = getattr(item, names[name])
            if not all(any(getattr(one, key) in values for one in held) for key, values in wanted.items()):
                return False
            continue
        texts = request.query_params.getlist(name)
        if not any(_is_wanted(value, texts) for value in _values(item, name, names)):
            return False
    return True


def _values(item: Struct, name: str, names: Mapping[str, str]) -> Sequence[Any]:
    """What the filter is compared with: a network of several segments has what any of them has."""
    value = getattr(item, names[name])
    if value is UNSET:
        return [getattr(link, names[name]) for link in getattr(item, "segments", ())]
    return (value,)


def _is_wanted(value: Any, texts: Sequence[str]) -> bool:
    return str(value) in {_wanted(text, value) for text in texts}


def _wanted(text: str, like: Any) -> str:
    if isinstance(like, bool):
        return str(text.lower() in ("true", "1"))
    if like is None:
        return "None" if text in ("", "None", "null") else f"={text}"
    return canonical_uuid(text) if is_uuid(text) and is_uuid(str(like)) else text


def _sorting_by(field: str) -> Callable[[Struct], tuple[bool, Any]]:
    return lambda item: _comparable(getattr(item, field))


def _comparable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if isinstance(value, (int, str)) else str(value))


def _page(items: list[D], request: Request, key: str) -> list[D]:
    limit = integer_parameter(request, "limit", default=0, highest=LIMIT_MAX)
    reverse = request.query_params.get("page_reverse", "false").lower() == "true"
    ordered = items[::-1] if reverse else items
    marker = request.query_params.get("marker")
    if marker is not None:
        known = [index for index, item in enumerate(ordered) if getattr(item, key) == marker]
        if not known:
            raise InvalidInput(f"marker {marker}: there is no such resource in this list.")
        ordered = ordered[known[0] + 1 :]
    page = ordered[:limit] if limit else ordered
    return page[::-1] if reverse else page
