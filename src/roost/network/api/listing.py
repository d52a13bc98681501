"""Lists as clients ask for them: filters, fields, order and pages. Source: Network API v2.0, "Filtering".

What a list is narrowed by is asked twice: a service narrows by what its database can find fast, and here everything is
looked at again. A page is cut here too, unless the service could.
"""

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

from msgspec import UNSET, Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.network.api.access import access_of, hidden_of, seen
from roost.network.api.documents import Document, attributes, booleans, identifiers
from roost.network.errors import InvalidInput
from roost.platform.errors import BadRequest
from roost.platform.http import canonical_uuid, integer_parameter, is_uuid, json_response, root_url

RESERVED = frozenset({"fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"})
TAG_FILTERS = ("tags", "tags-any", "not-tags", "not-tags-any")
CHANGED_SINCE = "changed_since"
FIXED_IP_KEYS = ("ip_address", "ip_address_substr", "subnet_id")
SUBSTRINGS_MAX = 100
"""How many parts of addresses a list is filtered by: each is looked for in every address."""

D = TypeVar("D", bound=Struct)
Identified = TypeVar("Identified", bound=Document)
Test = Callable[[Any], bool]


def answer(
    request: Request,
    many: str,
    documents: Sequence[Identified],
    kind: type[Identified],
    *,
    besides: frozenset[str] = frozenset(),
) -> Response:
    """The answer with those of the documents that the request asks for, and with links where it asks for a page.

    besides: other filters, which the caller has applied.
    """
    page = _whole(documents, request, kind, besides=besides)
    body: dict[str, Any] = {many: _show_all(page, request)}
    if links := _page_links(request, [item.id for item in page]):
        body[f"{many}_links"] = links
    return json_response(body)


def select(
    documents: Sequence[D], request: Request, kind: type[D], *, key: str = "id", besides: frozenset[str] = frozenset()
) -> list[D | dict[str, Any]]:
    """Those that the query string asks for, in its order, with its fields; see _whole."""
    return _show_all(_whole(documents, request, kind, key=key, besides=besides), request)


def _whole(
    documents: Sequence[D], request: Request, kind: type[D], *, key: str = "id", besides: frozenset[str] = frozenset()
) -> list[D]:
    """Those that the query string asks for, in its order, with all of their fields.

    kind: of the documents; all of its attributes can be filtered and sorted by. key: the attribute that tells them
    apart. besides: other filters, which the caller has applied. Raises BadRequest, InvalidInput, naming what is wrong.
    """
    names = attributes(kind)
    tests = _tests(request, kind, besides)
    keys = request.query_params.getlist("sort_key")
    used = frozenset({*request.query_params.keys(), *keys})
    chosen = [item for item in seen(documents, request, used) if all(test(item) for test in tests)]
    directions = request.query_params.getlist("sort_dir")
    absent = [name for name in keys if name not in names]
    if absent or set(directions) - {"asc", "desc"}:
        raise BadRequest(f"sort_key {absent}, sort_dir {directions}: expected attributes, and for each asc or desc.")
    directions += ["asc"] * (len(keys) - len(directions))
    # A key that comes again orders nothing. Ties are in the order of what tells them apart, so that pages neither
    # repeat nor leave out.
    order: dict[str, str] = {}
    for name, direction in (*zip(keys, directions, strict=False), (key, "asc")):
        order.setdefault(name, direction)
    for name, direction in reversed(order.items()):
        chosen.sort(key=_sorting_by(names[name]), reverse=direction == "desc")
    return _page(chosen, request, names[key], by_id=not keys and key in identifiers(kind))


def show_fields(item: D, request: Request) -> D | dict[str, Any]:
    """Only the attributes that `fields` names, or all, as far as they are for the caller."""
    return _show_all([item], request)[0]


def show_made(item: D, request: Request) -> D | dict[str, Any]:
    """What the caller has made or changed, as far as it is for the caller."""
    return _some(item, frozenset(), hidden_of(item, request))


def texts(request: Request, *names: str) -> tuple[str, ...] | None:
    """The values of a filter by text that something could have, under any of its names; None without such a filter."""
    if not any(name in request.query_params for name in names):
        return None
    return tuple(text for name in names for text in request.query_params.getlist(name) if "\x00" not in text)


def flags(request: Request, name: str) -> tuple[bool, ...] | None:
    """Return the values of a filter by true or false; None without such a filter. Raises InvalidInput."""
    return _read_flags(name, request.query_params.getlist(name)) if name in request.query_params else None


def shown_mac(text: str) -> str:
    """A MAC address as ports show it: clients may write it with hyphens and capitals."""
    return text.lower().replace("-", ":")


def uuids(request: Request, name: str) -> tuple[str, ...] | None:
    """The values of a filter by id that something could have; None without such a filter."""
    if name not in request.query_params:
        return None
    return tuple(canonical_uuid(text) for text in request.query_params.getlist(name) if is_uuid(text))


def page_by_id(request: Request, narrowed: frozenset[str]) -> tuple[str | None, int | None]:
    """(the id after which the page begins, its length), where a database can cut it: in the order of ids.

    narrowed: the filters that the database applies; with any other, or another order, (None, None), and so for callers
    who may not see all that the database finds.
    """
    given = set(request.query_params.keys()) - {"fields", "limit", "marker"}
    after = request.query_params.get("marker")
    access = access_of(request)
    if (access is not None and not access.privileged) or given - narrowed or (after is not None and not is_uuid(after)):
        return None, None
    limit = integer_parameter(request, "limit", default=0)
    return None if after is None else canonical_uuid(after), limit or None


def _page_links(request: Request, ids: Sequence[str]) -> list[dict[str, str]]:
    """Where the list of a page with these goes on, in both directions; none where no `limit` asks for a page."""
    limit = integer_parameter(request, "limit", default=0)
    if not limit:
        return []
    others = [
        (name, text) for name, text in request.query_params.multi_items() if name not in ("marker", "page_reverse")
    ]
    path = f"{root_url(request)}{request.scope['path'].removeprefix(request.scope.get('root_path', ''))}"
    reverse = _reverse(request)
    links = []
    for rel, at_end, more, which in (
        ("next", len(ids) < limit and not reverse, [], -1),
        ("previous", len(ids) < limit and reverse, [("page_reverse", "True")], 0),
    ):
        if at_end:
            continue
        marker = [("marker", ids[which])] if ids else []
        query = urlencode([*others, *marker, *more])
        links.append({"rel": rel, "href": f"{path}?{query}"})
    return links


def fixed_ip_filters(request: Request) -> dict[str, list[str]]:
    """`fixed_ips=ip_address=10.0.0.1` and the like, by key. Raises InvalidInput."""
    found: dict[str, list[str]] = {}
    for text in request.query_params.getlist("fixed_ips"):
        for part in text.split(","):
            key, separator, value = part.partition("=")
            if not separator or key not in FIXED_IP_KEYS:
                raise InvalidInput(f"fixed_ips={text}: expected one of {', '.join(FIXED_IP_KEYS)} = a value.")
            found.setdefault(key, []).append(_canonical(key, value))
    if (count := len(found.get("ip_address_substr", ()))) > SUBSTRINGS_MAX:
        raise InvalidInput(
            f"fixed_ips: at most {SUBSTRINGS_MAX} ip_address_substr in one request, {count} are too many."
        )
    return found


def _canonical(key: str, value: str) -> str:
    if key == "subnet_id" and is_uuid(value):
        return canonical_uuid(value)
    if key == "ip_address":
        try:
            return str(ipaddress.ip_address(value))
        except ValueError:
            return value
    return value


def more_filters(kind: type[Struct]) -> tuple[str, ...]:
    """The filters of a list besides those by its attributes."""
    names = attributes(kind)
    return (*(TAG_FILTERS if "tags" in names else ()), *((CHANGED_SINCE,) if "updated_at" in names else ()))


def _tests(request: Request, kind: type[Struct], besides: frozenset[str]) -> list[Test]:
    """What an item must pass, in the order of the query string."""
    names = attributes(kind)
    given = [name for name in dict.fromkeys(request.query_params.keys()) if name not in RESERVED | besides]
    if unknown := [name for name in given if name not in names and name not in more_filters(kind)]:
        raise BadRequest(f"{unknown} is invalid attribute for filtering")
    tests: list[Test] = []
    for name in given:
        values = request.query_params.getlist(name)
        if name == "fixed_ips":
            tests.append(_fixed_ips_test(fixed_ip_filters(request)))
        elif name in TAG_FILTERS:
            tests.append(_tags_test(name, values))
        elif name == CHANGED_SINCE:
            tests.append(_changed_test(values))
        elif name in booleans(kind):
            tests.append(_boolean_test(name, names[name], values))
        else:
            tests.append(_value_test(name, kind, values))
    return tests


def _boolean_test(name: str, field: str, texts: Sequence[str]) -> Test:
    wanted = _read_flags(name, texts)
    return lambda item: getattr(item, field) in wanted


def _read_flags(name: str, texts: Sequence[str]) -> tuple[bool, ...]:
    """Source: Neutron, which converts them so and refuses what is neither."""
    values = {"true": True, "1": True, "false": False, "0": False}
    if strange := [text for text in texts if text.lower() not in values]:
        raise InvalidInput(f"{name}={strange[0]}: cannot be converted to boolean, expected true or false.")
    return tuple(values[text.lower()] for text in texts)


def _changed_test(texts: Sequence[str]) -> Test:
    """Source: extension standard-attr-timestamp, changed_since."""
    try:
        given = [datetime.fromisoformat(text) for text in texts]
        times = [(at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC) for at in given]
    except (ValueError, OverflowError):
        raise InvalidInput(f"{CHANGED_SINCE}: expected a time like 2026-01-31T23:59:59Z.") from None
    since = min(times).replace(tzinfo=None).isoformat(timespec="seconds")
    return lambda item: bool(item.updated_at >= since)


def _value_test(name: str, kind: type[Struct], texts: Sequence[str]) -> Test:
    """Whether the attribute is one of the values; of a list, whether one of its items is.

    Costs as much for a thousand values as for one: some clients name all that they know.
    """
    field = attributes(kind)[name]
    wanted = {shown_mac(text) for text in texts} if name == "mac_address" else set(texts)
    none = not wanted.isdisjoint(("", "None", "null"))
    if name in identifiers(kind):  # others, a project's as Keystone writes it, may look like one and are as they are
        wanted |= {canonical_uuid(text) for text in texts if is_uuid(text)}

    def test(item: Any) -> bool:
        value = getattr(item, field)
        values = (value,)
        if value is UNSET:  # a network of several segments has what any of them has
            values = tuple(getattr(link, field) for link in getattr(item, "segments", UNSET) or ())
        elif isinstance(value, tuple | list):
            values = tuple(value)
        return any(none if one is None else str(one) in wanted for one in values)

    return test


def _fixed_ips_test(wanted: Mapping[str, Sequence[str]]) -> Test:
    def test(item: Any) -> bool:
        held = item.fixed_ips
        return (
            ("subnet_id" not in wanted or any(one.subnet_id in wanted["subnet_id"] for one in held))
            and ("ip_address" not in wanted or any(one.ip_address in wanted["ip_address"] for one in held))
            and (
                "ip_address_substr" not in wanted
                or any(part in one.ip_address for one in held for part in wanted["ip_address_substr"])
            )
        )

    return test


def _tags_test(name: str, values: Sequence[str]) -> Test:
    wanted = {tag for text in values for tag in text.split(",")}

    def test(item: Any) -> bool:
        has = set(item.tags)
        found = bool(wanted & has) if name.endswith("-any") else wanted <= has
        return not found if name.startswith("not-") else found

    return test


def _show_all(items: Sequence[D], request: Request) -> list[D | dict[str, Any]]:
    # Source: Neutron, neutron/api/api_common.py, list_args: an empty one names nothing, and so asks for everything.
    wanted = frozenset(name for name in request.query_params.getlist("fields") if name)
    return [_some(item, wanted, hidden_of(item, request)) for item in items]


def _some(item: D, wanted: frozenset[str], hidden: frozenset[str]) -> D | dict[str, Any]:
    """The wanted attributes, or all, without those that are hidden."""
    if not wanted and not hidden:
        return item
    names = attributes(type(item))
    shown = [name for name in names if name not in hidden and (not wanted or name in wanted)]
    return {name: value for name in shown if (value := getattr(item, names[name])) is not UNSET}


def _sorting_by(field: str) -> Callable[[Struct], tuple[bool, Any]]:
    return lambda item: _comparable(getattr(item, field))


def _comparable(value: Any) -> tuple[bool, Any]:
    if value is None or value is UNSET:
        return False, ""
    return True, value if isinstance(value, (int, str)) else str(value)


def _reverse(request: Request) -> bool:
    return True in (flags(request, "page_reverse") or ())


def _page(items: list[D], request: Request, key: str, *, by_id: bool) -> list[D]:
    """by_id: the items are in the order of their ids, and a marker need not be among them any more."""
    limit = integer_parameter(request, "limit", default=0)
    reverse = _reverse(request)
    ordered = items[::-1] if reverse else items
    marker = request.query_params.get("marker")
    if marker is not None and by_id and is_uuid(marker):
        at = canonical_uuid(marker)
        ordered = [item for item in ordered if (getattr(item, key) < at if reverse else getattr(item, key) > at)]
    elif marker is not None:
        known = [index for index, item in enumerate(ordered) if getattr(item, key) == marker]
        if not known:
            raise InvalidInput(f"marker {marker}: there is no such resource in this list.")
        ordered = ordered[known[0] + 1 :]
    page = ordered[:limit] if limit else ordered
    return page[::-1] if reverse else page
