"""What clients send of networks, decoded and checked; what is not served is refused by name."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from roost.network.api.bodies import (
    BULK_MAX,
    SegmentationId,
    Text,
    Unserved,
    parse_project,
    parse_segmentation_id,
    refuse_unserved,
)
from roost.network.errors import InvalidInput, SegmentsSetInConjunctionWithProviders
from roost.network.model.networks import MTU_DEFAULT, Link, Network, NetworkChanges
from roost.network.rules.links import refuse_link
from roost.platform.env import Env

MTU_MAX = 65535
SEGMENTS_MAX = 1000
Mtu = Annotated[int, Meta(ge=0, le=MTU_MAX)] | Annotated[str, Meta(pattern="^[0-9]{1,5}$")]
"""A number, or its digits, as `openstack network create` sends it."""
PROVIDER = ("network_type", "physical_network", "segmentation_id")


class LinkBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """One of the segments that a network is made with."""

    network_type: Text | None = field(default=None, name="provider:network_type")
    physical_network: Text | None = field(default=None, name="provider:physical_network")
    segmentation_id: SegmentationId | None = field(default=None, name="provider:segmentation_id")


class NetworkUnserved(Struct, kw_only=True, forbid_unknown_fields=True):
    """What clients send of a network and Roost has no use for: accepted where it asks for nothing."""

    port_security_enabled: Unserved = UNSET
    availability_zone_hints: Unserved = UNSET
    dns_domain: Unserved = UNSET
    is_default: Unserved = UNSET
    qos_policy_id: Unserved = UNSET
    vlan_transparent: Unserved = UNSET
    vlan_qinq: Unserved = UNSET
    qinq: Unserved = UNSET
    pvlan: Unserved = UNSET
    ha: Unserved = UNSET


NEUTRAL = {
    "port_security_enabled": (False, None),
    "availability_zone_hints": ([], None),
    "dns_domain": ("", None),
    "is_default": (False, None),
    "qos_policy_id": (None,),
    "vlan_transparent": (False, None),
    "vlan_qinq": (False, None),
    "qinq": (False, None),
    "pvlan": (False, None),
    "ha": (False, None),
}


class NetworkBody(NetworkUnserved, kw_only=True, forbid_unknown_fields=True):
    """POST networks: one network. provider:* are those of its one segment, `segments` those of several.

    roost:kind: `flat` for one of the legacy kind, whose subnets are pools of cells.
    """

    name: Text = ""
    description: Text = ""
    project_id: Text | None = None
    tenant_id: Text | None = None
    admin_state_up: bool = True
    shared: bool = False
    external: bool = field(default=False, name="router:external")
    mtu: Mtu = 0
    network_type: Text | None = field(default=None, name="provider:network_type")
    physical_network: Text | None = field(default=None, name="provider:physical_network")
    segmentation_id: SegmentationId | None = field(default=None, name="provider:segmentation_id")
    segments: Annotated[list[LinkBody], Meta(max_length=SEGMENTS_MAX)] | None = None
    kind: Literal["flat"] | None = field(default=None, name="roost:kind")


class NetworkUpdateBody(NetworkUnserved, kw_only=True, forbid_unknown_fields=True):
    """PUT networks/{id}: what is left out stays. provider:* may be repeated, not changed."""

    name: Text | UnsetType = UNSET
    description: Text | UnsetType = UNSET
    admin_state_up: bool | UnsetType = UNSET
    shared: bool | UnsetType = UNSET
    external: bool | UnsetType = field(default=UNSET, name="router:external")
    mtu: Mtu | UnsetType = UNSET
    network_type: Text | UnsetType | None = field(default=UNSET, name="provider:network_type")
    physical_network: Text | UnsetType | None = field(default=UNSET, name="provider:physical_network")
    segmentation_id: SegmentationId | UnsetType | None = field(default=UNSET, name="provider:segmentation_id")


class NetworkEnvelope(Struct, forbid_unknown_fields=True):
    """The body around one network, or around many."""

    network: NetworkBody | UnsetType = UNSET
    networks: Annotated[list[NetworkBody], Meta(min_length=1, max_length=BULK_MAX)] | UnsetType = UNSET


class NetworkUpdateEnvelope(Struct, forbid_unknown_fields=True):
    """The body around a network's changes."""

    network: NetworkUpdateBody


def network(body: NetworkBody, env: Env, default_project: str) -> Network:
    """Raises InvalidInput, BadRequest, SegmentsSetInConjunctionWithProviders."""
    refuse_unserved(body, NEUTRAL)
    own = _link(LinkBody(**{name: getattr(body, name) for name in PROVIDER}))
    said = any(getattr(body, name) is not None for name in PROVIDER)
    if body.segments is not None and said:
        raise SegmentsSetInConjunctionWithProviders("Give segments, or provider attributes, not both.")
    links = [_link(item) for item in body.segments or ()]
    if None in links:
        raise InvalidInput("segments: each needs a provider:network_type.")
    if len(links) == 1:
        own, links = links[0], []
    return Network(
        id="",
        name=body.name,
        project_id=parse_project(body, default_project),
        description=body.description,
        admin_state_up=body.admin_state_up,
        shared=body.shared,
        external=body.external,
        mtu=_mtu(body.mtu),
        network_type=own.network_type if own else None,
        physical_network=own.physical_network if own else None,
        segmentation_id=own.segmentation_id if own else None,
        links=tuple(link for link in links if link),
        flat=body.kind == "flat",
        revision=1,
        created_at=env.now(),
        updated_at=env.now(),
    )


def network_changes(body: NetworkUpdateBody, revision: int | None) -> NetworkChanges:
    """Raises InvalidInput."""
    refuse_unserved(body, NEUTRAL)
    served = ("name", "description", "admin_state_up", "shared", "external", "mtu")
    said = {name: value for name in served if (value := getattr(body, name)) is not UNSET}
    if "mtu" in said:
        said["mtu"] = _mtu(said["mtu"])
    link = {name: value for name in PROVIDER if (value := getattr(body, name)) is not UNSET}
    if "segmentation_id" in link:
        link["segmentation_id"] = parse_segmentation_id(link["segmentation_id"])
    return NetworkChanges(**said, link=link, revision=revision)


def _link(body: LinkBody) -> Link | None:
    """None where nothing is said. A physical network alone is one's own, with a number it is a VLAN's."""
    kind = body.network_type
    if kind is None and body.physical_network is not None:
        kind = "flat" if body.segmentation_id is None else "vlan"
    if kind is None:
        if body.segmentation_id is not None:
            raise InvalidInput("provider:segmentation_id needs a provider:network_type.")
        return None
    link = Link(
        network_type=kind,
        physical_network=body.physical_network,
        segmentation_id=parse_segmentation_id(body.segmentation_id),
    )
    refuse_link(link, "provider:")
    return link


def _mtu(given: int | str) -> int:
    """Zero asks for the default. One that is too small for a subnet is refused with that subnet."""
    mtu = int(given) or MTU_DEFAULT
    if mtu > MTU_MAX:
        raise InvalidInput(f"mtu {given}: expected at most {MTU_MAX}, or 0 for the default.")
    return mtu
