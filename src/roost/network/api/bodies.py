"""What clients send, decoded and checked; what Roost does not do yet is refused by name, never silently dropped."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from roost.network import addressing
from roost.network.errors import InvalidInput
from roost.network.model import (
    FixedIpRequest,
    Network,
    PortChanges,
    PortRequest,
    Segment,
    Subnet,
)
from roost.platform.env import Env
from roost.platform.http import canonical_uuid, is_uuid

Text = Annotated[str, Meta(max_length=255, pattern="^[^\x00]*$")]
Tag = Annotated[int, Meta(ge=0)] | Annotated[str, Meta(pattern="^[0-9]{1,8}$")]
"""A segmentation id: a number, or its digits, as `openstack network create` sends it."""
SEGMENTATION_ID_MAX = 16777215
NETWORK_TYPES = ("flat", "vlan", "vxlan", "gre", "geneve", "local")


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
    segmentation_id: Tag | None = field(default=None, name="provider:segmentation_id")


class SegmentBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST segments: one segment of a network."""

    network_id: str
    network_type: Text
    name: Text | None = None
    description: Text | None = None
    physical_network: Text | None = None
    segmentation_id: Tag | None = None
    project_id: Text | None = None
    tenant_id: Text | None = None


class PoolBody(Struct, forbid_unknown_fields=True):
    """One allocation pool, both ends included."""

    start: str
    end: str


class SubnetBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST subnets: one subnet. gateway_ip: unset for the first host address, null for none."""

    network_id: str
    cidr: str
    ip_version: int = 4
    name: Text = ""
    description: Text = ""
    segment_id: str | None = None
    gateway_ip: str | UnsetType | None = UNSET
    allocation_pools: list[PoolBody] | None = None
    enable_dhcp: bool = True
    project_id: Text | None = None
    tenant_id: Text | None = None
    dns_nameservers: list[str] = []
    host_routes: list[Any] = []


class FixedIpBody(Struct, forbid_unknown_fields=True):
    """One address wanted: by its subnet, by itself, or both."""

    subnet_id: str | None = None
    ip_address: str | None = None


class PortBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST ports: one port. fixed_ips: left out for Roost's choice, empty for no address."""

    network_id: str
    name: Text = ""
    description: Text = ""
    project_id: Text | None = None
    tenant_id: Text | None = None
    mac_address: Text | None = None
    admin_state_up: bool = True
    device_id: Text = ""
    device_owner: Text = ""
    fixed_ips: list[FixedIpBody] | None = None
    host_id: Text | None = field(default=None, name="binding:host_id")
    vnic_type: Text = field(default="normal", name="binding:vnic_type")
    profile: dict[str, Any] | None = field(default=None, name="binding:profile")


class PortUpdateBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """PUT ports/{id}: what is left out stays. binding:host_id: empty or null to unbind."""

    name: Text | None = None
    description: Text | None = None
    admin_state_up: bool | None = None
    device_id: Text | None = None
    device_owner: Text | None = None
    fixed_ips: list[FixedIpBody] | None = None
    host_id: Text | UnsetType | None = field(default=UNSET, name="binding:host_id")
    vnic_type: Text | None = field(default=None, name="binding:vnic_type")
    profile: dict[str, Any] | None = field(default=None, name="binding:profile")


class NetworkEnvelope(Struct, forbid_unknown_fields=True):
    """The body around one network."""

    network: NetworkBody


class SegmentEnvelope(Struct, forbid_unknown_fields=True):
    """The body around one segment."""

    segment: SegmentBody


class SubnetEnvelope(Struct, forbid_unknown_fields=True):
    """The body around one subnet."""

    subnet: SubnetBody


class PortEnvelope(Struct, forbid_unknown_fields=True):
    """The body around one port."""

    port: PortBody


class PortUpdateEnvelope(Struct, forbid_unknown_fields=True):
    """The body around a port's changes."""

    port: PortUpdateBody


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
    segmentation_id = _segmentation_id("provider:", body.segmentation_id)
    _check_type("provider:", kind, body.physical_network, segmentation_id)
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
    segmentation_id = _segmentation_id("", body.segmentation_id)
    _check_type("", body.network_type, body.physical_network, segmentation_id)
    return Segment(
        id="",
        network_id=_uuid("network_id", body.network_id),
        name=body.name,
        description=body.description or "",
        network_type=body.network_type,
        physical_network=body.physical_network,
        segmentation_id=segmentation_id,
        revision=1,
        created_at=env.now(),
        updated_at=env.now(),
    )


def subnet(body: SubnetBody, env: Env, default_project: str) -> Subnet:
    """Raises InvalidInput and what addressing.plan_subnet raises."""
    if body.ip_version != 4:
        raise InvalidInput(f"ip_version {body.ip_version}: only IPv4 subnets are served as yet.")
    if body.dns_nameservers or body.host_routes:
        raise InvalidInput("dns_nameservers and host_routes are not served as yet: leave them out.")
    pools = body.allocation_pools
    plan = addressing.plan_subnet(
        body.cidr,
        gateway_ip=body.gateway_ip or None,
        no_gateway=body.gateway_ip is None,
        pools=None if pools is None else [(pool.start, pool.end) for pool in pools],
    )
    return Subnet(
        id="",
        network_id=_uuid("network_id", body.network_id),
        segment_id=None if body.segment_id is None else _uuid("segment_id", body.segment_id),
        name=body.name,
        description=body.description,
        project_id=body.project_id or body.tenant_id or default_project,
        ip_version=4,
        cidr=plan.cidr,
        gateway_ip=plan.gateway_ip,
        enable_dhcp=body.enable_dhcp,
        deleting=False,
        revision=1,
        created_at=env.now(),
        updated_at=env.now(),
        pools=plan.pools,
    )


def port(body: PortBody, default_project: str) -> PortRequest:
    """Raises InvalidInput."""
    return PortRequest(
        network_id=_uuid("network_id", body.network_id),
        project_id=body.project_id or body.tenant_id or default_project,
        name=body.name,
        description=body.description,
        mac_address=body.mac_address or None,
        admin_state_up=body.admin_state_up,
        device_id=body.device_id,
        device_owner=body.device_owner,
        host=body.host_id or None,
        vnic_type=body.vnic_type,
        binding_profile=_profile(body.profile or {}),
        fixed_ips=_fixed_ips(body.fixed_ips),
    )


def port_changes(body: PortUpdateBody, revision: int | None) -> PortChanges:
    """Raises InvalidInput."""
    return PortChanges(
        name=body.name,
        description=body.description,
        admin_state_up=body.admin_state_up,
        device_id=body.device_id,
        device_owner=body.device_owner,
        host=None if body.host_id is UNSET else body.host_id or "",
        vnic_type=body.vnic_type,
        binding_profile=None if body.profile is None else _profile(body.profile),
        fixed_ips=_fixed_ips(body.fixed_ips),
        revision=revision,
    )


def _fixed_ips(items: list[FixedIpBody] | None) -> tuple[FixedIpRequest, ...] | None:
    if items is None:
        return None
    return tuple(
        FixedIpRequest(
            subnet_id=None if item.subnet_id is None else _uuid("fixed_ips: subnet_id", item.subnet_id),
            ip_address=None if item.ip_address is None else addressing.show(addressing.parse(item.ip_address)),
        )
        for item in items
    )


def _uuid(name: str, text: str) -> str:
    if not is_uuid(text):
        raise InvalidInput(f"{name}: '{text[:64]}' is not a UUID.")
    return canonical_uuid(text)


def _profile(profile: dict[str, Any]) -> str:
    text = msgspec.json.encode(profile).decode()
    if "\\u0000" in text or len(text) > 4095:
        raise InvalidInput("binding:profile: at most 4095 characters, and none of them NUL.")
    return text


def _segmentation_id(prefix: str, given: int | str | None) -> int | None:
    if given is None:
        return None
    if int(given) > SEGMENTATION_ID_MAX:
        raise InvalidInput(f"{prefix}segmentation_id {given}: expected at most {SEGMENTATION_ID_MAX}.")
    return int(given)


def _check_type(prefix: str, kind: str | None, physical_network: str | None, segmentation_id: int | None) -> None:
    if kind is None and segmentation_id is not None:
        raise InvalidInput(f"{prefix}segmentation_id needs a {prefix}network_type.")
    if kind is not None and kind not in NETWORK_TYPES:
        raise InvalidInput(f"{prefix}network_type '{kind}': expected one of {', '.join(NETWORK_TYPES)}.")
    if kind in ("flat", "vlan") and not physical_network:
        raise InvalidInput(f"{prefix}network_type {kind} needs a {prefix}physical_network.")
    if kind == "vlan" and segmentation_id is not None and not 1 <= segmentation_id <= 4094:
        raise InvalidInput(f"{prefix}segmentation_id {segmentation_id}: a vlan has one from 1 to 4094.")
