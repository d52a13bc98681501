"""Networks, segments, subnets and ports as the Network API shows them: each a struct, whose schema clients can read.

Source: Network API v2.0 reference.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from roost.network.model.networks import Network, Segment, Subnet
from roost.network.model.ports import VIF_TYPE_UNBOUND, Port
from roost.network.rules import addressing

Uuid = Annotated[str, Meta(extra_json_schema={"format": "uuid"})]
Time = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]
Status = Literal["ACTIVE", "DOWN"]


class Document(Struct, kw_only=True, forbid_unknown_fields=True):
    """What all four have."""

    id: Uuid
    description: str
    revision_number: int
    created_at: Time
    updated_at: Time
    tags: tuple[str, ...]


class LinkDocument(Struct, kw_only=True, forbid_unknown_fields=True):
    """One of the segments of a network that has several."""

    network_type: str = field(name="provider:network_type")
    physical_network: str | None = field(name="provider:physical_network")
    segmentation_id: int | None = field(name="provider:segmentation_id")


class NetworkDocument(Document, kw_only=True, forbid_unknown_fields=True):
    """One network; provider:* where it has one segment or says itself what carries it, `segments` where several."""

    name: str
    tenant_id: str
    project_id: str
    admin_state_up: bool
    status: Status
    shared: bool
    external: bool = field(name="router:external")
    mtu: int
    subnets: tuple[Uuid, ...]
    availability_zone_hints: tuple[str, ...] = ()
    availability_zones: tuple[str, ...] = ()
    ipv4_address_scope: None = None
    ipv6_address_scope: None = None
    port_security_enabled: bool = False
    l2_adjacency: bool
    network_type: str | UnsetType | None = field(name="provider:network_type")
    physical_network: str | UnsetType | None = field(name="provider:physical_network")
    segmentation_id: int | UnsetType | None = field(name="provider:segmentation_id")
    segments: tuple[LinkDocument, ...] | UnsetType = UNSET
    kind: Literal["flat"] | None = field(name="roost:kind")


class SegmentDocument(Document, kw_only=True, forbid_unknown_fields=True):
    """One segment."""

    name: str | None
    network_id: Uuid
    network_type: str
    physical_network: str | None
    segmentation_id: int | None


class PoolDocument(Struct, forbid_unknown_fields=True):
    """One allocation pool, both ends included."""

    start: str
    end: str


class HostRouteDocument(Struct, forbid_unknown_fields=True):
    """One route that hosts are given."""

    destination: str
    nexthop: str


class SubnetDocument(Document, kw_only=True, forbid_unknown_fields=True):
    """One subnet."""

    name: str
    tenant_id: str
    project_id: str
    network_id: Uuid
    segment_id: Uuid | None
    ip_version: Literal[4, 6]
    cidr: str
    gateway_ip: str | None
    allocation_pools: tuple[PoolDocument, ...]
    enable_dhcp: bool
    dns_nameservers: tuple[str, ...]
    host_routes: tuple[HostRouteDocument, ...]
    ipv6_ra_mode: str | None
    ipv6_address_mode: str | None
    service_types: tuple[str, ...]
    subnetpool_id: None = None
    cell: str | None = field(name="roost:cell")


class FixedIpDocument(Struct, forbid_unknown_fields=True):
    """One address of a port."""

    subnet_id: Uuid
    ip_address: str


class PortDocument(Document, kw_only=True, forbid_unknown_fields=True):
    """One port."""

    name: str
    tenant_id: str
    project_id: str
    network_id: Uuid
    mac_address: str
    admin_state_up: bool
    status: Status
    device_id: str
    device_owner: str
    fixed_ips: tuple[FixedIpDocument, ...]
    ip_allocation: Literal["immediate", "deferred", "none"]
    allowed_address_pairs: tuple[str, ...] = ()
    extra_dhcp_opts: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    port_security_enabled: bool = False
    host_id: str = field(name="binding:host_id")
    vnic_type: str = field(name="binding:vnic_type")
    vif_type: str = field(name="binding:vif_type")
    vif_details: dict[str, Any] = field(name="binding:vif_details", default_factory=dict)
    profile: dict[str, Any] = field(name="binding:profile")


def network(item: Network) -> NetworkDocument:
    """One network."""
    several = len(item.links) > 1
    own = item.links[0] if item.links else item
    links = [
        LinkDocument(
            network_type=link.network_type, physical_network=link.physical_network, segmentation_id=link.segmentation_id
        )
        for link in item.links
    ]
    return NetworkDocument(
        **_common(item),
        name=item.name,
        tenant_id=item.project_id,
        project_id=item.project_id,
        admin_state_up=item.admin_state_up,
        status=_status(item.admin_state_up),
        shared=item.shared,
        external=item.external,
        mtu=item.mtu,
        subnets=item.subnet_ids,
        l2_adjacency=not item.segmented,
        network_type=UNSET if several else own.network_type,
        physical_network=UNSET if several else own.physical_network,
        segmentation_id=UNSET if several else own.segmentation_id,
        segments=tuple(links) if several else UNSET,
        kind="flat" if item.flat else None,
    )


def segment(item: Segment) -> SegmentDocument:
    """One segment."""
    return SegmentDocument(
        **_common(item),
        network_id=item.network_id,
        name=item.name,
        network_type=item.network_type,
        physical_network=item.physical_network,
        segmentation_id=item.segmentation_id,
    )


def subnet(item: Subnet) -> SubnetDocument:
    """One subnet."""
    return SubnetDocument(
        **_common(item),
        name=item.name,
        tenant_id=item.project_id,
        project_id=item.project_id,
        network_id=item.network_id,
        segment_id=item.segment_id,
        ip_version=6 if item.ip_version == 6 else 4,
        cidr=item.cidr,
        gateway_ip=item.gateway_ip,
        allocation_pools=tuple(
            PoolDocument(start=addressing.show(pool.first), end=addressing.show(pool.last)) for pool in item.pools
        ),
        enable_dhcp=item.enable_dhcp,
        dns_nameservers=item.dns_nameservers,
        host_routes=tuple(HostRouteDocument(route.destination, route.nexthop) for route in item.host_routes),
        ipv6_ra_mode=item.ipv6_ra_mode,
        ipv6_address_mode=item.ipv6_address_mode,
        service_types=item.service_types,
        cell=item.cell,
    )


def port(item: Port) -> PortDocument:
    """One port."""
    return PortDocument(
        **_common(item),
        name=item.name,
        tenant_id=item.project_id,
        project_id=item.project_id,
        network_id=item.network_id,
        mac_address=item.mac_address,
        admin_state_up=item.admin_state_up,
        status=_status(item.host is not None),
        device_id=item.device_id,
        device_owner=item.device_owner,
        fixed_ips=tuple(FixedIpDocument(subnet_id=held.subnet_id, ip_address=held.address) for held in item.addresses),
        ip_allocation=_ip_allocation(item.ip_allocation),
        host_id=item.host or "",
        vnic_type=item.vnic_type,
        vif_type=item.vif_type,
        vif_details=vif_details(item.vif_type),
        profile=msgspec.json.decode(item.binding_profile),
    )


def vif_details(vif_type: str) -> dict[str, Any]:
    """What a host needs to know to plug in a guest; nothing where it is not bound."""
    return {} if vif_type == VIF_TYPE_UNBOUND else {"port_filter": False, "connectivity": "l2"}


@cache
def attributes(kind: type[Struct]) -> Mapping[str, str]:
    """The attributes of a kind of document, by the names that clients use -> the names of the struct's fields."""
    return {item.encode_name: item.name for item in msgspec.structs.fields(kind)}


@cache
def booleans(kind: type[Struct]) -> frozenset[str]:
    """Those attributes that are true or false, by the names that clients use."""
    return frozenset(item.encode_name for item in msgspec.structs.fields(kind) if item.type is bool)


@cache
def identifiers(kind: type[Struct]) -> frozenset[str]:
    """Those attributes that are ids, or lists of ids, of what Roost has made, by the names that clients use."""
    types = (Uuid, Uuid | None, tuple[Uuid, ...])
    return frozenset(item.encode_name for item in msgspec.structs.fields(kind) if item.type in types)


def _common(item: Network | Segment | Subnet | Port) -> dict[str, Any]:
    """The fields of Document."""
    return {
        "id": item.id,
        "description": item.description,
        "revision_number": item.revision,
        "created_at": show_time(item.created_at),
        "updated_at": show_time(item.updated_at),
        "tags": item.tags,
    }


def _status(active: bool) -> Status:
    return "ACTIVE" if active else "DOWN"


def _ip_allocation(text: str) -> Literal["immediate", "deferred", "none"]:
    if text == "immediate":
        return "immediate"
    return "deferred" if text == "deferred" else "none"


def show_time(at: datetime) -> str:
    """A time as the Network API writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
