"""The operations, queries and answers that networks, segments, subnets and ports have in common over HTTP."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request

from roost.network.api import listing
from roost.network.api.access import access_of
from roost.network.api.fields import attributes, booleans, parse_project, refuse_unserved
from roost.network.errors import InvalidInput
from roost.network.model.networks import Kind, ListKind
from roost.network.service import Networks, lists
from roost.platform.bodies import read_bytes, read_json, replace_body
from roost.platform.errors import BadRequest
from roost.platform.operations import Operation, Operations, Rule, Schema
from roost.platform.structs import body_type, list_of

T = TypeVar("T")
W = TypeVar("W")
C = TypeVar("C")
B = TypeVar("B", bound=Struct)
D = TypeVar("D", bound=Struct)
Read = Callable[[Request], Awaitable[T]]

BULK_MAX = 500
"""How many of one kind are made by one request."""
PARTS_MAX = 10_000
"""How many items of one attribute the bodies of one request may have together."""


class Resource(listing.Collection[T], Generic[T, W, C], frozen=True, kw_only=True):
    """One kind of resource that the API shows and clients make.

    body: of one in a POST. update_body: of a PUT. parts: the attribute of bodies with a list, if any; the lists of one
    request are limited together. request: (body, project that is to own it) -> what the body asks for. changes: (body,
    revision that the resource must have, None for any) -> what the body changes. create: returns what is made, in
    order. delete: takes an id, and `revision`.
    """

    name: Kind
    body: type[Struct]
    update_body: type[Struct]
    parts: str | None = None
    request: Callable[[Any, str], W]
    changes: Callable[[Any, int | None], C]
    create: Callable[[Networks, Sequence[W]], Awaitable[Sequence[T]]]
    update: Callable[[Networks, str, C], Awaitable[T]]
    delete: Callable[..., Awaitable[None]]

    async def read(self, request: Request, envelope: type[B], *, may_unwrap: bool = True) -> B:
        """Return the body of a POST or PUT. may_unwrap: items of many may be wrapped once, as one is.

        Raises BadRequest; for an attribute that may not be given, in Neutron's words.
        Source: neutron-lib, neutron_lib/api/attributes.py, and Neutron, neutron/api/v2/base.py.
        """
        try:
            return await read_json(request, envelope)
        except BadRequest as error:
            unknown = re.search(r"unknown field `([^`]*)` - at `\$\.\w+(?:\[(?:\d+|\.\.\.)\])?`", str(error))
            if unknown is None:
                raise
            name = unknown[1]
            if name == self.name and may_unwrap:
                replace_body(request, _unwrap(await read_bytes(request), self.name, self.plural))
                return await self.read(request, envelope, may_unwrap=False)
            if name not in attributes(self.document):
                text = f"Unrecognized attribute(s) '{name}'"
            elif request.method == "POST":
                text = f"Attribute '{name}' not allowed in POST"
            else:
                text = f"Cannot update read-only attribute {name}"
            raise BadRequest(text) from None

    def operations(self, context: Networks) -> Operations:
        """Return the operations of the collection, and of one item."""
        name, plural = self.name, self.plural
        camel, bounds = _camel(name), Meta(min_length=1, max_length=BULK_MAX)
        doc = f"The body around one {name}, or around many."
        bodies = _one_or_many(f"{camel}Envelope", self.body, name, plural, bounds, doc)
        answers = _one_or_many(f"{camel}MadeAnswer", self.document, name, plural, Meta(), None)
        changes = body_type(
            f"{camel}UpdateEnvelope", (name, self.update_body), doc=f"The body around a {name}'s changes."
        )
        return {
            f"/v2.0/{plural}": {
                "GET": list_operation(context, self, f"{plural}: filtered, in order, in pages"),
                "POST": Operation(
                    summary=f"make a {name}, or many at once: all or none",
                    endpoint=partial(self._create, context, bodies), rule=self.rule("create"), body=bodies, status=201,
                    result=answers, errors=(404, 409),
                ),
            },
            f"/v2.0/{plural}/{{id}}": {
                "GET": show_operation(context, self, f"one {name}"),
                "PUT": Operation(
                    summary=f"change the {name}; `If-Match: revision_number=N` is heeded",
                    endpoint=partial(self._update, context, changes), rule=self.rule("update"), body=changes,
                    result=answer(name, self.document), errors=(409, 412),
                ),
                "DELETE": Operation(
                    summary=f"delete the {name}; `If-Match: revision_number=N` is heeded",
                    endpoint=partial(self._delete, context), rule=self.rule("delete"), status=204, errors=(409, 412),
                ),
            },
        }  # fmt: skip

    def bodies_in(self, envelope: Struct) -> list[Any]:
        """Return the bodies of a POST. Raises BadRequest unless it has either one body or a list of them."""
        body, bodies = getattr(envelope, self.name), getattr(envelope, self.plural)
        if (body is UNSET) == (bodies is UNSET):
            raise BadRequest(f"malformed body: expected either `{self.name}` or `{self.plural}`")
        return [body] if bodies is UNSET else bodies

    async def _create(self, context: Networks, envelope: type[Struct], request: Request) -> dict[str, Any]:
        body = await self.read(request, envelope)
        bodies, owner = self.bodies_in(body), access_of(request).caller.project_id or context.default_project
        if self.parts is not None:
            count = sum(len(getattr(item, self.parts) or ()) for item in bodies)
            if count > PARTS_MAX:
                raise InvalidInput(
                    f"{self.parts}: one request makes at most {PARTS_MAX} of them, {count} are too many."
                )
        for item in bodies:
            refuse_unserved(item)
        requests = [self.request(item, parse_project(item, owner)) for item in bodies]
        shown = [listing.show(self.show(item), request) for item in await self.create(context, requests)]
        return {self.name: shown[0]} if getattr(body, self.plural) is UNSET else {self.plural: shown}

    async def _update(self, context: Networks, envelope: type[Struct], request: Request) -> dict[str, Any]:
        resource_id = self.id_of(request)
        body = getattr(await self.read(request, envelope), self.name)
        refuse_unserved(body)
        changed = await self.update(context, resource_id, self.changes(body, revision(request)))
        return {self.name: listing.show(self.show(changed), request)}

    async def _delete(self, context: Networks, request: Request) -> None:
        await self.delete(context, self.id_of(request), revision=revision(request))


AnyResource = Resource[Any, Any, Any]


def revision(request: Request) -> int | None:
    """Return the revision that the request insists on; None for any. Raises InvalidInput.

    Source: Network API, extension revision-if-match.
    """
    text = request.headers.get("if-match")
    if text is None:
        return None
    match = re.fullmatch(r"revision_number=([0-9]{1,9})", text)
    if match is None:
        raise InvalidInput("If-Match: expected revision_number=<number>.")
    return int(match[1])


def _unwrap(body: bytes, name: str, plural: str) -> bytes:
    """Return the body of many with items `{"port": {…}}` unwrapped to `{…}`. Other bodies are returned as they are.

    Source: Neutron, neutron/api/v2/base.py, prepare_request_body.
    """
    try:
        envelope = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        items = msgspec.json.decode(envelope[plural], type=list[dict[str, msgspec.Raw]]) if plural in envelope else []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body
    if not items:
        return body
    return msgspec.json.encode(envelope | {plural: [x[name] if x.keys() == {name} else x for x in items]})


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_TEXT: Schema = {"type": "string"}
_VALUES = _array(_TEXT)
_FLAG: Schema = {"enum": ["true", "false", "True", "False", "1", "0"]}
_VALUES_OF: Mapping[str, Schema] = {
    "boolean": _FLAG,
    "ip_version": {"enum": ["4", "6"]},
    "since": {"type": "string", "format": "date-time"},
    "fixed_ips": {"type": "string", "pattern": f"^({'|'.join(lists.FIXED_IPS)})=[^,]*$"},
}
"""What the values of a filter are -> the schema of one, unless it is any text."""
_ORDER = {
    "sort_dir": _array({"enum": ["asc", "desc"]}),
    "limit": {"type": "integer", "minimum": 0},
    "marker": _TEXT,
    "page_reverse": _FLAG,
}


def list_operation(context: Networks, kind: listing.Collection[Any], summary: str) -> Operation:
    """Return the operation that lists a collection."""
    return Operation(
        summary=summary, endpoint=partial(listing.answer, context, kind), rule=kind.rule("get"),
        query=list_query(kind.document, kind.name), result=list_answer(kind.plural, kind.document),
    )  # fmt: skip


def show_operation(context: Networks, kind: listing.Collection[Any], summary: str) -> Operation:
    """Return the operation that reads one item of a collection."""

    async def read(request: Request) -> Struct:
        resource_id = kind.id_of(request)
        documents: list[Struct] = [kind.show(item) for item in await kind.find(context, [resource_id])]
        if not documents:
            raise kind.absent(resource_id)
        return documents[0]

    return get_one(kind.name, answer(kind.name, kind.document), read, summary=summary, rule=kind.rule("get"))


def get_one(
    name: str, result: type[Struct], read: Read[Struct], *, summary: str, rule: Rule, owner_may: bool = False
) -> Operation:
    """Return the operation that reads one document. name: of the answer's attribute. result: the answer's type."""

    async def show(request: Request) -> dict[str, Any]:
        return {name: listing.show(await read(request), request, listing.fields_named(request))}

    query: Schema = {"type": "object", "properties": {"fields": _VALUES}}
    return Operation(summary=summary, endpoint=show, rule=rule, query=query, result=result, owner_may=owner_may)


def get_few(
    plural: str, document: type[D], read: Read[Sequence[D]], *, key: str, summary: str, rule: Rule
) -> Operation:
    """Return the operation of a short list, which is read whole. key: the attribute that identifies an item."""

    async def show(request: Request) -> dict[str, Any]:
        return {plural: listing.select(await read(request), request, document, key=key)}

    return Operation(
        summary=summary, endpoint=show, rule=rule, query=list_query(document), result=list_answer(plural, document)
    )


def list_query(document: type[Struct], name: ListKind | None = None) -> Schema:
    """Return the parameters of a list: filters by every attribute and by others, order, pages, fields.

    name: of a list from the database, which has other filters, and orders by some of the attributes.
    """
    kinds = dict.fromkeys(attributes(document), "text")
    if name is not None:
        kinds |= {filter_name: item.values for filter_name, item in lists.FILTERS[name].items()}
    kinds |= dict.fromkeys(booleans(document), "boolean")
    values = {name: _array(_VALUES_OF.get(kind, _TEXT)) for name, kind in sorted(kinds.items())}
    sort_key = _array({"enum": sorted(attributes(document) if name is None else lists.SORTED[name])})
    return {"type": "object", "properties": {**values, **_ORDER, "sort_key": sort_key, "fields": _VALUES}}


def answer(name: str, content: Any) -> type[Struct]:
    """Return the type of an answer with one attribute. content: its type."""
    return body_type(f"{_camel(name)}Answer", (name, content))


def list_answer(plural: str, document: type[Struct]) -> type[Struct]:
    """Return the type of an answer with a list, and the links to its other pages."""
    rel = ("rel", Literal["next", "previous"])
    link = body_type("PageLink", rel, ("href", str), doc="Where a list goes on.")
    links = (f"{plural}_links", list_of(link) | UnsetType, UNSET)
    return body_type(f"{_camel(plural)}Answer", (plural, list_of(document)), links)


def _one_or_many(name: str, kind: type[Struct], one: str, many: str, bounds: Meta, doc: str | None) -> type[Struct]:
    """Return the type of a body with one of a kind, or a list of them. one, many: the attributes."""
    kinds: Any = Annotated[list_of(kind), bounds]
    return body_type(name, (one, kind | UnsetType, UNSET), (many, kinds | UnsetType, UNSET), doc=doc)


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
