"""Availability zones in the Compute API's shapes: there is one, and every host is in it."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.requests import timestamp_with_microseconds
from roost.compute.model import Host
from roost.compute.rules.servers import ZONE
from roost.compute.service import Compute
from roost.compute.service import hosts as service
from roost.platform.http import Endpoint, json_response


def endpoints(compute: Compute) -> dict[str, Mapping[str, Endpoint]]:
    """Path below /v2.1 -> method -> endpoint."""

    async def list_zones(_request: Request) -> Response:
        hosts = await service.list_hosts(compute)
        return json_response({"availabilityZoneInfo": [_show(hosts) | {"hosts": None}]})

    async def list_zones_detail(_request: Request) -> Response:
        hosts = await service.list_hosts(compute)
        shown = {host.name: {"nova-compute": _show_service(host)} for host in hosts}
        return json_response({"availabilityZoneInfo": [_show(hosts) | {"hosts": shown}]})

    return {
        "/os-availability-zone": {"GET": list_zones},
        "/os-availability-zone/detail": {"GET": list_zones_detail},
    }


def _show(hosts: list[Host]) -> dict[str, Any]:
    return {"zoneName": ZONE, "zoneState": {"available": any(not host.disabled for host in hosts)}}


def _show_service(host: Host) -> dict[str, Any]:
    updated_at = timestamp_with_microseconds(host.seen_at)
    return {"available": not host.down, "active": not host.disabled, "updated_at": updated_at}
