"""What POST /servers and PUT /servers/{server_id} may say, by microversion; what Roost does not do is refused by name.

Source: Compute API, "Create Server"; nova/api/openstack/compute/schemas/servers.py.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from roost.compute.api.requests import Attributes, Name, Whole, check_attributes, flag
from roost.compute.model.server import NicAsked, ServerRequest, ServerUpdate
from roost.compute.rules.server_attributes import TAG_LENGTH_MAX, TAG_PATTERN, TAGS_MAX
from roost.compute.rules.servers import hostname_problem, read_counts, read_destination
from roost.platform.errors import BadRequest
from roost.platform.http import Version, canonical_uuid, is_uuid

Text = Annotated[str, Meta(max_length=255)]
Key = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9-_:. ]{1,255}$")]

METADATA = dict[Key, Text]
Tags = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=TAG_LENGTH_MAX, pattern=TAG_PATTERN)]], Meta(max_length=TAGS_MAX)
]
Hostname = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9._-]+$")]
AdminPassword = str | None
"""Taken and shown to nobody, as where Nova has enable_instance_password = false: no driver sets one."""
NAME_BLANK = "name: expected more than blanks"

HOSTNAME_FROM, QUALIFIED_HOSTNAME_FROM = (2, 90), (2, 94)

CREATE_ATTRIBUTES = Attributes(
    since={
        "description": (2, 19),
        "tags": (2, 52),
        "trusted_image_certificates": (2, 63),
        "host": (2, 74),
        "hypervisor_hostname": (2, 74),
        "hostname": HOSTNAME_FROM,
    },
    until={"personality": (2, 56)},
)
UPDATE_ATTRIBUTES = Attributes(since={"description": (2, 19), "hostname": HOSTNAME_FROM})

NETWORK_WORDS_FROM = (2, 37)
"""From here on networks may be `auto` or `none`, and are required."""


class NicBody(Struct, frozen=True, forbid_unknown_fields=True):
    """One NIC of it."""

    uuid: str | None = None
    port: str | None = None
    fixed_ip: str | None = None
    tag: str | None = None


class SecurityGroupBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A security group of it."""

    name: Name


class ServerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The server that is asked for. What is Any is refused when it asks for something: see _refusals."""

    name: Name
    flavor_ref: Name | int = field(name="flavorRef")
    image_ref: Text | None = field(name="imageRef", default="")
    networks: list[NicBody] | Literal["auto", "none"] | UnsetType | None = UNSET
    min_count: Whole | None = None
    max_count: Whole | None = None
    metadata: METADATA = {}
    description: Text | UnsetType | None = UNSET
    availability_zone: Text | None = None
    host: Name | UnsetType = UNSET
    hypervisor_hostname: Name | UnsetType = UNSET
    security_groups: list[SecurityGroupBody] | None = None
    return_reservation_id: Any = False
    config_drive: Any = None
    disk_config: Literal["AUTO", "MANUAL"] | None = field(name="OS-DCF:diskConfig", default=None)
    key_name: Text | None = None
    block_device_mapping: list[dict[str, Any]] | None = None
    block_device_mapping_v2: list[dict[str, Any]] | None = None
    admin_password: AdminPassword = field(name="adminPass", default=None)
    access_ip_v4: Any = field(name="accessIPv4", default=None)
    access_ip_v6: Any = field(name="accessIPv6", default=None)
    user_data: Any = None
    personality: Any = UNSET
    tags: Tags | UnsetType = UNSET
    trusted_image_certificates: Any = UNSET
    hostname: Hostname | UnsetType = UNSET

    @property
    def names_host(self) -> bool:
        """Return whether it names its host otherwise than with the zone."""
        return bool(self.host or self.hypervisor_hostname)


class CreateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole body. Scheduler hints have two names, as upstream's."""

    server: ServerBody
    hints: dict[str, Any] | None = field(name="os:scheduler_hints", default=None)
    hints_too: dict[str, Any] | None = field(name="OS-SCH-HNT:scheduler_hints", default=None)


class UpdateServerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be changed of a server. What is Any is refused when it asks for something."""

    name: Name | UnsetType = UNSET
    description: Text | UnsetType | None = UNSET
    disk_config: Literal["AUTO", "MANUAL"] | None = field(name="OS-DCF:diskConfig", default=None)
    access_ip_v4: Any = field(name="accessIPv4", default=None)
    access_ip_v6: Any = field(name="accessIPv6", default=None)
    hostname: Hostname | UnsetType = UNSET


class UpdateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole body."""

    server: UpdateServerBody


def read_update(body: UpdateBody, version: Version) -> ServerUpdate:
    """Return what is to be changed. Raises BadRequest, which names what cannot be had, or not at this microversion."""
    server = body.server
    check_attributes(server, version, UPDATE_ATTRIBUTES)
    refuse_attributes(disk_config=server.disk_config, accessIPv4=server.access_ip_v4, accessIPv6=server.access_ip_v6)
    if server.name is not UNSET and not server.name.strip():
        raise BadRequest(NAME_BLANK)
    return ServerUpdate(
        name=None if server.name is UNSET else server.name.strip(),
        description=None if server.description is UNSET else server.description or "",
        hostname=read_hostname(server.hostname, version),
    )


def read_server(body: CreateBody, version: Version) -> ServerRequest:
    """Return what is asked for. Raises BadRequest, which names what cannot be had, or not at this microversion."""
    server = body.server
    _check_versions(server, version)
    refusal = next(_refusals(body), None)
    if refusal:
        raise BadRequest(refusal)
    if not server.name.strip():
        raise BadRequest(NAME_BLANK)
    counts = read_counts(*(None if number is None else int(number) for number in (server.min_count, server.max_count)))
    if isinstance(counts, str):
        raise BadRequest(counts)
    destination = read_destination(
        server.availability_zone, host=server.host or None, hypervisor=server.hypervisor_hostname or None
    )
    if isinstance(destination, str):
        raise BadRequest(destination)
    return ServerRequest(
        name=server.name.strip(),
        flavor_ref=str(server.flavor_ref),
        nics=_read_nics(server.networks or None),
        auto=server.networks == "auto",
        image_ref=server.image_ref or "",
        count=counts.most,
        count_min=counts.least,
        metadata=server.metadata,
        description=server.description or None,
        availability_zone=destination.zone,
        host=destination.host,
        tags=() if server.tags is UNSET else tuple(dict.fromkeys(server.tags)),
        hostname=read_hostname(server.hostname, version, count=counts.most),
    )


def read_hostname(hostname: str | UnsetType, version: Version, *, count: int = 1) -> str | None:
    """Return the hostname, None where none is given. count: of servers. Raises BadRequest."""
    if hostname is UNSET:
        return None
    if problem := hostname_problem(hostname, qualified=version >= QUALIFIED_HOSTNAME_FROM, count=count):
        raise BadRequest(problem)
    return hostname


def _check_versions(server: ServerBody, version: Version) -> None:
    check_attributes(server, version, CREATE_ATTRIBUTES)
    if version >= NETWORK_WORDS_FROM and server.networks is UNSET:
        raise BadRequest("networks: expected a list of networks, auto or none: required from microversion 2.37")
    if version < NETWORK_WORDS_FROM and isinstance(server.networks, str):
        raise BadRequest(
            f"networks={server.networks}: expected a list of networks; auto and none need microversion 2.37"
        )


def _refusals(body: CreateBody) -> Iterator[str]:
    """Yield what is asked for and not done, in upstream's words where it has such words."""
    server = body.server
    for hint, value in {**(body.hints or {}), **(body.hints_too or {})}.items():
        if hint == "group":
            yield f"Instance group {value} could not be found: Roost serves no server groups."
        yield f"Scheduler hint {hint}={value}: Roost does not serve it."
    if server.key_name is not None:
        yield f"Invalid key_name provided: Roost keeps no key pairs, so there is none named {server.key_name}."
    for group in server.security_groups or ():
        if group.name != "default":
            yield f"Security group {group.name} not found: Roost serves none but default, which filters nothing."
    if server.block_device_mapping:
        yield "block_device_mapping: Roost does not serve it: a server has the local disk of its flavor."
    for number, device in enumerate(server.block_device_mapping_v2 or ()):
        if number or not _is_own_disk(device, server.image_ref):
            yield (
                f"Block Device Mapping is Invalid: block_device_mapping_v2[{number}]: a server has its flavor's disk, "
                "alone; expected nothing, or that disk (boot_index 0, destination_type local, no volume_size)."
            )
    if flag(server.config_drive, "config_drive", default=False):
        yield "config_drive: Roost does not serve it."
    yield from _attribute_refusals(
        disk_config=server.disk_config,
        accessIPv4=server.access_ip_v4,
        accessIPv6=server.access_ip_v6,
        user_data=server.user_data,
        personality=server.personality,
        trusted_image_certificates=server.trusted_image_certificates,
    )


def refuse_attributes(*, disk_config: str | None, **values: Any) -> None:
    """Raise BadRequest, which names the first of these attributes that asks for something."""
    refusal = next(_attribute_refusals(disk_config=disk_config, **values), None)
    if refusal:
        raise BadRequest(refusal)


def _attribute_refusals(*, disk_config: str | None, **values: Any) -> Iterator[str]:
    if disk_config == "AUTO":
        yield "OS-DCF:diskConfig=AUTO: Roost does not serve it: expected MANUAL."
    for name, value in values.items():
        if value not in (UNSET, None, "", []):
            yield f"{name}: Roost does not serve it."


def _is_own_disk(device: Mapping[str, Any], image_ref: str | None) -> bool:
    """Return whether it is what a server has anyhow: a client that has nothing to boot from must name some disk."""
    asks = {name: value for name, value in device.items() if value is not None}
    source, image = asks.pop("source_type", None), asks.pop("uuid", None)
    return (
        source in ("blank", "image")
        and flag(asks.pop("delete_on_termination", None), "delete_on_termination", default=True)
        and image == (image_ref if source == "image" else None)
        and str(asks.pop("boot_index", None)) == "0"
        and asks.pop("destination_type", "local") == "local"
        and not asks
    )


def _read_nics(networks: list[NicBody] | str | None) -> tuple[NicAsked, ...] | None:
    if networks == "none":
        return ()
    if not networks or isinstance(networks, str):
        return None
    return tuple(
        NicAsked(
            network_id=_network_uuid(nic.uuid, "network uuid"),
            port_id=_network_uuid(nic.port, "port uuid"),
            fixed_ip=nic.fixed_ip,
            tag=nic.tag,
        )
        for nic in networks
    )


def _network_uuid(text: str | None, what: str) -> str | None:
    if text is None:
        return None
    if not is_uuid(text):
        raise BadRequest(f"Bad networks format: {what} is not in proper format ({text})")
    return canonical_uuid(text)
