"""Hypervisors and services in the Compute API's shapes: both are hosts."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.requests import (
    Name,
    flag,
    next_link,
    page_limit,
    path_text,
    read_body,
    text_parameter,
    timestamp_with_microseconds,
)
from roost.compute.errors import HostNotFound, NotReported
from roost.compute.model import Host
from roost.compute.service import Compute
from roost.compute.service import hosts as service
from roost.platform.errors import BadRequest
from roost.platform.http import Endpoint, canonical_uuid, is_uuid, json_response

BINARY = "nova-compute"
ZONE = "nova"


class _ServiceBody(Struct, frozen=True):
    host: Name
    binary: str = BINARY
    forced_down: Any = None
    disabled_reason: str | None = None


def endpoints(compute: Compute) -> dict[str, Mapping[str, Endpoint]]:
    """Path below /v2.1 -> method -> endpoint."""

    async def list_hypervisors(request: Request) -> Response:
        hosts, more = await _page(compute, request)
        return json_response({"hypervisors": [_show_brief(host) for host in hosts]} | more)

    async def list_hypervisors_detail(request: Request) -> Response:
        hosts, more = await _page(compute, request)
        return json_response({"hypervisors": await _show_hypervisors(compute, hosts, request)} | more)

    async def show_hypervisor(request: Request) -> Response:
        host = await _get_host(compute, path_text(request, "host_id"))
        return json_response({"hypervisor": (await _show_hypervisors(compute, [host], request))[0]})

    async def show_uptime(request: Request) -> Response:
        host = await _get_host(compute, path_text(request, "host_id"))
        raise NotReported(f"Host {host.name} does not report its uptime.")

    async def list_services(request: Request) -> Response:
        name = text_parameter(request, "host")
        shown = (
            []
            if text_parameter(request, "binary") not in (None, BINARY)
            else await service.list_hosts(compute, None if name is None else [name])
        )
        return json_response({"services": [_show_service(host, request) for host in shown]})

    async def change_service(request: Request) -> Response:
        action = path_text(request, "action")
        asked = await read_body(request, _ServiceBody)
        if asked.binary != BINARY:
            raise HostNotFound(f"Could not find binary {asked.binary} on host {asked.host}.")
        shown = {"host": asked.host, "binary": BINARY}
        if action == "enable":
            await service.enable_host(compute, asked.host)
            return json_response({"service": shown | {"status": "enabled"}})
        if action == "disable":
            await service.disable_host(compute, asked.host)
            return json_response({"service": shown | {"status": "disabled"}})
        if action != "force-down" or request.state.microversion < (2, 11):
            raise HostNotFound(f"Unknown action {action}")
        if asked.forced_down is None:
            raise BadRequest("Missing forced_down field")
        host = await service.force_down(compute, asked.host, flag(asked.forced_down, "forced_down", default=True))
        return json_response({"service": shown | {"forced_down": host.forced_down}})

    return {
        "/os-hypervisors": {"GET": list_hypervisors},
        "/os-hypervisors/detail": {"GET": list_hypervisors_detail},
        "/os-hypervisors/{host_id}": {"GET": show_hypervisor},
        "/os-hypervisors/{host_id}/uptime": {"GET": show_uptime},
        "/os-services": {"GET": list_services},
        "/os-services/{action}": {"PUT": change_service},
    }


async def _get_host(compute: Compute, host_id: str) -> Host:
    found = [host for host in await service.list_hosts(compute) if _same(host, host_id)]
    if not found:
        raise HostNotFound(f"Compute host {host_id} could not be found.")
    return found[0]


def _same(host: Host, host_id: str) -> bool:
    return is_uuid(host_id) and host.provider_uuid == canonical_uuid(host_id)


async def _page(compute: Compute, request: Request) -> tuple[list[Host], dict[str, Any]]:
    """Hosts by name; the marker is a hypervisor's id. Source: Compute API 2.33; Roost pages at every version."""
    limit = page_limit(request)
    marker, after = text_parameter(request, "marker"), ""
    if marker is not None:
        before = [host.name for host in await service.list_hosts(compute) if _same(host, marker)]
        if not before:
            raise BadRequest(f"marker [{marker}] not found")
        after = before[0]
    hosts = await service.list_hosts(compute, after=after, limit=limit)
    if len(hosts) < limit or not hosts:
        return hosts, {}
    return hosts, {"hypervisors_links": next_link(request, hosts[-1].provider_uuid, limit=limit)}


def _state(host: Host) -> str:
    return "down" if host.down else "up"


def _status(host: Host) -> str:
    return "disabled" if host.disabled else "enabled"


def _show_brief(host: Host) -> dict[str, Any]:
    return {
        "id": host.provider_uuid,
        "hypervisor_hostname": host.name,
        "state": _state(host),
        "status": _status(host),
    }


async def _show_hypervisors(compute: Compute, hosts: list[Host], request: Request) -> list[dict[str, Any]]:
    loads = await service.list_loads(compute, hosts)
    cpu_info = {} if request.state.microversion >= (2, 28) else ""
    return [_show_hypervisor(host, loads[host.name]) | {"cpu_info": cpu_info} for host in hosts]


def _show_hypervisor(host: Host, load: service.HostLoad) -> dict[str, Any]:
    return _show_brief(host) | {
        "hypervisor_type": "roost",
        "hypervisor_version": host.service_version,
        "host_ip": None,
        "vcpus": host.vcpus,
        "vcpus_used": load.vcpus,
        "memory_mb": host.ram_mb,
        "memory_mb_used": load.memory_mb,
        "free_ram_mb": host.ram_mb - load.memory_mb,
        "local_gb": host.disk_gb,
        "local_gb_used": load.disk_gb,
        "free_disk_gb": host.disk_gb - load.disk_gb,
        "disk_available_least": host.disk_gb - load.disk_gb,
        "current_workload": 0,
        "running_vms": load.servers,
        "service": {"id": host.provider_uuid, "host": host.name, "disabled_reason": None},
    }


def _show_service(host: Host, request: Request) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": host.provider_uuid,
        "binary": BINARY,
        "host": host.name,
        "zone": ZONE,
        "status": _status(host),
        "state": _state(host),
        "updated_at": timestamp_with_microseconds(host.seen_at),
        "disabled_reason": None,
    }
    if request.state.microversion >= (2, 11):
        shown["forced_down"] = host.forced_down
    return shown
