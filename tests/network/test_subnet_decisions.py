"""Which subnets may be made, what becomes of one that a client changes, and what a port's claim is to be."""

from typing import Any

import pytest
from msgspec import UNSET
from tests.network.parts import a_network, a_subnet, an_address

from roost.network import errors
from roost.network.model.networks import AddressRange, HostRoute, Network, Segment, Subnet, SubnetChanges
from roost.network.model.ports import Address
from roost.network.rules import addressing
from roost.network.rules.capacity import claim_of, port_claim
from roost.network.rules.subnets import SUBNETS_MAX, decide_update, refuse_new

SUBNET = a_subnet(
    cidr="10.0.0.0/24", pools=(AddressRange(addressing.parse("10.0.0.10"), addressing.parse("10.0.0.19")),)
)
SIX = a_subnet(cidr="2001:db8::/64")
AUTO = a_subnet(cidr="2001:db8::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")


def a_segment(segment_id: str = "g", network_id: str = "n") -> Segment:
    return Segment(
        id=segment_id, network_id=network_id, name=None, description="", network_type="vlan", physical_network="rack1",
        segmentation_id=1, revision=1, created_at=SUBNET.created_at, updated_at=SUBNET.updated_at,
    )  # fmt: skip


def decide(
    subnet: Subnet,
    changes: SubnetChanges,
    *,
    network: Network | None = None,
    peers: tuple[Subnet, ...] = (),
    segment: Segment | None = None,
    router: str | None = None,
) -> Subnet:
    segments = {} if segment is None else {segment.id: segment}
    return decide_update(subnet, changes, network or a_network(), (subnet, *peers), segments, router)


def shown(subnet: Subnet) -> list[str]:
    return [f"{addressing.show(pool.first)}-{addressing.show(pool.last)}" for pool in subnet.pools]


ROUTED = a_network(segment_ids=("g", "i"))
OF_ROUTERS = {"service_types": ("network:routed",)}


@pytest.mark.parametrize(
    ("network", "new", "peers", "error"),
    [
        (a_network(), {}, [], None),
        (a_network(), {}, [a_subnet("t", cidr="10.1.0.0/24")], None),
        (a_network(), {}, [a_subnet("t", cidr="10.0.0.0/16")], errors.InvalidInput),
        (a_network(), {}, [a_subnet("t", cidr="10.1.0.0/24")] * SUBNETS_MAX, errors.InvalidInput),
        (a_network(mtu=60), {}, [], errors.NetworkMTUSubnetConflict),
        (a_network(), {"cell": "cell1"}, [], errors.InvalidInput),
        (ROUTED, {"segment_id": "g"}, [], None),
        (ROUTED, {"segment_id": "g"}, [a_subnet("t", cidr="10.1.0.0/24", segment_id="i")], None),
        (ROUTED, {}, [], errors.SubnetsNotAllAssociatedWithSegments),
        (ROUTED, {}, [a_subnet("t", cidr="10.1.0.0/24", segment_id="g")], errors.SubnetsNotAllAssociatedWithSegments),
        (ROUTED, OF_ROUTERS, [a_subnet("t", cidr="10.1.0.0/24", segment_id="g")], None),
        (ROUTED, {"segment_id": "g"}, [a_subnet("t", cidr="10.1.0.0/24")], errors.SubnetsNotAllAssociatedWithSegments),
        (ROUTED, {"segment_id": "g"}, [a_subnet("t", cidr="10.1.0.0/24", **OF_ROUTERS)], None),
        (ROUTED, {"segment_id": "unknown"}, [], errors.SegmentNotFound),
        (ROUTED, {"segment_id": "h"}, [], errors.NetworkIdsDontMatch),
    ],
)
def test_a_new_subnet_fits_beside_the_others_of_its_network(
    network: Network, new: dict[str, Any], peers: list[Subnet], error: type[Exception] | None
) -> None:
    segments = {"g": a_segment(), "h": a_segment("h", network_id="m")}
    if error is None:
        refuse_new(network, a_subnet(**new), peers, segments)
    else:
        with pytest.raises(error):
            refuse_new(network, a_subnet(**new), peers, segments)


@pytest.mark.parametrize(
    ("changes", "attribute", "value"),
    [
        (SubnetChanges(), "name", ""),
        (SubnetChanges(name="x"), "name", "x"),
        (SubnetChanges(description="x"), "description", "x"),
        (SubnetChanges(enable_dhcp=False), "enable_dhcp", False),
        (SubnetChanges(gateway_ip=None), "gateway_ip", None),
        (SubnetChanges(gateway_ip=UNSET), "gateway_ip", "10.0.0.1"),
        (SubnetChanges(gateway_ip="10.0.0.254"), "gateway_ip", "10.0.0.254"),
        (SubnetChanges(dns_nameservers=("8.8.8.8",)), "dns_nameservers", ("8.8.8.8",)),
        (SubnetChanges(service_types=("network:dhcp",)), "service_types", ("network:dhcp",)),
        (
            SubnetChanges(host_routes=(HostRoute("10.9.0.0/16", "10.0.0.9"),)),
            "host_routes", (HostRoute("10.9.0.0/16", "10.0.0.9"),),
        ),
        (SubnetChanges(pools=()), "pools", ()),
    ],
)  # fmt: skip
def test_an_attribute_that_is_named_changes_and_no_other(changes: SubnetChanges, attribute: str, value: Any) -> None:
    after = decide(SUBNET, changes)
    assert getattr(after, attribute) == value
    others = set(SUBNET.__struct_fields__) - {attribute}
    assert all(getattr(after, name) == getattr(SUBNET, name) for name in others)


def test_pools_come_in_order() -> None:
    wanted = (("10.0.0.200", "10.0.0.209"), ("10.0.0.2", "10.0.0.2"))
    assert shown(decide(SUBNET, SubnetChanges(pools=wanted))) == ["10.0.0.2-10.0.0.2", "10.0.0.200-10.0.0.209"]


@pytest.mark.parametrize(
    ("subnet", "changes", "error"),
    [
        (SUBNET, SubnetChanges(gateway_ip="10.0.0.12"), errors.GatewayConflictWithAllocationPools),
        (SUBNET, SubnetChanges(gateway_ip="10.0.0.0"), errors.InvalidInput),
        (SUBNET, SubnetChanges(gateway_ip="2001:db8::1"), errors.InvalidInput),
        (SUBNET, SubnetChanges(pools=(("10.0.0.1", "10.0.0.9"),)), errors.GatewayConflictWithAllocationPools),
        (SUBNET, SubnetChanges(pools=(("10.0.1.1", "10.0.1.9"),)), errors.OutOfBoundsAllocationPool),
        (SUBNET, SubnetChanges(pools=(("10.0.0.9", "10.0.0.2"),)), errors.InvalidInput),
        (
            SUBNET, SubnetChanges(pools=(("10.0.0.2", "10.0.0.9"), ("10.0.0.9", "10.0.0.20"))),
            errors.OverlappingAllocationPools,
        ),
        (SUBNET, SubnetChanges(dns_nameservers=("x",)), errors.InvalidInput),
        (SUBNET, SubnetChanges(host_routes=(HostRoute("x", "y"),)), errors.InvalidInput),
        (SUBNET, SubnetChanges(service_types=("router",)), errors.InvalidSubnetServiceType),
        (AUTO, SubnetChanges(pools=(("2001:db8::2", "2001:db8::9"),)), errors.InvalidInput),
        (AUTO, SubnetChanges(enable_dhcp=False), errors.InvalidInput),
        (a_subnet(cell="cell1"), SubnetChanges(pools=(("10.0.0.3", "10.0.0.4"),)), errors.InvalidInput),
        (a_subnet(cidr="10.0.0.0/31", enable_dhcp=False), SubnetChanges(enable_dhcp=True), errors.InvalidInput),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(subnet: Subnet, changes: SubnetChanges, error: type[Exception]) -> None:
    with pytest.raises(error):
        decide(subnet, changes)


def test_a_gateway_that_a_router_holds_stays() -> None:
    with pytest.raises(errors.GatewayIpInUse):
        decide(SUBNET, SubnetChanges(gateway_ip="10.0.0.2"), router="p")
    assert decide(SUBNET, SubnetChanges(gateway_ip="10.0.0.1"), router="p") == SUBNET


@pytest.mark.parametrize(
    ("subnet", "segment_id", "more", "error"),
    [
        (SUBNET, "g", {"segment": a_segment()}, None),
        (a_subnet(segment_id="g"), "g", {}, None),
        (SUBNET, None, {}, None),
        (SUBNET, "g", {"segment": a_segment(), "peers": (SIX,)}, errors.SubnetsNotAllAssociatedWithSegments),
        (a_subnet(segment_id="g"), None, {}, errors.SubnetSegmentAssociationChangeNotAllowed),
        (a_subnet(segment_id="g"), "h", {}, errors.SubnetSegmentAssociationChangeNotAllowed),
        (
            SUBNET, "g", {"segment": a_segment(), "network": a_network(segment_ids=("g", "h"))},
            errors.NoUpdateSubnetWhenMultipleSegmentsOnNetwork,
        ),
        (SUBNET, "g", {}, errors.SegmentNotFound),
        (SUBNET, "g", {"segment": a_segment(network_id="other")}, errors.NetworkIdsDontMatch),
    ],
)  # fmt: skip
def test_who_may_join_a_segment(
    subnet: Subnet, segment_id: str | None, more: dict[str, Any], error: type[Exception] | None
) -> None:
    if error is None:
        assert decide(subnet, SubnetChanges(segment_id=segment_id), **more).segment_id == segment_id
        return
    with pytest.raises(error):
        decide(subnet, SubnetChanges(segment_id=segment_id), **more)


def test_what_is_routed_to_may_be_on_no_segment_and_nothing_else() -> None:
    routed = a_network(segmented=True)
    plain = a_subnet(service_types=("network:routed",))
    with pytest.raises(errors.SubnetsNotAllAssociatedWithSegments):
        decide(plain, SubnetChanges(service_types=()), network=routed)
    more = ("network:routed", "network:dhcp")
    assert decide(plain, SubnetChanges(service_types=more), network=routed).service_types == more


@pytest.mark.parametrize(
    ("addresses", "claim"),
    [
        ([], {}),
        ([an_address("10.0.0.2")], {"n": {"IPV4_ADDRESS": 1}}),
        ([an_address("10.0.0.2", in_pool=False)], {"n": {"IPV4_ADDRESS": 1}}),
        ([an_address("10.0.0.2", claimed=False)], {}),
        ([an_address("10.0.0.2"), an_address("10.0.0.3")], {"n": {"IPV4_ADDRESS": 2}}),
        (
            [an_address("10.0.0.2"), an_address("2001:db8::2", provider_uuid="g")],
            {"n": {"IPV4_ADDRESS": 1}, "g": {"CUSTOM_IPV6_ADDRESS": 1}},
        ),
    ],
)
def test_a_ports_claim_is_its_claimed_addresses(addresses: list[Address], claim: dict[str, dict[str, int]]) -> None:
    assert claim_of(addresses) == claim
    made = port_claim("p", "project", claim, 3)
    assert (made.consumer_uuid, made.project_id, made.allocations, made.generation) == ("p", "project", claim, 3)
    assert made.consumer_type == "PORT"
