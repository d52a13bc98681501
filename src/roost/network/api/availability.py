"""How many addresses networks have, over HTTP. Source: extensions network-ip-availability and its -details."""

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import listing
from roost.network.api.documents import Uuid
from roost.network.api.protocol import path_id
from roost.network.api.resources import SHOW_QUERY, answer, list_answer, list_query
from roost.network.errors import InvalidInput, NetworkNotFound
from roost.network.rules.availability import AvailabilityFilter, Counts, NetworkAvailability, SubnetAvailability
from roost.network.service import Networks
from roost.network.service import availability as service
from roost.platform.http import canonical_uuid, is_uuid, json_response
from roost.platform.operations import Operation, Operations


class DetailsDocument(Struct, kw_only=True, forbid_unknown_fields=True):
    """What the counts are made of: the first four are upstream's, the others say what those leave to be guessed."""

    total_ips_in_subnet: int
    total_ips_in_allocation_pool: int
    used_ips_in_subnet: int
    used_ips_in_allocation_pool: int
    used_ips_outside_allocation_pool: int
    reserved_ips: int
    free_ips_in_allocation_pool: int


class SubnetAvailabilityDocument(Struct, kw_only=True, forbid_unknown_fields=True):
    """How many addresses a subnet has."""

    subnet_id: Uuid
    subnet_name: str
    cidr: str
    ip_version: int
    total_ips: int
    used_ips: int
    ip_availability_details: DetailsDocument


class AvailabilityDocument(Struct, kw_only=True, forbid_unknown_fields=True):
    """How many addresses a network has."""

    network_id: Uuid
    network_name: str
    tenant_id: str
    project_id: str
    subnet_ip_availability: list[SubnetAvailabilityDocument]
    total_ips: int
    used_ips: int
    ip_availability_details: DetailsDocument


def availability_operations(context: Networks) -> Operations:
    """Of all networks, and of one."""

    async def list_all(request: Request) -> Response:
        found = await service.list_availabilities(context, _filter(request))
        shown = [_network(item) for item in found]
        chosen = listing.select(
            shown, request, AvailabilityDocument, key="network_id", besides=frozenset({"id", "ip_version"})
        )
        return json_response({"network_ip_availabilities": chosen})

    async def show(request: Request) -> Response:
        found = await service.get_availability(context, path_id(request, "Network", NetworkNotFound))
        return json_response({"network_ip_availability": listing.show_fields(_network(found), request)})

    return {
        "/v2.0/network-ip-availabilities": {
            "GET": Operation(
                summary="how many addresses networks and their subnets have",
                endpoint=list_all,
                rule="get_network_ip_availability",
                query=list_query(AvailabilityDocument, "ip_version"),
                result=list_answer("network_ip_availabilities", AvailabilityDocument),
            )
        },
        "/v2.0/network-ip-availabilities/{id}": {
            "GET": Operation(
                summary="how many addresses the network with this id has",
                endpoint=show,
                rule="get_network_ip_availability",
                query=SHOW_QUERY,
                result=answer("network_ip_availability", AvailabilityDocument),
            )
        },
    }


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


def _network(item: NetworkAvailability) -> AvailabilityDocument:
    return AvailabilityDocument(
        network_id=item.network.id,
        network_name=item.network.name,
        tenant_id=item.network.project_id,
        project_id=item.network.project_id,
        subnet_ip_availability=[_subnet(part) for part in item.subnets],
        total_ips=item.counts.total,
        used_ips=item.counts.used,
        ip_availability_details=_details(item.counts),
    )


def _subnet(item: SubnetAvailability) -> SubnetAvailabilityDocument:
    return SubnetAvailabilityDocument(
        subnet_id=item.subnet.id,
        subnet_name=item.subnet.name,
        cidr=item.subnet.cidr,
        ip_version=item.subnet.ip_version,
        total_ips=item.counts.total,
        used_ips=item.counts.used,
        ip_availability_details=_details(item.counts),
    )


def _details(counts: Counts) -> DetailsDocument:
    return DetailsDocument(
        total_ips_in_subnet=counts.in_subnet,
        total_ips_in_allocation_pool=counts.in_pools,
        used_ips_in_subnet=counts.used,
        used_ips_in_allocation_pool=counts.used_in_pools,
        used_ips_outside_allocation_pool=counts.used_outside,
        reserved_ips=counts.reserved,
        free_ips_in_allocation_pool=counts.free,
    )
