"""What clients send of ports, decoded and checked; what is not served is refused by name."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from roost.network.api.bodies import BULK_MAX, Items, Text, Unserved, parse_project, parse_uuid, refuse_unserved, said
from roost.network.errors import InvalidInput
from roost.network.model.ports import FixedIpRequest, Port, PortChanges, PortRequest
from roost.network.rules import addressing, requests
from roost.network.rules.port_bindings import port_id
from roost.network.rules.tags import TAGS_MAX, replaced
from roost.network.service.agent_ports import AgentPort
from roost.seams.network import Nic
from roost.seams.service_types import COMPUTE_OWNER

VnicType = Literal[
    "normal", "direct", "macvtap", "baremetal", "direct-physical", "virtio-forwarder", "smart-nic", "vdpa",
    "accelerator-direct", "accelerator-direct-physical", "remote-managed",
]  # fmt: skip
"""Source: extension binding, binding:vnic_type."""

NIC_KEY = "roost_nic"
"""Of a binding:profile: the tag of the NIC of the device for which its host's agent wants the port."""
NicTag = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[^\x00]+$")]

Profile = dict[str, msgspec.Raw]
"""A binding:profile, of which only the keys are read with the body."""
PROFILE_MAX = 4095
PROFILE_BYTES_MAX = 8 * PROFILE_MAX
"""How long it may be as it comes, with escapes and spaces."""
PROFILE_DEPTH_MAX = 32
"""How many objects and lists may be inside each other, itself among them."""


class FixedIpBody(Struct, forbid_unknown_fields=True):
    """One address wanted: by its subnet, by itself, or both."""

    subnet_id: str | None = None
    ip_address: str | None = None


class PortUnserved(Struct, kw_only=True, forbid_unknown_fields=True):
    """What clients send of a port and Roost has no use for: accepted where it asks for nothing."""

    security_groups: Unserved = UNSET
    allowed_address_pairs: Unserved = UNSET
    extra_dhcp_opts: Unserved = UNSET
    port_security_enabled: Unserved = UNSET
    qos_policy_id: Unserved = UNSET
    dns_name: Unserved = UNSET
    dns_domain: Unserved = UNSET
    propagate_uplink_status: Unserved = UNSET
    numa_affinity_policy: Unserved = UNSET
    device_profile: Unserved = UNSET
    data_plane_status: Unserved = UNSET
    hints: Unserved = UNSET
    trusted: Unserved = UNSET
    hardware_offload_type: Unserved = UNSET
    pvlan_type: Unserved = UNSET
    pvlan_community: Unserved = UNSET


NEUTRAL = {
    "security_groups": ([], None),
    "allowed_address_pairs": ([], None),
    "extra_dhcp_opts": ([], None),
    "port_security_enabled": (False, None),
    "qos_policy_id": (None,),
    "dns_name": ("", None),
    "dns_domain": ("", None),
    "propagate_uplink_status": (False, None),
    "numa_affinity_policy": (None,),
    "device_profile": (None,),
    "data_plane_status": (None,),
    "hints": (None, {}),
    "trusted": (False, None),
    "hardware_offload_type": (None,),
    "pvlan_type": (None,),
    "pvlan_community": (None,),
}


class PortBody(PortUnserved, kw_only=True, forbid_unknown_fields=True):
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
    fixed_ips: Annotated[list[FixedIpBody], Items] | None = None
    host_id: Text | None = field(default=None, name="binding:host_id")
    vnic_type: VnicType = field(default="normal", name="binding:vnic_type")
    profile: Profile | None = field(default=None, name="binding:profile")
    tags: Annotated[list[str], Meta(max_length=TAGS_MAX)] = []


class PortUpdateBody(PortUnserved, kw_only=True, forbid_unknown_fields=True):
    """PUT ports/{id}: what is left out stays. binding:host_id: empty or null to unbind.

    Another null says nothing that could be done: as upstream, it is refused, but for binding:profile, which stays.
    """

    name: Text | UnsetType = UNSET
    description: Text | UnsetType = UNSET
    mac_address: Text | UnsetType = UNSET
    admin_state_up: bool | UnsetType = UNSET
    device_id: Text | UnsetType = UNSET
    device_owner: Text | UnsetType = UNSET
    fixed_ips: Annotated[list[FixedIpBody], Items] | UnsetType = UNSET
    host_id: Text | UnsetType | None = field(default=UNSET, name="binding:host_id")
    vnic_type: VnicType | UnsetType = field(default=UNSET, name="binding:vnic_type")
    profile: Profile | None = field(default=None, name="binding:profile")


class PortEnvelope(Struct, forbid_unknown_fields=True):
    """The body around one port, or around many."""

    port: PortBody | UnsetType = UNSET
    ports: Annotated[list[PortBody], Meta(min_length=1, max_length=BULK_MAX)] | UnsetType = UNSET


class PortUpdateEnvelope(Struct, forbid_unknown_fields=True):
    """The body around a port's changes."""

    port: PortUpdateBody


def port(body: PortBody, default_project: str) -> PortRequest:
    """Raises InvalidInput, BadRequest."""
    refuse_unserved(body, NEUTRAL)
    return PortRequest(
        network_id=parse_uuid("network_id", body.network_id),
        project_id=parse_project(body, default_project),
        name=body.name,
        description=body.description,
        mac_address=body.mac_address or None,
        admin_state_up=body.admin_state_up,
        device_id=body.device_id,
        device_owner=body.device_owner,
        host=body.host_id or None,
        vnic_type=body.vnic_type,
        binding_profile=profile_text(body.profile or {}),
        tags=replaced(body.tags),
        fixed_ips=_fixed_ips(body.fixed_ips),
    )


def port_changes(body: PortUpdateBody, revision: int | None) -> PortChanges:
    """Raises InvalidInput."""
    refuse_unserved(body, NEUTRAL)
    return PortChanges(
        name=said(body.name),
        description=said(body.description),
        mac_address=said(body.mac_address),
        admin_state_up=said(body.admin_state_up),
        device_id=said(body.device_id),
        device_owner=said(body.device_owner),
        host=None if body.host_id is UNSET else body.host_id or "",
        vnic_type=said(body.vnic_type),
        binding_profile=None if body.profile is None else profile_text(body.profile),
        fixed_ips=_fixed_ips(said(body.fixed_ips)),
        revision=revision,
    )


def nic_tag(profile: Profile | None) -> str | None:
    """The NIC of a server for which its host's agent wants a port; None for a port of a client. Raises InvalidInput."""
    given = (profile or {}).get(NIC_KEY)
    if given is None:
        return None
    try:
        return msgspec.json.decode(given, type=NicTag)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"binding:profile: {NIC_KEY}: expected the tag of a NIC: {error}") from error


def new_agent_port(body: PortBody, tag: str, default_project: str) -> AgentPort:
    """A port that an agent has made for a NIC of a server on its host. Raises InvalidInput, BadRequest."""
    request = port(body, default_project)
    named = [item.ip_address for item in request.fixed_ips or () if item.ip_address]
    nic = Nic(tag=tag, network_id=request.network_id, fixed_ip=named[0] if named else None)
    return _agent_port(nic, request.device_id, request.project_id, request.device_owner, request.host)


def agent_port(body: PortUpdateBody, tag: str, there: Port, revision: int | None) -> AgentPort:
    """A port that is there and that an agent has bound to its host. Raises InvalidInput, BadRequest."""
    changes = port_changes(body, revision)
    server_id = parse_uuid("device_id", changes.device_id or "")
    nic = Nic(tag=tag, network_id=there.network_id)
    if port_id(server_id, nic) != there.id:
        nic = Nic(tag=tag, port_id=there.id)
    revision = there.revision if revision is None else revision
    return _agent_port(nic, server_id, there.project_id, changes.device_owner or "", changes.host, revision)


def _agent_port(
    nic: Nic, server_id: str, project_id: str, device_owner: str, host: str | None, revision: int | None = None
) -> AgentPort:
    if not host:
        raise InvalidInput(f"binding:profile: {NIC_KEY} is for a port on a host: name it as binding:host_id.")
    return AgentPort(
        server_id=parse_uuid("device_id", server_id),
        project_id=project_id,
        nic=nic,
        host=host,
        availability_zone=device_owner.removeprefix(COMPUTE_OWNER) or "nova",
        revision=revision,
    )


def _fixed_ips(items: list[FixedIpBody] | None) -> tuple[FixedIpRequest, ...] | None:
    """Raises InvalidInput."""
    if items is None:
        return None
    requests.refuse_many(items)  # before any is read: hundreds of ports with a thousand each take seconds
    return tuple(
        FixedIpRequest(
            subnet_id=None if item.subnet_id is None else parse_uuid("fixed_ips: subnet_id", item.subnet_id),
            ip_address=None if item.ip_address is None else addressing.show(addressing.parse(item.ip_address)),
        )
        for item in items
    )


def profile_text(profile: Profile) -> str:
    """A binding:profile as it is kept. Raises InvalidInput."""
    too_long = InvalidInput(f"binding:profile: at most {PROFILE_MAX} characters, and none of them NUL.")
    given = msgspec.json.encode(profile)
    if len(given) > PROFILE_BYTES_MAX:
        raise too_long
    try:
        value = msgspec.json.decode(given)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"binding:profile: {error}") from error
    text = msgspec.json.encode(value).decode()
    if "\\u0000" in text or len(text) > PROFILE_MAX:
        raise too_long
    if _depth(value) > PROFILE_DEPTH_MAX:
        raise InvalidInput(f"binding:profile: at most {PROFILE_DEPTH_MAX} objects and lists inside each other.")
    return text


def _depth(value: Any) -> int:
    """How many objects and lists there are inside each other."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [part for one in level for part in (one.values() if isinstance(one, dict) else one)]
    return depth
