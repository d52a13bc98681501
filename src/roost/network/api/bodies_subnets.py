"""What clients send of subnets, decoded and checked; what is not served is refused by name."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from roost.network.api.bodies import BULK_MAX, Items, Text, Unserved, parse_project, parse_uuid, refuse_unserved, said
from roost.network.errors import InvalidInput
from roost.network.model.networks import HostRoute, Subnet, SubnetChanges
from roost.network.rules import addressing, subnet_attributes, uses
from roost.platform.env import Env

Cell = Annotated[str, Meta(min_length=1, max_length=255, pattern="^[^\x00]+$")]


class PoolBody(Struct, forbid_unknown_fields=True):
    """One allocation pool, both ends included."""

    start: str
    end: str


class HostRouteBody(Struct, forbid_unknown_fields=True):
    """One route: to a CIDR, by way of an address."""

    destination: str
    nexthop: str


class SubnetUnserved(Struct, kw_only=True, forbid_unknown_fields=True):
    """What clients send of a subnet and Roost has no use for: accepted where it asks for nothing."""

    subnetpool_id: Unserved = UNSET
    use_default_subnetpool: Unserved = UNSET
    prefixlen: Unserved = UNSET
    dns_publish_fixed_ip: Unserved = UNSET


NEUTRAL = {
    "subnetpool_id": (None,),
    "use_default_subnetpool": (False, None),
    "prefixlen": (None,),
    "dns_publish_fixed_ip": (False, None),
}


class SubnetBody(SubnetUnserved, kw_only=True, forbid_unknown_fields=True):
    """POST subnets: one subnet. gateway_ip: unset for the first host address, null for none. cidr: there has to be one.

    roost:cell: of a network of roost:kind flat, the cell whose pool it is.
    """

    network_id: str
    cidr: str | UnsetType = UNSET
    ip_version: int = 4
    name: Text = ""
    description: Text = ""
    segment_id: str | None = None
    gateway_ip: str | UnsetType | None = UNSET
    allocation_pools: Annotated[list[PoolBody], Items] | None = None
    enable_dhcp: bool = True
    project_id: Text | None = None
    tenant_id: Text | None = None
    dns_nameservers: Annotated[list[str], Items] | None = None
    host_routes: Annotated[list[HostRouteBody], Items] | None = None
    ipv6_ra_mode: Text | None = None
    ipv6_address_mode: Text | None = None
    service_types: Annotated[list[str], Items] | None = None
    cell: Cell | None = field(default=None, name="roost:cell")


class SubnetUpdateBody(SubnetUnserved, kw_only=True, forbid_unknown_fields=True):
    """PUT subnets/{id}: what is left out stays.

    gateway_ip, dns_nameservers, host_routes: null for none; allocation_pools: an empty list for none. Nulls of others,
    but of segment_id, say nothing that could be done: as upstream, they are refused.
    """

    name: Text | UnsetType = UNSET
    description: Text | UnsetType = UNSET
    gateway_ip: str | UnsetType | None = UNSET
    allocation_pools: Annotated[list[PoolBody], Items] | UnsetType = UNSET
    enable_dhcp: bool | UnsetType = UNSET
    dns_nameservers: Annotated[list[str], Items] | UnsetType | None = UNSET
    host_routes: Annotated[list[HostRouteBody], Items] | UnsetType | None = UNSET
    service_types: Annotated[list[str], Items] | UnsetType = UNSET
    segment_id: str | UnsetType | None = UNSET


class SubnetUpdateEnvelope(Struct, forbid_unknown_fields=True):
    """The body around a subnet's changes."""

    subnet: SubnetUpdateBody


class SubnetEnvelope(Struct, forbid_unknown_fields=True):
    """The body around one subnet, or around many."""

    subnet: SubnetBody | UnsetType = UNSET
    subnets: Annotated[list[SubnetBody], Meta(min_length=1, max_length=BULK_MAX)] | UnsetType = UNSET


def subnet(body: SubnetBody, env: Env, default_project: str) -> Subnet:
    """Raises InvalidInput, BadRequest, what addressing.plan_subnet, uses.check_modes and checks of attributes raise."""
    refuse_unserved(body, NEUTRAL)
    if body.cidr is UNSET:
        raise InvalidInput("cidr: a subnet needs one, like 192.0.2.0/24: Roost has no subnet pools to take it from.")
    if body.ip_version not in (4, 6):
        raise InvalidInput(f"ip_version {body.ip_version}: expected 4 or 6.")
    pools = body.allocation_pools
    plan = addressing.plan_subnet(
        body.cidr,
        gateway_ip=None if body.gateway_ip is UNSET else body.gateway_ip,
        no_gateway=body.gateway_ip is None,
        pools=None if pools is None else [(pool.start, pool.end) for pool in pools],
        ip_version=body.ip_version,
    )
    uses.check_modes(
        body.ip_version,
        plan.cidr,
        enable_dhcp=body.enable_dhcp,
        ra_mode=body.ipv6_ra_mode,
        address_mode=body.ipv6_address_mode,
    )
    if body.enable_dhcp:
        subnet_attributes.check_dhcp(plan.cidr)
    return Subnet(
        id="",
        network_id=parse_uuid("network_id", body.network_id),
        segment_id=None if body.segment_id is None else parse_uuid("segment_id", body.segment_id),
        name=body.name,
        description=body.description,
        project_id=parse_project(body, default_project),
        ip_version=body.ip_version,
        cidr=plan.cidr,
        gateway_ip=plan.gateway_ip,
        enable_dhcp=body.enable_dhcp,
        dns_nameservers=subnet_attributes.check_nameservers(body.dns_nameservers or (), body.ip_version),
        host_routes=subnet_attributes.check_host_routes(_routes(body.host_routes or ()), body.ip_version),
        ipv6_ra_mode=body.ipv6_ra_mode,
        ipv6_address_mode=body.ipv6_address_mode,
        service_types=subnet_attributes.check_service_types(body.service_types or ()),
        revision=1,
        created_at=env.now(),
        updated_at=env.now(),
        pools=plan.pools,
        cell=body.cell,
    )


def subnet_changes(body: SubnetUpdateBody, revision: int | None) -> SubnetChanges:
    """Raises InvalidInput."""
    refuse_unserved(body, NEUTRAL)
    pools, routes, segment_id = said(body.allocation_pools), body.host_routes, body.segment_id
    return SubnetChanges(
        name=said(body.name),
        description=said(body.description),
        gateway_ip=body.gateway_ip,
        pools=None if pools is None else tuple((pool.start, pool.end) for pool in pools),
        enable_dhcp=said(body.enable_dhcp),
        dns_nameservers=None if body.dns_nameservers is UNSET else tuple(body.dns_nameservers or ()),
        host_routes=None if routes is UNSET else _routes(routes or ()),
        service_types=None if body.service_types is UNSET else tuple(body.service_types),
        segment_id=parse_uuid("segment_id", segment_id) if isinstance(segment_id, str) else segment_id,
        revision=revision,
    )


def _routes(items: Sequence[HostRouteBody]) -> tuple[HostRoute, ...]:
    return tuple(HostRoute(item.destination, item.nexthop) for item in items)
