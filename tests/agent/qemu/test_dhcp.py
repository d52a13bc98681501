"""What dnsmasq is told."""

from pathlib import Path
from typing import Any

import pytest
from tests.agent.qemu.orders import MAC, SUBNET, SUBNET_V6, make_network, make_order, make_port

from roost.agent.drivers.qemu.dhcp import SegmentFiles, namespace_script, render_configuration, render_hosts
from roost.agent.drivers.qemu.nics import NicPlan, plan_nics
from roost.seams.guests import NicSubnet, Route

FILES = SegmentFiles(Path("/state/segments/x"))


def _nics(*subnets: NicSubnet, addresses: tuple[str, ...] = ("10.1.0.2",), **network: Any) -> tuple[NicPlan, ...]:
    ports = (make_port(addresses=addresses),)
    return plan_nics(make_order(ports=ports, networks=(make_network(subnets=subnets, **network),)), {"rack1": "br0"})


def _lines(*subnets: NicSubnet, **network: Any) -> list[str]:
    return render_configuration(_nics(*subnets, **network), FILES).splitlines()


def test_a_subnet_is_served_without_an_address_of_it() -> None:
    lines = _lines(SUBNET, mtu=1450)
    assert "shared-network=eth0,10.1.0.0" in lines
    assert "dhcp-range=set:s0,10.1.0.0,static,255.255.255.0,86400" in lines
    assert "dhcp-option=tag:s0,option:router,10.1.0.1" in lines
    assert "dhcp-option=tag:s0,option:mtu,1450" in lines
    assert {"port=0", "bind-interfaces", "interface=eth0", "leasefile-ro", "dhcp-ignore=tag:!known"} <= set(lines)
    assert not any(line.startswith("ra-param") for line in lines)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"gateway": None}, "dhcp-option=tag:s0,option:router"),
        ({"dns": ("10.0.0.9", "2001:db8::9")}, "dhcp-option=tag:s0,option:dns-server,10.0.0.9"),
        ({}, "dhcp-option=tag:s0,option:dns-server"),
        (
            {"routes": (Route(destination="10.8.0.0/16", nexthop="10.1.0.3"),)},
            "dhcp-option=tag:s0,option:classless-static-route,10.8.0.0/16,10.1.0.3,0.0.0.0/0,10.1.0.1",
        ),
    ],
)
def test_what_a_guest_is_told_is_the_subnets(words: dict[str, Any], expected: str) -> None:
    assert expected in _lines(NicSubnet(**{"cidr": "10.1.0.0/24", "gateway": "10.1.0.1"} | words))


def test_a_subnet_without_dhcp_is_not_served() -> None:
    assert not any("10.1.0.0" in line for line in _lines(NicSubnet(cidr="10.1.0.0/24", dhcp=False)))


@pytest.mark.parametrize(
    ("ra_mode", "address_mode", "mode"),
    [
        ("slaac", "slaac", "ra-only"),
        ("dhcpv6-stateless", "dhcpv6-stateless", "ra-stateless"),
        ("dhcpv6-stateful", "dhcpv6-stateful", "static"),
        (None, "dhcpv6-stateful", "static"),
        (None, "slaac", None),
        (None, None, None),
    ],
)
def test_ipv6_is_advertised_only_as_the_subnet_asks(
    ra_mode: str | None, address_mode: str | None, mode: str | None
) -> None:
    lines = _lines(NicSubnet(cidr="2001:db8::/64", ra_mode=ra_mode, address_mode=address_mode))
    assert ("enable-ra" in lines) == (ra_mode is not None)
    ranges = [line for line in lines if line.startswith("dhcp-range")]
    assert ranges == ([] if mode is None else [f"dhcp-range=set:s0,2001:db8::,{mode},64,86400"])
    assert ("ra-param=eth0,mtu:1500,60,0" in lines) == (mode is not None), "no router's lifetime"


def test_a_guest_is_known_by_its_mac() -> None:
    stateful = NicSubnet(cidr="2001:db8:1::/64", ra_mode="dhcpv6-stateful", address_mode="dhcpv6-stateful")
    addresses = ("2001:db8::5", "10.1.0.2", "10.1.0.9", "2001:db8:1::7", "2001:db8:1::8")
    both = _nics(SUBNET, SUBNET_V6, stateful, addresses=addresses)
    assert render_hosts(both) == f"{MAC},10.1.0.2,[2001:db8:1::7],[2001:db8:1::8],web\n"
    assert render_hosts(()) == ""


def test_the_namespace_has_a_link_local_address_and_the_anycast_of_prefixes() -> None:
    nics = _nics(SUBNET, SUBNET_V6)
    script = namespace_script(nics, interface="rvx", pid=7, configuration=Path("/a b/dnsmasq.conf"))
    assert script.splitlines() == [
        "set -e",
        "ip link set lo up",
        "ip link add eth0 type veth peer name rvx netns 7",
        "ip address add 169.254.169.254/32 dev eth0",
        "ip link set eth0 up",
        "ip address add 2001:db8::/64 dev eth0 nodad noprefixroute",
        "exec dnsmasq --conf-file='/a b/dnsmasq.conf'",
    ]
