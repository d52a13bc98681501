"""Networks over HTTP."""

from collections.abc import Sequence

from roost.network.api import bodies_networks as bodies
from roost.network.api import documents
from roost.network.api.bodies import refuse_many
from roost.network.api.documents import NetworkDocument
from roost.network.api.policies import OWN, SEEN_NETWORK
from roost.network.api.resources import Resource
from roost.network.errors import NetworkNotFound
from roost.network.model.networks import Network
from roost.network.service import Networks
from roost.network.service import networks as service
from roost.platform.operations import Operations

NETWORK = Resource(
    one="network",
    many="networks",
    document=NetworkDocument,
    missing=NetworkNotFound,
    find=service.list_networks,
    show=documents.network,
    defaults={"get": SEEN_NETWORK, "create": OWN, "update": OWN, "delete": OWN},
)


def network_operations(context: Networks) -> Operations:
    """Of the collection, and of one network."""

    async def create(items: Sequence[bodies.NetworkBody]) -> list[Network]:
        refuse_many("segments", (item.segments for item in items))
        wanted = [bodies.network(item, context.env, context.default_project) for item in items]
        return await service.create_networks(context, wanted)

    async def update(network_id: str, body: bodies.NetworkUpdateBody, revision: int | None) -> Network:
        return await service.update_network(context, network_id, bodies.network_changes(body, revision))

    return NETWORK.operations(
        context,
        create=create,
        create_body=bodies.NetworkEnvelope,
        update=update,
        update_body=bodies.NetworkUpdateEnvelope,
        delete=service.delete_network,
    )
