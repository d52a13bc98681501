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
        found = await service.list_networks(
            context,
            listing.uuids(request, "id"),
            names=listing.texts(request, "name"),
            project_ids=listing.texts(request, "project_id"),
        )
        return listing.answer(request, "networks", [documents.network(item) for item in found], NetworkDocument)

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
