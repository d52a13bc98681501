"""The payloads of versioned notifications: Nova's objects, with its names, versions and fields.

What Roost has not (volumes, key pairs, shares, NUMA, PCI) has the value that Nova gives where there is none.
Source: Nova, notifications/objects; doc/notification_samples/common_payloads.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

from roost.compute.model.cloud import Flavor, Host, HostAggregate
from roost.compute.model.server import Server
from roost.compute.model.work import Failure
from roost.compute.rules.notifications import ServerEvent
from roost.platform.times import show_seconds

Payload = dict[str, Any]

POWER_STATES: Mapping[str, str] = {
    "running": "running",
    "incoming": "running",
    "stopped": "shutdown",
    "paused": "paused",
    "suspended": "suspended",
}
"""States of a guest -> as Nova names them."""

ACTION_VERSION = "1.9"
SERVICE_BINARY = "nova-compute"


def server_payload(
    server: Server, event: ServerEvent, *, request: Mapping[str, str | None], new_flavor: Flavor, now: datetime
) -> Payload:
    """Return the payload of an event of a server as it is after it.

    new_flavor: that which it is to have, or has. now: when it is told, for what is deleted.
    """
    if event.step.name == "scheduler.select_destinations":
        return _request_spec(server, new_flavor)
    data = _instance(server, request) | ({"state": "deleted", "task_state": None} if event.gone else {})
    if event.gone:
        data |= {"deleted_at": _time(now), "terminated_at": _time(now)}
    if event.step.name == "instance.update":
        return _update(server, event, data, now)
    data["fault"] = None if event.failure is None else _exception(event.failure, event.step.name)
    match event.step.name:
        case "instance.create":
            more = {"keypairs": [], "tags": list(server.tags), "trusted_image_certificates": None}
            name, version = "InstanceCreatePayload", "1.13"
            data |= more | {"instance_name": f"instance-{server.id}"}
        case "instance.resize_prep":
            name, version = "InstanceActionResizePrepPayload", "1.4"
            data["new_flavor"] = _flavor(new_flavor)
        case "instance.rebuild" | "instance.rebuild_scheduled":
            name, version = "InstanceActionRebuildPayload", "1.10"
            data["trusted_image_certificates"] = None
        case _:
            name, version = "InstanceActionPayload", ACTION_VERSION
    return _object(name, version, data)


def _object(name: str, version: str, data: Mapping[str, Any]) -> Payload:
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": data,
    }


def _instance(server: Server, request: Mapping[str, str | None]) -> Payload:
    nothing = dict.fromkeys(("architecture", "os_type", "key_name", "deleted_at", "terminated_at"))
    power_state = "pending" if server.launched_at is None else POWER_STATES.get(server.power, "pending")
    power_state = "crashed" if server.has_crashed else power_state
    return nothing | {
        "uuid": server.id,
        "user_id": server.user_id,
        "tenant_id": server.project_id,
        "reservation_id": server.reservation_id,
        "display_name": server.name,
        "display_description": server.description or server.name,
        "host_name": server.hostname,
        "host": server.host,
        "node": server.host,
        "availability_zone": server.zone if server.host else server.spec.availability_zone,
        "flavor": _flavor(server.flavor),
        "image_uuid": server.image_ref,
        "kernel_id": "",
        "ramdisk_id": "",
        "created_at": _time(server.created_at),
        "launched_at": _time(server.launched_at),
        "updated_at": _time(server.updated_at),
        "state": server.vm_state,
        "power_state": power_state,
        "task_state": server.task_state,
        "progress": 0,
        "ip_addresses": _addresses(server),
        "block_devices": [],
        "metadata": dict(server.metadata),
        "locked": server.locked,
        "locked_reason": server.locked_reason,
        "auto_disk_config": "MANUAL",
        "request_id": request.get("request_id"),
        "action_initiator_user": request.get("user_id"),
        "action_initiator_project": request.get("project_id"),
        "shares": [],
    }


def _addresses(server: Server) -> list[Payload]:
    return [
        _object(
            "IpPayload",
            "1.0",
            {
                "label": port.network_name,
                "mac": port.mac_address,
                "meta": {},
                "port_uuid": port.port_id,
                "version": ip_address(address).version,
                "address": address,
                "device_name": None if port.port_id is None else f"tap{port.port_id[:11]}",
            },
        )
        for port in server.ports
        for address in port.addresses
    ]


def _flavor(flavor: Flavor) -> Payload:
    return _object(
        "FlavorPayload",
        "1.4",
        {
            "flavorid": flavor.id,
            "name": flavor.name,
            "memory_mb": flavor.ram_mb,
            "vcpus": flavor.vcpus,
            "root_gb": flavor.disk_gb,
            "ephemeral_gb": 0,
            "swap": 0,
            "rxtx_factor": 1.0,
            "vcpu_weight": 0,
            "disabled": False,
            "is_public": flavor.is_public,
            "extra_specs": dict(flavor.extra_specs),
            "projects": None,
            "description": flavor.description,
        },
    )


def _exception(failure: Failure, name: str) -> Payload:
    return _object(
        "ExceptionPayload",
        "1.1",
        {
            "module_name": "roost",
            "function_name": name,
            "exception": "NoValidHost" if failure.funnel else "InstanceActionFailed",
            "exception_message": failure.message,
            "traceback": "",
        },
    )


def _update(server: Server, event: ServerEvent, data: Payload, now: datetime) -> Payload:
    assert event.before is not None, "an update tells what was before"
    states = {
        "old_state": event.before.vm_state,
        "state": server.vm_state,
        "old_task_state": event.before.task_state,
        "new_task_state": server.task_state,
    }
    month = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    period = {"audit_period_beginning": _time(month), "audit_period_ending": _time(now)}
    more = {
        "state_update": _object("InstanceStateUpdatePayload", "1.0", states),
        "audit_period": _object("AuditPeriodPayload", "1.0", period),
        "old_display_name": event.before.old_display_name,
        "tags": list(server.tags),
    }
    return _object("InstanceUpdatePayload", "2.1", data | more)


def _request_spec(server: Server, flavor: Flavor) -> Payload:
    forced = server.spec.forced_host
    nothing = (
        *("force_nodes", "ignore_hosts", "image", "instance_group"),
        *("numa_topology", "requested_destination", "retry"),
    )
    requests = {"instance_uuid": server.id, "requests": []}
    return _object(
        "RequestSpecPayload",
        "1.1",
        dict.fromkeys(nothing)
        | {
            "instance_uuid": server.id,
            "project_id": server.project_id,
            "user_id": server.user_id,
            "availability_zone": server.spec.availability_zone,
            "flavor": _flavor(flavor),
            "force_hosts": None if forced is None else forced.name,
            "num_instances": 1,
            "pci_requests": _object("InstancePCIRequestsPayload", "1.0", requests),
            "scheduler_hints": {},
            "security_groups": [],
        },
    )


def aggregate_payload(aggregate: HostAggregate) -> Payload:
    """Return the payload of an aggregate's notifications."""
    data = {
        "id": aggregate.id,
        "uuid": aggregate.uuid,
        "name": aggregate.name,
        "hosts": list(aggregate.hosts),
        "metadata": dict(aggregate.metadata),
    }
    return _object("AggregatePayload", "1.1", data)


def service_payload(host: Host) -> Payload:
    """Return the payload of the notifications of a host's service."""
    data = {
        "host": host.name,
        "binary": SERVICE_BINARY,
        "topic": "compute",
        "report_count": 0,
        "disabled": host.disabled,
        "disabled_reason": host.disabled_reason,
        "availability_zone": None,
        "last_seen_up": _time(host.seen_at),
        "forced_down": host.forced_down,
        "version": host.service_version,
        "uuid": host.provider_uuid,
    }
    return _object("ServiceStatusPayload", "1.1", data)


def guests_ended_payload(host: str, count: int) -> Payload:
    """Return the payload of a host whose guests all stopped at once; it is no object of Nova's."""
    return {"host": host, "binary": SERVICE_BINARY, "guests_ended": count}


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else show_seconds(moment)
