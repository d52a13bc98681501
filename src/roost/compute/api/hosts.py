"""Hypervisors in the Compute API's shapes: they are the hosts.

Up to microversion 2.52 a host's id is its number, from 2.53 on its provider's UUID.
"""

import re
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.answers import FAULT, HypervisorAnswer, HypervisorsAnswer, HypervisorsDetailAnswer
from roost.compute.api.pages import More, read_page
from roost.compute.api.policies import ADMIN
from roost.compute.api.requests import (
    FLAG,
    LIMIT,
    Parameter,
    Parameters,
    check_parameters,
    flag,
    path_text,
    query,
    text_parameter,
)
from roost.compute.errors import HostNotFound, NotReported
from roost.compute.model.cloud import Host
from roost.compute.service import Compute
from roost.compute.service import hosts as service
from roost.platform.errors import BadRequest
from roost.platform.http import canonical_uuid, is_uuid
from roost.platform.operations import Operation, Operations, Rule, Serve

UUIDS_FROM, NUMBERS_UNTIL = (2, 53), (2, 52)
NO_SERVERS_SHOWN_FROM, AMOUNTS_UNTIL = (2, 75), (2, 87)
SEARCHED_SINCE = "From microversion 2.53 on hypervisors are searched by hypervisor_hostname_pattern."
NUMBER = r"[0-9]{1,18}"

PARAMETERS: Parameters = {
    "limit": LIMIT,
    "marker": Parameter(),
    "hypervisor_hostname_pattern": Parameter(since=UUIDS_FROM),
    "with_servers": Parameter(schema=FLAG.schema, since=UUIDS_FROM),
}
"""Of a list. Upstream pages from 2.33 on, Roost always."""

WITH_SERVERS: Parameters = {"with_servers": PARAMETERS["with_servers"]}
RULE = "os_compute_api:os-hypervisors:"


class Hypervisors:
    """The operations of hypervisors."""

    def __init__(self, compute: Compute) -> None:
        self.compute = compute

    def operations(self) -> Operations:
        """Return them by path below /v2.1."""
        list_query = query(PARAMETERS)
        return {
            "/os-hypervisors": {
                "GET": Operation(
                    summary="hosts by name",
                    endpoint=self._list_hypervisors,
                    rule=Rule(f"{RULE}list", ADMIN),
                    query=list_query,
                    result=HypervisorsAnswer,
                    errors=(404,),
                )
            },
            "/os-hypervisors/detail": {
                "GET": Operation(
                    summary="hosts with what they have and what is claimed",
                    endpoint=self._list_hypervisors_detail,
                    rule=Rule(f"{RULE}list-detail", ADMIN),
                    query=list_query,
                    result=HypervisorsDetailAnswer,
                    errors=(404,),
                )
            },
            "/os-hypervisors/{host_id}": {
                "GET": Operation(
                    summary="one host",
                    endpoint=self._show_hypervisor,
                    rule=Rule(f"{RULE}show", ADMIN),
                    query=query(WITH_SERVERS),
                    result=HypervisorAnswer,
                )
            },
            "/os-hypervisors/{host_id}/uptime": {
                "GET": Operation(
                    summary="hosts do not report it",
                    endpoint=self._show_uptime,
                    rule=Rule(f"{RULE}uptime", ADMIN),
                    until=AMOUNTS_UNTIL,
                    status=501,
                    result=FAULT,
                )
            },
            "/os-hypervisors/{pattern}/search": {
                "GET": _search_operation("hosts with that in their names", self._search, "search")
            },
            "/os-hypervisors/{pattern}/servers": {
                "GET": _search_operation("the same hosts with their servers", self._search_servers, "servers")
            },
        }

    async def _list_hypervisors(self, request: Request) -> dict[str, Any]:
        hosts, more = await _page(self.compute, request)
        shown = [_show_brief(host, request) for host in hosts]
        return {"hypervisors": await _with_servers(self.compute, hosts, shown, request)} | more

    async def _list_hypervisors_detail(self, request: Request) -> dict[str, Any]:
        hosts, more = await _page(self.compute, request)
        shown = await _show_hypervisors(self.compute, hosts, request)
        return {"hypervisors": await _with_servers(self.compute, hosts, shown, request)} | more

    async def _show_hypervisor(self, request: Request) -> dict[str, Any]:
        host = await get_host(self.compute, request)
        shown = await _show_hypervisors(self.compute, [host], request)
        return {"hypervisor": (await _with_servers(self.compute, [host], shown, request))[0]}

    async def _show_uptime(self, request: Request) -> Response:
        host = await get_host(self.compute, request)
        raise NotReported(f"Host {host.name} does not report its uptime.")

    async def _search(self, request: Request) -> dict[str, Any]:
        hosts = await _search(self.compute, request)
        return {"hypervisors": [_show_brief(host, request) for host in hosts]}

    async def _search_servers(self, request: Request) -> dict[str, Any]:
        hosts = await _search(self.compute, request)
        shown = [_show_brief(host, request) for host in hosts]
        return {"hypervisors": await _add_servers(self.compute, hosts, shown)}


def _search_operation(summary: str, endpoint: Serve, rule: str) -> Operation:
    return Operation(
        summary=summary,
        endpoint=endpoint,
        rule=Rule(f"{RULE}{rule}", ADMIN),
        until=NUMBERS_UNTIL,
        text_before=SEARCHED_SINCE,
        result=HypervisorsAnswer,
    )


async def get_host(compute: Compute, request: Request, *, parameter: str = "host_id") -> Host:
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
    return await _matching(compute, path_text(request, "pattern"))


async def _matching(compute: Compute, pattern: str) -> list[Host]:
    hosts = await service.list_hosts(compute, having=pattern)
    if not hosts:
        raise HostNotFound(f"No hypervisor matching '{pattern}' could be found.")
    return hosts


async def _page(compute: Compute, request: Request) -> tuple[list[Host], More]:
    """Return a page of hosts by name; the marker is a hypervisor's id."""
    check_parameters(request, PARAMETERS)
    pattern = text_parameter(request, "hypervisor_hostname_pattern")
    if pattern is not None:
        if {"marker", "limit"} & request.query_params.keys():
            raise BadRequest("Paging over hypervisors with the hypervisor_hostname_pattern is not supported.")
        return await _matching(compute, pattern), {}

    async def load(marker: str | None, limit: int) -> list[Host]:
        before = None if marker is None else await _find_host(compute, request, marker)
        if marker is not None and before is None:
            raise BadRequest(f"marker [{marker}] not found")
        return await service.list_hosts(compute, after=before.name if before else "", limit=limit)

    return await read_page(request, "hypervisors", load, lambda host: host_id(host, request))


async def _with_servers(
    compute: Compute, hosts: Sequence[Host], shown: list[dict[str, Any]], request: Request
) -> list[dict[str, Any]]:
    """Show the servers too where they are asked for. Source: Compute API 2.53."""
    if not flag(text_parameter(request, "with_servers"), "with_servers", default=False):
        return shown
    return await _add_servers(compute, hosts, shown, empty=request.state.microversion >= NO_SERVERS_SHOWN_FROM)


async def _add_servers(
    compute: Compute, hosts: Sequence[Host], shown: list[dict[str, Any]], *, empty: bool = False
) -> list[dict[str, Any]]:
    """Show the servers of the hosts. empty: also of hosts without any."""
    servers = await service.list_servers_on(compute, [host.name for host in hosts])
    return [
        host_shown | {"servers": [{"uuid": server_id, "name": name} for server_id, name in servers.get(host.name, ())]}
        if host.name in servers or empty
        else host_shown
        for host, host_shown in zip(hosts, shown, strict=True)
    ]


def host_id(host: Host, request: Request) -> int | str:
    """Return the id of the host, as this microversion names hosts."""
    return host.provider_uuid if request.state.microversion >= UUIDS_FROM else host.id


def host_state(host: Host) -> str:
    """Return whether the host is up; one that is up again only when the ledger gives it servers."""
    return "down" if host.down or host.down_told else "up"


def host_status(host: Host) -> str:
    """Return whether the host takes new servers."""
    return "disabled" if host.disabled else "enabled"


def _show_brief(host: Host, request: Request) -> dict[str, Any]:
    return {
        "id": host_id(host, request),
        "hypervisor_hostname": host.name,
        "state": host_state(host),
        "status": host_status(host),
    }


async def _show_hypervisors(compute: Compute, hosts: list[Host], request: Request) -> list[dict[str, Any]]:
    version = request.state.microversion
    shown = [_show_hypervisor(host, request) for host in hosts]
    if version > AMOUNTS_UNTIL:
        return [host_shown | {"uptime": None} for host_shown in shown]
    loads = await service.list_loads(compute, hosts)
    cpu_info = {} if version >= (2, 28) else ""
    return [
        host_shown | _amounts(host, loads[host.name]) | {"cpu_info": cpu_info}
        for host, host_shown in zip(hosts, shown, strict=True)
    ]


def _show_hypervisor(host: Host, request: Request) -> dict[str, Any]:
    return _show_brief(host, request) | {
        "hypervisor_type": f"roost ({host.cell})",
        "hypervisor_version": host.service_version,
        "host_ip": None,
        "service": {"id": host_id(host, request), "host": host.name, "disabled_reason": host.disabled_reason},
    }


def _amounts(host: Host, load: service.HostLoad) -> dict[str, int]:
    """Return what the host has and what is claimed: from microversion 2.88 on, the ledger says that."""
    return {
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
    }
