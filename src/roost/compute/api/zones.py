"""Availability zones in the Compute API's shapes: there is one, and every host is in it."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.answers import Zones, ZonesDetail
from roost.compute.api.requests import timestamp_with_microseconds
from roost.compute.model import Host
from roost.compute.rules.servers import ZONE
from roost.compute.service import Compute
from roost.compute.service import hosts as service
from roost.platform.http import json_response
from roost.platform.operations import Operation, Operations


def zone_operations(compute: Compute) -> Operations:
    """Return the operations of availability zones, by path below /v2.1."""

    async def list_zones(_request: Request) -> Response:
        available = await service.has_enabled_host(compute)
        return json_response({"availabilityZoneInfo": [_show(available=available) | {"hosts": None}]})

    async def list_zones_detail(_request: Request) -> Response:
        hosts = await service.list_hosts(compute)
        available = any(not host.disabled for host in hosts)
        shown = {host.name: {"nova-compute": _show_service(host)} for host in hosts}
        return json_response({"availabilityZoneInfo": [_show(available=available) | {"hosts": shown}]})

    return {
        "/os-availability-zone": {
            "GET": Operation(
                summary="the one zone",
                endpoint=list_zones,
                rule="os_compute_api:os-availability-zone:list",
                result=Zones,
            )
        },
        "/os-availability-zone/detail": {
            "GET": Operation(
                summary="the one zone, with every host",
                endpoint=list_zones_detail,
                rule="os_compute_api:os-availability-zone:detail",
                result=ZonesDetail,
            )
        },
    }


def _show(*, available: bool) -> dict[str, Any]:
    return {"zoneName": ZONE, "zoneState": {"available": available}}


def _show_service(host: Host) -> dict[str, Any]:
    updated_at = timestamp_with_microseconds(host.seen_at)
    return {"available": not host.down, "active": not host.disabled, "updated_at": updated_at}
