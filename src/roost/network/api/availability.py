"""How many addresses networks have, over HTTP. Source: extensions network-ip-availability and its -details."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import listing
from roost.network.api.documents import Document
from roost.network.api.resources import path_id
from roost.network.availability import AvailabilityFilter, Counts, NetworkAvailability, SubnetAvailability
from roost.network.errors import InvalidInput, NetworkNotFound
from roost.network.service import Networks
from roost.network.service import availability as service
from roost.platform.http import Endpoint, canonical_uuid, is_uuid, json_response

ATTRIBUTES = frozenset({"id", "network_id", "network_name", "project_id", "tenant_id", "total_ips", "used_ips"})


def availability_endpoints(context: Networks) -> tuple[dict[str, Endpoint], dict[str, Endpoint]]:
    """Of all networks, and of one."""

    async def list_all(request: Request) -> Response:
        wanted = _filter(request)
        found = await service.list_availabilities(context, wanted)
        # The pages need an id, the versions were chosen by the service.
        marks = {"ip_version": str(request.query_params.get("ip_version"))}
        shown = [{**_network(item), **marks, "id": item.network.id} for item in found]
        chosen = listing.select(shown, request, ATTRIBUTES | marks.keys())
        unmarked = [{name: item[name] for name in item if name not in ("id", "ip_version")} for item in chosen]
        return json_response({"network_ip_availabilities": _encodable(unmarked)})

    async def show(request: Request) -> Response:
        found = await service.get_availability(context, path_id(request, "Network", NetworkNotFound))
        return json_response({"network_ip_availability": _encodable(listing.show_fields(_network(found), request))})

    return {"GET": list_all}, {"GET": show}


def _filter(request: Request) -> AvailabilityFilter:
    given = request.query_params.getlist
    for text in given("ip_version"):
        if text not in ("4", "6"):
            raise InvalidInput(f"ip_version={text}: expected 4 or 6.")
    return AvailabilityFilter(
        network_ids=tuple(canonical_uuid(text) for text in given("network_id") if is_uuid(text))
        if given("network_id")
        else None,
        network_names=tuple(given("network_name")) or None,
        project_ids=(*given("project_id"), *given("tenant_id")) or None,
        ip_versions=tuple(int(text) for text in given("ip_version")) or None,
    )


def _network(item: NetworkAvailability) -> Document:
    return {
        "network_id": item.network.id,
        "network_name": item.network.name,
        "tenant_id": item.network.project_id,
        "project_id": item.network.project_id,
        "subnet_ip_availability": [_subnet(part) for part in item.subnets],
        **_counts(item.counts),
    }


def _subnet(item: SubnetAvailability) -> Document:
    return {
        "subnet_id": item.subnet.id,
        "subnet_name": item.subnet.name,
        "cidr": item.subnet.cidr,
        "ip_version": item.subnet.ip_version,
        **_counts(item.counts),
    }


def _counts(counts: Counts) -> dict[str, Any]:
    """The first four details are upstream's, the others say what those leave to be guessed."""
    return {
        "total_ips": counts.total,
        "used_ips": counts.used,
        "ip_availability_details": {
            "total_ips_in_subnet": counts.in_subnet,
            "total_ips_in_allocation_pool": counts.in_pools,
            "used_ips_in_subnet": counts.used,
            "used_ips_in_allocation_pool": counts.used_in_pools,
            "used_ips_outside_allocation_pool": counts.used_outside,
            "reserved_ips": counts.reserved,
            "free_ips_in_allocation_pool": counts.free,
        },
    }


def _encodable(value: Any) -> Any:
    """Whole numbers that do not fit 64 bits, wherever they are, as the digits that JSON has for them."""
    if isinstance(value, dict):
        return {name: _encodable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return msgspec.Raw(str(value).encode()) if isinstance(value, int) and value >= 2**63 else value
