"""What subnets tell their hosts; the routes between the subnets of a routed network are always those of today."""

import ipaddress
import itertools
from typing import Any

import msgspec
import pytest
from tests.network.cloud import NEVER, PROJECT, Cloud

from roost.network.errors import DNSNameServersExhausted, HostRoutesExhausted, InvalidInput
from roost.network.model.networks import HostRoute, Subnet
from roost.network.rules import addressing
from roost.network.rules import subnets as rules
from roost.network.service import subnets
from roost.platform.errors import RoostError


def subnet(number: int, segment_id: str | None, *routes: HostRoute, gateway: bool = True, cidr: str = "") -> Subnet:
    wanted = cidr or f"10.0.{number}.0/24"
    version = 6 if ":" in wanted else 4
    return Subnet(
        id=str(number), network_id="n", segment_id=segment_id, name="", description="", project_id=PROJECT,
        ip_version=version, cidr=wanted, gateway_ip=f"gateway{number}" if gateway else None, enable_dhcp=True,
        host_routes=routes, revision=1, created_at=NEVER, updated_at=NEVER,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "is_told"),
    [
        ({"name": "front"}, False),
        ({"tags": ("a",)}, False),
        ({"pools": ()}, False),
        ({"gateway_ip": None}, True),
        ({"dns_nameservers": ("9.9.9.9",)}, True),
        ({"host_routes": (HostRoute("0.0.0.0/0", "10.0.1.1"),)}, True),
        ({"enable_dhcp": False}, True),
        ({"segment_id": "b"}, True),
    ],
)
def test_guests_are_told_what_they_would_see(change: dict[str, Any], is_told: bool) -> None:
    before = subnet(1, "a")
    after = msgspec.structs.replace(before, **change)
    assert (rules.list_told(before) != rules.list_told(after)) is is_told


def test_a_subnet_leads_to_its_peers_on_other_segments_by_its_own_gateway() -> None:
    one, two, beside = subnet(1, "a"), subnet(2, "b"), subnet(3, "a")
    six = subnet(4, "b", cidr="2001:db8::/64")
    everything = [one, two, beside, six]
    assert rules.shown_routes(one, everything) == (HostRoute("10.0.2.0/24", "gateway1"),)
    assert rules.shown_routes(two, everything) == (
        HostRoute("10.0.1.0/24", "gateway2"), HostRoute("10.0.3.0/24", "gateway2"),
    )  # fmt: skip
    assert rules.shown_routes(six, everything) == ()
    assert rules.shown_routes(subnet(1, "a", gateway=False), everything) == ()
    assert rules.shown_routes(subnet(1, None), [subnet(1, None), subnet(2, None)]) == ()


def test_peers_are_led_to_in_the_order_of_their_addresses() -> None:
    own = HostRoute("10.0.9.0/24", "10.0.1.9")
    peers = [subnet(9, "c"), subnet(10, "b"), subnet(2, "b"), subnet(3, None)]
    routes = rules.peer_routes(subnet(1, "a", own), peers)
    assert [route.destination for route in routes] == [f"10.0.{number}.0/24" for number in (2, 3, 9, 10)]
    assert {route.nexthop for route in routes} == {"gateway1"}
    for lone in (subnet(1, None), subnet(1, "a", gateway=False), msgspec.structs.replace(peers[0], network_id="n2")):
        assert rules.peer_routes(lone, peers) == ()


def test_the_owners_routes_come_first_and_one_that_leads_there_already_is_enough() -> None:
    others = [subnet(2, "b"), subnet(3, "c")]
    own = HostRoute("10.0.2.0/23", "10.0.1.9")
    assert rules.shown_routes(subnet(1, "a", own), others) == (own,)
    own = HostRoute("10.0.2.0/24", "10.0.1.9")
    assert rules.shown_routes(subnet(1, "a", own), others) == (own, HostRoute("10.0.3.0/24", "gateway1"))


def test_each_subnet_is_read_once_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of the 1,000 that a network can have took the worker six seconds, 500 new ones beside 500 four."""
    many = [subnet(number, str(number)) for number in range(100)]
    read, ip_network = [], ipaddress.ip_network

    def count(cidr: str) -> Any:
        read.append(cidr)
        return ip_network(cidr)

    monkeypatch.setattr(ipaddress, "ip_network", count)
    assert {len(rules.shown_routes(one, many)) for one in many} == {99}
    assert not any(addressing.overlap(one.cidr, other.cidr) for one, other in itertools.combinations(many, 2))
    assert len(read) <= 2 * len(many)


ROUTE = HostRoute("10.9.0.0/24", "10.0.0.1")


@pytest.mark.parametrize(
    ("nameservers", "routes", "error"),
    [
        (["8.8.8.8", "8.8.8.8"], [], InvalidInput),
        (["dns"], [], InvalidInput),
        (["::1"], [], InvalidInput),
        ([f"8.8.8.{n}" for n in range(6)], [], DNSNameServersExhausted),
        ([], [ROUTE, ROUTE], InvalidInput),
        ([], [HostRoute("10.9.0.1/24", "10.0.0.1")], InvalidInput),
        ([], [HostRoute("10.9.0.1", "10.0.0.1")], InvalidInput),
        ([], [HostRoute("10.9.0.0/24", "::1")], InvalidInput),
        ([], [HostRoute("2001:db8::/64", "10.0.0.1")], InvalidInput),
        ([], [HostRoute(f"10.{n}.0.0/24", "10.0.0.1") for n in range(21)], HostRoutesExhausted),
    ],
)
def test_wrong_name_servers_and_routes_are_refused(
    nameservers: list[str], routes: list[HostRoute], error: type[RoostError]
) -> None:
    def check() -> None:
        rules.check_nameservers(nameservers, 4)
        rules.check_host_routes(routes, 4)

    with pytest.raises(error):
        check()


def test_as_many_as_may_be_are_taken_in_their_canonical_form() -> None:
    nameservers = ["2001:DB8::1", *(f"2001:db8::{number}" for number in range(2, 6))]
    assert rules.check_nameservers(nameservers, 6) == ("2001:db8::1", *nameservers[1:])
    routes = [HostRoute(f"10.{number}.0.0/24", "10.0.0.1") for number in range(20)]
    assert rules.check_host_routes(routes, 4) == tuple(routes)
    assert rules.check_host_routes([HostRoute("2001:DB8::/64", "FE80::1")], 6) == (
        HostRoute("2001:db8::/64", "fe80::1"),
    )  # fmt: skip
    types = ["compute:" + "x" * 247, *(f"network:{number}" for number in range(63))]
    assert rules.check_service_types(types) == tuple(types)
    for wrong in ([*types, "network:more"], ["compute:" + "x" * 248], ["compute:\0"]):
        with pytest.raises(InvalidInput):
            rules.check_service_types(wrong)


@pytest.mark.parametrize("zone", ["eth0", "\x00", "a" * 1000])
def test_addresses_that_hosts_are_told_have_no_zone(zone: str) -> None:
    """It is any text whatever, NUL too, which the database does not take."""
    with pytest.raises(InvalidInput):
        rules.check_nameservers([f"fe80::1%{zone}"], 6)
    for route in (HostRoute(f"fe80::%{zone}/64", "2001:db8::1"), HostRoute("2001:db8::/64", f"fe80::1%{zone}")):
        with pytest.raises(InvalidInput):
            rules.check_host_routes([route], 6)


@pytest.mark.parametrize("cidr", ["10.0.0.0/31", "224.0.0.0/24", "127.0.0.0/24", "0.0.0.0/8", "2001:db8::/127"])
def test_dhcp_needs_a_subnet_that_can_have_it(cidr: str) -> None:
    with pytest.raises(InvalidInput):
        rules.check_dhcp(cidr)


@pytest.mark.parametrize("cidr", ["10.0.0.0/30", "1.0.0.0/8", "2001:db8::/126", "::/64"])
def test_subnets_that_can_have_dhcp(cidr: str) -> None:
    rules.check_dhcp(cidr)


def test_service_types_are_device_owners_each_once() -> None:
    assert rules.check_service_types(["compute:a", "network:b", "compute:a"]) == ("compute:a", "network:b")
    with pytest.raises(InvalidInput):
        rules.check_service_types(["router"])


async def test_routes_to_peers_come_and_go_with_them(cloud: Cloud) -> None:
    """LP 1766380."""
    network, (_one, two) = await cloud.routed("10.0.1.0/24", "10.0.2.0/24")
    added = await cloud.subnet(network, "10.0.3.0/24", two)

    async def shown() -> dict[str, list[str]]:
        return {
            subnet.cidr: [f"{route.destination} {route.nexthop}" for route in subnet.host_routes]
            for subnet in await subnets.list_subnets(cloud.networks)
        }

    assert await shown() == {
        "10.0.1.0/24": ["10.0.2.0/24 10.0.1.1", "10.0.3.0/24 10.0.1.1"],
        "10.0.2.0/24": ["10.0.1.0/24 10.0.2.1"],
        "10.0.3.0/24": ["10.0.1.0/24 10.0.3.1"],
    }
    await subnets.delete_subnet(cloud.networks, added.id)
    assert await shown() == {"10.0.1.0/24": ["10.0.2.0/24 10.0.1.1"], "10.0.2.0/24": ["10.0.1.0/24 10.0.2.1"]}
