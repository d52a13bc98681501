"""Segments over HTTP."""

from collections.abc import Sequence

from starlette.requests import Request

from roost.network.api import bodies_segments as bodies
from roost.network.api import documents, listing
from roost.network.api.documents import SegmentDocument
from roost.network.api.resources import Resource
from roost.network.errors import SegmentNotFound
from roost.network.model import Segment
from roost.network.service import Networks
from roost.network.service import networks as service
from roost.platform.operations import Operations

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

    async def list_narrowed(request: Request) -> list[Segment]:
        names = listing.texts(request, "name")
        # A filter may find null, for what has no name, by words that are no name: the database would not.
        named = None if names is None or set(names) & {"", "None", "null"} else names
        return await service.list_segments(
            context,
            listing.uuids(request, "id"),
            network_ids=listing.uuids(request, "network_id"),
            names=named,
        )

    async def create(items: Sequence[bodies.SegmentBody]) -> list[Segment]:
        wanted = [bodies.segment(item, context.env) for item in items]
        return await service.create_segments(context, wanted)

    async def update(segment_id: str, body: bodies.SegmentUpdateBody, revision: int | None) -> Segment:
        return await service.update_segment(context, segment_id, bodies.segment_changes(body, revision))

    return SEGMENT.operations(
        context,
        list_narrowed=list_narrowed,
        create=create,
        create_body=bodies.SegmentEnvelope,
        update=update,
        update_body=bodies.SegmentUpdateEnvelope,
        delete=service.delete_segment,
    )
