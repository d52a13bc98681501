"""Segments over HTTP."""

from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import bodies_networks as bodies
from roost.network.api import documents, listing
from roost.network.api.documents import SegmentDocument
from roost.network.api.protocol import Operation, Operations
from roost.network.api.resources import Resource, answer
from roost.network.errors import SegmentNotFound
from roost.network.service import Networks
from roost.network.service import networks as service
from roost.platform.http import canonical_uuid, is_uuid, json_response, read_json

SEGMENT = Resource(
    one="segment",
    many="segments",
    document=SegmentDocument,
    missing=SegmentNotFound,
    find=service.list_segments,
    show=documents.segment,
)


def segment_operations(context: Networks) -> Operations:
    """Of the collection, and of one segment."""

    async def list_all(request: Request) -> Response:
        named = request.query_params.getlist("id")
        ids = [canonical_uuid(text) for text in named if is_uuid(text)] if named else None
        shown = [documents.segment(item) for item in await service.list_segments(context, ids)]
        return json_response({"segments": listing.select(shown, request, SegmentDocument)})

    async def create(request: Request) -> Response:
        body = await read_json(request, bodies.SegmentEnvelope)
        made = await service.create_segment(context, bodies.segment(body.segment, context.env))
        return json_response({"segment": documents.segment(made)}, 201)

    return {
        "/v2.0/segments": {
            "GET": SEGMENT.list_operation(list_all),
            "POST": Operation(
                summary="make a segment of a network",
                endpoint=create,
                rule="create_segment",
                body=bodies.SegmentEnvelope,
                status=201,
                result=answer("segment", SegmentDocument),
                errors=(404,),
            ),
        },
        "/v2.0/segments/{id}": {
            "GET": SEGMENT.show_operation(context),
            "DELETE": SEGMENT.delete_operation(context, service.delete_segment),
        },
    }
