"""Networks over HTTP."""

from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import bodies_networks as bodies
from roost.network.api import documents, listing
from roost.network.api.documents import NetworkDocument
from roost.network.api.protocol import Operation, Operations
from roost.network.api.resources import Resource, answer
from roost.network.errors import NetworkNotFound
from roost.network.service import Networks
from roost.network.service import networks as service
from roost.platform.http import canonical_uuid, is_uuid, json_response, read_json

NETWORK = Resource(
    one="network",
    many="networks",
    document=NetworkDocument,
    missing=NetworkNotFound,
    find=service.list_networks,
    show=documents.network,
)


def network_operations(context: Networks) -> Operations:
    """Of the collection, and of one network."""

    async def list_all(request: Request) -> Response:
        named = request.query_params.getlist("id")
        ids = [canonical_uuid(text) for text in named if is_uuid(text)] if named else None
        shown = [documents.network(item) for item in await service.list_networks(context, ids)]
        return json_response({"networks": listing.select(shown, request, NetworkDocument)})

    async def create(request: Request) -> Response:
        body = await read_json(request, bodies.NetworkEnvelope)
        made = await service.create_network(context, bodies.network(body.network, context.env, context.default_project))
        return json_response({"network": documents.network(made)}, 201)

    return {
        "/v2.0/networks": {
            "GET": NETWORK.list_operation(list_all),
            "POST": Operation(
                summary="make a network",
                endpoint=create,
                rule="create_network",
                body=bodies.NetworkEnvelope,
                status=201,
                result=answer("network", NetworkDocument),
            ),
        },
        "/v2.0/networks/{id}": {
            "GET": NETWORK.show_operation(context),
            "DELETE": NETWORK.delete_operation(context, service.delete_network),
        },
    }
