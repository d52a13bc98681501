"""Hypervisors and services in the Compute API's shapes: both are hosts.

Up to microversion 2.52 a host's id is its number, from 2.53 on its provider's UUID.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.requests import (
    Name,
    check_parameters,
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
from roost.compute.rules.servers import ZONE
from roost.compute.service import Compute
from roost.compute.service import hosts as service
from roost.platform.errors import BadRequest
from roost.platform.http import Endpoint, Version, canonical_uuid, is_uuid, json_response

BINARY = "nova-compute"
UUIDS_FROM = (2, 53)
NUMBER = r"[0-9]{1,18}"

HYPERVISOR_PARAMETERS: Mapping[str, Version] = {
    "limit": (2, 1),
    "marker": (2, 1),
    "hypervisor_hostname_pattern": UUIDS_FROM,
    "with_servers": UUIDS_FROM,
}
"""Parameter of a list -> the microversion that brought it. Upstream pages from 2.33 on, Roost always."""

SERVICE_PARAMETERS: Mapping[str, Version] = {"host": (2, 1), "binary": (2, 1)}

Reason = Annotated[str, Meta(min_length=1, max_length=255)]


class _ServiceBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Of `enable` and `disable`."""

    host: Name
    binary: str = BINARY


class _ReasonBody(_ServiceBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of `disable-log-reason`."""

    disabled_reason: Reason


class _ForceDownBody(_ServiceBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    forced_down: Any


class _UpdateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """From microversion 2.53 on."""

    status: Literal["enabled", "disabled"] | None = None
    disabled_reason: Reason | None = None
    forced_down: Any = None


def endpoints(compute: Compute) -> dict[str, Mapping[str, Endpoint]]:
    """Path below /v2.1 -> method -> endpoint."""
    return _hypervisor_endpoints(compute) | _service_endpoints(compute)


def _hypervisor_endpoints(compute: Compute) -> dict[str, Mapping[str, Endpoint]]:
    async def list_hypervisors(request: Request) -> Response:
        hosts, more = await _page(compute, request)
        shown = [_show_brief(host, request) for host in hosts]
        return json_response({"hypervisors": await _with_servers(compute, hosts, shown, request)} | more)

    async def list_hypervisors_detail(request: Request) -> Response:
        hosts, more = await _page(compute, request)
        shown = await _show_hypervisors(compute, hosts, request)
        return json_response({"hypervisors": await _with_servers(compute, hosts, shown, request)} | more)

    async def show_hypervisor(request: Request) -> Response:
        host = await _get_host(compute, request)
        shown = await _show_hypervisors(compute, [host], request)
        return json_response({"hypervisor": (await _with_servers(compute, [host], shown, request))[0]})

    async def show_uptime(request: Request) -> Response:
        host = await _get_host(compute, request)
        raise NotReported(f"Host {host.name} does not report its uptime.")

    async def search(request: Request) -> Response:
        hosts = await _search(compute, request)
        return json_response({"hypervisors": [_show_brief(host, request) for host in hosts]})

    async def search_servers(request: Request) -> Response:
        hosts = await _search(compute, request)
        shown = [_show_brief(host, request) for host in hosts]
        return json_response({"hypervisors": await _add_servers(compute, hosts, shown)})

    return {
        "/os-hypervisors": {"GET": list_hypervisors},
        "/os-hypervisors/detail": {"GET": list_hypervisors_detail},
        "/os-hypervisors/{host_id}": {"GET": show_hypervisor},
        "/os-hypervisors/{host_id}/uptime": {"GET": show_uptime},
        "/os-hypervisors/{pattern}/search": {"GET": search},
        "/os-hypervisors/{pattern}/servers": {"GET": search_servers},
    }


def _service_endpoints(compute: Compute) -> dict[str, Mapping[str, Endpoint]]:
    async def list_services(request: Request) -> Response:
        check_parameters(request, SERVICE_PARAMETERS)
        name, binary = text_parameter(request, "host"), text_parameter(request, "binary")
        hosts = [] if binary not in (None, BINARY) else await service.list_hosts(compute, None if not name else [name])
        return json_response({"services": [_show_service(host, request) for host in hosts]})

    async def change_service(request: Request) -> Response:
        if request.state.microversion >= UUIDS_FROM:
            return await update_service(request)
        action = path_text(request, "action")
        if action == "enable":
            asked = await _read_service(request, _ServiceBody)
            await service.enable_host(compute, asked.host)
            changed: dict[str, Any] = {"status": "enabled"}
        elif action == "disable":
            asked = await _read_service(request, _ServiceBody)
            await service.disable_host(compute, asked.host)
            changed = {"status": "disabled"}
        elif action == "disable-log-reason":
            explained = await _read_service(request, _ReasonBody)
            asked, reason = explained, explained.disabled_reason
            await service.disable_host(compute, asked.host, reason=reason)
            changed = {"status": "disabled", "disabled_reason": reason}
        elif action == "force-down" and request.state.microversion >= (2, 11):
            forced = await _read_service(request, _ForceDownBody)
            asked, down = forced, flag(forced.forced_down, "forced_down", default=True)
            changed = {"forced_down": (await service.force_down(compute, asked.host, down)).forced_down}
        else:
            raise HostNotFound(f"Unknown action {action}")
        return json_response({"service": {"host": asked.host, "binary": BINARY} | changed})

    async def update_service(request: Request) -> Response:
        host = await _get_host(compute, request, parameter="action")
        asked = await read_body(request, _UpdateBody)
        if asked.status is None and asked.forced_down is None:
            raise BadRequest("No updates were requested. Fields 'status' or 'forced_down' should be specified.")
        if asked.disabled_reason is not None and asked.status == "enabled":
            raise BadRequest("Specifying 'disabled_reason' when status is 'enabled' is invalid.")
        if asked.disabled_reason is not None and asked.status is None:
            raise BadRequest("Specifying 'disabled_reason' requires that status be 'disabled'.")
        down = None if asked.forced_down is None else flag(asked.forced_down, "forced_down", default=True)
        if asked.status == "enabled":
            host = await service.enable_host(compute, host.name)
        elif asked.status == "disabled":
            host = await service.disable_host(compute, host.name, reason=asked.disabled_reason)
        if down is not None:
            host = await service.force_down(compute, host.name, down)
        return json_response({"service": _show_service(host, request)})

    return {"/os-services": {"GET": list_services}, "/os-services/{action}": {"PUT": change_service}}


ServiceBody = TypeVar("ServiceBody", bound=_ServiceBody)


async def _read_service(request: Request, kind: type[ServiceBody]) -> ServiceBody:
    asked = await read_body(request, kind)
    if asked.binary != BINARY:
        raise HostNotFound(f"Could not find binary {asked.binary} on host {asked.host}.")
    return asked


async def _get_host(compute: Compute, request: Request, *, parameter: str = "host_id") -> Host:
    """Return the host that the path names, as this microversion names hosts. Raises HostNotFound."""
    text = path_text(request, parameter)
    host = await _find_host(compute, request, text)
    if host is None:
        kind = "UUID" if request.state.microversion >= UUIDS_FROM else "number"
        raise HostNotFound(f"Compute host {text} could not be found: expected the {kind} of one at this microversion.")
    return host


async def _find_host(compute: Compute, request: Request, text: str) -> Host | None:
    if request.state.microversion >= UUIDS_FROM:
        return await service.find_host(compute, provider_uuid=canonical_uuid(text)) if is_uuid(text) else None
    return await service.find_host(compute, number=int(text)) if re.fullmatch(NUMBER, text) else None


async def _search(compute: Compute, request: Request) -> list[Host]:
    """Return the hosts of whose names the path says a part. Source: Compute API, up to microversion 2.52."""
    pattern = path_text(request, "pattern")
    if request.state.microversion >= UUIDS_FROM:
        raise HostNotFound("From microversion 2.53 on hypervisors are searched by hypervisor_hostname_pattern.")
    return await _matching(compute, pattern)


async def _matching(compute: Compute, pattern: str) -> list[Host]:
    hosts = await service.list_hosts(compute, having=pattern)
    if not hosts:
        raise HostNotFound(f"No hypervisor matching '{pattern}' could be found.")
    return hosts


async def _page(compute: Compute, request: Request) -> tuple[list[Host], dict[str, Any]]:
    """Return a page of hosts by name; the marker is a hypervisor's id."""
    check_parameters(request, HYPERVISOR_PARAMETERS)
    limit = page_limit(request)
    pattern = text_parameter(request, "hypervisor_hostname_pattern")
    marker, after = text_parameter(request, "marker"), ""
    if pattern is not None:
        if marker is not None or "limit" in request.query_params:
            raise BadRequest("Paging over hypervisors with the hypervisor_hostname_pattern is not supported.")
        return await _matching(compute, pattern), {}
    if marker is not None:
        before = await _find_host(compute, request, marker)
        if before is None:
            raise BadRequest(f"marker [{marker}] not found")
        after = before.name
    hosts = await service.list_hosts(compute, after=after, limit=limit)
    if len(hosts) < limit or not hosts:
        return hosts, {}
    return hosts, {"hypervisors_links": next_link(request, str(_id(hosts[-1], request)), limit=limit)}


async def _with_servers(
    compute: Compute, hosts: Sequence[Host], shown: list[dict[str, Any]], request: Request
) -> list[dict[str, Any]]:
    """Show the servers too where they are asked for. Source: Compute API 2.53."""
    if not flag(text_parameter(request, "with_servers"), "with_servers", default=False):
        return shown
    return await _add_servers(compute, hosts, shown)


async def _add_servers(compute: Compute, hosts: Sequence[Host], shown: list[dict[str, Any]]) -> list[dict[str, Any]]:
    servers = await service.list_servers_on(compute, hosts)
    return [
        one | {"servers": [{"uuid": server_id, "name": name} for server_id, name in servers[host.name]]}
        if host.name in servers
        else one
        for host, one in zip(hosts, shown, strict=True)
    ]


def _id(host: Host, request: Request) -> int | str:
    return host.provider_uuid if request.state.microversion >= UUIDS_FROM else host.id


def _state(host: Host) -> str:
    return "down" if host.down else "up"


def _status(host: Host) -> str:
    return "disabled" if host.disabled else "enabled"


def _show_brief(host: Host, request: Request) -> dict[str, Any]:
    return {
        "id": _id(host, request),
        "hypervisor_hostname": host.name,
        "state": _state(host),
        "status": _status(host),
    }


async def _show_hypervisors(compute: Compute, hosts: list[Host], request: Request) -> list[dict[str, Any]]:
    loads = await service.list_loads(compute, hosts)
    cpu_info = {} if request.state.microversion >= (2, 28) else ""
    return [_show_hypervisor(host, loads[host.name], request) | {"cpu_info": cpu_info} for host in hosts]


def _show_hypervisor(host: Host, load: service.HostLoad, request: Request) -> dict[str, Any]:
    return _show_brief(host, request) | {
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
        "service": {"id": _id(host, request), "host": host.name, "disabled_reason": host.disabled_reason},
    }


def _show_service(host: Host, request: Request) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": _id(host, request),
        "binary": BINARY,
        "host": host.name,
        "zone": ZONE,
        "status": _status(host),
        "state": _state(host),
        "updated_at": timestamp_with_microseconds(host.seen_at),
        "disabled_reason": host.disabled_reason,
    }
    if request.state.microversion >= (2, 11):
        shown["forced_down"] = host.forced_down
    return shown
