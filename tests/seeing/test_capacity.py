"""How many fit, what binds and what is stranded: small clouds by hand."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.seeing.clouds import DEFAULTS, Cloud

from roost.seams.compute import RequestSpec
from roost.seams.placement import DISK_GB, IPV4_ADDRESS, MEMORY_MB, VCPU, Inventory
from roost.seeing.rules.capacity import ADDRESSES, Binding, Capacity, find_capacity
from roost.seeing.rules.limits import Limits, LimitSet
from roost.seeing.rules.packing import pack

BIG = {MEMORY_MB: 10**6, DISK_GB: 10**6}


def racks(*addresses: int, hosts: int = 2, vcpus: int = 4, **request: Any) -> Cloud:
    """A routed network with a rack of hosts for each number of addresses, and servers of 1 VCPU on it."""
    cloud = Cloud(spec=RequestSpec(**{"vcpus": 1, "memory_mb": 1, "disk_gb": 1} | request), nics=("net",))
    for number, total in enumerate(addresses):
        cloud.add_segment(f"rack{number}", IPV4_ADDRESS=total)
        for host in range(hosts):
            cloud.add_host(f"r{number}-h{host}", f"a-rack{number}", VCPU=vcpus, **BIG)
    cloud.add_network("net", *((f"rack{number}", (IPV4_ADDRESS,)) for number in range(len(addresses))))
    return cloud


def capacity_of(cloud: Cloud, **groups: Any) -> Capacity:
    return find_capacity(cloud.index(), cloud.requests(), Random(1), DEFAULTS, **groups)


def test_each_segment_has_the_lesser_of_addresses_and_room_on_hosts() -> None:
    capacity = capacity_of(racks(3, 100))
    assert (capacity.exact, capacity.least, capacity.most) == (True, 11, 11)
    rows = [(s.segment, s.hosts, s.on_hosts, s.by_addresses, s.fits) for s in capacity.segments]
    assert rows == [("rack0", 2, 8, 3, 3), ("rack1", 2, 8, 100, 8)]
    assert [(s.stranded_on_hosts, s.stranded_addresses) for s in capacity.segments] == [(5, 0), (0, 92)]


def test_what_binds_is_told_by_what_it_costs() -> None:
    assert capacity_of(racks(3, 100)).bindings == (Binding(VCPU, 92), Binding(ADDRESSES, 5))


def test_a_segment_that_ran_out_strands_its_hosts() -> None:
    (room, _) = capacity_of(racks(0, 1)).segments
    assert (room.hosts, room.on_hosts, room.by_addresses, room.stranded_on_hosts) == (2, 8, 0, 8)


def test_two_nics_on_one_network_take_two_addresses_of_one_segment() -> None:
    cloud = racks(5, 2)
    cloud.nics = ("net", "net")
    capacity = capacity_of(cloud)
    assert (capacity.exact, capacity.most) == (True, 3)


def test_pools_of_one_cell_are_one_limit() -> None:
    cloud = racks()
    for pool in ("p1", "p2"):
        cloud.add_segment(pool, IPV4_ADDRESS=3)
    cloud.add_network("net", ("p1", (IPV4_ADDRESS,)), ("p2", (IPV4_ADDRESS,)), flat=True)
    for host in ("h1", "h2"):
        cloud.add_host(host, "a-p1", "a-p2", VCPU=4, **BIG)
    capacity = capacity_of(cloud)
    assert (capacity.exact, capacity.most) == (True, 6)
    assert [room.segment for room in capacity.segments] == ["p1, p2"]


def test_networks_whose_segments_cross_have_two_numbers() -> None:
    """Hosts 1 and 2 share a segment of one network, hosts 2 and 3 one of the other: host 2 may block both."""
    cloud = racks()
    for name in ("a1", "a2", "b1", "b2"):
        cloud.add_segment(name, IPV4_ADDRESS=1)
    for name, one, two in (("h1", "a1", "b1"), ("h2", "a1", "b2"), ("h3", "a2", "b2")):
        cloud.add_host(name, f"a-{one}", f"a-{two}", VCPU=1, **BIG)
    cloud.add_network("a", ("a1", (IPV4_ADDRESS,)), ("a2", (IPV4_ADDRESS,)))
    cloud.add_network("b", ("b1", (IPV4_ADDRESS,)), ("b2", (IPV4_ADDRESS,)))
    cloud.nics = ("a", "b")
    capacity = capacity_of(cloud)
    assert (capacity.exact, capacity.least, capacity.most) == (False, 1, 2)
    assert capacity.choices == ("hosts that share one limit are apart under another: neither set is within the other",)


def test_zones_and_aggregates_are_counted_by_themselves() -> None:
    capacity = capacity_of(
        racks(3, 100), zones={"z": ["r0-h0", "r1-h0"], "empty": []}, aggregates={"a": ["r0-h0", "r0-h1"]}
    )
    assert [(z.name, z.hosts, z.most, z.exact) for z in capacity.zones] == [("z", 2, 7, True), ("empty", 0, 0, True)]
    assert [(a.name, a.hosts, a.most) for a in capacity.aggregates] == [("a", 2, 3)]


def test_closed_hosts_and_amounts_that_no_claim_may_have_do_not_count() -> None:
    cloud = racks(100)
    cloud.add_host("closed", "a-rack0", open=False, VCPU=100, **BIG)
    cloud.add_host("overcommitted", "a-rack0", ratio=16.0, VCPU=2, **BIG)
    assert capacity_of(cloud).most == 8 + 32
    cloud.spec = RequestSpec(vcpus=3, memory_mb=1, disk_gb=1)
    assert capacity_of(cloud).most == 2  # of 2 VCPUs none gives 3 to one server
    provider = cloud.providers["r0-h0"]
    for units, most in (({"min_unit": 4}, 0), ({"step_size": 2}, 0), ({"step_size": 3}, 3)):
        uneven = Inventory(9, max_unit=9, **units)
        cloud.providers["r0-h0"] = replace(provider, inventories={**provider.inventories, VCPU: uneven})
        capacity = capacity_of(cloud)
        assert (capacity.exact, capacity.most) == (True, 1 + most)  # 1 on the other host


@st.composite
def families(draw: st.DrawFn) -> Limits:
    """Places with room, in sets of two kinds that are partitions, so that a flow is the most."""
    places = draw(st.integers(1, 5))
    own = draw(st.lists(st.integers(0, 3), min_size=places, max_size=places))
    sets = []
    for group in (0, 1):
        part = draw(st.lists(st.integers(0, 2), min_size=places, max_size=places))
        for which in sorted(set(part)):
            members = np.array([place for place in range(places) if part[place] == which], np.int64)
            sets.append(LimitSet((group * 10 + which,), IPV4_ADDRESS, draw(st.integers(0, 4)), members, group))
    roots = np.arange(places, dtype=np.int64)
    return Limits(roots, np.array([own], np.int64), (VCPU,), tuple(sets))


def placings(limits: Limits) -> set[int]:
    """How many servers are placed when no more fits: every number that some order gives, found by trying all."""
    most, totals, seen = limits.most.tolist(), set[int](), set[tuple[int, ...]]()
    waiting = [(0,) * len(most)]
    while waiting:
        counts = waiting.pop()
        if counts in seen:
            continue
        seen.add(counts)
        full = {place for s in limits.sets if sum(counts[m] for m in s.members) >= s.limit for place in s.members}
        open_places = [place for place in range(len(most)) if counts[place] < most[place] and place not in full]
        waiting += [(*counts[:p], counts[p] + 1, *counts[p + 1 :]) for p in open_places]
        if not open_places:
            totals.add(sum(counts))
    return totals


@given(families())
def test_the_most_is_what_the_best_order_gives_and_nested_is_what_all_give(limits: Limits) -> None:
    packing, totals = pack(limits), placings(limits)
    assert packing.most == max(totals)
    if packing.nested:
        assert totals == {packing.most}


@pytest.mark.parametrize("crossing", [False, True])
def test_sets_nest_unless_they_cross(crossing: bool) -> None:
    members = ([0, 1, 2], [0, 1], [2, 3] if crossing else [2])
    sets = tuple(LimitSet((n,), VCPU, 2, np.array(m, np.int64), n) for n, m in enumerate(members))
    packing = pack(Limits(np.arange(4), np.full((1, 4), 5), (VCPU,), sets))
    assert packing.nested is not crossing
    assert packing.most == (4 if crossing else 7)
