"""Modes, service types and the addresses that follow from MACs."""

import itertools

import pytest
from tests.network.cloud import NEVER
from tests.network.parts import a_port

from roost.network.errors import InvalidInput, InvalidSubnetServiceType
from roost.network.model.networks import ProviderSource, Subnet
from roost.network.rules import addressing, capacity, uses
from roost.network.rules import subnets as subnet_rules
from roost.network.rules.subnets import check_modes, check_service_types, plan_subnet

SLAAC = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}


def a_subnet(cidr: str = "2001:db8::/64", **more: object) -> Subnet:
    same = {
        "id": "s", "network_id": "n", "segment_id": None, "name": "", "description": "", "project_id": "p",
        "ip_version": 6, "cidr": cidr, "gateway_ip": None, "enable_dhcp": True, "revision": 1,
        "created_at": NEVER, "updated_at": NEVER,
    }  # fmt: skip
    return Subnet(**{**same, **more})


def test_the_address_that_follows_from_a_mac_is_its_eui64() -> None:
    # Source: RFC 4291, appendix A: the seventh bit is turned over, ff:fe goes in the middle.
    assert addressing.show(uses.eui64("2001:db8::/64", "fa:16:3e:12:34:56")) == "2001:db8::f816:3eff:fe12:3456"
    assert addressing.show(uses.eui64("2001:db8:1::/64", "02:00:00:00:00:01")) == "2001:db8:1::ff:fe00:1"


MODES = (None, *subnet_rules.MODES)


@pytest.mark.parametrize(("ra", "address"), list(itertools.product(MODES, MODES)))
def test_modes_that_differ_are_refused_and_automatic_ones_need_a_64(ra: str | None, address: str | None) -> None:
    def check(version: int, cidr: str, *, enable_dhcp: bool = True) -> None:
        modes = {"ipv6_ra_mode": ra, "ipv6_address_mode": address}
        check_modes(a_subnet(cidr, ip_version=version, enable_dhcp=enable_dhcp, **modes))

    any_mode = ra is not None or address is not None
    automatic = bool({ra, address} & set(uses.AUTOMATIC_MODES))
    valid = ra is None or address is None or ra == address
    for version, cidr, dhcp, good in (
        (6, "2001:db8::/64", True, valid),
        (6, "2001:db8::/80", True, valid and not automatic),
        (6, "2001:db8::/64", False, not any_mode),
        (4, "10.0.0.0/24", True, not any_mode),
    ):
        if good:
            check(version, cidr, enable_dhcp=dhcp)
        else:
            with pytest.raises(InvalidInput):
                check(version, cidr, enable_dhcp=dhcp)
    assert uses.is_automatic(a_subnet(ipv6_ra_mode=ra, ipv6_address_mode=address)) is automatic


def test_an_unknown_mode_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="ipv6_ra_mode 'other'"):
        check_modes(a_subnet(ipv6_ra_mode="other"))


def test_service_types_are_device_owners() -> None:
    assert check_service_types(["compute:nova", "network:dhcp", "compute:nova"]) == (
        "compute:nova",
        "network:dhcp",
    )
    for wrong in ("nova", "", "computer", ":x"):
        with pytest.raises(InvalidSubnetServiceType):
            check_service_types([wrong])


@pytest.mark.parametrize(
    ("types", "usable", "counted"),
    [
        ((), {"", "compute:nova", "compute:az2", "network:dhcp", "network:router_gateway"}, True),
        (("compute:nova",), {"compute:nova", "network:dhcp"}, True),
        (("compute:az2",), {"compute:az2", "network:dhcp"}, False),
        (("network:router_gateway",), {"network:router_gateway", "network:dhcp"}, False),
        (("network:router_gateway", "compute:x"), {"network:router_gateway", "network:dhcp"}, False),
        (("network:router_gateway", "compute:nova"), {"network:router_gateway", "network:dhcp", "compute:nova"}, True),
    ],
)  # fmt: skip
def test_service_types_say_who_may_use_a_subnet_and_whether_it_is_capacity(
    types: tuple[str, ...], usable: set[str], counted: bool
) -> None:
    owners = ("", "compute:nova", "compute:az2", "network:dhcp", "network:router_gateway")
    subnet = a_subnet(service_types=types)
    assert {owner for owner in owners if uses.may_use(subnet, owner)} == usable
    assert capacity.counts(subnet) is counted
    assert not capacity.counts(a_subnet(service_types=types, **SLAAC))
    quiet = a_subnet(service_types=("network:router_gateway",), enable_dhcp=False)
    assert not uses.may_use(quiet, "network:dhcp")


def test_inventory_is_by_family_and_capped_and_leaves_out_what_is_no_capacity() -> None:
    def pools(cidr: str) -> tuple[addressing.AddressRange, ...]:
        return plan_subnet(cidr).pools

    def totals(*subnets: Subnet) -> dict[str, int]:
        source = ProviderSource(provider_uuid="p", routed=True, physical_network=None, subnets=subnets)
        return {name: total for name, (total, _) in capacity.count_addresses(source).items()}

    subnets = [
        a_subnet("10.0.0.0/29", ip_version=4, pools=pools("10.0.0.0/29")),
        a_subnet("10.0.1.0/29", ip_version=4, pools=pools("10.0.1.0/29"), service_types=("network:dhcp",)),
        a_subnet("2001:db8::/126", pools=pools("2001:db8::/126")),
        a_subnet("2001:db8:1::/64", pools=pools("2001:db8:1::/64"), **SLAAC),
    ]
    assert totals(*subnets) == {"IPV4_ADDRESS": 5, "CUSTOM_IPV6_ADDRESS": 2}
    big = a_subnet(pools=pools("2001:db8::/64"), ipv6_ra_mode="dhcpv6-stateful")
    assert totals(big) == {"CUSTOM_IPV6_ADDRESS": 2**31 - 1}
    assert totals(*subnets[3:]) == {}


@pytest.mark.parametrize(
    ("subnet", "claimed"),
    [
        (a_subnet("10.0.0.0/24", ip_version=4), True),
        (a_subnet("10.0.0.0/24", ip_version=4, cell="cell1"), False),
        (a_subnet(**SLAAC), False),
    ],
    ids=["counted", "a pool of a cell, whose addresses servers claim", "no capacity"],
)
def test_ports_claim_what_counts_but_on_flat_networks(subnet: Subnet, claimed: bool) -> None:
    assert capacity.claimed_by_ports(subnet) is claimed


@pytest.mark.parametrize(
    ("service_types", "expected"),
    [
        ((), True),
        (("compute:nova",), True),
        (("compute:nova", "network:dhcp"), True),
        (("compute:east",), False),
        (("compute:",), False),
        (("network:floatingip",), False),
    ],
)
def test_a_subnet_is_for_servers_whose_owner_its_service_types_name_whole(
    service_types: tuple[str, ...], expected: bool
) -> None:
    assert uses.is_for_servers(a_subnet(service_types=service_types)) is expected


@pytest.mark.parametrize(
    ("owner", "gets"),
    [
        ("", True),
        ("compute:nova", True),
        ("network:dhcp", True),
        ("network:router_gateway", True),
        ("network:router_interface", False),
        ("network:ha_router_replicated_interface", False),
        ("network:router_interface_distributed", False),
        ("network:router_centralized_snat", False),
    ],
)
def test_all_but_routers_ports_get_eui64_addresses_by_themselves(owner: str, gets: bool) -> None:
    assert uses.gets_automatic(owner) is gets
    port = a_port(device_owner=owner)
    others = [a_subnet(id="other", service_types=("compute:x",), **SLAAC), a_subnet(id="plain")]
    addresses = uses.automatic(port, [a_subnet(**SLAAC), *others])
    ids = ["s", "other"] if owner == "network:dhcp" else ["s"]
    assert [item.subnet_id for item in addresses] == (ids if gets else [])
    for item in addresses:
        assert addressing.show(item.address) == "2001:db8::f816:3eff:fe00:1"
        assert (item.port_id, item.in_pool, item.claimed) == (port.id, False, False)


@pytest.mark.parametrize(
    ("types", "expected"),
    [((), False), (("network:routed",), True), (("compute:nova", "network:routed"), True), (("network:x",), False)],
)
def test_only_a_subnet_that_is_routed_to_needs_no_segment(types: tuple[str, ...], expected: bool) -> None:
    assert uses.needs_no_segment(a_subnet(service_types=types)) is expected


@pytest.mark.parametrize(("ip_version", "name"), [(4, "IPV4_ADDRESS"), (6, "CUSTOM_IPV6_ADDRESS")])
def test_each_ip_version_has_its_resource_class(ip_version: int, name: str) -> None:
    assert uses.class_of(ip_version) == name
