"""What servers take of which rows, and what follows: limits of hosts, of what they share, of what they choose among."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.seeing.clouds import Cloud
from tests.seeing.test_capacity import BIG, racks

from roost.placement.search.index import Index
from roost.scheduling.request import build_query
from roost.seams.compute import FlavorGroup
from roost.seams.placement import (
    DISK_GB,
    IPV4_ADDRESS,
    MEMORY_MB,
    SHARING,
    VCPU,
    CandidateQuery,
    Inventory,
    RequestGroup,
)
from roost.seeing.rules.limits import UNBOUNDED, Limits, find_limits, find_shorts, within, zero_amounts
from roost.seeing.rules.takes import find_takes, list_clusters, make_plans, sum_rows


def limits_of(cloud: Cloud) -> tuple[Index, Limits]:
    index = cloud.index()
    return index, find_limits(index, queries_of(cloud))


def queries_of(cloud: Cloud) -> list[CandidateQuery]:
    return [build_query(request, limit=1) for request in cloud.requests()]


def sets_of(cloud: Cloud) -> dict[tuple[str, ...], tuple[str, int, int]]:
    """Names of the rows that a limit is of -> (resource class, limit, how many places)."""
    index, limits = limits_of(cloud)
    return {
        tuple(index.names[row] for row in limit_set.rows): (
            limit_set.resource_class, limit_set.limit, len(limit_set.members)
        )
        for limit_set in limits.sets
    }  # fmt: skip


def with_devices(cloud: Cloud, *amounts: int) -> Cloud:
    """Host r0-h0 has devices with so many functions each, below it."""
    root = cloud.providers["r0-h0"]
    for number, amount in enumerate(amounts):
        cloud.add(
            f"dev{number}", parent_id=root.id, root_id=root.id, placement_aggregates=frozenset(),
            inventories={"CUSTOM_VF": Inventory(amount)}, used={"CUSTOM_VF": 0},
        )  # fmt: skip
    return cloud


def test_a_host_is_limited_by_each_class_and_a_segment_by_its_addresses() -> None:
    index, limits = limits_of(racks(3))
    assert limits.classes == (VCPU, MEMORY_MB, DISK_GB, IPV4_ADDRESS)
    assert limits.own.tolist() == [[4, 4], [10**6, 10**6], [10**6, 10**6], [UNBOUNDED, UNBOUNDED]]
    assert limits.most.tolist() == [4, 4]
    assert sets_of(racks(3)) == {("rack0",): (IPV4_ADDRESS, 3, 2)}
    assert [index.names[root] for root in limits.roots] == ["r0-h0", "r0-h1"]


def test_a_segment_of_one_host_is_a_limit_of_its_own() -> None:
    assert sets_of(racks(3, hosts=1)) == {("rack0",): (IPV4_ADDRESS, 3, 1)}


def test_a_disk_that_hosts_share_is_one_limit() -> None:
    cloud = racks(9)
    for name in ("r0-h0", "r0-h1"):
        host = cloud.providers[name]
        cloud.providers[name] = replace(
            host,
            inventories={c: i for c, i in host.inventories.items() if c != DISK_GB},
            used={VCPU: 0, MEMORY_MB: 0},
        )
    # What shares for servers on a network is in the aggregates of the network's segments too.
    cloud.add("disk", inventories={DISK_GB: Inventory(5)}, used={DISK_GB: 0}, traits=frozenset({SHARING}),
              placement_aggregates=frozenset({"a-rack0"}))  # fmt: skip
    assert sets_of(cloud)["disk",] == (DISK_GB, 5, 2)


@pytest.mark.parametrize(
    ("devices", "groups", "isolated", "limit", "choices"),
    [
        ((3, 4), 1, False, 7, 0),  # any function of either
        ((3, 4), 2, False, 3, 0),  # two of seven
        ((3, 4), 2, True, 3, 1),  # of each device one: the order may matter
        ((5,), 2, False, 2, 0),  # two of five, without a choice
    ],
)
def test_devices_of_one_host_are_one_limit_for_parts_that_are_alike(
    devices: tuple[int, ...], groups: int, isolated: bool, limit: int, choices: int
) -> None:
    cloud = with_devices(racks(9, hosts=1), *devices)
    asked = tuple(FlavorGroup(suffix=str(n), resources=(("CUSTOM_VF", 1),)) for n in range(groups))
    cloud.spec = replace(cloud.spec, flavor_groups=asked, isolated=isolated)
    _, limits = limits_of(cloud)
    own = [row.tolist() for name, row in zip(limits.classes, limits.own, strict=True) if name == "CUSTOM_VF"]
    of_devices = [limit_set.limit for limit_set in limits.sets if limit_set.resource_class == "CUSTOM_VF"]
    assert of_devices == [limit] or own == [[limit]]
    assert len(limits.choices) == choices


def test_hosts_that_choose_among_others_are_told() -> None:
    cloud = racks(hosts=0)
    for pool in ("p1", "p2"):
        cloud.add_segment(pool, IPV4_ADDRESS=3)
    cloud.add_network("net", ("p1", (IPV4_ADDRESS,)), ("p2", (IPV4_ADDRESS,)))
    cloud.add_host("one", "a-p1", VCPU=4, **BIG)
    cloud.add_host("both", "a-p1", "a-p2", VCPU=4, **BIG)
    _, limits = limits_of(cloud)
    assert limits.choices == ("hosts choose among p1, p2, and not all of them among the same",)
    assert sets_of(cloud) == {("p1", "p2"): (IPV4_ADDRESS, 6, 2)}


def test_what_an_alternative_of_other_families_takes_of_a_host_is_the_same_limit() -> None:
    """A host on a dual-stack segment and on one with IPv4 alone is two places, of one CPU."""
    cloud = racks(hosts=0, vcpus=1)
    both = (IPV4_ADDRESS, "CUSTOM_IPV6_ADDRESS")
    cloud.add_segment("s1", **dict.fromkeys(both, 5))
    cloud.add_segment("s2", IPV4_ADDRESS=5)
    cloud.add_network("net", ("s1", both), ("s2", (IPV4_ADDRESS,)))
    cloud.add_host("h", "a-s1", "a-s2", VCPU=3, **BIG)
    _, limits = limits_of(cloud)
    assert len(limits.roots) == 2
    assert sets_of(cloud)["h",][2] == 2


def test_limits_within_some_places_are_of_these_alone() -> None:
    _, limits = limits_of(racks(3, 5))
    inner = within(limits, np.array([True, True, False, True]))
    assert (len(inner.roots), inner.own.shape) == (3, (4, 3))
    assert [(s.limit, s.members.tolist()) for s in inner.sets] == [(3, [0, 1]), (5, [2])]
    assert within(limits, np.zeros(4, np.bool_)).sets == ()


def test_amounts_of_zero_ask_who_has_something_at_all() -> None:
    group = RequestGroup(suffix="", resources={VCPU: 2}, in_tree="h")
    (bare,) = zero_amounts(CandidateQuery(groups=(group,), limit=3)).groups
    assert bare == replace(group, resources={VCPU: 0})


@pytest.mark.parametrize(
    ("used", "shorts"),
    [
        ({}, []),
        ({"r0-h0": {VCPU: 4}}, [("r0-h0", VCPU, 1, 0, 1)]),
        ({"rack0": {IPV4_ADDRESS: 3}}, [("rack0", IPV4_ADDRESS, 1, 0, 2)]),
    ],
)
def test_what_is_too_little_is_found_by_row(used: dict[str, dict[str, int]], shorts: list[Any]) -> None:
    cloud = racks(3)
    for name, amounts in used.items():
        cloud.providers[name] = replace(cloud.providers[name], used={**cloud.providers[name].used, **amounts})
    index = cloud.index()
    (query,) = queries_of(cloud)
    shorts_there = find_shorts(index, query, zero_amounts(query))
    told = [(index.names[s.rows[0]], s.resource_class, s.needed, s.free, len(s.members)) for s in shorts_there]
    assert told == shorts


def test_takes_are_edges_or_choices() -> None:
    cloud = with_devices(racks(9, hosts=1), 3, 4)
    cloud.spec = replace(cloud.spec, flavor_groups=(FlavorGroup(suffix="1", resources=(("CUSTOM_VF", 1),)),))
    index = cloud.index()
    plans = [make_plans(index, query, zero_amounts(query)) for query in queries_of(cloud)]
    takes = find_takes(index, plans, [np.flatnonzero(index.trees().hosts)])
    rows = sum_rows(index, takes)
    told = {
        (index.names[r], takes.classes[n]): rows.members_of(at).tolist()
        for at, (r, n) in enumerate(zip(rows.rows, rows.names, strict=True))
    }
    assert told == {("r0-h0", name): [0] for name in (VCPU, MEMORY_MB, DISK_GB)} | {("rack0", IPV4_ADDRESS): [0]}
    (cluster,) = list_clusters(index, takes)
    assert ([index.names[row] for row in cluster.rows], cluster.units, cluster.needed) == (["dev0", "dev1"], 7, 1)
