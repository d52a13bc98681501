"""Subnets over HTTP."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import bodies_subnets as bodies
from roost.network.api import documents, listing
from roost.network.api.documents import SubnetDocument
from roost.network.api.protocol import Operations
from roost.network.api.resources import Resource
from roost.network.errors import SubnetNotFound
from roost.network.model import Subnet
from roost.network.service import Networks, subnet_changes
from roost.network.service import subnets as service

SUBNET = Resource(
    one="subnet",
    many="subnets",
    document=SubnetDocument,
    missing=SubnetNotFound,
    find=service.list_subnets,
    show=documents.subnet,
)


def subnet_operations(context: Networks) -> Operations:
    """Of the collection, and of one subnet."""

    async def list_all(request: Request) -> Response:
        found = await service.list_subnets(
            context,
            listing.uuids(request, "id"),
            network_ids=listing.uuids(request, "network_id"),
            names=listing.texts(request, "name"),
        )
        return listing.answer(request, "subnets", [documents.subnet(item) for item in found], SubnetDocument)

    async def create(items: Sequence[bodies.SubnetBody]) -> list[Subnet]:
        wanted = [bodies.subnet(item, context.env, context.default_project) for item in items]
        return await service.create_subnets(context, wanted)

    async def update(wanted: str, body: bodies.SubnetUpdateBody, revision: int | None) -> Subnet:
        return await subnet_changes.update_subnet(context, wanted, bodies.subnet_changes(body, revision))

    return {
        "/v2.0/subnets": {
            "GET": SUBNET.list_operation(list_all),
            "POST": SUBNET.create_operation(context, bodies.SubnetEnvelope, create),
        },
        "/v2.0/subnets/{id}": {
            "GET": SUBNET.show_operation(context),
            "PUT": SUBNET.update_operation(context, bodies.SubnetUpdateEnvelope, update),
            "DELETE": SUBNET.delete_operation(context, service.delete_subnet),
        },
    }
