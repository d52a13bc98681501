"""GET /resource_providers and what is below it. Source: Placement API 1.39."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.placement import service_read
from roost.placement.api.reads import API, fresh_response, provider_uuid
from roost.placement.query import decode_pairs, parse_providers
from roost.placement.service import Ledger
from roost.placement.service_read import ProviderView

RELATIONS = ("inventories", "usages", "aggregates", "traits", "allocations")


def provider_routes(ledger: Ledger) -> list[Route]:
    """The routes of providers."""

    async def list_providers(request: Request) -> Response:
        pairs = decode_pairs(request.scope["query_string"])
        query = parse_providers(pairs, request.state.microversion)
        providers = await service_read.list_providers(ledger, query)
        return fresh_response(ledger, {"resource_providers": [_body(request, provider) for provider in providers]})

    async def show(request: Request) -> Response:
        return fresh_response(ledger, _body(request, await _get(request)))

    async def show_inventories(request: Request) -> Response:
        provider = await _get(request)
        inventories = {name: msgspec.structs.asdict(held) for name, held in provider.inventories.items()}
        return fresh_response(ledger, _with_generation(provider, {"inventories": inventories}))

    async def show_usages(request: Request) -> Response:
        provider = await _get(request)
        return fresh_response(ledger, _with_generation(provider, {"usages": provider.used}))

    async def show_aggregates(request: Request) -> Response:
        provider = await _get(request)
        return fresh_response(ledger, _with_generation(provider, {"aggregates": sorted(provider.placement_aggregates)}))

    async def show_traits(request: Request) -> Response:
        provider = await _get(request)
        return fresh_response(ledger, _with_generation(provider, {"traits": sorted(provider.traits)}))

    async def show_allocations(request: Request) -> Response:
        generation, held = await service_read.get_provider_allocations(ledger, provider_uuid(request))
        allocations = {
            uuid: {"resources": one.resources, "consumer_generation": one.generation} for uuid, one in held.items()
        }
        return fresh_response(ledger, {"allocations": allocations, "resource_provider_generation": generation})

    async def _get(request: Request) -> ProviderView:
        return await service_read.get_provider(ledger, provider_uuid(request))

    one = "/resource_providers/{uuid}"
    return [
        API.route("/resource_providers", {"GET": list_providers}),
        API.route(one, {"GET": show}),
        API.route(f"{one}/inventories", {"GET": show_inventories}),
        API.route(f"{one}/usages", {"GET": show_usages}),
        API.route(f"{one}/aggregates", {"GET": show_aggregates}),
        API.route(f"{one}/traits", {"GET": show_traits}),
        API.route(f"{one}/allocations", {"GET": show_allocations}),
    ]


def _with_generation(provider: ProviderView, body: Mapping[str, Any]) -> dict[str, Any]:
    return {**body, "resource_provider_generation": provider.generation}


def _body(request: Request, provider: ProviderView) -> dict[str, Any]:
    url = f"{request.scope.get('root_path', '')}/resource_providers/{provider.uuid}"
    links = [{"rel": "self", "href": url}, *({"rel": name, "href": f"{url}/{name}"} for name in RELATIONS)]
    return {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        "parent_provider_uuid": provider.parent_uuid,
        "root_provider_uuid": provider.root_uuid,
        "links": links,
    }
