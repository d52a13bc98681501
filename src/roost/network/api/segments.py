"""Segments over HTTP: what clients send of them, decoded and checked."""

from msgspec import UNSET, Struct, UnsetType

from roost.network.api.fields import NetworkType, SegmentationId, Text, parse_uuid, whole_number
from roost.network.api.policies import ADMIN
from roost.network.api.resources import Resource
from roost.network.errors import SegmentNotFound
from roost.network.model.networks import Changes, SegmentRequest, Uuid
from roost.network.rules import documents
from roost.network.rules.documents import SegmentDocument
from roost.network.rules.links import refuse_link
from roost.network.service import networks as service
from roost.platform.structs import copy_as


class SegmentBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST segments: one segment of a network."""

    network_id: Uuid
    network_type: NetworkType
    name: Text | None = None
    description: Text | None = None
    physical_network: Text | None = None
    segmentation_id: SegmentationId | None = None
    project_id: Text | None = None
    tenant_id: Text | None = None


class SegmentUpdateBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """PUT segments/{id}: what is left out stays; null stands for no name, and for an empty description."""

    name: Text | UnsetType | None = UNSET
    description: Text | UnsetType | None = UNSET


def _request(body: SegmentBody, _project_id: str) -> SegmentRequest:
    """Return what a body asks for. Raises InvalidInput."""
    request = copy_as(
        SegmentRequest,
        body,
        network_id=parse_uuid("network_id", body.network_id),
        description=body.description or "",
        segmentation_id=whole_number(body.segmentation_id),
    )
    refuse_link(request.link)
    return request


def _changes(body: SegmentUpdateBody, revision: int | None) -> Changes:
    return Changes(
        name=None if body.name is UNSET else body.name or "",
        description=None if body.description is UNSET else body.description or "",
        revision=revision,
    )


SEGMENT = Resource(
    name="segment",
    plural="segments",
    document=SegmentDocument,
    missing=SegmentNotFound,
    find=service.list_segments,
    show=documents.segment,
    body=SegmentBody,
    update_body=SegmentUpdateBody,
    request=_request,
    changes=_changes,
    create=service.create_segments,
    update=service.update_segment,
    delete=service.delete_segment,
    defaults={"get": ADMIN, "create": ADMIN, "update": ADMIN, "delete": ADMIN},
)
