"""Ports over HTTP: what clients send of them, decoded and checked; what is not served is refused by name."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from roost.network.api.fields import (
    AddressOrCidr,
    Items,
    MacAddress,
    NoFlag,
    NoList,
    NoObject,
    NoText,
    Nothing,
    Tags,
    Text,
    parse_uuid,
)
from roost.network.api.policies import OWN, OWN_UNUSED_PORT, SEEN_PORT
from roost.network.api.resources import Resource
from roost.network.errors import InvalidInput, PortNotFound
from roost.network.model.networks import Uuid
from roost.network.model.ports import AddressPair, FixedIpRequest, Port, PortChanges, PortFilter, PortRequest
from roost.network.rules import addressing, documents, port_security, requests
from roost.network.rules.documents import PortDocument
from roost.network.rules.tags import replaced
from roost.network.service import Networks, old_agents
from roost.network.service import ports as service
from roost.network.service.old_agents import AgentPort
from roost.platform.structs import copy_as
from roost.seams.network import Nic
from roost.seams.service_types import COMPUTE_OWNER

VnicType = Literal[
    "normal", "direct", "macvtap", "baremetal", "direct-physical", "virtio-forwarder", "smart-nic", "vdpa",
    "accelerator-direct", "accelerator-direct-physical", "remote-managed",
]  # fmt: skip
"""Source: extension binding, binding:vnic_type."""

NIC_KEY = "roost_nic"
"""The key in a binding:profile of the NIC's tag, by which a host's agent takes a port for a NIC."""
NicTag = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[^\x00]+$")]

Profile = dict[str, msgspec.Raw]
"""A binding:profile, of which only the keys are read with the body."""
PROFILE_MAX = 4095
PROFILE_BYTES_MAX = 8 * PROFILE_MAX
"""How long a profile may be in a body, with escapes and spaces."""
PROFILE_DEPTH_MAX = 32
"""How many objects and lists of a profile may be nested, itself among them."""


FixedIps = Annotated[list[FixedIpRequest], Items]


class AddressPairBody(Struct, forbid_unknown_fields=True):
    """An address, or a CIDR, that a port may use beside its own. mac_address: left out for the port's."""

    ip_address: AddressOrCidr | UnsetType = UNSET
    mac_address: MacAddress | UnsetType = UNSET


AddressPairs = Annotated[list[AddressPairBody], Items]


class PortUnserved(Struct, kw_only=True, forbid_unknown_fields=True):
    """Attributes of ports that Roost does not serve: only values that ask for nothing are accepted."""

    security_groups: NoList = UNSET
    extra_dhcp_opts: NoList = UNSET
    qos_policy_id: Nothing = UNSET
    dns_name: NoText = UNSET
    dns_domain: NoText = UNSET
    propagate_uplink_status: NoFlag = UNSET
    numa_affinity_policy: Nothing = UNSET
    device_profile: Nothing = UNSET
    data_plane_status: Nothing = UNSET
    hints: NoObject = UNSET
    trusted: NoFlag = UNSET
    hardware_offload_type: Nothing = UNSET
    pvlan_type: Nothing = UNSET
    pvlan_community: Nothing = UNSET


class PortBody(PortUnserved, kw_only=True, forbid_unknown_fields=True):
    """POST ports: one port. fixed_ips: left out for Roost's choice, empty for no address."""

    network_id: Uuid
    name: Text = ""
    description: Text = ""
    project_id: Text | None = None
    tenant_id: Text | None = None
    mac_address: MacAddress | None = None
    admin_state_up: bool = True
    device_id: Text = ""
    device_owner: Text = ""
    fixed_ips: FixedIps | None = None
    host_id: Text | None = field(default=None, name="binding:host_id")
    vnic_type: VnicType = field(default="normal", name="binding:vnic_type")
    profile: Profile | None = field(default=None, name="binding:profile")
    port_security_enabled: bool | UnsetType = UNSET
    allowed_address_pairs: AddressPairs | None = None
    tags: Tags = []


class PortUpdateBody(PortUnserved, kw_only=True, forbid_unknown_fields=True):
    """PUT ports/{id}: what is left out stays. binding:host_id: empty or null to unbind.

    allowed_address_pairs: empty or null for none. Another null says nothing that could be done: as upstream, it is
    refused, but for binding:profile, which stays.
    """

    name: Text | UnsetType = UNSET
    description: Text | UnsetType = UNSET
    mac_address: MacAddress | UnsetType = UNSET
    admin_state_up: bool | UnsetType = UNSET
    device_id: Text | UnsetType = UNSET
    device_owner: Text | UnsetType = UNSET
    fixed_ips: FixedIps | UnsetType = UNSET
    host_id: Text | UnsetType | None = field(default=UNSET, name="binding:host_id")
    vnic_type: VnicType | UnsetType = field(default=UNSET, name="binding:vnic_type")
    profile: Profile | None = field(default=None, name="binding:profile")
    port_security_enabled: bool | UnsetType = UNSET
    allowed_address_pairs: AddressPairs | UnsetType | None = UNSET


async def _find(context: Networks, ids: Sequence[str]) -> list[Port]:
    return await service.list_ports(context, PortFilter(ids=tuple(ids)))


def _request(body: PortBody, project_id: str) -> PortRequest:
    """Return what a body asks for. Raises InvalidInput, BadRequest."""
    return copy_as(
        PortRequest,
        body,
        network_id=parse_uuid("network_id", body.network_id),
        project_id=project_id,
        mac_address=body.mac_address or None,
        host=body.host_id or None,
        binding_profile=profile_text(body.profile or {}),
        tags=replaced(body.tags),
        fixed_ips=_fixed_ips(body.fixed_ips),
        allowed_address_pairs=_pairs(body.allowed_address_pairs),
    )


def _changes(body: PortUpdateBody, revision: int | None) -> PortChanges:
    """Return what a body changes. Raises InvalidInput."""
    return copy_as(
        PortChanges,
        body,
        host=None if body.host_id is UNSET else body.host_id or "",
        binding_profile=None if body.profile is None else profile_text(body.profile),
        fixed_ips=None if body.fixed_ips is UNSET else _fixed_ips(body.fixed_ips),
        allowed_address_pairs=None if body.allowed_address_pairs is UNSET else _pairs(body.allowed_address_pairs),
        revision=revision,
    )


async def _create(context: Networks, wanted: Sequence[PortRequest]) -> list[Port]:
    tags = [_nic_tag(request.binding_profile) for request in wanted]
    if len(wanted) == 1 and tags[0] is not None:
        (request,) = wanted
        addresses = [item.ip_address for item in request.fixed_ips or () if item.ip_address]
        nic = Nic(tag=tags[0], network_id=request.network_id, fixed_ip=addresses[0] if addresses else None)
        return [await old_agents.take_port(context, _agent_port(request, nic, request.project_id))]
    if any(tags):
        raise InvalidInput(f"binding:profile: {NIC_KEY}: an agent makes one port at a time.")
    return await service.create_ports(context, wanted)


async def _update(context: Networks, port_id: str, changes: PortChanges) -> Port:
    if (tag := _nic_tag(changes.binding_profile)) is not None:
        port = await service.get_port(context, port_id)
        nic = Nic(tag=tag, network_id=port.network_id)
        if nic.port_id_of(parse_uuid("device_id", changes.device_id or "")) != port.id:
            nic = Nic(tag=tag, port_id=port.id)
        revision = port.revision if changes.revision is None else changes.revision
        return await old_agents.take_port(context, _agent_port(changes, nic, port.project_id, revision))
    return await service.update_port(context, port_id, changes)


def _nic_tag(profile: str | None) -> str | None:
    """Return the tag of the NIC for which its host's agent takes a port; None for a port of a client.

    Raises InvalidInput.
    """
    raw = msgspec.json.decode(profile, type=Profile).get(NIC_KEY) if profile and NIC_KEY in profile else None
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=NicTag)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"binding:profile: {NIC_KEY}: expected the tag of a NIC: {error}") from error


def _agent_port(body: PortRequest | PortChanges, nic: Nic, project_id: str, revision: int | None = None) -> AgentPort:
    """Return an agent's request to make or bind a port for a NIC on its host. Raises InvalidInput."""
    if not body.host:
        raise InvalidInput(f"binding:profile: {NIC_KEY} is for a port on a host: name it as binding:host_id.")
    return AgentPort(
        server_id=parse_uuid("device_id", body.device_id or ""),
        project_id=project_id,
        nic=nic,
        host=body.host,
        availability_zone=(body.device_owner or "").removeprefix(COMPUTE_OWNER) or "nova",
        revision=revision,
    )


def _fixed_ips(items: list[FixedIpRequest] | None) -> tuple[FixedIpRequest, ...] | None:
    """Return the requested addresses; None when the body leaves them out. Raises InvalidInput."""
    if items is None:
        return None
    requests.refuse_many(items)  # before any is read: hundreds of ports with a thousand each take seconds
    return tuple(
        FixedIpRequest(
            subnet_id=None if item.subnet_id is None else parse_uuid("fixed_ips: subnet_id", item.subnet_id),
            ip_address=None if item.ip_address is None else addressing.canonical(item.ip_address),
        )
        for item in items
    )


def _pairs(items: list[AddressPairBody] | None) -> tuple[AddressPair, ...]:
    """Return the address pairs; null is none. Raises what port_security.read_pairs does."""
    return port_security.read_pairs(
        [copy_as(AddressPair, item, ip_address=item.ip_address or "") for item in items or ()]
    )


def profile_text(profile: Profile) -> str:
    """Return a binding:profile as it is stored. Raises InvalidInput."""
    too_long = InvalidInput(f"binding:profile: at most {PROFILE_MAX} characters, and none of them NUL.")
    encoded = msgspec.json.encode(profile)
    if len(encoded) > PROFILE_BYTES_MAX:
        raise too_long
    try:
        value = msgspec.json.decode(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"binding:profile: {error}") from error
    text = msgspec.json.encode(value).decode()
    if "\\u0000" in text or len(text) > PROFILE_MAX:
        raise too_long
    if _depth(value) > PROFILE_DEPTH_MAX:
        raise InvalidInput(f"binding:profile: at most {PROFILE_DEPTH_MAX} objects and lists inside each other.")
    return text


def _depth(value: Any) -> int:
    """Return how deep objects and lists are nested."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [part for item in level for part in (item.values() if isinstance(item, dict) else item)]
    return depth


PORT = Resource(
    name="port",
    plural="ports",
    document=PortDocument,
    missing=PortNotFound,
    find=_find,
    page=service.list_page,
    show=documents.port,
    body=PortBody,
    update_body=PortUpdateBody,
    request=_request,
    changes=_changes,
    create=_create,
    update=_update,
    delete=service.delete_port,
    defaults={"get": SEEN_PORT, "create": OWN, "update": OWN, "delete": OWN_UNUSED_PORT},
)
