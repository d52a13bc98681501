"""/resource_providers: the providers themselves, and their placement aggregates. Source: Placement API 1.0 to 1.39."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from roost.placement.api import answer_schemas, schemas
from roost.placement.api.bodies import read_body
from roost.placement.api.policies import admin_or_service
from roost.placement.api.protocol import answer, link_to, provider_uuid
from roost.placement.model import ProviderHead
from roost.placement.search.query import decode_pairs, parse_providers
from roost.placement.search.query_schema import PROVIDER_PARAMETERS, provider_schema
from roost.placement.service import providers as providers_service
from roost.placement.service import reads as reads_service
from roost.placement.service.ledger import Ledger
from roost.placement.service.reads import ProviderView
from roost.platform.http import canonical_uuid
from roost.platform.operations import Operation, Operations, Versions, version_of

RELATIONS = (
    ("inventories", (1, 0)),
    ("usages", (1, 0)),
    ("aggregates", (1, 1)),
    ("traits", (1, 6)),
    ("allocations", (1, 11)),
)
TREES_SINCE = (1, 14)
AGGREGATE_GENERATION_SINCE = (1, 19)
CREATED_BODY_SINCE = (1, 20)
REPARENT_SINCE = (1, 37)

PROVIDER_QUERY = Versions({since: provider_schema(since) for since, _, _ in PROVIDER_PARAMETERS})

RULE = admin_or_service("resource_providers")


@dataclass(frozen=True)
class Providers:
    """The operations of providers."""

    ledger: Ledger

    async def list_providers(self, request: Request) -> Response:
        query = parse_providers(decode_pairs(request.scope["query_string"]), version_of(request))
        providers = await reads_service.list_providers(self.ledger, query)
        return answer(request, {"resource_providers": _bodies(request, providers)})

    async def create(self, request: Request) -> Response:
        body = await read_body(request, schemas.PROVIDER_CREATE)
        parent = body.get("parent_provider_uuid")
        provider = await providers_service.create_provider(
            self.ledger,
            uuid=canonical_uuid(body["uuid"]) if "uuid" in body else self.ledger.env.new_uuid(),
            name=body["name"],
            parent_uuid=None if parent is None else canonical_uuid(parent),
        )
        headers = {"Location": link_to(request, f"/resource_providers/{provider.uuid}")}
        if version_of(request) < CREATED_BODY_SINCE:
            return Response(None, 201, headers)
        return answer(request, _body(request, provider), headers=headers)

    async def show(self, request: Request) -> Response:
        return answer(request, _body(request, await reads_service.get_provider(self.ledger, provider_uuid(request))))

    async def update(self, request: Request) -> Response:
        uuid = provider_uuid(request)
        body = await read_body(request, schemas.PROVIDER_UPDATE)
        parent = body.get("parent_provider_uuid")
        changed = await providers_service.update_provider(
            self.ledger,
            uuid,
            name=body["name"],
            parent=(None if parent is None else canonical_uuid(parent),) if "parent_provider_uuid" in body else None,
            may_reparent=version_of(request) >= REPARENT_SINCE,
        )
        return answer(request, _body(request, changed))

    async def delete(self, request: Request) -> Response:
        await providers_service.delete_provider(self.ledger, provider_uuid(request))
        return Response(None, 204)

    def operations(self) -> Operations:
        """Return the operations, by path and method."""
        return {
            "/resource_providers": {
                "GET": Operation(
                    summary="providers that satisfy the query", endpoint=self.list_providers,
                    result=answer_schemas.PROVIDERS, rule=RULE("list"), query=PROVIDER_QUERY,
                ),
                "POST": Operation(
                    summary="make a provider", endpoint=self.create, result=answer_schemas.PROVIDER, errors=(409,),
                    rule=RULE("create"), body=schemas.PROVIDER_CREATE,
                ),
            },
            "/resource_providers/{uuid}": {
                "GET": Operation(
                    summary="one provider with its generation, parent and root", endpoint=self.show,
                    result=answer_schemas.PROVIDER, errors=(404,), rule=RULE("show"),
                ),
                "PUT": Operation(
                    summary="rename it; from 1.14 give it a parent, from 1.37 another one or none",
                    endpoint=self.update, result=answer_schemas.PROVIDER, errors=(404, 409), rule=RULE("update"),
                    body=schemas.PROVIDER_UPDATE,
                ),
                "DELETE": Operation(
                    summary="delete it; 409 while it has allocations or children", endpoint=self.delete,
                    errors=(404, 409), rule=RULE("delete"), status=204,
                ),
            },
        }  # fmt: skip


@dataclass(frozen=True)
class Aggregates:
    """The operations of a provider's placement aggregates."""

    ledger: Ledger

    async def show(self, request: Request) -> Response:
        provider = await reads_service.get_provider(self.ledger, provider_uuid(request))
        return _aggregates_answer(request, sorted(provider.placement_aggregates), provider.generation)

    async def replace(self, request: Request) -> Response:
        uuid = provider_uuid(request)
        await reads_service.get_provider(self.ledger, uuid)
        body = await read_body(request, schemas.AGGREGATES_SET)
        generation = None
        if version_of(request) >= AGGREGATE_GENERATION_SINCE:
            body, generation = body["aggregates"], body["resource_provider_generation"]
        aggregates = [canonical_uuid(aggregate) for aggregate in body]
        generation = await providers_service.set_aggregates(
            self.ledger, uuid, frozenset(aggregates), generation=generation
        )
        return _aggregates_answer(request, list(dict.fromkeys(aggregates)), generation)

    def operations(self) -> Operations:
        """Return the operations, by path and method."""
        rule = admin_or_service("resource_providers:aggregates")
        return {
            "/resource_providers/{uuid}/aggregates": {
                "GET": Operation(
                    summary="the placement aggregates that it is in", endpoint=self.show,
                    result=answer_schemas.AGGREGATES, errors=(404,), rule=rule("list"), since=(1, 1),
                ),
                "PUT": Operation(
                    summary="be in these placement aggregates and no others", endpoint=self.replace,
                    result=answer_schemas.AGGREGATES, errors=(404, 409), rule=rule("update"), since=(1, 1),
                    body=schemas.AGGREGATES_SET,
                ),
            }
        }  # fmt: skip


def _aggregates_answer(request: Request, aggregates: list[str], generation: int) -> Response:
    body: dict[str, Any] = {"aggregates": aggregates}
    if version_of(request) >= AGGREGATE_GENERATION_SINCE:
        body["resource_provider_generation"] = generation
    return answer(request, body)


def _body(request: Request, provider: ProviderView | ProviderHead) -> dict[str, Any]:
    (body,) = _bodies(request, [provider])
    return body


def _bodies(request: Request, providers: Iterable[ProviderView | ProviderHead]) -> list[dict[str, Any]]:
    version, path = version_of(request), link_to(request, "/resource_providers/")
    relations = [("self", ""), *((name, f"/{name}") for name, since in RELATIONS if version >= since)]
    bodies = []
    for provider in providers:
        body = {
            "uuid": provider.uuid,
            "name": provider.name,
            "generation": provider.generation,
            "links": [{"rel": name, "href": f"{path}{provider.uuid}{suffix}"} for name, suffix in relations],
        }
        if version >= TREES_SINCE:
            body["parent_provider_uuid"] = provider.parent_uuid
            body["root_provider_uuid"] = provider.root_uuid
        bodies.append(body)
    return bodies
