"""Segments over HTTP."""

from collections.abc import Sequence

from roost.network.api import bodies_segments as bodies
from roost.network.api import documents
from roost.network.api.documents import SegmentDocument
from roost.network.api.policies import ADMIN
from roost.network.api.resources import Resource
from roost.network.errors import SegmentNotFound
from roost.network.model.networks import Segment
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
    defaults={"get": ADMIN, "create": ADMIN, "update": ADMIN, "delete": ADMIN},
)


def segment_operations(context: Networks) -> Operations:
    """Of the collection, and of one segment."""

    async def create(items: Sequence[bodies.SegmentBody]) -> list[Segment]:
        wanted = [bodies.segment(item, context.env) for item in items]
        return await service.create_segments(context, wanted)

    async def update(segment_id: str, body: bodies.SegmentUpdateBody, revision: int | None) -> Segment:
        return await service.update_segment(context, segment_id, bodies.segment_changes(body, revision))

    return SEGMENT.operations(
        context,
        create=create,
        create_body=bodies.SegmentEnvelope,
        update=update,
        update_body=bodies.SegmentUpdateEnvelope,
        delete=service.delete_segment,
    )
