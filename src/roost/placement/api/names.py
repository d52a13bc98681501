"""/resource_classes and /traits, and the traits of a provider. Source: Placement API 1.2 and 1.6 to 1.39."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from roost.placement.api import answer_schemas, schemas
from roost.placement.api.bodies import check, read_body, read_query
from roost.placement.api.policies import admin_or_service
from roost.placement.api.protocol import answer, link_to, provider_uuid
from roost.placement.errors import ResourceClassTaken
from roost.placement.model import NameKind
from roost.placement.service import names as names_service
from roost.placement.service import providers as providers_service
from roost.placement.service import reads as reads_service
from roost.placement.service.ledger import Ledger
from roost.platform.errors import BadRequest
from roost.platform.operations import Operation, Operations, version_of

BODILESS_SINCE = (1, 7)


@dataclass(frozen=True)
class ResourceClasses:
    """The operations of resource classes."""

    ledger: Ledger

    async def list_all(self, request: Request) -> Response:
        names = await names_service.list_names(self.ledger, NameKind.RESOURCE_CLASS)
        return answer(request, {"resource_classes": [_class_body(request, name) for name in names]})

    async def create(self, request: Request) -> Response:
        name = (await read_body(request, schemas.CLASS_CREATE))["name"]
        if not await names_service.create_name(self.ledger, NameKind.RESOURCE_CLASS, name):
            raise ResourceClassTaken(f"Conflicting resource class already exists: {name}")
        return Response(None, 201, {"Location": link_to(request, f"/resource_classes/{name}")})

    async def show(self, request: Request) -> Response:
        name: str = request.path_params["name"]
        await names_service.check_exists(self.ledger, NameKind.RESOURCE_CLASS, name)
        return answer(request, _class_body(request, name))

    async def ensure(self, request: Request) -> Response:
        name: str = request.path_params["name"]
        if version_of(request) < BODILESS_SINCE:
            new_name = (await read_body(request, schemas.CLASS_CREATE))["name"]
            await names_service.rename_resource_class(self.ledger, name, new_name)
            return answer(request, _class_body(request, new_name))
        check({"name": name}, schemas.CLASS_NAME, "JSON does not validate")
        created = await names_service.create_name(self.ledger, NameKind.RESOURCE_CLASS, name)
        return Response(None, 201 if created else 204, {"Location": link_to(request, f"/resource_classes/{name}")})

    async def delete(self, request: Request) -> Response:
        await names_service.delete_name(self.ledger, NameKind.RESOURCE_CLASS, request.path_params["name"])
        return Response(None, 204)

    def operations(self) -> Operations:
        """Return the operations, by path and method."""
        rule = admin_or_service("resource_classes")
        return {
            "/resource_classes": {
                "GET": Operation(
                    summary="every resource class, the standard ones first", endpoint=self.list_all,
                    result=answer_schemas.RESOURCE_CLASSES, rule=rule("list"), since=(1, 2),
                ),
                "POST": Operation(
                    summary="make a custom class", endpoint=self.create, errors=(409,), rule=rule("create"),
                    since=(1, 2), body=schemas.CLASS_CREATE, status=201,
                ),
            },
            "/resource_classes/{name}": {
                "GET": Operation(
                    summary="one resource class", endpoint=self.show, result=answer_schemas.RESOURCE_CLASS,
                    errors=(404,), rule=rule("show"), since=(1, 2),
                ),
                "PUT": Operation(
                    summary="have this custom class; before 1.7 rename it", endpoint=self.ensure,
                    path=schemas.CUSTOM_PATH, other_statuses=(204,), errors=(400,), rule=rule("update"), since=(1, 2),
                    status=201,
                ),
                "DELETE": Operation(
                    summary="delete a custom class; 409 while there is inventory of it", endpoint=self.delete,
                    path=schemas.CUSTOM_PATH, errors=(400, 404, 409), rule=rule("delete"), since=(1, 2), status=204,
                ),
            },
        }  # fmt: skip


@dataclass(frozen=True)
class Traits:
    """The operations of traits."""

    ledger: Ledger

    async def list_all(self, request: Request) -> Response:
        names, prefix, associated = _read_filters(request)
        traits = await names_service.list_names(
            self.ledger, NameKind.TRAIT, names=names, prefix=prefix, associated=associated
        )
        return answer(request, {"traits": traits})

    async def show(self, request: Request) -> Response:
        await names_service.check_exists(self.ledger, NameKind.TRAIT, request.path_params["name"])
        return answer(request, None, 204)

    async def ensure(self, request: Request) -> Response:
        name: str = request.path_params["name"]
        try:
            check(name, schemas.TRAIT_NAME, "")
        except BadRequest as error:
            raise BadRequest(
                "The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix "
                '"CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"'
            ) from error
        created = await names_service.create_name(self.ledger, NameKind.TRAIT, name)
        response = answer(request, None, 201 if created else 204)
        response.headers["Location"] = link_to(request, f"/traits/{name}")
        return response

    async def delete(self, request: Request) -> Response:
        await names_service.delete_name(self.ledger, NameKind.TRAIT, request.path_params["name"])
        return Response(None, 204)

    def operations(self) -> Operations:
        """Return the operations, by path and method."""
        rule = admin_or_service("traits")
        return {
            "/traits": {
                "GET": Operation(
                    summary="traits, filtered by `name=in:A,B`, `name=startswith:A` and `associated`",
                    endpoint=self.list_all, result=answer_schemas.TRAITS, rule=rule("list"), since=(1, 6),
                    query=schemas.TRAITS_QUERY,
                )
            },
            "/traits/{name}": {
                "GET": Operation(
                    summary="204 if there is such a trait", endpoint=self.show, errors=(404,), rule=rule("show"),
                    since=(1, 6), status=204,
                ),
                "PUT": Operation(
                    summary="have this custom trait", endpoint=self.ensure, path=schemas.CUSTOM_PATH,
                    other_statuses=(204,), errors=(400,), rule=rule("update"), since=(1, 6), status=201,
                ),
                "DELETE": Operation(
                    summary="delete a custom trait; 409 while a provider has it", endpoint=self.delete,
                    path=schemas.CUSTOM_PATH, errors=(400, 404, 409), rule=rule("delete"), since=(1, 6), status=204,
                ),
            },
        }  # fmt: skip


@dataclass(frozen=True)
class ProviderTraits:
    """The operations of the traits of a provider."""

    ledger: Ledger

    async def show(self, request: Request) -> Response:
        provider = await reads_service.get_provider(self.ledger, provider_uuid(request))
        return _held_answer(request, sorted(provider.traits), provider.generation)

    async def replace(self, request: Request) -> Response:
        body = await read_body(request, schemas.TRAITS_SET)
        traits = frozenset(body["traits"])
        generation = await providers_service.set_traits(
            self.ledger, provider_uuid(request), traits, generation=body["resource_provider_generation"]
        )
        return _held_answer(request, sorted(traits), generation)

    async def drop(self, request: Request) -> Response:
        await providers_service.set_traits(self.ledger, provider_uuid(request), frozenset(), generation=None)
        return Response(None, 204)

    def operations(self) -> Operations:
        """Return the operations, by path and method."""
        rule = admin_or_service("resource_providers:traits")
        return {
            "/resource_providers/{uuid}/traits": {
                "GET": Operation(
                    summary="its traits", endpoint=self.show, result=answer_schemas.PROVIDER_TRAITS, errors=(404,),
                    rule=rule("list"), since=(1, 6),
                ),
                "PUT": Operation(
                    summary="have these traits and no others", endpoint=self.replace,
                    result=answer_schemas.PROVIDER_TRAITS, errors=(404, 409), rule=rule("update"), since=(1, 6),
                    body=schemas.TRAITS_SET,
                ),
                "DELETE": Operation(
                    summary="have no traits", endpoint=self.drop, errors=(404, 409), rule=rule("delete"), since=(1, 6),
                    status=204,
                ),
            },
        }  # fmt: skip


def _read_filters(request: Request) -> tuple[list[str] | None, str | None, bool | None]:
    parameters = read_query(request, schemas.TRAITS_QUERY)
    names = prefix = associated = None
    if "name" in parameters:
        operator, colon, value = parameters["name"].partition(":")
        if not colon:
            raise BadRequest(
                "Badly formatted name parameter. Expected name query string parameter in form: "
                f'?name=[in|startswith]:[name1,name2|prefix]. Got: "{parameters["name"]}"'
            )
        if operator == "in":
            names = value.split(",")
        elif operator == "startswith":
            prefix = value
    if "associated" in parameters:
        if parameters["associated"].lower() not in ("true", "false"):
            raise BadRequest('The query parameter "associated" only accepts "true" or "false"')
        associated = parameters["associated"].lower() == "true"
    return names, prefix, associated


def _class_body(request: Request, name: str) -> dict[str, Any]:
    return {"name": name, "links": [{"rel": "self", "href": link_to(request, f"/resource_classes/{name}")}]}


def _held_answer(request: Request, traits: list[str], generation: int) -> Response:
    return answer(request, {"traits": traits, "resource_provider_generation": generation})
