"""How much projects used in a period. Source: Compute API, os-simple-tenant-usage; nova/api/openstack/compute."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

from roost.compute.api.answers import UsageAnswer, UsagesAnswer
from roost.compute.api.pages import PAGE_MAX, More, read_page
from roost.compute.api.policies import ADMIN, READER
from roost.compute.api.requests import (
    LIMIT,
    STRICT_FROM,
    YES,
    Parameter,
    check_parameters,
    path_project,
    query,
    text_parameter,
    timestamp_with_microseconds,
)
from roost.compute.errors import FilterInvalid
from roost.compute.model.usages import ServerUsage, UsageFilter
from roost.compute.rules.usages import ProjectUsage, add_up, hours_of, uptime_s
from roost.compute.service import Compute
from roost.compute.service import usages as service
from roost.platform.http import canonical_uuid, is_uuid
from roost.platform.operations import Operation, Operations, Rule

PAGES_FROM = (2, 40)
FORMATS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f")
_PAGE = {
    "limit": Parameter(schema=LIMIT.schema, since=PAGES_FROM),
    "marker": Parameter(schema={"type": "string", "format": "uuid"}, since=PAGES_FROM),
}
_PERIOD = {"start": Parameter(), "end": Parameter()}
LIST_PARAMETERS = {**_PERIOD, "detailed": Parameter(), **_PAGE}
SHOW_PARAMETERS = {**_PERIOD, **_PAGE}


def usage_operations(compute: Compute) -> Operations:
    """Return the operations, by path below /v2.1."""

    async def list_projects(request: Request) -> dict[str, Any]:
        check_parameters(request, LIST_PARAMETERS, strict_from=STRICT_FROM)
        only = _read_period(compute, request, None)
        servers, more = await _read_servers(compute, request, only, "tenant_usages")
        detailed = (text_parameter(request, "detailed") or "").lower() in YES
        usages = [_show(compute, usage, only, detailed=detailed) for usage in _add_up(servers, only)]
        return {"tenant_usages": usages} | more

    async def show_project(request: Request) -> dict[str, Any]:
        check_parameters(request, SHOW_PARAMETERS, strict_from=STRICT_FROM)
        only = _read_period(compute, request, path_project(request))
        servers, more = await _read_servers(compute, request, only, "tenant_usage")
        usages = [_show(compute, usage, only, detailed=True) for usage in _add_up(servers, only)]
        return {"tenant_usage": usages[0] if usages else {}} | more

    rule = "os_compute_api:os-simple-tenant-usage:"
    return {
        "/os-simple-tenant-usage": {
            "GET": Operation(
                summary="how much each project used in a period",
                endpoint=list_projects,
                rule=Rule(f"{rule}list", ADMIN),
                query=query(LIST_PARAMETERS, strict_from=STRICT_FROM),
                result=UsagesAnswer,
            )
        },
        "/os-simple-tenant-usage/{project_id}": {
            "GET": Operation(
                summary="how much one project used in a period, by server",
                endpoint=show_project,
                rule=Rule(f"{rule}show", READER),
                query=query(SHOW_PARAMETERS, strict_from=STRICT_FROM),
                result=UsageAnswer,
            )
        },
    }


def _read_period(compute: Compute, request: Request, project_id: str | None) -> UsageFilter:
    """Return what is asked for; a period ends now at the latest. Raises BadRequest, FilterInvalid."""
    now = compute.env.now()
    start, stop = _read_time(request, "start") or now, _read_time(request, "end") or now
    if start >= stop and start is not stop:  # without either it is this moment
        raise FilterInvalid("Invalid start time. The start time cannot occur after the end time.")
    return UsageFilter(start=start, stop=min(stop, now), project_id=project_id)


def _read_time(request: Request, name: str) -> datetime | None:
    """Return a time in UTC. Raises FilterInvalid."""
    text = text_parameter(request, name)
    if not text:
        return None
    for template in FORMATS:
        with suppress(ValueError):
            return datetime.strptime(text, template).replace(tzinfo=UTC)
    raise FilterInvalid(f"Invalid datetime string: {name}={text}: expected UTC such as 2026-01-31T12:00:00")


async def _read_servers(
    compute: Compute, request: Request, only: UsageFilter, many: str
) -> tuple[list[ServerUsage], More]:
    """Return a page of the servers, and where the next one is; before microversion 2.40 there is one page."""
    if request.state.microversion < PAGES_FROM:
        return await service.list_usages(compute, only, marker=None, limit=PAGE_MAX), {}

    async def load(marker: str | None, limit: int) -> list[ServerUsage]:
        if marker is not None and not is_uuid(marker):
            raise FilterInvalid(f"Marker {marker} could not be found.")
        known = None if marker is None else canonical_uuid(marker)
        return await service.list_usages(compute, only, marker=known, limit=limit)

    return await read_page(request, many, load, lambda server: server.id)


def _add_up(servers: list[ServerUsage], only: UsageFilter) -> list[ProjectUsage]:
    return add_up(servers, start=only.start, stop=only.stop)


def _show(compute: Compute, usage: ProjectUsage, only: UsageFilter, *, detailed: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "tenant_id": usage.project_id,
        "start": timestamp_with_microseconds(only.start),
        "stop": timestamp_with_microseconds(only.stop),
        "total_hours": usage.hours,
        "total_vcpus_usage": usage.vcpu_hours,
        "total_memory_mb_usage": usage.memory_mb_hours,
        "total_local_gb_usage": usage.disk_gb_hours,
    }
    if detailed:
        now = compute.env.now()
        shown["server_usages"] = [_show_server(server, only, now) for server in usage.servers]
    return shown


def _show_server(server: ServerUsage, only: UsageFilter, now: datetime) -> dict[str, Any]:
    return {
        "instance_id": server.id,
        "name": server.name,
        "tenant_id": server.project_id,
        "flavor": server.flavor.name,
        "vcpus": server.flavor.vcpus,
        "memory_mb": server.flavor.ram_mb,
        "local_gb": server.flavor.disk_gb,
        "hours": hours_of(server, start=only.start, stop=only.stop),
        "uptime": uptime_s(server, now),
        "state": server.state,
        "started_at": timestamp_with_microseconds(server.launched_at),
        "ended_at": timestamp_with_microseconds(server.ended_at),
    }
