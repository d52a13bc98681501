"""Lists as clients ask for them: filters, fields, order and pages. Source: Network API v2.0, "Filtering".

The database filters, orders and cuts lists. Short ones (quotas, bindings of a port, zones) are read whole, and filtered
here.
"""

import ipaddress
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace
from starlette.requests import Request

from roost.network.api.access import access_of, seen, seen_by
from roost.network.api.fields import attributes, booleans
from roost.network.errors import InvalidInput
from roost.network.model.networks import ListFilter, ListKind, ListQuery, ListRow
from roost.network.service import Networks, lists
from roost.platform.errors import BadRequest, NotFound
from roost.platform.http import canonical_uuid, integer_parameter, is_uuid
from roost.platform.operations import Rule

RESERVED = frozenset({"fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"})
SUBSTRINGS_MAX = 100
"""How many substrings of addresses may filter a list: each is searched for in every address."""
ROWS_AT_ONCE = 1000
"""How many rows are read at a time in the end, where few of them are shown."""

D = TypeVar("D", bound=Struct)
T = TypeVar("T")
Test = Callable[[Any], bool]


class Collection(Struct, Generic[T], frozen=True, kw_only=True):
    """One kind of what the API shows from the database.

    name, plural: as in paths, envelopes and names of rules. missing: the error for an unknown id. defaults: of the
    policy rules, by their verbs. find: the items with these ids that exist. page: reads a page in one statement, for
    lists that are read often. show: makes the document, which has an `id`.
    """

    name: ListKind
    plural: str
    document: type[Struct]
    missing: type[NotFound]
    defaults: Mapping[str, str]
    find: Callable[[Networks, Sequence[str]], Awaitable[list[T]]]
    show: Callable[[T], Any]
    page: Callable[[Networks, ListQuery], Awaitable[list[tuple[ListRow, T]]]] | None = None

    @property
    def key(self) -> str:
        """Return the attribute that identifies a row."""
        return lists.KEYS.get(self.name, "id")

    def rule(self, verb: str) -> Rule:
        """Return the policy rule of a verb."""
        return Rule(f"{verb}_{self.name}", self.defaults[verb])

    def absent(self, named: str) -> NotFound:
        """Return the error for one that does not exist."""
        return self.missing(f"{self.missing.__name__.removesuffix('NotFound')} {named} could not be found.")

    def id_of(self, request: Request, absent: Callable[[str], NotFound] | None = None) -> str:
        """Return the id in the path. Raises what `absent` returns, by default `missing`, if it is no UUID."""
        text: str = request.path_params["id"]
        if not is_uuid(text):
            raise (absent or self.absent)(text)
        return canonical_uuid(text)

    async def read_page(self, context: Networks, query: ListQuery) -> tuple[list[ListRow], list[Any]]:
        """Return the rows of a page, and the documents of those that still exist, both in order."""
        if self.page is not None:
            pairs = await self.page(context, query)
            return [row for row, _ in pairs], [self.show(item) for _, item in pairs]
        rows = await lists.list_rows(context, self.name, query)
        items = await self.find(context, [row.id for row in rows]) if rows else []
        documents = {document.id: document for document in map(self.show, items)}
        return rows, [documents[row.id] for row in rows if row.id in documents]


async def answer(context: Networks, kind: Collection[Any], request: Request) -> dict[str, Any]:
    """Return the page that the request asks for, with links to its neighbours if the request has a limit.

    Raises BadRequest, InvalidInput.
    """
    page, names = await _read_page(request, context, kind), fields_named(request)
    body: dict[str, Any] = {kind.plural: [show(item, request, names) for item in page]}
    if links := _page_links(request, [item.id for item in page]):
        body[f"{kind.plural}_links"] = links
    return body


async def _read_page(request: Request, context: Networks, kind: Collection[Any]) -> list[Any]:
    """Return the documents that the query string asks for, in its order, with all attributes.

    The database filters, orders and cuts. Its rows are filtered again: policy files may hide more, and some attributes
    are no columns. Rows are read until the page is full. Raises BadRequest, InvalidInput.
    """
    filters, tests = _filters(request, kind)
    order = _order(request, lists.SORTED[kind.name], kind.key)
    limit, reverse = integer_parameter(request, "limit", default=0), _reverse(request)
    used = _used(request)

    def choose(documents: Sequence[Any]) -> list[Any]:
        return [item for item in seen(documents, request, used) if all(test(item) for test in tests)]

    query = ListQuery(
        filters=tuple(filters), seen_by=seen_by(request, kind.name), order=tuple(order.items()), reverse=reverse
    )
    marker = request.query_params.get("marker")
    after: tuple[object, ...] | None = None
    if marker is not None:
        if not is_uuid(marker):
            raise _no_marker(marker)
        after = (canonical_uuid(marker),)
        if "sort_key" in request.query_params:
            # Only its row has its position. In the order of ids, the marker need not exist any more.
            filters_of_marker = (*query.filters, ListFilter(kind.key, after))
            rows, documents = await kind.read_page(context, replace(query, filters=filters_of_marker))
            if not choose(documents):
                raise _no_marker(marker)
            after = rows[0].position
    page: list[Any] = []
    size = limit
    while True:
        rows, documents = await kind.read_page(context, replace(query, after=after, limit=size or None))
        page = choose(documents) + page if reverse else page + choose(documents)
        if not limit or len(rows) < size or len(page) >= limit:
            break
        after, size = rows[0 if reverse else -1].position, max(limit, min(2 * size, ROWS_AT_ONCE))
    if not limit:
        return page
    return page[-limit:] if reverse else page[:limit]


def select(documents: Sequence[D], request: Request, kind: type[D], *, key: str) -> list[D | dict[str, Any]]:
    """Return the documents that the query string asks for, in its order, with its fields.

    kind: of the documents; every attribute filters and sorts, and none is null. key: the attribute that identifies one.
    Raises BadRequest, InvalidInput.
    """
    tests = [_test(request, name, kind) for name in _named(request, attributes(kind).keys())]
    order = _order(request, attributes(kind).keys(), key)
    chosen = [item for item in seen(documents, request, _used(request)) if all(test(item) for test in tests)]
    limit, reverse = integer_parameter(request, "limit", default=0), _reverse(request)
    for name, descending in reversed(order.items()):
        chosen.sort(key=partial(_sort_key, attributes(kind)[name]), reverse=descending != reverse)
    marker = request.query_params.get("marker")
    if marker is not None:
        ids = [getattr(item, attributes(kind)[key]) for item in chosen]
        if marker not in ids:
            raise _no_marker(marker)
        chosen = chosen[ids.index(marker) + 1 :]
    page, names = chosen[: limit or None], fields_named(request)
    return [show(item, request, names) for item in (reversed(page) if reverse else page)]


def _used(request: Request) -> frozenset[str]:
    return frozenset({*request.query_params.keys(), *request.query_params.getlist("sort_key")})


def _order(request: Request, known: Set[str], key: str) -> dict[str, bool]:
    """Return the attributes of the order, and whether each descends. `key` is the last, and breaks ties.

    So pages neither repeat a document nor leave one out. An attribute that is repeated orders nothing.
    Raises BadRequest, also for an attribute that does not sort.
    Source: Neutron, extension sort-key-validation.
    """
    keys, directions = request.query_params.getlist("sort_key"), request.query_params.getlist("sort_dir")
    if absent := [name for name in keys if name not in known]:
        raise BadRequest(f"{absent} is invalid attribute for sort_keys: expected one of {', '.join(sorted(known))}.")
    if strange := [text for text in directions if text not in ("asc", "desc")]:
        raise BadRequest(f"sort_dir {strange}: expected asc or desc for each sort_key.")
    directions += ["asc"] * (len(keys) - len(directions))
    order: dict[str, bool] = {}
    for name, direction in (*zip(keys, directions, strict=False), (key, "asc")):
        order.setdefault(name, direction == "desc")
    return order


def show(item: D, request: Request, names: frozenset[str] = frozenset()) -> D | dict[str, Any]:
    """Return the attributes that are named, or all, without those that the caller may not see."""
    hidden = access_of(request).verdict(item).hidden
    if not names and not hidden:
        return item
    fields = attributes(type(item))
    shown = [name for name in fields if name not in hidden and (not names or name in names)]
    return {name: value for name in shown if (value := getattr(item, fields[name])) is not UNSET}


def fields_named(request: Request) -> frozenset[str]:
    """Return the attributes that `fields` names. Source: Neutron, neutron/api/api_common.py, list_args.

    An empty one names nothing, and so asks for everything.
    """
    return frozenset(name for name in request.query_params.getlist("fields") if name)


def _page_links(request: Request, ids: Sequence[str]) -> list[dict[str, str]]:
    """Return the links to the pages before and after the one with these ids; none without a `limit`."""
    limit = integer_parameter(request, "limit", default=0)
    if not limit:
        return []
    url = request.url.remove_query_params(["marker", "page_reverse"])

    def link(rel: str, markers: Sequence[str], **more: str) -> dict[str, str]:
        named = {"marker": markers[0]} if markers else {}
        return {"rel": rel, "href": str(url.include_query_params(**named, **more))}

    is_full, reverse = len(ids) >= limit, _reverse(request)
    links = [link("next", ids[-1:])] if is_full or reverse else []
    return [*links, link("previous", ids[:1], page_reverse="True")] if is_full or not reverse else links


def _fixed_ips(texts: Sequence[str]) -> Iterator[ListFilter]:
    """Read `fixed_ips=ip_address=10.0.0.1` and the like, by key. Raises InvalidInput."""
    values: dict[str, list[str]] = {}
    for text in texts:
        for part in text.split(","):
            key, separator, value = part.partition("=")
            if not separator or key not in lists.FIXED_IPS:
                raise InvalidInput(f"fixed_ips={text}: expected one of {', '.join(lists.FIXED_IPS)} = a value.")
            values.setdefault(key, []).append(value)
    if (count := len(values.get("ip_address_substr", ()))) > SUBSTRINGS_MAX:
        raise InvalidInput(
            f"fixed_ips: at most {SUBSTRINGS_MAX} ip_address_substr in one request, {count} are too many."
        )
    for key, texts_of_key in values.items():
        yield ListFilter(key, _read_values(key, lists.FIXED_IPS[key].values, texts_of_key))


def _read_values(name: str, kind: str, texts: Sequence[str]) -> Sequence[object]:
    """Return the values of a filter, for the database. kind: what they are. Raises InvalidInput."""
    match kind:
        case "boolean":
            return _flags(name, texts)
        case "uuid":
            return [canonical_uuid(text) for text in texts if is_uuid(text)]
        case "mac":  # which clients may write with hyphens and capitals
            return [text.lower().replace("-", ":") for text in _texts(texts)]
        case "tags":  # for one that the database refuses, an empty one, which nothing has
            return sorted({"" if "\x00" in tag else tag for text in texts for tag in text.split(",")})
        case "since":
            return [_earliest(name, texts)]
        case "address":
            return _addresses(texts)
        case "ip_version":
            return _ip_versions(texts)
        case _:
            return _texts(texts)


def _addresses(texts: Sequence[str]) -> list[str]:
    addresses = []
    for text in texts:
        with suppress(ValueError):
            addresses.append(str(ipaddress.ip_address(text)))
    return [address for address in addresses if "%" not in address]


def _ip_versions(texts: Sequence[str]) -> list[int]:
    for text in texts:
        if text not in ("4", "6"):
            raise InvalidInput(f"ip_version={text}: expected 4 or 6.")
    return list(map(int, texts))


def _texts(texts: Sequence[str]) -> list[str]:
    """Return the texts without those that the database refuses."""
    return [text for text in texts if "\x00" not in text]


def _named(request: Request, known: Set[str]) -> list[str]:
    """Return the names of the filters of the query string, in its order. Raises BadRequest for an unknown one."""
    names = [name for name in dict.fromkeys(request.query_params.keys()) if name not in RESERVED]
    if unknown := [name for name in names if name not in known]:
        raise BadRequest(f"{unknown} is invalid attribute for filtering")
    return names


def _filters(request: Request, kind: Collection[Any]) -> tuple[list[ListFilter], list[Test]]:
    """Return the filters that the database applies, and tests for the others."""
    filters: list[ListFilter] = []
    tests: list[Test] = []
    known = lists.FILTERS[kind.name]
    for name in _named(request, attributes(kind.document).keys() | known.keys()):
        texts = request.query_params.getlist(name)
        if name == "fixed_ips":
            filters += _fixed_ips(texts)
        elif name in known:
            filters.append(ListFilter(name, _read_values(name, known[name].values, texts), null=_is_null(texts)))
        else:
            tests.append(_test(request, name, kind.document))
    return filters, tests


def _is_null(texts: Sequence[str]) -> bool:
    return not {"", "None", "null"}.isdisjoint(texts)


def _flags(name: str, texts: Sequence[str]) -> list[bool]:
    """Return the values of a filter by true or false. Raises InvalidInput.

    Source: Neutron, which converts them so and refuses what is neither.
    """
    values = {"true": True, "1": True, "false": False, "0": False}
    if strange := [text for text in texts if text.lower() not in values]:
        raise InvalidInput(f"{name}={strange[0]}: cannot be converted to boolean, expected true or false.")
    return [values[text.lower()] for text in texts]


def _earliest(name: str, texts: Sequence[str]) -> datetime:
    """Return the earliest of the times, to the second. Source: extension standard-attr-timestamp, changed_since."""
    try:
        times = [datetime.fromisoformat(text) for text in texts]
        earliest = min((at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC) for at in times)
    except (ValueError, OverflowError):
        raise InvalidInput(f"{name}: expected a time like 2026-01-31T23:59:59Z.") from None
    return earliest.replace(microsecond=0)


def _test(request: Request, name: str, kind: type[Struct]) -> Test:
    """Return the test that an attribute, or an item of a list, is one of the values.

    Costs as much for a thousand values as for one: some clients name all that they know.
    """
    field = attributes(kind)[name]
    texts = request.query_params.getlist(name)
    if name in booleans(kind):
        allowed = _flags(name, texts)
        return lambda item: getattr(item, field) in allowed
    values, null = set(texts), _is_null(texts)

    def test(item: Any) -> bool:
        value = getattr(item, field)
        parts = () if value is UNSET else value if isinstance(value, tuple | list) else (value,)
        return any(null if part is None else str(part) in values for part in parts)

    return test


def _sort_key(field: str, item: Struct) -> int | str:
    value = getattr(item, field)
    return value if isinstance(value, int | str) else str(value)


def _reverse(request: Request) -> bool:
    return True in _flags("page_reverse", request.query_params.getlist("page_reverse"))


def _no_marker(marker: str) -> InvalidInput:
    return InvalidInput(f"marker {marker}: there is no such resource in this list.")
