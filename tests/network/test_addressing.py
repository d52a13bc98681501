import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from roost.network.errors import (
    GatewayConflictWithAllocationPools,
    InvalidInput,
    OutOfBoundsAllocationPool,
    OverlappingAllocationPools,
)
from roost.network.model.networks import AddressRange
from roost.network.model.ports import Given
from roost.network.rules import addressing
from roost.network.rules.addressing import Demand
from roost.network.rules.subnets import POOLS_MAX, plan_pools, plan_subnet, refuse_gateway


def as_set(ranges: list[AddressRange]) -> set[int]:
    return {address for item in ranges for address in range(item.first, item.last + 1)}


def as_ranges(addresses: set[int]) -> list[AddressRange]:
    return [item for _, item in addressing.take_back({"s": addresses}, {}).added]


BASES = st.sampled_from([addressing.parse("10.0.0.0"), addressing.parse("2001:db8::")])


@given(
    BASES,
    st.sets(st.integers(0, 60)),
    st.integers(0, 30),
    st.sets(st.integers(0, 60), max_size=5),
    st.none() | st.integers(0, 60),
)
def test_every_address_is_handed_out_at_most_once_and_only_if_free(
    base: int, free: set[int], wanted: int, named: set[int], start: int | None
) -> None:
    free, named = {base + n for n in free}, {base + n for n in named}
    ranges = as_ranges(free)
    demands = [Demand(f"p{n}", ("s",)) for n in range(wanted)] + [Demand(f"n{a}", ("s",), a) for a in named]
    starts = {} if start is None else {"s": base + start}
    answers, change = addressing.hand_out(demands, {"s": ranges}, starts)
    got = [item.address for item in answers if item is not None]
    assert len(got) == len(set(got))
    assert set(got) <= free
    assert len(got) == len(named & free) + min(wanted, len(free - named))
    left = (set(ranges) - {item for _, item in change.removed}) | {item for _, item in change.added}
    assert as_set(list(left)) == free - set(got)
    assert all(one.last < other.first for one, other in itertools.pairwise(sorted(left)))


def test_many_named_addresses_are_not_each_looked_for_in_all_ranges() -> None:
    """Eight thousand of one request, from the highest on, took a worker three seconds, and nobody else got any."""
    compared: list[int] = []

    class Counted(int):
        def __lt__(self, other: int) -> bool:
            compared.append(other)
            return int(self) < int(other)

        def __le__(self, other: int) -> bool:
            compared.append(other)
            return int(self) <= int(other)

        def __ge__(self, other: int) -> bool:
            compared.append(other)
            return int(self) >= int(other)

        def __gt__(self, other: int) -> bool:
            compared.append(other)
            return int(self) > int(other)

    base, count = addressing.parse("10.0.0.0"), 500
    demands = [Demand(f"p{number}", ("s",), Counted(base + 2 * number)) for number in range(count, 0, -1)]
    answers, _ = addressing.hand_out(demands, {"s": [AddressRange(base, base + 65535)]})
    assert [given.address for given in answers if given] == [demand.address for demand in demands]
    assert len(compared) < 50 * count


@given(BASES, st.sets(st.integers(0, 60), min_size=1), st.integers(1, 70), st.none() | st.integers(0, 60))
def test_the_next_free_address_from_the_start_comes_next_and_then_the_lowest(
    base: int, free: set[int], wanted: int, start: int | None
) -> None:
    demands = [Demand(f"p{n}", ("s",)) for n in range(wanted)]
    starts = {} if start is None else {"s": base + start}
    answers, _ = addressing.hand_out(demands, {"s": as_ranges({base + n for n in free})}, starts)
    got = [item.address - base for item in answers if item is not None]
    assert got == sorted(free, key=lambda n: (n < (start or 0), n))[:wanted]


@given(
    st.sets(st.integers(0, 9)),
    st.sets(st.integers(100, 109)),
    st.sets(st.integers(200, 204)),
    st.lists(st.sets(st.sampled_from("abc"), min_size=1), max_size=15),
    st.none() | st.integers(0, 9),
)
def test_a_port_gets_all_its_addresses_or_none_and_nobody_goes_without_for_it(
    a: set[int], b: set[int], c: set[int], ports: list[set[str]], start: int | None
) -> None:
    free = {"a": as_ranges(a), "b": as_ranges(b), "c": as_ranges(c)}
    demands = [Demand(str(number), (subnet,)) for number, subnets in enumerate(ports) for subnet in sorted(subnets)]
    answers, change = addressing.hand_out(demands, free, {} if start is None else {"a": start})
    got = dict.fromkeys(range(len(ports)), 0)
    for given_address in answers:
        if given_address is not None:
            got[int(given_address.port_id)] += 1
    assert all(count in (0, len(ports[number])) for number, count in got.items())
    taken = {item.address for item in answers if item is not None}
    for subnet, before in (("a", a), ("b", b), ("c", c)):
        gone = {item for name, item in change.removed if name == subnet}
        new = {item for name, item in change.added if name == subnet}
        assert as_set(list((set(free[subnet]) - gone) | new)) == before - taken
    if not any(len(subnets) > 1 for subnets in ports):
        sizes = {"a": len(a), "b": len(b), "c": len(c)}
        assert len(taken) == sum(min(sizes[name], sum(name in p for p in ports)) for name in sizes)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 40)), max_size=8), st.randoms(use_true_random=False))
def test_a_start_is_an_address_of_the_pools(spans: list[tuple[int, int]], random: Random) -> None:
    pools = as_ranges({n for first, size in spans for n in range(first, first + size)})
    start = addressing.choose_start(pools, random)
    assert (start in as_set(pools)) if pools else start is None


class Chosen(Random):
    """Chance that is known: the place is `place`."""

    place = 0

    def randrange(self, *_: object) -> int:
        return self.place


def test_each_address_of_the_pools_is_the_start_by_one_choice() -> None:
    numbers, random = {1, 2, 3, 7, 9, 10}, Chosen()
    starts = []
    for place in range(len(numbers)):
        random.place = place
        starts.append(addressing.choose_start(as_ranges(numbers), random))
    assert starts == sorted(numbers)


def test_an_address_is_given_with_what_its_demand_says_of_it() -> None:
    demands = [
        Demand("named", ("s",), 3), Demand("next", ("s",), claimed=False),
        Demand("outside", ("s",), 1, in_pool=False, claimed=False),
    ]  # fmt: skip
    answers, _ = addressing.hand_out(demands, {"s": [AddressRange(2, 9)]})
    assert answers == [
        Given("named", "s", 3, in_pool=True, claimed=True), Given("next", "s", 2, in_pool=True, claimed=False),
        Given("outside", "s", 1, in_pool=False, claimed=False),
    ]  # fmt: skip


@pytest.mark.parametrize(("start", "addresses"), [(2, [2, 3, None]), (3, [3, 2, None]), (4, [2, 3, None])])
def test_each_address_of_a_range_comes_once_wherever_the_start_is(start: int, addresses: list[int | None]) -> None:
    demands = [Demand(name, ("s",)) for name in "abc"]
    answers, _ = addressing.hand_out(demands, {"s": [AddressRange(2, 3)]}, {"s": start})
    assert [answer and answer.address for answer in answers] == addresses


def test_what_a_port_gives_up_for_want_of_another_goes_to_nobody() -> None:
    demands = [Demand("short", ("s",)), Demand("short", ("t",)), Demand("other", ("s",))]
    answers, _ = addressing.hand_out(demands, {"s": [AddressRange(2, 9)], "t": []}, {"s": 5})
    assert [answer and answer.address for answer in answers] == [None, None, 5]


def test_a_64_is_one_range_and_any_of_it_can_be_the_start() -> None:
    plan = plan_subnet("2001:DB8::/64", ip_version=6)
    assert (plan.cidr, plan.gateway_ip) == ("2001:db8::/64", "2001:db8::1")
    assert [(addressing.show(p.first), addressing.show(p.last)) for p in plan.pools] == [
        ("2001:db8::2", "2001:db8::ffff:ffff:ffff:ffff")
    ]
    start = addressing.choose_start(plan.pools, Random(1))
    assert start is not None
    answers, change = addressing.hand_out([Demand("p", ("s",))], {"s": plan.pools}, {"s": start})
    assert [item.address for item in answers if item] == [start]
    assert len(change.added) == 2


@given(st.just(addressing.IPV4_MAX) | st.integers(0, addressing.IPV4_MAX) | st.integers(2**48, 2**128 - 1))
def test_an_address_is_shown_as_it_is_read(address: int) -> None:
    assert addressing.parse(addressing.show(address)) == address
    assert addressing.version_of(address) == (6 if ":" in addressing.show(address) else 4)


@pytest.mark.parametrize(("text", "shown"), [("10.0.0.1", "10.0.0.1"), ("2001:DB8:0::1", "2001:db8::1")])
def test_an_address_has_one_text(text: str, shown: str) -> None:
    assert addressing.canonical(text) == shown


def test_ranges_are_read_from_the_texts_of_their_ends() -> None:
    first, last = addressing.parse("10.0.0.9"), addressing.parse("10.0.1.2")
    assert addressing.parse_range("10.0.0.9", "10.0.1.2") == AddressRange(first, last)
    assert addressing.parse_range("10.0.0.9", "10.0.0.9") == AddressRange(first, first)
    with pytest.raises(InvalidInput):
        addressing.parse_range("10.0.0.9", "10.0.1")


@pytest.mark.parametrize("text", ["", "10.0.0", "10.0.0.256", "::1", "::ffff:10.0.0.1", "fe80::1%eth0", "2001:db8::g"])
def test_what_no_port_can_have_is_no_address(text: str) -> None:
    with pytest.raises(InvalidInput):
        addressing.parse(text)


@pytest.mark.parametrize(("cidr", "ip_version"), [("2001:db8::/64", 4), ("10.0.0.0/24", 6), ("10.0.0.0/24", 5)])
def test_a_cidr_has_the_ip_version_that_is_said(cidr: str, ip_version: int) -> None:
    with pytest.raises(InvalidInput, match=f"does not match the ip_version '{ip_version}'"):
        plan_subnet(cidr, ip_version=ip_version)


@pytest.mark.parametrize(("ip_version", "example"), [(None, "10.0.0.0/24"), (4, "10.0.0.0/24"), (6, "2001:db8::/64")])
@pytest.mark.parametrize("cidr", ["nonsense", "10.0.0.0"])
def test_a_malformed_cidr_is_answered_with_one_of_its_version(cidr: str, ip_version: int | None, example: str) -> None:
    with pytest.raises(InvalidInput, match=f"like {example}"):
        plan_subnet(cidr, ip_version=ip_version)


def test_an_ipv6_gateway_may_be_link_local_and_then_all_hosts_are_the_pool() -> None:
    plan = plan_subnet("2001:db8::/126", gateway_ip="fe80::1")
    assert plan.gateway_ip == "fe80::1"
    assert addressing.count(plan.pools) == 3
    with pytest.raises(InvalidInput):
        plan_subnet("2001:db8::/64", ip_version=4)


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_what_is_given_back_joins_its_neighbours(free: set[int], held: set[int]) -> None:
    freed = held - free
    ranges = as_ranges(free)
    change = addressing.take_back({"s": freed}, {"s": ranges})
    left = sorted((set(ranges) - {item for _, item in change.removed}) | {item for _, item in change.added})
    assert as_set(left) == free | freed
    assert all(one.last + 1 < other.first for one, other in itertools.pairwise(left))


def test_the_gateway_is_the_first_address_and_the_pool_is_the_rest() -> None:
    plan = plan_subnet("10.0.0.0/28")
    assert plan.gateway_ip == "10.0.0.1"
    assert [(addressing.show(p.first), addressing.show(p.last)) for p in plan.pools] == [("10.0.0.2", "10.0.0.14")]
    for inside in ("10.0.0.2", "10.0.0.3", "10.0.0.6"):
        plan = plan_subnet("10.0.0.0/29", gateway_ip=inside)
        assert addressing.count(plan.pools) == 5
    for outside in ("10.0.1.1", "9.0.0.1"):
        plan = plan_subnet("10.0.0.0/29", gateway_ip=outside)
        assert (plan.gateway_ip, addressing.count(plan.pools)) == (outside, 6)


@pytest.mark.parametrize(
    ("cidr", "gateway", "pools", "error"),
    [
        ("10.0.0.1/28", None, None, InvalidInput),
        ("10.0.0.0", None, None, InvalidInput),
        ("0.0.0.0/0", None, None, InvalidInput),
        ("2001:db8::1/64", None, None, InvalidInput),
        ("::/64", None, None, InvalidInput),
        ("::/0", None, None, InvalidInput),
        ("::ffff:10.0.0.0/120", None, None, InvalidInput),
        ("2001:db8::%eth0/64", None, None, InvalidInput),
        ("2001:db8::/64", "::1", None, InvalidInput),
        ("2001:db8::/64", None, [("10.0.0.1", "10.0.0.9")], OutOfBoundsAllocationPool),
        ("2001:db8::/64", "10.0.0.1", None, InvalidInput),
        ("2001:db8::/64", None, [("10.0.0.2", "10.0.0.9")], OutOfBoundsAllocationPool),
        ("2001:db8::/64", None, [("2001:db8::1", "2001:db8::9")], GatewayConflictWithAllocationPools),
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
        plan_subnet(cidr, gateway_ip=gateway or UNSET, pools=pools)


def parsed(*texts: str) -> list[AddressRange]:
    """Return ranges from "first last", or from one address."""
    pairs = [text.split() for text in texts]
    return [AddressRange(addressing.parse(pair[0]), addressing.parse(pair[-1])) for pair in pairs]


@pytest.mark.parametrize(
    ("cidr", "block", "hosts"),
    [
        ("10.0.0.0/24", "10.0.0.0 10.0.0.255", "10.0.0.1 10.0.0.254"),
        ("10.0.0.4/30", "10.0.0.4 10.0.0.7", "10.0.0.5 10.0.0.6"),
        ("10.0.0.4/31", "10.0.0.4 10.0.0.5", "10.0.0.4 10.0.0.5"),
        ("10.0.0.4/32", "10.0.0.4", "10.0.0.4"),
        ("2001:db8::/126", "2001:db8:: 2001:db8::3", "2001:db8::1 2001:db8::3"),
        ("2001:db8::4/127", "2001:db8::4 2001:db8::5", "2001:db8::4 2001:db8::5"),
        ("2001:db8::4/128", "2001:db8::4", "2001:db8::4"),
    ],
)
def test_hosts_may_have_all_of_a_cidr_but_its_ends(cidr: str, block: str, hosts: str) -> None:
    assert [addressing.block_range(cidr), addressing.host_range(cidr)] == parsed(block, hosts)


@pytest.mark.parametrize(
    ("cidr", "gateway", "refusal"),
    [
        ("10.0.0.0/29", "10.0.0.1", None),
        ("10.0.0.0/29", "10.0.0.6", None),
        ("10.0.0.0/29", "10.9.0.1", None),
        ("10.0.0.4/31", "10.0.0.4", None),
        ("10.0.0.0/29", "10.0.0.0", "10.0.0.0 is no host address of 10.0.0.0/29"),
        ("10.0.0.0/29", "10.0.0.7", "10.0.0.7 is no host address of 10.0.0.0/29"),
        ("10.0.0.0/29", "2001:db8::1", "does not match the ip_version '4'"),
        ("2001:db8::/64", "fe80::1", None),
        ("2001:db8::/64", "2001:db8::ffff:ffff:ffff:ffff", None),
        ("2001:db8::/64", "2001:db8::", "is no host address of 2001:db8::/64"),
        ("2001:db8::/64", "10.0.0.1", "does not match the ip_version '6'"),
    ],
)
def test_a_gateway_is_a_host_address_or_elsewhere(cidr: str, gateway: str, refusal: str | None) -> None:
    if refusal is None:
        refuse_gateway(cidr, addressing.parse(gateway))
        return
    with pytest.raises(InvalidInput, match=refusal):
        refuse_gateway(cidr, addressing.parse(gateway))


@pytest.mark.parametrize(
    ("gateway", "pools", "error"),
    [
        ("10.0.0.1", [], None),
        ("10.0.0.5", ["10.0.0.2 10.0.0.4", "10.0.0.6 10.0.0.9"], None),
        ("10.0.0.4", ["10.0.0.2 10.0.0.4"], GatewayConflictWithAllocationPools),
        ("10.0.0.6", ["10.0.0.2 10.0.0.4", "10.0.0.6 10.0.0.9"], GatewayConflictWithAllocationPools),
        (None, ["10.0.0.6 10.0.0.9", "10.0.0.1 10.0.0.5"], None),
        (None, ["10.0.0.1 10.0.0.14"], None),
        (None, ["10.0.0.1 10.0.0.5", "10.0.0.5"], OverlappingAllocationPools),
        (None, ["10.0.0.0 10.0.0.5"], OutOfBoundsAllocationPool),
        (None, ["10.0.0.9 10.0.0.15"], OutOfBoundsAllocationPool),
        (None, ["10.0.0.5 10.0.0.4"], InvalidInput),
    ],
)
def test_pools_are_in_order_of_hosts_and_without_the_gateway(
    gateway: str | None, pools: list[str], error: type[Exception] | None
) -> None:
    number = None if gateway is None else addressing.parse(gateway)
    if error is None:
        assert plan_pools("10.0.0.0/28", number, parsed(*pools)) == tuple(sorted(parsed(*pools)))
        return
    with pytest.raises(error, match=None if number is None else f"^Gateway {gateway} is within the allocation pool"):
        plan_pools("10.0.0.0/28", number, parsed(*pools))


def test_a_subnet_has_so_many_pools_and_no_more() -> None:
    texts = [addressing.show(addressing.parse("10.0.0.1") + number) for number in range(POOLS_MAX + 1)]
    pools = parsed(*texts)
    assert len(plan_pools("10.0.0.0/16", None, pools[1:])) == POOLS_MAX
    with pytest.raises(InvalidInput, match="at most 1000 allocation pools, 1001 were given"):
        plan_pools("10.0.0.0/16", None, pools)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": []}, {"a": []}),
        ({"a": ["10.0.0.2 10.0.0.6"]}, {"a": ["10.0.0.2 10.0.0.6"]}),
        ({"a": ["10.0.0.2 10.0.0.6"]}, {"a": []}),
        ({"a": ["10.0.0.2 10.0.0.6", "10.0.0.9"]}, {"a": ["10.0.0.4 10.0.0.6", "10.0.0.9"]}),
        ({"a": ["10.0.0.2 10.0.0.6"], "b": ["10.1.0.2"]}, {"a": ["10.0.0.2", "10.0.0.4"], "b": ["10.1.0.2"]}),
    ],
)
def test_a_change_of_free_ranges_has_only_what_differs(
    before: dict[str, list[str]], after: dict[str, list[str]]
) -> None:
    old, new = ({name: parsed(*texts) for name, texts in ranges.items()} for ranges in (before, after))
    change = addressing.difference(old, new)
    old_pairs, new_pairs = ({(name, item) for name in ranges for item in ranges[name]} for ranges in (old, new))
    assert set(change.removed) == old_pairs - new_pairs
    assert set(change.added) == new_pairs - old_pairs


@pytest.mark.parametrize(
    ("cidr", "other", "expected"),
    [
        ("10.0.0.0/24", "10.0.0.0/24", True),
        ("10.0.0.0/24", "10.0.0.128/25", True),
        ("10.0.0.128/25", "10.0.0.0/24", True),
        ("10.0.0.0/25", "10.0.0.128/25", False),
        ("10.0.0.0/8", "2001:db8::/32", False),
        ("10.0.0.4/32", "10.0.0.4/31", True),
        ("10.0.0.5/32", "10.0.0.4/31", True),
        ("10.0.0.4/31", "10.0.0.5/32", True),
        ("2001:db8::/64", "2001:db8::/32", True),
    ],
)
def test_subnets_overlap_where_they_share_addresses(cidr: str, other: str, expected: bool) -> None:
    assert addressing.overlap(cidr, other) is expected
