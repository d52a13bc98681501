"""How many addresses networks have, over HTTP. Source: extensions network-ip-availability and its -details."""

from functools import partial
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace
from starlette.requests import Request

from roost.network.api import listing
from roost.network.api.policies import ADMIN
from roost.network.api.resources import list_operation, show_operation
from roost.network.errors import NetworkNotFound
from roost.network.model.networks import AddressCounts, Network, Subnet, Uuid
from roost.network.rules.availability import NetworkAvailability
from roost.network.service import Networks
from roost.network.service import availability as service
from roost.platform.operations import Operations
from roost.platform.structs import copy_as

D = TypeVar("D", bound=Struct)


class DetailsDocument(Struct, kw_only=True, forbid_unknown_fields=True):
    """What the counts are made of: the first four are upstream's, the others are Roost's own."""

    in_subnet: int = field(name="total_ips_in_subnet")
    in_pools: int = field(name="total_ips_in_allocation_pool")
    used: int = field(name="used_ips_in_subnet")
    used_in_pools: int = field(name="used_ips_in_allocation_pool")
    used_outside: int = field(name="used_ips_outside_allocation_pool")
    reserved: int = field(name="reserved_ips")
    free: int = field(name="free_ips_in_allocation_pool")


class SubnetAvailabilityDocument(Struct, kw_only=True, forbid_unknown_fields=True):
    """How many addresses a subnet has."""

    id: Uuid = field(name="subnet_id")
    name: str = field(name="subnet_name")
    cidr: str
    ip_version: int
    total_ips: int
    used_ips: int
    ip_availability_details: DetailsDocument


class AvailabilityDocument(Struct, kw_only=True, forbid_unknown_fields=True):
    """How many addresses a network has."""

    id: Uuid = field(name="network_id")
    name: str = field(name="network_name")
    tenant_id: str
    project_id: str
    subnet_ip_availability: list[SubnetAvailabilityDocument]
    total_ips: int
    used_ips: int
    ip_availability_details: DetailsDocument


def _network(item: NetworkAvailability) -> AvailabilityDocument:
    return _counted(
        AvailabilityDocument,
        item.network,
        item.counts,
        tenant_id=item.network.project_id,
        subnet_ip_availability=[
            _counted(SubnetAvailabilityDocument, part.subnet, part.counts) for part in item.subnets
        ],
    )


def _counted(kind: type[D], item: Network | Subnet, counts: AddressCounts, **computed: Any) -> D:
    """Return the document of a network or a subnet, with its counts."""
    details = {name: getattr(counts, name) for name in DetailsDocument.__struct_fields__}
    return copy_as(
        kind,
        item,
        total_ips=counts.total,
        used_ips=counts.used,
        ip_availability_details=DetailsDocument(**details),
        **computed,
    )


AVAILABILITY = listing.Collection(
    name="network_ip_availability",
    plural="network_ip_availabilities",
    document=AvailabilityDocument,
    missing=NetworkNotFound,
    find=service.list_availabilities,
    show=_network,
    defaults={"get": ADMIN},
)


def availability_operations(context: Networks) -> Operations:
    """Return the operations of the list, and of one network."""
    list_all = list_operation(context, AVAILABILITY, "how many addresses networks and their subnets have")
    return {
        "/v2.0/network-ip-availabilities": {"GET": replace(list_all, endpoint=partial(_list_all, context))},
        "/v2.0/network-ip-availabilities/{id}": {
            "GET": show_operation(context, AVAILABILITY, "how many addresses the network with this id has")
        },
    }


async def _list_all(context: Networks, request: Request) -> dict[str, Any]:
    """Return the page of networks. Requested IP versions leave out other subnets, and networks without any left."""
    texts = request.query_params.getlist("ip_version")
    find = partial(service.list_availabilities, ip_versions=[int(text) for text in texts if text in ("4", "6")])
    return await listing.answer(context, replace(AVAILABILITY, find=find), request)
