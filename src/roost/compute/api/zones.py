"""Availability zones in the Compute API's shapes: the default one, and those that host aggregates make."""

from typing import Any

from starlette.requests import Request

from roost.compute.api.answers import Zones, ZonesDetail
from roost.compute.api.policies import ADMIN, ANYBODY
from roost.compute.api.requests import timestamp_with_microseconds
from roost.compute.model.cloud import Host
from roost.compute.service import Compute
from roost.compute.service import hosts as service
from roost.compute.service.aggregates import list_hosts_by_zone
from roost.platform.operations import Operation, Operations, Rule


def zone_operations(compute: Compute) -> Operations:
    """Return the operations of availability zones, by path below /v2.1."""

    async def list_zones(_request: Request) -> dict[str, Any]:
        zones = await list_hosts_by_zone(compute, await service.list_hosts(compute))
        shown = [_show(zone, hosts) | {"hosts": None} for zone, hosts in zones.items()]
        return {"availabilityZoneInfo": shown}

    async def list_zones_detail(_request: Request) -> dict[str, Any]:
        zones = await list_hosts_by_zone(compute, await service.list_hosts(compute))
        shown = [
            _show(zone, hosts) | {"hosts": {host.name: {"nova-compute": _show_service(host)} for host in hosts}}
            for zone, hosts in zones.items()
        ]
        return {"availabilityZoneInfo": shown}

    return {
        "/os-availability-zone": {
            "GET": Operation(
                summary="zones, and whether they have a host that is enabled",
                endpoint=list_zones,
                rule=Rule("os_compute_api:os-availability-zone:list", ANYBODY),
                result=Zones,
            )
        },
        "/os-availability-zone/detail": {
            "GET": Operation(
                summary="zones, with every host",
                endpoint=list_zones_detail,
                rule=Rule("os_compute_api:os-availability-zone:detail", ADMIN),
                result=ZonesDetail,
            )
        },
    }


def _show(zone: str, hosts: list[Host]) -> dict[str, Any]:
    return {"zoneName": zone, "zoneState": {"available": any(not host.disabled for host in hosts)}}


def _show_service(host: Host) -> dict[str, Any]:
    updated_at = timestamp_with_microseconds(host.seen_at)
    return {
        "available": not (host.down or host.down_told),
        "active": not host.disabled,
        "updated_at": updated_at,
    }
