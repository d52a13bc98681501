"""Changes of a cloud on a copy of its index, one kind after the other, and the clouds that would be."""

from random import Random

import pytest
from msgspec.structs import replace
from tests.seeing.clouds import DEFAULTS, Cloud
from tests.seeing.test_capacity import racks

from roost.placement.search.index import Index
from roost.platform.errors import NotFound
from roost.scheduling.host_aggregates import NOTHING_ASKED
from roost.seams.compute import RequestSpec
from roost.seams.placement import DISABLED, IPV4_ADDRESS, IPV6_ADDRESS, VCPU
from roost.seeing.rules.changes import Change, ChangeKind, grown, make, read_row
from roost.seeing.rules.nearest import find_nearest, show_amounts
from roost.seeing.rules.questions import build_question
from roost.seeing.rules.remedies import find_remedies
from roost.seeing.rules.trials import boot_all, count_alike, place, place_all
from roost.seeing.rules.what_if import HostsAdded, SegmentGrown, SegmentNamed, WhatIf, change


def full_host() -> Cloud:
    cloud = racks(3, hosts=1)
    host = cloud.providers["r0-h0"]
    cloud.providers["r0-h0"] = replace(host, traits=frozenset({DISABLED}), used={**host.used, VCPU: 4})
    return cloud


@pytest.mark.parametrize(
    ("kind", "place_changed", "more", "field", "value"),
    [
        (ChangeKind.OPEN_HOST, "r0-h0", {}, "traits", frozenset()),
        (ChangeKind.FREE_ON_HOST, "r0-h0", {"amounts": ((VCPU, 3),)}, "used", 1),
        (ChangeKind.RAISE_RATIO, "r0-h0", {"amounts": ((VCPU, 4),), "ratio": 2.0}, "inventories", 8),
        (ChangeKind.GROW_SEGMENT, "rack0", {"amounts": ((IPV4_ADDRESS, 2),)}, "inventories", 5),
        (ChangeKind.REACH_SEGMENT, "r0-h0", {"placement_aggregate": "x"}, "placement_aggregates", {"a-rack0", "x"}),
    ],
)
def test_a_change_does_what_it_says_and_nothing_else(
    kind: ChangeKind, place_changed: str, more: dict[str, object], field: str, value: object
) -> None:
    index = full_host().index()
    row = index.row_by_uuid[place_changed]
    before = read_row(index, row)
    make(index, [Change(kind=kind, provider_uuid=place_changed, place=place_changed, **more)])  # type: ignore[arg-type]
    after = read_row(index, row)
    assert [name for name in after.__struct_fields__ if getattr(after, name) != getattr(before, name)] == [field]
    told = getattr(after, field)
    if field == "used":
        told = told[VCPU]
    elif field == "inventories":
        told = told[VCPU if VCPU in told else IPV4_ADDRESS].capacity
    assert told == value


def test_what_has_grown_gives_as_much_in_one_claim() -> None:
    index = racks(3).index()
    provider = read_row(index, index.row_by_uuid["rack0"])
    assert grown(provider, {IPV4_ADDRESS: 2}).inventories[IPV4_ADDRESS].max_unit == 5


@pytest.mark.parametrize(
    ("amounts", "words"),
    [
        ([(VCPU, 1)], "1 VCPU"),
        ([(IPV4_ADDRESS, 1)], "1 address"),
        ([(IPV4_ADDRESS, 3)], "3 addresses"),
        ([(IPV6_ADDRESS, 1)], "1 IPv6 address"),
        ([(IPV4_ADDRESS, 1), (IPV6_ADDRESS, 2)], "1 IPv4 address and 2 IPv6 addresses"),
        ([(VCPU, 2), ("CUSTOM_GPU", 1), (IPV4_ADDRESS, 1)], "2 VCPUs, 1 CUSTOM_GPU and 1 address"),
    ],
)
def test_amounts_are_told_with_the_family_where_it_is_not_ipv4_alone(
    amounts: list[tuple[str, int]], words: str
) -> None:
    assert show_amounts(amounts) == words


def test_what_is_nearest_comes_first_and_its_change_is_what_helps() -> None:
    cloud = racks(0, 5, hosts=1)
    host = cloud.providers["r1-h0"]
    cloud.providers["r1-h0"] = replace(host, used={**host.used, VCPU: 3})
    requests, index = cloud.requests(vcpus=2), cloud.index()
    nearest = find_nearest(index, requests)
    assert [near.hosts for near in nearest] == [("r1-h0",), ("r0-h0",)]
    assert nearest[0].distance < nearest[1].distance
    ((free,), (grow,)) = find_remedies(index, requests, nearest, Random(1), DEFAULTS)
    assert (free.kind, free.place, grow.kind, grow.place) == (
        ChangeKind.FREE_ON_HOST, "r1-h0", ChangeKind.GROW_SEGMENT, "rack0",
    )  # fmt: skip


def test_servers_are_placed_some_all_at_once_or_one_by_one() -> None:
    cloud = racks(3, 2)
    for placing, count in (
        (place(cloud.index(), cloud.requests(), 2, Random(1), DEFAULTS), 2),
        (place(cloud.index(), cloud.requests(), 9, Random(1), DEFAULTS), 5),
        (place_all(cloud.index(), cloud.requests(), Random(1), DEFAULTS), 5),
        (boot_all(cloud.index(), cloud.requests(), Random(1), DEFAULTS), 5),
    ):
        assert len(placing) == count
        assert sum(servers for _, servers in count_alike(placing)) == count


def test_a_question_is_what_a_new_server_asks() -> None:
    cloud = racks(3)
    question = build_question(
        "flavor x", RequestSpec(vcpus=1, memory_mb=1, disk_gb=1), [cloud.networks["net"]], NOTHING_ASKED, DEFAULTS
    )
    assert [request.groups for request in question.possible] == [request.groups for request in cloud.requests()]


def what_would_be(what_if: WhatIf) -> tuple[Index, list[str]]:
    cloud = racks(3, 5, hosts=2)
    index = cloud.index()
    return index, change(index, what_if, [cloud.networks[name] for name in what_if.networks])


def test_a_cloud_that_would_be_is_made_of_all_that_is_said() -> None:
    what_if = WhatIf(
        hosts=(HostsAdded(names=("n1", "n2"), like="r0-h0", vcpus=9),),
        segments=(SegmentGrown(network="net", segment="rack0", addresses=7),),
        drained=("r0-h1",),
        drained_segments=(SegmentNamed(network="net", segment="rack1"),),
    )
    assert what_if.networks == ["net"]
    index, drained = what_would_be(what_if)
    assert drained == ["r0-h1", "r1-h0", "r1-h1"]
    assert index.inventories[index.row_by_uuid["rack0"]][IPV4_ADDRESS].total == 10
    assert {index.names[row] for row in index.rows_in_aggregate("a-rack0").tolist()} >= {"n1", "n2"}


@pytest.mark.parametrize(
    ("what_if", "words"),
    [
        (WhatIf(hosts=(HostsAdded(names=("n",), like="x"),)), "Compute host x could not be found."),
        (WhatIf(drained=("x", "r0-h0")), "Compute host x could not be found."),
        (
            WhatIf(segments=(SegmentGrown(network="net", segment="x", addresses=1),)),
            "one of its segments: rack0, rack1",
        ),
        (WhatIf(drained_segments=(SegmentNamed(network="net"),)), "one of its segments: rack0, rack1"),
    ],
)
def test_what_there_is_not_is_told(what_if: WhatIf, words: str) -> None:
    with pytest.raises(NotFound) as refused:
        what_would_be(what_if)
    assert words in str(refused.value)
