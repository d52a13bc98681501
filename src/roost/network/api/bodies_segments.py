"""What clients send of segments, decoded and checked."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from roost.network.api.bodies import BULK_MAX, SegmentationId, Text, parse_segmentation_id, parse_uuid
from roost.network.model.networks import Segment, SegmentChanges
from roost.network.rules.links import refuse_link
from roost.platform.env import Env


class SegmentBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST segments: one segment of a network."""

    network_id: str
    network_type: Text
    name: Text | None = None
    description: Text | None = None
    physical_network: Text | None = None
    segmentation_id: SegmentationId | None = None
    project_id: Text | None = None
    tenant_id: Text | None = None


class SegmentUpdateBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """PUT segments/{id}: what is left out stays."""

    name: Text | UnsetType | None = UNSET
    description: Text | UnsetType | None = UNSET


class SegmentEnvelope(Struct, forbid_unknown_fields=True):
    """The body around one segment, or around many."""

    segment: SegmentBody | UnsetType = UNSET
    segments: Annotated[list[SegmentBody], Meta(min_length=1, max_length=BULK_MAX)] | UnsetType = UNSET


class SegmentUpdateEnvelope(Struct, forbid_unknown_fields=True):
    """The body around a segment's changes."""

    segment: SegmentUpdateBody


def segment(body: SegmentBody, env: Env) -> Segment:
    """Raises InvalidInput."""
    made = Segment(
        id="",
        network_id=parse_uuid("network_id", body.network_id),
        name=body.name,
        description=body.description or "",
        network_type=body.network_type,
        physical_network=body.physical_network,
        segmentation_id=parse_segmentation_id(body.segmentation_id),
        revision=1,
        created_at=env.now(),
        updated_at=env.now(),
    )
    refuse_link(made.link)
    return made


def segment_changes(body: SegmentUpdateBody, revision: int | None) -> SegmentChanges:
    """A null empties."""
    return SegmentChanges(
        name=None if body.name is UNSET else body.name or "",
        description=None if body.description is UNSET else body.description or "",
        revision=revision,
    )
