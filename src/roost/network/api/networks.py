"""Networks over HTTP: what clients send of them, decoded and checked; what is not served is refused by name."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import asdict

from roost.network.api.fields import NetworkType, NoFlag, NoList, NoText, Nothing, SegmentationId, Text, whole_number
from roost.network.api.policies import OWN, SEEN_NETWORK
from roost.network.api.resources import Resource
from roost.network.errors import InvalidInput, NetworkNotFound, SegmentsSetInConjunctionWithProviders
from roost.network.model.networks import MTU_DEFAULT, Link, NetworkChanges, NetworkRequest
from roost.network.rules import documents
from roost.network.rules.documents import NetworkDocument
from roost.network.rules.links import refuse_link
from roost.network.service import networks as service
from roost.platform.structs import copy_as

MTU_MAX = 65535
SEGMENTS_MAX = 1000
Mtu = Annotated[int, Meta(ge=0, le=MTU_MAX)] | Annotated[str, Meta(pattern="^[0-9]{1,5}$")]
"""A number, or its digits, as `openstack network create` sends it."""
PROVIDER = ("network_type", "physical_network", "segmentation_id")


class LinkBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """One of the segments that a network is made with."""

    network_type: NetworkType | None = field(default=None, name="provider:network_type")
    physical_network: Text | None = field(default=None, name="provider:physical_network")
    segmentation_id: SegmentationId | None = field(default=None, name="provider:segmentation_id")


class NetworkUnserved(Struct, kw_only=True, forbid_unknown_fields=True):
    """Attributes of networks that Roost does not serve: only values that ask for nothing are accepted."""

    availability_zone_hints: NoList = UNSET
    dns_domain: NoText = UNSET
    is_default: NoFlag = UNSET
    qos_policy_id: Nothing = UNSET
    vlan_transparent: NoFlag = UNSET
    vlan_qinq: NoFlag = UNSET
    qinq: NoFlag = UNSET
    pvlan: NoFlag = UNSET
    ha: NoFlag = UNSET


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
    network_type: NetworkType | None = field(default=None, name="provider:network_type")
    physical_network: Text | None = field(default=None, name="provider:physical_network")
    segmentation_id: SegmentationId | None = field(default=None, name="provider:segmentation_id")
    segments: Annotated[list[LinkBody], Meta(max_length=SEGMENTS_MAX)] | None = None
    port_security_enabled: bool = True
    kind: Literal["flat"] | None = field(default=None, name="roost:kind")


class NetworkUpdateBody(NetworkUnserved, kw_only=True, forbid_unknown_fields=True):
    """PUT networks/{id}: what is left out stays. provider:* may be repeated, not changed."""

    name: Text | UnsetType = UNSET
    description: Text | UnsetType = UNSET
    admin_state_up: bool | UnsetType = UNSET
    shared: bool | UnsetType = UNSET
    external: bool | UnsetType = field(default=UNSET, name="router:external")
    mtu: Mtu | UnsetType = UNSET
    port_security_enabled: bool | UnsetType = UNSET
    network_type: NetworkType | UnsetType | None = field(default=UNSET, name="provider:network_type")
    physical_network: Text | UnsetType | None = field(default=UNSET, name="provider:physical_network")
    segmentation_id: SegmentationId | UnsetType | None = field(default=UNSET, name="provider:segmentation_id")


def _request(body: NetworkBody, project_id: str) -> NetworkRequest:
    """Return what a body asks for. Raises InvalidInput, BadRequest, SegmentsSetInConjunctionWithProviders."""
    link = _link(copy_as(LinkBody, body))
    if link and body.segments is not None:
        raise SegmentsSetInConjunctionWithProviders("Give segments, or provider attributes, not both.")
    links = [link] if link else [_link(part) for part in body.segments or ()]
    if None in links:
        raise InvalidInput("segments: each needs a provider:network_type.")
    only = links[0] if len(links) == 1 else None
    return copy_as(
        NetworkRequest,
        body,
        project_id=project_id,
        mtu=_mtu(body.mtu),
        links=tuple(part for part in links if part),
        flat=body.kind == "flat",
        **(asdict(only) if only else dict.fromkeys(PROVIDER)),
    )


def _changes(body: NetworkUpdateBody, revision: int | None) -> NetworkChanges:
    """Return what a body changes. Raises InvalidInput."""
    link: dict[str, Any] = {name: value for name in PROVIDER if (value := getattr(body, name)) is not UNSET}
    if "segmentation_id" in link:
        link["segmentation_id"] = whole_number(link["segmentation_id"])
    mtu = None if body.mtu is UNSET else _mtu(body.mtu)
    return copy_as(NetworkChanges, body, mtu=mtu, link=link, revision=revision)


def _link(body: LinkBody) -> Link | None:
    """Return the link of a segment; None when the body names none.

    A physical network without a type is flat, or a VLAN if it has a number. Raises InvalidInput.
    """
    kind: str | None = body.network_type
    if kind is None and body.physical_network is not None:
        kind = "flat" if body.segmentation_id is None else "vlan"
    if kind is None:
        if body.segmentation_id is not None:
            raise InvalidInput("provider:segmentation_id needs a provider:network_type.")
        return None
    link = Link(kind, body.physical_network, whole_number(body.segmentation_id))
    refuse_link(link, "provider:")
    return link


def _mtu(number: int | str) -> int:
    """Return the MTU; zero asks for the default. Raises InvalidInput.

    One that is too small for a subnet is refused where the subnets are known.
    """
    mtu = int(number) or MTU_DEFAULT
    if mtu > MTU_MAX:
        raise InvalidInput(f"mtu {number}: expected at most {MTU_MAX}, or 0 for the default.")
    return mtu


NETWORK = Resource(
    name="network",
    plural="networks",
    document=NetworkDocument,
    missing=NetworkNotFound,
    find=service.list_networks,
    show=documents.network,
    body=NetworkBody,
    update_body=NetworkUpdateBody,
    parts="segments",
    request=_request,
    changes=_changes,
    create=service.create_networks,
    update=service.update_network,
    delete=service.delete_network,
    defaults={"get": SEEN_NETWORK, "create": OWN, "update": OWN, "delete": OWN},
)
