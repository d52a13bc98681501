"""The one equation of capacity: what is free is the pools without what is held, whatever becomes of the pools."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.network.test_ranges import points, ranges
from tests.network.test_uses import SLAAC, a_subnet

from roost.network.model.networks import Holdings, ProviderSource, Subnet
from roost.network.rules import capacity
from roost.seams.addresses import TOTAL_MAX, count_capacity
from roost.seams.placement import IPV4_ADDRESS, IPV6_ADDRESS


@pytest.mark.parametrize(
    ("pooled", "claimed_outside", "unclaimed_inside", "counted"),
    [
        (0, 0, 0, (0, 0)),
        (10, 0, 0, (10, 0)),
        (10, 2, 0, (12, 0)),
        (10, 0, 3, (10, 3)),
        (10, 2, 3, (12, 3)),
        (0, 1, 0, (1, 0)),
        (2**64, 0, 3, (TOTAL_MAX, 3)),
        (1, 0, 2, (1, 1)),
    ],
)
def test_total_and_reserved(pooled: int, claimed_outside: int, unclaimed_inside: int, counted: tuple[int, int]) -> None:
    counts = count_capacity(pooled=pooled, claimed_outside=claimed_outside, unclaimed_inside=unclaimed_inside)
    assert counts == counted


def source(*subnets: Subnet, holdings: Mapping[str, Holdings] = {}) -> ProviderSource:
    return ProviderSource(provider_uuid="p", routed=True, physical_network=None, subnets=subnets, holdings=holdings)


@given(points, points, points, points, st.booleans())
def test_what_is_free_is_the_pools_without_what_is_held(
    before: set[int], after: set[int], claimed: set[int], unclaimed: set[int], counts: bool
) -> None:
    """Claims are as they were when the addresses were given, before the pools changed, or the service types."""
    unclaimed -= claimed
    for pools in (before, after):
        held = Holdings(
            claimed_inside=len(claimed & pools),
            claimed_outside=len(claimed - pools),
            unclaimed_inside=len(unclaimed & pools),
        )
        types = () if counts else ("network:dhcp",)
        subnet = a_subnet("10.0.0.0/8", ip_version=4, pools=ranges(pools), service_types=types)
        total, reserved = capacity.count_addresses(source(subnet, holdings={"s": held})).get(IPV4_ADDRESS, (0, 0))
        assert total - reserved - len(claimed) == (len(pools - claimed - unclaimed) if counts else 0)


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({}, {IPV4_ADDRESS: (5, 1)}),
        ({"service_types": ("network:dhcp",)}, {IPV4_ADDRESS: (3, 0)}),
        ({"service_types": ("compute:nova",)}, {IPV4_ADDRESS: (5, 1)}),
        ({"pools": ()}, {IPV4_ADDRESS: (1, 1)}),
        ({"ip_version": 6, "cidr": "2001:db8::/64"}, {IPV6_ADDRESS: (5, 1)}),
    ],
)
def test_a_subnet_that_is_no_capacity_counts_what_is_claimed_of_it(
    changes: dict[str, object], counted: dict[str, tuple[int, int]]
) -> None:
    pools = ranges(set(range(4)))
    subnet = a_subnet(**{"cidr": "10.0.0.0/8", "ip_version": 4, "pools": pools, **changes})
    held = {"s": Holdings(claimed_inside=2, claimed_outside=1, unclaimed_inside=1)}
    assert capacity.count_addresses(source(subnet, holdings=held)) == counted


def test_what_is_still_to_come_does_not_count() -> None:
    subnet = a_subnet("10.0.0.0/8", ip_version=4, pools=ranges(set(range(4))))
    assert capacity.count_addresses(source(subnet), {IPV4_ADDRESS: 3}) == {IPV4_ADDRESS: (1, 0)}
    state = capacity.provider_state(source(subnet), {IPV4_ADDRESS: 3})
    assert state is not None
    assert state.inventories is not None
    assert state.inventories[IPV4_ADDRESS].total == 1
    assert capacity.provider_state(source(subnet), {IPV4_ADDRESS: 4}) is None
    assert capacity.provider_state(source()) is None


def test_the_classes_of_a_provider_are_those_of_subnets_that_count() -> None:
    four, six = a_subnet("10.0.0.0/8", ip_version=4), a_subnet()
    assert capacity.classes([six, four]) == (IPV4_ADDRESS, IPV6_ADDRESS)
    assert capacity.classes([a_subnet(**SLAAC), a_subnet(service_types=("network:dhcp",))]) == ()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "x"}, False),
        ({"gateway_ip": None}, False),
        ({"pools": ranges({1})}, True),
        ({"segment_id": "g"}, True),
        ({"service_types": ("network:dhcp",)}, True),
        ({"service_types": ("compute:nova",)}, False),
    ],
)
def test_which_changes_the_ledger_is_told(changes: dict[str, object], told: bool) -> None:
    same = {"cidr": "10.0.0.0/8", "ip_version": 4, "pools": ranges({1, 2})}
    assert capacity.changes_capacity(a_subnet(**same), a_subnet(**{**same, **changes})) is told
