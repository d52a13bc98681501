"""Networks over HTTP."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import bodies_networks as bodies
from roost.network.api import documents, listing
from roost.network.api.documents import NetworkDocument
from roost.network.api.protocol import Operations
from roost.network.api.resources import Resource
from roost.network.errors import NetworkNotFound
from roost.network.model import Network
from roost.network.service import Networks
from roost.network.service import networks as service
from roost.platform.http import canonical_uuid, is_uuid, json_response

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

    async def create(items: Sequence[bodies.NetworkBody]) -> list[Network]:
        wanted = [bodies.network(item, context.env, context.default_project) for item in items]
        return await service.create_networks(context, wanted)

    async def update(wanted: str, body: bodies.NetworkUpdateBody, revision: int | None) -> Network:
        return await service.update_network(context, wanted, bodies.network_changes(body, revision))

    return {
        "/v2.0/networks": {
            "GET": NETWORK.list_operation(list_all),
            "POST": NETWORK.create_operation(context, bodies.NetworkEnvelope, create),
        },
        "/v2.0/networks/{id}": {
            "GET": NETWORK.show_operation(context),
            "PUT": NETWORK.update_operation(context, bodies.NetworkUpdateEnvelope, update),
            "DELETE": NETWORK.delete_operation(context, service.delete_network),
        },
    }
