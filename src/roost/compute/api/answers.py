"""What the Compute API answers with, by type, at the highest microversion; docs/reference/api.md has the older shapes.

The answers themselves are built as dicts, since most differ with the microversion; tests hold each of them to its type.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from roost.compute.api.errors import FAULTS
from roost.platform.operations import Schema
from roost.platform.structs import list_of

Uuid = Annotated[str, Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Moment = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z?$")]
Empty = Annotated[str, Meta(max_length=0)]


def _document(name: str, always: Mapping[str, Any], sometimes: Mapping[str, Any] | None = None) -> type[Struct]:
    """Return the type of an object. sometimes: what is not always there, or not for everybody."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        (f"always_{number}", kind, msgspec.field(name=key)) for number, (key, kind) in enumerate(always.items())
    ]
    fields += [
        (f"sometimes_{number}", kind | UnsetType, msgspec.field(name=key, default=UNSET))
        for number, (key, kind) in enumerate((sometimes or {}).items())
    ]
    return msgspec.defstruct(name, fields, forbid_unknown_fields=True)


FAULT: Schema = {
    "type": "object",
    "properties": {
        name: {
            "type": "object",
            "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
            "required": ["code", "message"], "additionalProperties": False,
        }
        for name in sorted({*FAULTS.values(), "computeFault"})
    },
    "minProperties": 1, "maxProperties": 1, "additionalProperties": False,
}  # fmt: skip
"""The body of every refusal."""

Link = _document("Link", {"rel": str, "href": str})
Links = list_of(Link)


def _answer(name: str, key: str, kind: Any) -> type[Struct]:
    """Return the type of an answer with one, or with many and a link to the next page."""
    return _document(name, {key: kind}, {f"{key}_links": Links} if key.endswith("s") else None)


Version = _document(
    "Version",
    {"id": str, "status": str, "version": str, "min_version": str, "updated": str, "links": Links},
    {"media-types": list_of(_document("MediaType", {"base": str, "type": str}))},
)
VersionAnswer = _document("VersionAnswer", {"version": Version})
VersionsAnswer = _document("VersionsAnswer", {"versions": list_of(Version)})

_FLAVOR_SIZE = {"vcpus": int, "ram": int, "disk": int}
Specs = dict[str, str]
Flavor = _document(
    "Flavor",
    {
        **{"id": str, "name": str, **_FLAVOR_SIZE, "swap": int, "rxtx_factor": float, "links": Links},
        **{"OS-FLV-EXT-DATA:ephemeral": int, "OS-FLV-DISABLED:disabled": bool, "os-flavor-access:is_public": bool},
        "description": str | None,
    },
    {"extra_specs": Specs},
)
FlavorBrief = _document("FlavorBrief", {"id": str, "name": str, "description": str | None, "links": Links})
FlavorAnswer = _answer("FlavorAnswer", "flavor", Flavor)
FlavorsAnswer = _answer("FlavorsAnswer", "flavors", list_of(FlavorBrief))
FlavorsDetailAnswer = _answer("FlavorsDetailAnswer", "flavors", list_of(Flavor))
SpecsAnswer = _document("ExtraSpecsAnswer", {"extra_specs": Specs})

Address = _document("Address", {"version": int, "addr": str}, {"OS-EXT-IPS:type": str, "OS-EXT-IPS-MAC:mac_addr": str})
Addresses: Any = dict[str, list_of(Address)]  # type: ignore[misc]
AddressesAnswer = _document("AddressesAnswer", {"addresses": Addresses})
SecurityGroups = list_of(_document("SecurityGroup", {"name": str}))

_SERVER: Mapping[str, Any] = {
    **{"id": Uuid, "name": str, "links": Links, "status": str, "tenant_id": str, "user_id": str},
    **{"metadata": Specs, "hostId": str, "addresses": Addresses, "created": Moment, "updated": Moment},
    "image": _document("ServerImage", {"id": str, "links": Links}) | Empty,
    "flavor": _document(
        "ServerFlavor",
        {**_FLAVOR_SIZE, "ephemeral": int, "swap": int, "original_name": str},
        {"extra_specs": Specs},
    ),
    **{"accessIPv4": Empty, "accessIPv6": Empty, "OS-DCF:diskConfig": str},
    **{"locked": bool, "locked_reason": str | None, "description": str | None, "tags": list[str]},
    **{"trusted_image_certificates": None},
    **{"OS-EXT-SRV-ATTR:hostname": str, "pinned_availability_zone": str | None},
    **{"key_name": None, "config_drive": Empty, "OS-EXT-AZ:availability_zone": str},
    **{"OS-EXT-STS:task_state": str | None, "OS-EXT-STS:vm_state": str, "OS-EXT-STS:power_state": int},
    **{"OS-SRV-USG:launched_at": Moment | None, "OS-SRV-USG:terminated_at": None},
    **{"os-extended-volumes:volumes_attached": list[str], "security_groups": SecurityGroups},
}
_SERVER_SOMETIMES: Mapping[str, Any] = {
    "progress": int,
    "fault": _document("ServerFault", {"code": int, "message": str, "created": Moment}, {"details": str}),
}
Server = _document(
    "Server",
    _SERVER,
    {
        **_SERVER_SOMETIMES,
        **{"OS-EXT-SRV-ATTR:host": str | None, "OS-EXT-SRV-ATTR:hypervisor_hostname": str | None},
        **{"OS-EXT-SRV-ATTR:instance_name": str},
        **{"OS-EXT-SRV-ATTR:reservation_id": str, "OS-EXT-SRV-ATTR:launch_index": int},
        **{"OS-EXT-SRV-ATTR:kernel_id": str, "OS-EXT-SRV-ATTR:ramdisk_id": str},
        **{"OS-EXT-SRV-ATTR:root_device_name": str | None, "OS-EXT-SRV-ATTR:user_data": str | None},
        **{"user_data": None, "host_status": str, "server_groups": list[str]},
    },
)
ServerBrief = _document("ServerBrief", {"id": Uuid, "name": str, "links": Links})
ServerAnswer = _answer("ServerAnswer", "server", Server)
ServersAnswer = _answer("ServersAnswer", "servers", list_of(ServerBrief))
ServersDetailAnswer = _answer("ServersDetailAnswer", "servers", list_of(Server))
ServerMade = _document(
    "ServerMade", {"id": Uuid, "links": Links, "OS-DCF:diskConfig": str, "security_groups": SecurityGroups}
)
ServerMadeAnswer = _document("ServerMadeAnswer", {}, {"server": ServerMade, "reservation_id": str})

MetadataAnswer = _document("MetadataAnswer", {"metadata": Specs})
MetadataItemAnswer = _document("MetadataItemAnswer", {"meta": Specs})
TopologyAnswer = _document("TopologyAnswer", {"nodes": list[Specs], "pagesize_kb": None})
TagsAnswer = _document("TagsAnswer", {"tags": list[str]})

_ACTION = {
    **{"action": str, "instance_uuid": Uuid, "request_id": str, "project_id": str, "user_id": str},
    **{"start_time": Moment, "updated_at": Moment, "message": str | None},
}
ActionEvent = _document(
    "ActionEvent",
    {
        **{"event": str, "start_time": Moment, "finish_time": Moment | None, "result": str | None, "hostId": str},
        "details": str | None,
    },
    {"host": str | None, "traceback": None},
)
ActionAnswer = _document(
    "ActionAnswer", {"instanceAction": _document("Action", {**_ACTION, "events": list_of(ActionEvent)})}
)
ActionsAnswer = _document(
    "ActionsAnswer", {"instanceActions": list_of(_document("ActionBrief", _ACTION))}, {"links": Links}
)

_HOST = {"id": Uuid, "state": str, "status": str}
_HYPERVISOR = {**_HOST, "hypervisor_hostname": str}
_SERVERS_ON = {"servers": list_of(_document("ServerOnHost", {"uuid": Uuid, "name": str}))}
HypervisorBrief = _document("HypervisorBrief", _HYPERVISOR, _SERVERS_ON)
Hypervisor = _document(
    "Hypervisor",
    {
        **_HYPERVISOR,
        **{"hypervisor_type": str, "hypervisor_version": int, "host_ip": str | None, "uptime": str | None},
        "service": _document("HypervisorService", {"id": Uuid, "host": str, "disabled_reason": str | None}),
    },
    _SERVERS_ON,
)
HypervisorAnswer = _answer("HypervisorAnswer", "hypervisor", Hypervisor)
HypervisorsAnswer = _answer("HypervisorsAnswer", "hypervisors", list_of(HypervisorBrief))
HypervisorsDetailAnswer = _answer("HypervisorsDetailAnswer", "hypervisors", list_of(Hypervisor))

Service = _document(
    "Service",
    {
        **{**_HOST, "binary": str, "host": str, "zone": str, "updated_at": Moment | None},
        **{"disabled_reason": str | None, "forced_down": bool},
    },
)
ServiceAnswer = _answer("ServiceAnswer", "service", Service)
ServicesAnswer = _answer("ServicesAnswer", "services", list_of(Service))

Aggregate = _document(
    "Aggregate",
    {
        **{"id": int, "uuid": Uuid, "name": str, "availability_zone": str | None, "hosts": list[str]},
        **{"metadata": Specs, "created_at": Moment, "updated_at": Moment | None, "deleted": bool, "deleted_at": None},
    },
)
AggregateAnswer = _answer("AggregateAnswer", "aggregate", Aggregate)
AggregateCreated = _document(
    "AggregateCreated",
    {
        **{"id": int, "uuid": Uuid, "name": str, "availability_zone": str | None},
        **{"created_at": Moment, "updated_at": None, "deleted": bool, "deleted_at": None},
    },
)
AggregateCreatedAnswer = _answer("AggregateCreatedAnswer", "aggregate", AggregateCreated)
AggregatesAnswer = _answer("AggregatesAnswer", "aggregates", list_of(Aggregate))

_ZONE = {"zoneName": str, "zoneState": _document("ZoneState", {"available": bool})}
_ZONE_SERVICE = _document("ZoneService", {"available": bool, "active": bool, "updated_at": Moment | None})
_ZONE_HOSTS = dict[str, dict[str, _ZONE_SERVICE]]  # type: ignore[valid-type]
Zones = _document("Zones", {"availabilityZoneInfo": list_of(_document("Zone", {**_ZONE, "hosts": None}))})
ZonesDetail = _document(
    "ZonesDetail", {"availabilityZoneInfo": list_of(_document("ZoneDetail", {**_ZONE, "hosts": _ZONE_HOSTS}))}
)

Extension = _document(
    "Extension",
    {"alias": str, "name": str, "description": str, "links": Links, "namespace": str, "updated": str},
)
ExtensionAnswer = _answer("ExtensionAnswer", "extension", Extension)
ExtensionsAnswer = _answer("ExtensionsAnswer", "extensions", list_of(Extension))

Interface = _document(
    "Interface",
    {
        **{"port_state": str, "port_id": Uuid, "net_id": Uuid, "mac_addr": str, "tag": str | None},
        "fixed_ips": list_of(_document("InterfaceAddress", {"ip_address": str})),
    },
)
InterfaceAnswer = _answer("InterfaceAnswer", "interfaceAttachment", Interface)
InterfacesAnswer = _answer("InterfacesAnswer", "interfaceAttachments", list_of(Interface))

_MOVE = {
    **{"id": int, "status": str, "created_at": Moment, "updated_at": Moment, "uuid": Uuid},
    **dict.fromkeys(("source_compute", "source_node", "dest_compute", "dest_node", "dest_host"), str | None),
}
_MOVER = {"project_id": str, "user_id": str}
_AMOUNTS_COPIED = [
    f"{kind}_{part}_bytes" for kind in ("memory", "disk") for part in ("total", "processed", "remaining")
]
Migration = _document(
    "Migration",
    {**_MOVE, "instance_uuid": Uuid, "migration_type": str, "old_instance_type_id": None, "new_instance_type_id": None},
    {**_MOVER, "links": Links},
)
ServerMigration = _document(
    "ServerMigration", {**_MOVE, "server_uuid": Uuid, **dict.fromkeys(_AMOUNTS_COPIED, None)}, _MOVER
)
MigrationsAnswer = _answer("MigrationsAnswer", "migrations", list_of(Migration))
MigrationAnswer = _answer("MigrationAnswer", "migration", ServerMigration)
ServerMigrationsAnswer = _answer("ServerMigrationsAnswer", "migrations", list_of(ServerMigration))

Build = _document(
    "Build",
    {
        **{"server_id": Uuid, "name": str, "project_id": str, "stage": str, "attempt": int, "failures": int},
        **{"host": str | None, "since": Moment, "waits_for": str},
    },
)
Builds = _document("Builds", {"builds": list_of(Build), "total": int})
HostNames = _document("HostNames", {"hosts": list[str]})

_QUOTA_NAMES = (
    "instances", "cores", "ram", "metadata_items", "key_pairs", "server_groups", "server_group_members",
)  # fmt: skip
_QUOTAS = dict.fromkeys(_QUOTA_NAMES, int)
_QUOTA_USAGE = _document("QuotaUsage", {"limit": int, "in_use": int, "reserved": int})
QuotaSetAnswer = _answer("QuotaSetAnswer", "quota_set", _document("QuotaSet", {"id": str, **_QUOTAS}))
QuotaSetUpdateAnswer = _answer("QuotaSetUpdateAnswer", "quota_set", _document("QuotaSetUpdated", _QUOTAS))
QuotaDetailAnswer = _answer(
    "QuotaDetailAnswer",
    "quota_set",
    _document("QuotaDetail", {"id": str, **dict.fromkeys(_QUOTA_NAMES, _QUOTA_USAGE)}),
)
QuotaClassAnswer = _answer("QuotaClassAnswer", "quota_class_set", _document("QuotaClass", _QUOTAS, {"id": str}))

_LIMIT_NAMES = (
    "maxTotalInstances", "maxTotalCores", "maxTotalRAMSize", "maxServerMeta", "maxTotalKeypairs", "maxServerGroups",
    "maxServerGroupMembers", "totalInstancesUsed", "totalCoresUsed", "totalRAMUsed", "totalServerGroupsUsed",
)  # fmt: skip
LimitsAnswer = _answer(
    "LimitsAnswer",
    "limits",
    _document("Limits", {"rate": list[str], "absolute": _document("Absolute", dict.fromkeys(_LIMIT_NAMES, int))}),
)

_SERVER_USAGE = _document(
    "ServerUsage",
    {
        **{"instance_id": Uuid, "name": str, "tenant_id": str, "flavor": str, "state": str},
        **{"vcpus": int, "memory_mb": int, "local_gb": int, "hours": float, "uptime": int},
        **{"started_at": Moment, "ended_at": Moment | None},
    },
)
_SERVER_USAGES = {"server_usages": list_of(_SERVER_USAGE)}
_PROJECT_USAGE = {
    **{"tenant_id": str, "start": Moment, "stop": Moment, "total_hours": float},
    **dict.fromkeys(("total_vcpus_usage", "total_memory_mb_usage", "total_local_gb_usage"), float),
}
UsageAnswer = _document(
    "UsageAnswer",
    {"tenant_usage": _document("ProjectUsage", {}, {**_PROJECT_USAGE, **_SERVER_USAGES})},
    {"tenant_usage_links": Links},
)
UsagesAnswer = _answer(
    "UsagesAnswer", "tenant_usages", list_of(_document("ListedProjectUsage", _PROJECT_USAGE, _SERVER_USAGES))
)
