"""Networks, segments, subnets and ports as the Network API and notifications show them.

Each is a struct, whose schema clients can read. Fields of a document and of its model with the same name are the same.
Source: Network API v2.0 reference.
"""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import asdict

from roost.network.model.networks import HostRoute, IpAddress, Link, Network, Segment, Subnet, Uuid
from roost.network.model.ports import VIF_TYPE_UNBOUND, Port
from roost.network.rules import addressing
from roost.platform.structs import copy_as
from roost.platform.times import show_seconds

Time = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]
Status = Literal["ACTIVE", "DOWN"]
D = TypeVar("D", bound="Document")


class Document(Struct, kw_only=True, forbid_unknown_fields=True):
    """The attributes that networks, segments, subnets and ports have in common."""

    id: Uuid
    description: str
    revision: int = field(name="revision_number")
    created_at: Time
    updated_at: Time
    tags: tuple[str, ...]


class NetworkDocument(Document, kw_only=True, forbid_unknown_fields=True):
    """One network. provider:* are its one segment's, or its own; `segments` has them where there are several."""

    name: str
    tenant_id: str
    project_id: str
    admin_state_up: bool
    status: Status
    shared: bool
    external: bool = field(name="router:external")
    mtu: int
    subnet_ids: tuple[Uuid, ...] = field(name="subnets")
    availability_zone_hints: tuple[str, ...] = ()
    availability_zones: tuple[str, ...] = ()
    ipv4_address_scope: None = None
    ipv6_address_scope: None = None
    port_security_enabled: bool
    l2_adjacency: bool
    network_type: str | UnsetType | None = field(name="provider:network_type")
    physical_network: str | UnsetType | None = field(name="provider:physical_network")
    segmentation_id: int | UnsetType | None = field(name="provider:segmentation_id")
    segments: tuple[Link, ...] | UnsetType = UNSET
    kind: Literal["flat"] | None = field(name="roost:kind")


class SegmentDocument(Document, kw_only=True, forbid_unknown_fields=True):
    """One segment of a network."""

    name: str | None
    network_id: Uuid
    network_type: str
    physical_network: str | None
    segmentation_id: int | None


class PoolDocument(Struct, forbid_unknown_fields=True):
    """One allocation pool, both ends included."""

    start: IpAddress
    end: IpAddress


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
    host_routes: tuple[HostRoute, ...]
    ipv6_ra_mode: str | None
    ipv6_address_mode: str | None
    service_types: tuple[str, ...]
    subnetpool_id: None = None
    cell: str | None = field(name="roost:cell")


class FixedIpDocument(Struct, forbid_unknown_fields=True):
    """One address of a port."""

    subnet_id: Uuid
    ip_address: str


class AddressPairDocument(Struct, forbid_unknown_fields=True):
    """An address, or a CIDR, that a port may use beside its own, with that MAC address."""

    ip_address: str
    mac_address: str


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
    allowed_address_pairs: tuple[AddressPairDocument, ...]
    extra_dhcp_opts: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    port_security_enabled: bool
    host_id: str = field(name="binding:host_id")
    vnic_type: str = field(name="binding:vnic_type")
    vif_type: str = field(name="binding:vif_type")
    vif_details: dict[str, Any] = field(name="binding:vif_details", default_factory=dict)
    profile: dict[str, Any] = field(name="binding:profile")


def network(item: Network) -> NetworkDocument:
    """Return the document of a network."""
    provider: dict[str, Any] = asdict(item.links[0]) if item.links else {}
    if len(item.links) > 1:
        provider = {**dict.fromkeys(provider, UNSET), "segments": item.links}
    return _document(
        NetworkDocument,
        item,
        tenant_id=item.project_id,
        status="ACTIVE" if item.admin_state_up else "DOWN",
        l2_adjacency=not item.segmented,
        kind="flat" if item.flat else None,
        **provider,
    )


def segment(item: Segment) -> SegmentDocument:
    """Return the document of a segment."""
    return _document(SegmentDocument, item)


def subnet(item: Subnet) -> SubnetDocument:
    """Return the document of a subnet."""
    pools = [PoolDocument(addressing.show(pool.first), addressing.show(pool.last)) for pool in item.pools]
    return _document(SubnetDocument, item, tenant_id=item.project_id, allocation_pools=tuple(pools))


def port(item: Port) -> PortDocument:
    """Return the document of a port, with all that an administrator sees."""
    return _document(
        PortDocument,
        item,
        tenant_id=item.project_id,
        status="DOWN" if item.host is None else "ACTIVE",
        fixed_ips=tuple(FixedIpDocument(address.subnet_id, address.address) for address in item.addresses),
        allowed_address_pairs=tuple(
            AddressPairDocument(pair.ip_address, pair.mac_address or item.mac_address)
            for pair in item.allowed_address_pairs
        ),
        host_id=item.host or "",
        vif_details=vif_details(item.vif_type),
        profile=msgspec.json.decode(item.binding_profile),
    )


def vif_details(vif_type: str) -> dict[str, Any]:
    """Return what a host needs to know to plug in a guest; empty where the port is not bound."""
    return {} if vif_type == VIF_TYPE_UNBOUND else {"port_filter": False, "connectivity": "l2"}


def _document(kind: type[D], item: Network | Segment | Subnet | Port, /, **computed: Any) -> D:
    times = {"created_at": show_seconds(item.created_at), "updated_at": show_seconds(item.updated_at)}
    return copy_as(kind, item, **times, **computed)
