"""Segments over HTTP."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import bodies_segments as bodies
from roost.network.api import documents, listing
from roost.network.api.documents import SegmentDocument
from roost.network.api.protocol import Operations
from roost.network.api.resources import Resource
from roost.network.errors import SegmentNotFound
from roost.network.model import Segment
from roost.network.service import Networks
from roost.network.service import networks as service

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
        names = listing.texts(request, "name")
        # A filter may find null, for what has no name, by words that are no name: the database would not.
        named = None if names is None or set(names) & {"", "None", "null"} else names
        found = await service.list_segments(
            context,
            listing.uuids(request, "id"),
            network_ids=listing.uuids(request, "network_id"),
            names=named,
        )
        return listing.answer(request, "segments", [documents.segment(item) for item in found], SegmentDocument)

    async def create(items: Sequence[bodies.SegmentBody]) -> list[Segment]:
        wanted = [bodies.segment(item, context.env) for item in items]
        return await service.create_segments(context, wanted)

    async def update(wanted: str, body: bodies.SegmentUpdateBody, revision: int | None) -> Segment:
        return await service.update_segment(context, wanted, bodies.segment_changes(body, revision))

    return {
        "/v2.0/segments": {
            "GET": SEGMENT.list_operation(list_all),
            "POST": SEGMENT.create_operation(context, bodies.SegmentEnvelope, create),
        },
        "/v2.0/segments/{id}": {
            "GET": SEGMENT.show_operation(context),
            "PUT": SEGMENT.update_operation(context, bodies.SegmentUpdateEnvelope, update),
            "DELETE": SEGMENT.delete_operation(context, service.delete_segment),
        },
    }
