import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.network import addressing
from roost.network.addressing import Demand
from roost.network.errors import (
    GatewayConflictWithAllocationPools,
    InvalidInput,
    OutOfBoundsAllocationPool,
    OverlappingAllocationPools,
)
from roost.network.model import AddressRange


def as_set(ranges: list[AddressRange]) -> set[int]:
    return {address for item in ranges for address in range(item.first, item.last + 1)}


def as_ranges(addresses: set[int]) -> list[AddressRange]:
    return [item for _, item in addressing.take_back({"s": addresses}, {}).added]


@given(st.sets(st.integers(0, 60)), st.integers(0, 30), st.sets(st.integers(0, 60), max_size=5))
def test_every_address_is_handed_out_at_most_once_and_only_if_free(
    free: set[int], wanted: int, named: set[int]
) -> None:
    ranges = as_ranges(free)
    demands = [Demand(f"p{n}", ("s",)) for n in range(wanted)] + [Demand(f"n{a}", ("s",), a) for a in named]
    answers, change = addressing.hand_out(demands, {"s": ranges})
    got = [item.address for item in answers if item is not None]
    assert len(got) == len(set(got))
    assert set(got) <= free
    assert len(got) == len(named & free) + min(wanted, len(free - named))
    left = (set(ranges) - {item for _, item in change.removed}) | {item for _, item in change.added}
    assert as_set(list(left)) == free - set(got)


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_what_is_given_back_joins_its_neighbours(free: set[int], held: set[int]) -> None:
    freed = held - free
    ranges = as_ranges(free)
    change = addressing.take_back({"s": freed}, {"s": ranges})
    left = sorted((set(ranges) - {item for _, item in change.removed}) | {item for _, item in change.added})
    assert as_set(left) == free | freed
    assert all(one.last + 1 < other.first for one, other in itertools.pairwise(left))


def test_the_gateway_is_the_first_address_and_the_pool_is_the_rest() -> None:
    plan = addressing.plan_subnet("10.0.0.0/28", gateway_ip=None, no_gateway=False, pools=None)
    assert plan.gateway_ip == "10.0.0.1"
    assert [(addressing.show(p.first), addressing.show(p.last)) for p in plan.pools] == [("10.0.0.2", "10.0.0.14")]
    plan = addressing.plan_subnet("10.0.0.0/29", gateway_ip="10.0.0.3", no_gateway=False, pools=None)
    assert addressing.count(plan.pools) == 5
    for outside in ("10.0.1.1", "9.0.0.1"):
        plan = addressing.plan_subnet("10.0.0.0/29", gateway_ip=outside, no_gateway=False, pools=None)
        assert (plan.gateway_ip, addressing.count(plan.pools)) == (outside, 6)


@pytest.mark.parametrize(
    ("cidr", "gateway", "pools", "error"),
    [
        ("10.0.0.1/28", None, None, InvalidInput),
        ("10.0.0.0", None, None, InvalidInput),
        ("0.0.0.0/0", None, None, InvalidInput),
        ("2001:db8::/64", None, None, InvalidInput),
        ("10.0.0.0/32", None, None, InvalidInput),
        ("10.0.0.0/28", "10.0.0.0", None, InvalidInput),
        ("10.0.0.0/28", "10.0.0.15", None, InvalidInput),
        ("10.0.0.0/28", None, [("10.0.0.9", "10.0.0.8")], InvalidInput),
        ("10.0.0.0/28", None, [("10.0.0.9", "10.0.0.15")], OutOfBoundsAllocationPool),
        ("10.0.0.0/28", None, [("10.0.0.1", "10.0.0.8")], GatewayConflictWithAllocationPools),
        ("10.0.0.0/28", None, [("10.0.0.2", "10.0.0.8"), ("10.0.0.8", "10.0.0.9")], OverlappingAllocationPools),
    ],
)
def test_a_wrong_subnet_is_refused(
    cidr: str, gateway: str | None, pools: list[tuple[str, str]] | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        addressing.plan_subnet(cidr, gateway_ip=gateway, no_gateway=False, pools=pools)
