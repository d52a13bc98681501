"""How many addresses networks have, over HTTP. Source: extensions network-ip-availability and its -details."""

from functools import partial
from typing import Any, TypeVar

from msgspec import Struct, field
from starlette.requests import Request

from roost.network.api import listing
from roost.network.api.networks import NETWORK
from roost.network.api.policies import ADMIN
from roost.network.api.resources import answer, get_one, list_answer, list_query
from roost.network.errors import InvalidInput
from roost.network.model.networks import ListFilter, ListKind, Network, Subnet
from roost.network.rules.availability import Counts, NetworkAvailability
from roost.network.rules.documents import Uuid
from roost.network.service import Networks, lists
from roost.network.service import availability as service
from roost.platform.operations import Operation, Operations, Rule
from roost.platform.structs import copy_as

D = TypeVar("D", bound=Struct)
KIND: ListKind = "network_ip_availability"


class DetailsDocument(Struct, kw_only=True, forbid_unknown_fields=True):
    """What the counts are made of: the first four are upstream's, the others say what those leave to be guessed."""

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
            "GET": get_one(
                "network_ip_availability", answer("network_ip_availability", AvailabilityDocument),
                partial(_read, context), summary="how many addresses the network with this id has", rule=rule,
            )
        },
    }  # fmt: skip


async def _list_all(context: Networks, request: Request) -> dict[str, Any]:
    ip_versions = _ip_versions(request)
    kind = listing.Listable(
        name=KIND,
        plural="network_ip_availabilities",
        document=AvailabilityDocument,
        find=partial(service.list_availabilities, ip_versions=ip_versions),
        show=_network,
        others={"id": lambda _: (), "ip_version": lambda _: [ListFilter("ip_version", ip_versions)]},
    )
    return await listing.answer(context, kind, request)


async def _read(context: Networks, request: Request) -> AvailabilityDocument:
    return _network(await service.get_availability(context, NETWORK.id_of(request)))


def _ip_versions(request: Request) -> tuple[int, ...]:
    """Return the IP versions that are asked for, none for any. Raises InvalidInput."""
    texts = request.query_params.getlist("ip_version")
    for text in texts:
        if text not in ("4", "6"):
            raise InvalidInput(f"ip_version={text}: expected 4 or 6.")
    return tuple(map(int, texts))


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


def _counted(kind: type[D], item: Network | Subnet, counts: Counts, **computed: Any) -> D:
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
