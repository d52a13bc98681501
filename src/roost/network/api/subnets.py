"""Subnets over HTTP: what clients send of them, decoded and checked; what is not served is refused by name."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from roost.network.api.fields import Items, NoFlag, Nothing, Text, parse_uuid
from roost.network.api.policies import OWN_NETWORK, OWN_OR_NETWORK, SEEN_SUBNET
from roost.network.api.resources import Resource
from roost.network.errors import InvalidInput, SubnetNotFound
from roost.network.model.networks import Cidr, HostRoute, IpAddress, SubnetChanges, SubnetRequest, Uuid, described
from roost.network.rules import documents
from roost.network.rules import subnets as rules
from roost.network.rules.documents import PoolDocument, SubnetDocument
from roost.network.rules.subnets import HOST_ROUTES_MAX, NAMESERVERS_MAX, SERVICE_TYPES_MAX
from roost.network.service import subnets as service
from roost.platform.structs import copy_as

Cell = Annotated[str, Meta(min_length=1, max_length=255, pattern="^[^\x00]+$")]
Pools = Annotated[list[PoolDocument], Items]
Nameservers = Annotated[tuple[str, ...], Items, described(uniqueItems=True, maxItems=NAMESERVERS_MAX)]
HostRoutes = Annotated[tuple[HostRoute, ...], Items, described(uniqueItems=True, maxItems=HOST_ROUTES_MAX)]
ServiceTypes = Annotated[tuple[str, ...], Items, described(maxItems=SERVICE_TYPES_MAX)]


class SubnetUnserved(Struct, kw_only=True, forbid_unknown_fields=True):
    """Attributes of subnets that Roost does not serve: only values that ask for nothing are accepted."""

    subnetpool_id: Nothing = UNSET
    use_default_subnetpool: NoFlag = UNSET
    prefixlen: Nothing = UNSET
    dns_publish_fixed_ip: NoFlag = UNSET


class SubnetBody(SubnetUnserved, kw_only=True, forbid_unknown_fields=True):
    """POST subnets: one subnet. gateway_ip: unset for the first host address, null for none. cidr: there has to be one.

    roost:cell: of a network of roost:kind flat, the cell whose pool it is.
    """

    network_id: Uuid
    cidr: Cidr | UnsetType = UNSET
    ip_version: Annotated[int, described(enum=[4, 6])] = 4
    name: Text = ""
    description: Text = ""
    segment_id: Uuid | None = None
    gateway_ip: IpAddress | UnsetType | None = UNSET
    allocation_pools: Pools | None = None
    enable_dhcp: bool = True
    project_id: Text | None = None
    tenant_id: Text | None = None
    dns_nameservers: Nameservers | None = None
    host_routes: HostRoutes | None = None
    ipv6_ra_mode: Text | None = None
    ipv6_address_mode: Text | None = None
    service_types: ServiceTypes | None = None
    cell: Cell | None = field(default=None, name="roost:cell")


class SubnetUpdateBody(SubnetUnserved, kw_only=True, forbid_unknown_fields=True):
    """PUT subnets/{id}: what is left out stays.

    gateway_ip, dns_nameservers, host_routes: null for none; allocation_pools: an empty list for none. Any other null
    is refused, as upstream does, but of segment_id.
    """

    name: Text | UnsetType = UNSET
    description: Text | UnsetType = UNSET
    gateway_ip: IpAddress | UnsetType | None = UNSET
    allocation_pools: Pools | UnsetType = UNSET
    enable_dhcp: bool | UnsetType = UNSET
    dns_nameservers: Nameservers | UnsetType | None = UNSET
    host_routes: HostRoutes | UnsetType | None = UNSET
    service_types: ServiceTypes | UnsetType = UNSET
    segment_id: Uuid | UnsetType | None = UNSET


def _request(body: SubnetBody, project_id: str) -> SubnetRequest:
    """Return what a body asks for.

    Raises InvalidInput, BadRequest, what rules.plan_subnet, rules.check_modes and checks of attributes raise.
    """
    if body.cidr is UNSET:
        raise InvalidInput("cidr: a subnet needs one, like 192.0.2.0/24: Roost has no subnet pools to take it from.")
    if body.ip_version not in (4, 6):
        raise InvalidInput(f"ip_version {body.ip_version}: expected 4 or 6.")
    pools = body.allocation_pools
    plan = rules.plan_subnet(
        body.cidr,
        gateway_ip=body.gateway_ip,
        pools=None if pools is None else [(pool.start, pool.end) for pool in pools],
        ip_version=body.ip_version,
    )
    request = copy_as(
        SubnetRequest,
        body,
        network_id=parse_uuid("network_id", body.network_id),
        segment_id=None if body.segment_id is None else parse_uuid("segment_id", body.segment_id),
        project_id=project_id,
        cidr=plan.cidr,
        gateway_ip=plan.gateway_ip,
        dns_nameservers=rules.check_nameservers(body.dns_nameservers or (), body.ip_version),
        host_routes=rules.check_host_routes(body.host_routes or (), body.ip_version),
        service_types=rules.check_service_types(body.service_types or ()),
        pools=plan.pools,
    )
    rules.check_modes(request)
    if request.enable_dhcp:
        rules.check_dhcp(request.cidr)
    return request


def _changes(body: SubnetUpdateBody, revision: int | None) -> SubnetChanges:
    """Return what a body changes. Raises InvalidInput."""
    pools, segment_id = body.allocation_pools, body.segment_id
    return copy_as(
        SubnetChanges,
        body,
        pools=None if pools is UNSET else tuple((pool.start, pool.end) for pool in pools),
        dns_nameservers=None if body.dns_nameservers is UNSET else body.dns_nameservers or (),
        host_routes=None if body.host_routes is UNSET else body.host_routes or (),
        segment_id=parse_uuid("segment_id", segment_id) if isinstance(segment_id, str) else segment_id,
        revision=revision,
    )


SUBNET = Resource(
    name="subnet",
    plural="subnets",
    document=SubnetDocument,
    missing=SubnetNotFound,
    find=service.list_subnets,
    show=documents.subnet,
    body=SubnetBody,
    update_body=SubnetUpdateBody,
    parts="allocation_pools",
    request=_request,
    changes=_changes,
    create=service.create_subnets,
    update=service.update_subnet,
    delete=service.delete_subnet,
    defaults={"get": SEEN_SUBNET, "create": OWN_NETWORK, "update": OWN_OR_NETWORK, "delete": OWN_OR_NETWORK},
)
