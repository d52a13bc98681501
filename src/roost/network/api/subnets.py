"""Subnets over HTTP."""

from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import bodies_subnets as bodies
from roost.network.api import documents, listing
from roost.network.api.documents import SubnetDocument
from roost.network.api.protocol import Operation, Operations
from roost.network.api.resources import Resource, answer
from roost.network.errors import SubnetNotFound
from roost.network.service import Networks
from roost.network.service import subnets as service
from roost.platform.http import canonical_uuid, is_uuid, json_response, read_json

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
        named = request.query_params.getlist("id")
        ids = [canonical_uuid(text) for text in named if is_uuid(text)] if named else None
        shown = [documents.subnet(item) for item in await service.list_subnets(context, ids)]
        return json_response({"subnets": listing.select(shown, request, SubnetDocument)})

    async def create(request: Request) -> Response:
        body = await read_json(request, bodies.SubnetEnvelope)
        made = await service.create_subnet(context, bodies.subnet(body.subnet, context.env, context.default_project))
        return json_response({"subnet": documents.subnet(made)}, 201)

    return {
        "/v2.0/subnets": {
            "GET": SUBNET.list_operation(list_all),
            "POST": Operation(
                summary="make a subnet; the ledger knows its addresses when the answer comes",
                endpoint=create,
                rule="create_subnet",
                body=bodies.SubnetEnvelope,
                status=201,
                result=answer("subnet", SubnetDocument),
                errors=(404, 409),
            ),
        },
        "/v2.0/subnets/{id}": {
            "GET": SUBNET.show_operation(context),
            "DELETE": SUBNET.delete_operation(context, service.delete_subnet),
        },
    }
