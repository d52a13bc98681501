"""How many addresses networks have, over HTTP. Source: extensions network-ip-availability and its -details."""

from functools import partial

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import listing
from roost.network.api.fields import Uuid
from roost.network.api.policies import ADMIN
from roost.network.api.protocol import path_id
from roost.network.api.resources import SHOW_QUERY, answer, list_answer, list_query
from roost.network.errors import InvalidInput, NetworkNotFound
from roost.network.model.networks import ListFilter, ListKind
from roost.network.rules.availability import Counts, NetworkAvailability, SubnetAvailability
from roost.network.service import Networks, lists
from roost.network.service import availability as service
from roost.platform.http import json_response
from roost.platform.operations import Operation, Operations, Rule

KIND: ListKind = "network_ip_availability"


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
    """Return the operations of all networks' availabilities, and of one's."""
    rule = Rule("get_network_ip_availability", ADMIN)
    return {
        "/v2.0/network-ip-availabilities": {
            "GET": Operation(
                summary="how many addresses networks and their subnets have",
                endpoint=partial(_list_all, context), rule=rule,
                query=list_query(AvailabilityDocument, "ip_version", sorted_by=lists.SORTED[KIND]),
                result=list_answer("network_ip_availabilities", AvailabilityDocument),
            )
        },
        "/v2.0/network-ip-availabilities/{id}": {
            "GET": Operation(
                summary="how many addresses the network with this id has",
                endpoint=partial(_show, context), rule=rule, query=SHOW_QUERY,
                result=answer("network_ip_availability", AvailabilityDocument),
            )
        },
    }  # fmt: skip


async def _list_all(context: Networks, request: Request) -> Response:
    ip_versions = _ip_versions(request)
    kind = listing.Listable(
        name=KIND,
        plural="network_ip_availabilities",
        document=AvailabilityDocument,
        find=partial(service.list_availabilities, ip_versions=ip_versions),
        show=_network,
    )
    others = {"id": (), "ip_version": [ListFilter("ip_version", ip_versions)] if ip_versions else ()}
    return await listing.answer(request, context, kind, others)


async def _show(context: Networks, request: Request) -> Response:
    availability = await service.get_availability(context, path_id(request, "Network", NetworkNotFound))
    return json_response({"network_ip_availability": listing.show_fields(_network(availability), request)})


def _ip_versions(request: Request) -> tuple[int, ...]:
    """Return the IP versions that are asked for, none for any. Raises InvalidInput."""
    texts = request.query_params.getlist("ip_version")
    for text in texts:
        if text not in ("4", "6"):
            raise InvalidInput(f"ip_version={text}: expected 4 or 6.")
    return tuple(map(int, texts))


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
