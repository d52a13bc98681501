"""What networks, segments, subnets and ports have in common over HTTP: their operations, queries and answers."""

import re
import types
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from functools import cache, partial
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import listing
from roost.network.api.access import owned
from roost.network.api.documents import Document, attributes, booleans
from roost.network.api.protocol import path_id, revision
from roost.network.model.networks import Kind, ListQuery, ListRow
from roost.network.service import Networks, lists
from roost.platform.bodies import read_bytes, read_json, replace_body
from roost.platform.errors import BadRequest, NotFound
from roost.platform.http import json_response
from roost.platform.operations import Operation, Operations, Rule, Schema

T = TypeVar("T")
B = TypeVar("B", bound=Struct)


class Delete(Protocol):
    """Deletes one by its id, if it has the revision."""

    async def __call__(self, context: Networks, resource_id: str, /, *, revision: int | None) -> None:
        """Raise what refuses it."""


class PageLink(Struct, forbid_unknown_fields=True):
    """Where a list goes on."""

    rel: Literal["next", "previous"]
    href: str


class Resource(Struct, Generic[T], frozen=True, kw_only=True):
    """One kind of what the API shows.

    one, many: as in paths, envelopes and names of rules. missing: the error for an id that nothing has. find: those of
    the ids that there are. page: a page in one statement, where it is asked for often. show: as a document. defaults:
    of the policy rules, by their verbs. more_flags: filters of a list by true or false that are no attributes.
    """

    one: Kind
    many: str
    document: type[Document]
    missing: type[NotFound]
    find: Callable[[Networks, Sequence[str]], Awaitable[list[T]]]
    show: Callable[[T], Document]
    defaults: Mapping[str, str]
    more_flags: frozenset[str] = frozenset()
    page: Callable[[Networks, ListQuery], Awaitable[list[tuple[ListRow, T]]]] | None = None

    @property
    def title(self) -> str:
        """As errors call it."""
        return self.one.capitalize()

    def rule(self, verb: str) -> Rule:
        """Return the policy rule that is asked for a verb."""
        return Rule(f"{verb}_{self.one}", self.defaults[verb])

    def id_of(self, request: Request) -> str:
        """The id in the path. Raises the error for what has none."""
        return path_id(request, self.title, self.missing)

    async def read(self, request: Request, envelope: type[B], *, may_unwrap: bool = True) -> B:
        """The body of a POST or PUT. may_unwrap: items of many may be wrapped once, as one is.

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
            if name == self.one and may_unwrap:
                replace_body(request, _unwrap(await read_bytes(request), self.one, self.many))
                return await self.read(request, envelope, may_unwrap=False)
            if name not in attributes(self.document):
                text = f"Unrecognized attribute(s) '{name}'"
            elif request.method == "POST":
                text = f"Attribute '{name}' not allowed in POST"
            else:
                text = f"Cannot update read-only attribute {name}"
            raise BadRequest(text) from None

    def operations(
        self,
        context: Networks,
        *,
        create: Callable[[Sequence[Any]], Awaitable[Sequence[T]]],
        create_body: type[Struct],
        update: Callable[[str, Any, int | None], Awaitable[T]],
        update_body: type[Struct],
        delete: Delete,
    ) -> Operations:
        """Of the collection, and of one.

        create: of bodies, what is made, in the same order. create_body: the whole body, with a field for one and a
        field for many. update: of id, body and the revision that it must have (None: any). update_body: the whole body,
        with a field for one.
        """
        return {
            f"/v2.0/{self.many}": {
                "GET": self._list_operation(context),
                "POST": self._create_operation(create, create_body),
            },
            f"/v2.0/{self.many}/{{id}}": {
                "GET": self._show_operation(context),
                "PUT": self._update_operation(update, update_body),
                "DELETE": self._delete_operation(context, delete),
            },
        }

    def _list_operation(self, context: Networks) -> Operation:
        if self.page is None:
            read = listing.reader(context, self.one, partial(self.find, context), self.show)
        else:
            read = listing.page_reader(context, self.page, self.show)

        async def endpoint(request: Request) -> Response:
            return await listing.answer(request, self.one, self.many, self.document, read, flags=self.more_flags)

        return Operation(
            summary=f"{self.many}: filtered, in order, in pages",
            endpoint=endpoint,
            rule=self.rule("get"),
            query=list_query(self.document, *self.more_flags, sorted_by=lists.SORTED[self.one]),
            result=list_answer(self.many, self.document),
        )

    def _show_operation(self, context: Networks) -> Operation:
        async def endpoint(request: Request) -> Response:
            resource_id = self.id_of(request)
            found = await self.find(context, [resource_id])
            if not found:
                raise self.missing(f"{self.title} {resource_id} could not be found.")
            return json_response({self.one: listing.show_fields(self.show(found[0]), request)})

        return Operation(
            summary=f"one {self.one}",
            endpoint=endpoint,
            rule=self.rule("get"),
            query=SHOW_QUERY,
            result=answer(self.one, self.document),
        )

    def _create_operation(
        self, create: Callable[[Sequence[Any]], Awaitable[Sequence[T]]], create_body: type[Struct]
    ) -> Operation:
        async def endpoint(request: Request) -> Response:
            body = await self.read(request, create_body)
            one, many = getattr(body, self.one), getattr(body, self.many)
            if (one is UNSET) == (many is UNSET):
                raise BadRequest(f"malformed body: expected either `{self.one}` or `{self.many}`")
            items = [owned(item, request) for item in ([one] if many is UNSET else many)]
            shown = [listing.show_made(self.show(item), request) for item in await create(items)]
            return json_response({self.one: shown[0]} if many is UNSET else {self.many: shown}, 201)

        return Operation(
            summary=f"make a {self.one}, or many at once: all or none",
            endpoint=endpoint,
            rule=self.rule("create"),
            body=create_body,
            status=201,
            result=_made_answer(self.one, self.many, self.document),
            errors=(404, 409),
        )

    def _update_operation(
        self, update: Callable[[str, Any, int | None], Awaitable[T]], update_body: type[Struct]
    ) -> Operation:
        async def endpoint(request: Request) -> Response:
            resource_id = self.id_of(request)
            body = await self.read(request, update_body)
            changed = await update(resource_id, getattr(body, self.one), revision(request))
            return json_response({self.one: listing.show_made(self.show(changed), request)})

        return Operation(
            summary=f"change the {self.one}; `If-Match: revision_number=N` is heeded",
            endpoint=endpoint,
            rule=self.rule("update"),
            body=update_body,
            result=answer(self.one, self.document),
            errors=(409, 412),
        )

    def _delete_operation(self, context: Networks, delete: Delete) -> Operation:
        async def endpoint(request: Request) -> Response:
            await delete(context, self.id_of(request), revision=revision(request))
            return Response(status_code=204)

        return Operation(
            summary=f"delete the {self.one}; `If-Match: revision_number=N` is heeded",
            endpoint=endpoint,
            rule=self.rule("delete"),
            status=204,
            errors=(409, 412),
        )


def _unwrap(body: bytes, one: str, many: str) -> bytes:
    """Return the body with items of many of the form `{"port": {…}}` as `{…}`; one without any is as it was.

    Source: Neutron, neutron/api/v2/base.py, prepare_request_body.
    """
    try:
        given = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        items = msgspec.json.decode(given[many], type=list[dict[str, msgspec.Raw]]) if many in given else []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body
    if not items:
        return body
    return msgspec.json.encode(given | {many: [item[one] if item.keys() == {one} else item for item in items]})


_VALUES = {"type": "array", "items": {"type": "string"}}
_FLAGS = ("true", "false", "True", "False", "1", "0")
_ORDER = {
    "sort_dir": {"type": "array", "items": {"enum": ["asc", "desc"]}},
    "limit": {"type": "integer", "minimum": 0},
    "marker": {"type": "string"},
    "page_reverse": {"enum": [*_FLAGS]},
}
SHOW_QUERY: Schema = {"type": "object", "properties": {"fields": _VALUES}}
"""The parameters that are read where one is shown."""


def list_query(document: type[Struct], *besides: str, sorted_by: Set[str] | None = None) -> Schema:
    """The parameters of a list: filters by every attribute and by others, order, pages, fields.

    sorted_by: the attributes that it may be ordered by; None: all.
    """
    names = sorted({*attributes(document), *listing.more_filters(document), *besides})
    values = {name: {"type": "array", "items": _filter(document, name)} for name in names}
    order = {
        **_ORDER,
        "sort_key": {
            "type": "array",
            "items": {"enum": sorted(attributes(document) if sorted_by is None else sorted_by)},
        },
    }
    return {"type": "object", "properties": {**values, **order, "fields": _VALUES}}


def _filter(document: type[Struct], name: str) -> Schema:
    """Return the schema of the values that a filter may have."""
    if name in booleans(document) or name == "shared":
        return {"enum": [*_FLAGS]}
    if name == "ip_version" and name not in attributes(document):
        return {"enum": ["4", "6"]}
    if name == listing.CHANGED_SINCE:
        return {"type": "string", "format": "date-time"}
    if name == "fixed_ips":
        return {"type": "string", "pattern": f"^({'|'.join(listing.FIXED_IP_KEYS)})=[^,]*$"}
    return {"type": "string"}


@cache
def answer(one: str, document: type[Struct]) -> type[Struct]:
    """The type of an answer with one."""
    return msgspec.defstruct(f"{_camel(one)}Answer", [(one, document)], forbid_unknown_fields=True)


@cache
def list_answer(many: str, document: type[Struct]) -> type[Struct]:
    """The type of an answer with many."""
    links = (f"{many}_links", list[PageLink] | UnsetType, UNSET)
    items = types.GenericAlias(list, (document,))
    return msgspec.defstruct(f"{_camel(many)}Answer", [(many, items), links], forbid_unknown_fields=True)


@cache
def _made_answer(one: str, many: str, document: type[Struct]) -> type[Struct]:
    """The type of an answer with the one, or the many, that were made."""
    fields = [
        (one, document | UnsetType, UNSET),
        (many, types.GenericAlias(list, (document,)) | UnsetType, UNSET),
    ]
    return msgspec.defstruct(f"{_camel(one)}MadeAnswer", fields, forbid_unknown_fields=True)


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
