"""What clients send of networks and segments, decoded and checked; what is not served is refused by name."""

from msgspec import Struct, field

from roost.network.api.bodies import SegmentationId, Text, check_type, parse_segmentation_id, parse_uuid
from roost.network.errors import InvalidInput
from roost.network.model import Network, Segment
from roost.platform.env import Env


class NetworkBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST networks: one network. provider:* make it plain; a routed one's are in its segments."""

    name: Text = ""
    description: Text = ""
    project_id: Text | None = None
    tenant_id: Text | None = None
    admin_state_up: bool = True
    shared: bool = False
    external: bool = field(default=False, name="router:external")
    network_type: Text | None = field(default=None, name="provider:network_type")
    physical_network: Text | None = field(default=None, name="provider:physical_network")
    segmentation_id: SegmentationId | None = field(default=None, name="provider:segmentation_id")


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


class NetworkEnvelope(Struct, forbid_unknown_fields=True):
    """The body around one network."""

    network: NetworkBody


class SegmentEnvelope(Struct, forbid_unknown_fields=True):
    """The body around one segment."""

    segment: SegmentBody


def network(body: NetworkBody, env: Env, default_project: str) -> Network:
    """Raises InvalidInput."""
    for name, value, served in (
        ("admin_state_up", body.admin_state_up, True),
        ("shared", body.shared, False),
        ("router:external", body.external, False),
    ):
        if value is not served:
            raise InvalidInput(f"{name}: only {str(served).lower()} is served as yet.")
    kind = body.network_type
    if kind is None and body.physical_network is not None:
        kind = "flat" if body.segmentation_id is None else "vlan"
    segmentation_id = parse_segmentation_id("provider:", body.segmentation_id)
    check_type("provider:", kind, body.physical_network, segmentation_id)
    return Network(
        id="",
        name=body.name,
        project_id=body.project_id or body.tenant_id or default_project,
        description=body.description,
        network_type=kind,
        physical_network=body.physical_network,
        segmentation_id=segmentation_id,
        revision=1,
        created_at=env.now(),
        updated_at=env.now(),
    )


def segment(body: SegmentBody, env: Env) -> Segment:
    """Raises InvalidInput."""
    segmentation_id = parse_segmentation_id("", body.segmentation_id)
    check_type("", body.network_type, body.physical_network, segmentation_id)
    return Segment(
        id="",
        network_id=parse_uuid("network_id", body.network_id),
        name=body.name,
        description=body.description or "",
        network_type=body.network_type,
        physical_network=body.physical_network,
        segmentation_id=segmentation_id,
        revision=1,
        created_at=env.now(),
        updated_at=env.now(),
    )
