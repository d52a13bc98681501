"""What `explain` says of small clouds: the sentence, the nearest hosts with what each lacks, and what would help."""

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.seeing.clouds import DEFAULTS, FAST, Cloud
from tests.seeing.test_capacity import BIG, racks

from roost.scheduling.host_aggregates import AggregatesAsked
from roost.seams.compute import FlavorGroup, ForcedHost, RequestSpec
from roost.seams.placement import IPV4_ADDRESS, IPV6_ADDRESS, VCPU
from roost.seeing.rules.explanations import Explained, SegmentServed, explain_servers
from roost.seeing.rules.questions import Question
from roost.seeing.rules.remedies import describe

FAST_ASKED = f"trait {FAST} that the flavor requires"


def explain(cloud: Cloud, *, count: int = 1, **spec: Any) -> Explained:
    cloud.spec = replace(cloud.spec, **spec)
    question = Question("flavor small", tuple(cloud.requests()))
    return explain_servers(cloud.index(), question, Random(1), DEFAULTS, count=count)


def use(cloud: Cloud, provider: str, **used: int) -> None:
    cloud.providers[provider] = replace(cloud.providers[provider], used={**cloud.providers[provider].used, **used})


def nearest(explained: Explained) -> list[str]:
    return ["; ".join(f"{lack.place}: {lack.words}" for lack in near.lacks) for near in explained.nearest]


def remedies(explained: Explained) -> list[str]:
    return [" and ".join(map(describe, remedy)) for remedy in explained.remedies]


def test_what_fits_says_where() -> None:
    explained = explain(racks(3, 0), count=3)
    assert (explained.served, explained.message) == (3, "All 3 fit.")
    assert explained.segments == (SegmentServed("net", "rack0", 3),)
    assert sum(explained.hosts.values()) == 3
    assert explained.funnel[-2:] == (("with a free address on network net", 2), ("with all of it together", 2))
    assert explained.remedies == explained.nearest == ()


def test_a_host_that_lacks_a_vcpu_and_a_segment_that_lacks_an_address_are_both_named() -> None:
    cloud = racks(3, 0, hosts=1)
    use(cloud, "r0-h0", VCPU=3)
    explained = explain(cloud, vcpus=2)
    assert nearest(explained) == ["r0-h0: 1 VCPU", "rack1: 1 address"]
    assert "1 host of segment rack1 has 2 VCPUs free but not a free address on network net" in explained.message
    assert remedies(explained) == ["free 1 VCPU on host r0-h0", "give segment rack1 of network net 1 address more"]


def test_of_several_servers_the_segments_lack_addresses_for_all_the_others() -> None:
    explained = explain(racks(2), count=5)
    assert explained.served == 2
    assert nearest(explained) == ["rack0: 3 addresses"]
    assert remedies(explained) == ["give segment rack0 of network net 3 addresses more"]
    assert explained.message.startswith("2 of 5 fit. Of the next: No valid host was found")


def test_a_closed_host_is_the_cheapest_to_have() -> None:
    cloud = racks(9, hosts=1, vcpus=1)
    use(cloud, "r0-h0", VCPU=1)
    cloud.add_host("spare", "a-rack0", open=False, VCPU=4, **BIG)
    explained = explain(cloud)
    assert nearest(explained) == ["r0-h0: 1 VCPU", "spare: closed"]
    assert remedies(explained) == ["open host spare", "free 1 VCPU on host r0-h0"]


def test_where_vcpus_are_overcommitted_the_ratio_is_a_limit_that_may_be_raised() -> None:
    cloud = racks(9, hosts=0)
    cloud.add_host("h", "a-rack0", ratio=1.5, VCPU=4, **BIG)
    use(cloud, "h", VCPU=5)
    assert remedies(explain(cloud, vcpus=2)) == [
        "free 1 VCPU on host h",
        "raise the allocation ratio of VCPU on host h to 1.75",
    ]


def test_two_changes_are_proposed_where_none_alone_helps() -> None:
    cloud = racks(0, hosts=1)
    use(cloud, "r0-h0", VCPU=4)
    explained = explain(cloud)
    assert nearest(explained) == ["rack0: 1 address; r0-h0: 1 VCPU"]
    assert remedies(explained) == ["give segment rack0 of network net 1 address more and free 1 VCPU on host r0-h0"]


def test_nothing_is_proposed_where_nothing_would_help() -> None:
    explained = explain(racks(9), vcpus=64)
    assert nearest(explained) == [f"r0-h{n}: one server gets at most 4 VCPUs" for n in (0, 1)]
    assert remedies(explained) == []


def test_a_resource_that_nobody_has_is_one_sentence() -> None:
    explained = explain(racks(9), flavor_groups=(FlavorGroup(suffix="", resources=(("CUSTOM_FPGA", 1),)),))
    assert explained.message == "No host has any CUSTOM_FPGA, which flavor small asks for."
    assert explained.funnel == explained.nearest == explained.remedies == ()


@pytest.mark.parametrize(
    ("spec", "lack"),
    [
        ({"flavor_groups": (FlavorGroup(suffix="", required=frozenset({FAST})),)}, f"no {FAST_ASKED}"),
        ({"forced_host": ForcedHost(name="r1-h0", provider_uuid="r1-h0")}, "not named r1-h0"),
    ],
)  # fmt: skip
def test_what_a_host_is_not_is_said_in_the_operators_words(spec: dict[str, Any], lack: str) -> None:
    cloud = racks(9, 0, hosts=1)
    assert f"r0-h0: {lack}" in nearest(explain(cloud, **spec))


def test_a_zone_and_a_network_out_of_reach_are_lacks() -> None:
    cloud = racks(9, hosts=1)
    cloud.add_host("lone", VCPU=4, **BIG)
    cloud.aggregates = AggregatesAsked(zone="az1", zone_aggregates=frozenset({"none"}))
    assert nearest(explain(cloud)) == [
        "r0-h0: not in availability zone az1",
        "lone: not in availability zone az1; lone: does not reach network net",
    ]


def test_both_families_of_a_segment_are_one_lack() -> None:
    cloud = Cloud(spec=RequestSpec(vcpus=1, memory_mb=1, disk_gb=1), nics=("net",))
    cloud.add_segment("rack0", used=2, IPV4_ADDRESS=2, CUSTOM_IPV6_ADDRESS=2)
    cloud.add_network("net", ("rack0", (IPV4_ADDRESS, IPV6_ADDRESS)))
    cloud.add_host("h", "a-rack0", VCPU=4, **BIG)
    explained = explain(cloud)
    assert nearest(explained) == ["rack0: 1 IPv4 address and 1 IPv6 address"]
    assert remedies(explained) == ["give segment rack0 of network net 1 IPv4 address and 1 IPv6 address more"]


def test_the_index_is_left_as_it_was() -> None:
    cloud = racks(2)
    index = cloud.index()
    question = Question("flavor small", tuple(cloud.requests()))
    first = explain_servers(index, question, Random(1), DEFAULTS, count=5)
    assert explain_servers(index, question, Random(1), DEFAULTS, count=5) == first
    assert index.used[index.row_by_uuid["rack0"]] == {IPV4_ADDRESS: 0}
    assert index.column(VCPU).most.max() == 4
