"""The answer to a query for candidates, in the shape of every microversion, and what is kept of it between two."""

from typing import Any

import msgspec
import pytest
from tests.placement.worlds import host, index_of, provider, segment

from roost.placement.model import Usage
from roost.placement.search.answers import encode
from roost.placement.search.candidates import gather
from roost.placement.search.index import Delta, Index
from roost.placement.search.narrowing import make_plan
from roost.placement.search.query import decode_pairs, parse_candidates
from roost.seams.placement import DISK_GB, IPV4_ADDRESS, MEMORY_MB, SHARING, VCPU


def answer(index: Index, query_string: str, version: int) -> Any:
    query = parse_candidates(decode_pairs(query_string.encode()), (1, version))
    plan = make_plan(index, query)
    return msgspec.json.decode(encode(index, plan, gather(index, plan, limit=query.limit), (1, version)))


def numa_host() -> Index:
    """p1 with NUMA nodes p2, p3 below it, and a segment p10."""
    return index_of(
        provider(
            1, totals={MEMORY_MB: 64}, placement_aggregates=frozenset("a"), traits=frozenset({"B", "CUSTOM_A", "A"})
        ),
        provider(2, totals={VCPU: 4}, parent_id=1, root_id=1),
        provider(3, totals={VCPU: 4}, used={VCPU: 1}, parent_id=2, root_id=1),
        segment(10, "a", addresses=5, used=2),
    )


FLAT = index_of(host(1, "a"), segment(10, "a", addresses=5, used=2))


@pytest.mark.parametrize(
    ("version", "request_"),
    [
        (10, {"allocations": [{"resource_provider": {"uuid": "p1"}, "resources": {VCPU: 2, DISK_GB: 1}},
                              {"resource_provider": {"uuid": "p10"}, "resources": {IPV4_ADDRESS: 1}}]}),
        (11, {"allocations": [{"resource_provider": {"uuid": "p1"}, "resources": {VCPU: 2, DISK_GB: 1}},
                              {"resource_provider": {"uuid": "p10"}, "resources": {IPV4_ADDRESS: 1}}]}),
        (12, {"allocations": {"p1": {"resources": {VCPU: 2, DISK_GB: 1}}, "p10": {"resources": {IPV4_ADDRESS: 1}}}}),
        (33, {"allocations": {"p1": {"resources": {VCPU: 2, DISK_GB: 1}}, "p10": {"resources": {IPV4_ADDRESS: 1}}}}),
        (34, {"allocations": {"p1": {"resources": {VCPU: 2, DISK_GB: 1}}, "p10": {"resources": {IPV4_ADDRESS: 1}}},
              "mappings": {"": ["p1", "p10"]}}),
    ],
)  # fmt: skip
def test_a_candidate_has_the_shape_of_its_microversion(version: int, request_: Any) -> None:
    found = answer(FLAT, "resources=VCPU:2,DISK_GB:1,IPV4_ADDRESS:1", version)
    assert found["allocation_requests"] == [request_]


ASKED = {"resources": {VCPU: {"capacity": 8, "used": 0}}}
ALL = {"resources": {name: {"capacity": total, "used": 0} for name, total in ((VCPU, 8), (MEMORY_MB, 4096), (DISK_GB, 100))}}  # noqa: E501  # fmt: skip


@pytest.mark.parametrize(
    ("version", "summary"),
    [
        (12, ASKED),
        (16, ASKED),
        (17, {**ASKED, "traits": []}),
        (26, {**ASKED, "traits": []}),
        (27, {**ALL, "traits": []}),
        (28, {**ALL, "traits": []}),
        (29, {**ALL, "traits": [], "parent_provider_uuid": None, "root_provider_uuid": "p1"}),
        (39, {**ALL, "traits": [], "parent_provider_uuid": None, "root_provider_uuid": "p1"}),
    ],
)
def test_a_summary_has_the_shape_of_its_microversion(version: int, summary: Any) -> None:
    assert answer(FLAT, "resources=VCPU:1", version)["provider_summaries"] == {"p1": summary}


def test_the_whole_tree_is_summarized_from_1_29_on_and_only_what_is_used_before() -> None:
    index = numa_host()
    found = answer(index, "resources=VCPU:4,IPV4_ADDRESS:1", 29)
    assert [list(one["allocations"]) for one in found["allocation_requests"]] == [["p2", "p10"]]
    assert list(found["provider_summaries"]) == ["p1", "p2", "p3", "p10"]
    assert found["provider_summaries"]["p3"] == {
        "resources": {VCPU: {"capacity": 4, "used": 1}}, "traits": [], "parent_provider_uuid": "p2",
        "root_provider_uuid": "p1",
    }  # fmt: skip
    assert found["provider_summaries"]["p1"]["traits"] == ["A", "B", "CUSTOM_A"]
    assert found["provider_summaries"]["p10"]["traits"] == [SHARING]
    assert list(answer(index, "resources=VCPU:4,IPV4_ADDRESS:1", 28)["provider_summaries"]) == ["p2", "p10"]


def test_before_1_29_providers_of_one_tree_are_not_combined() -> None:
    index = numa_host()
    assert answer(index, "resources=VCPU:1,MEMORY_MB:1", 28) == {"allocation_requests": [], "provider_summaries": {}}
    assert len(answer(index, "resources=VCPU:1,MEMORY_MB:1", 29)["allocation_requests"]) == 2
    assert len(answer(index, "resources=VCPU:1", 28)["allocation_requests"]) == 2


def test_a_group_without_resources_is_in_the_mappings_alone() -> None:
    found = answer(numa_host(), "resources_c=VCPU:1&required_r=A&same_subtree=_c,_r&resources_n=IPV4_ADDRESS:1"
                   "&group_policy=none", 36)  # fmt: skip
    assert found["allocation_requests"] == [
        {
            "allocations": {numa: {"resources": {VCPU: 1}}, "p10": {"resources": {IPV4_ADDRESS: 1}}},
            "mappings": {"_c": [numa], "_r": ["p1"], "_n": ["p10"]},
        }
        for numa in ("p2", "p3")
    ]


def test_a_tree_that_gives_no_resources_is_not_summarized() -> None:
    found = answer(numa_host(), "resources_n=IPV4_ADDRESS:1&required_r=A&same_subtree=_r&group_policy=none", 36)
    assert [one["mappings"] for one in found["allocation_requests"]] == [{"_n": ["p10"], "_r": ["p1"]}]
    assert list(found["provider_summaries"]) == ["p10"]


def test_hosts_with_a_disk_of_their_own_and_hosts_with_a_shared_one_are_answered_together() -> None:
    with_disk = [provider(number, totals={VCPU: 4, DISK_GB: 9}) for number in range(1, 41)]
    without = [provider(number, totals={VCPU: 4}, placement_aggregates=frozenset("a")) for number in range(41, 81)]
    shared = provider(99, totals={DISK_GB: 999}, placement_aggregates=frozenset("a"), traits=frozenset({SHARING}))
    found = answer(index_of(*with_disk, *without, shared), "resources=VCPU:1,DISK_GB:2", 39)
    assert {tuple(one["mappings"][""]) for one in found["allocation_requests"]} == {
        *((f"p{number}",) for number in range(1, 41)), *((f"p{number}", "p99") for number in range(41, 81)),
    }  # fmt: skip
    for one in found["allocation_requests"]:
        assert sorted(name for held in one["allocations"].values() for name in held["resources"]) == [DISK_GB, VCPU]


def test_groups_on_one_provider_are_added_up_and_old_clients_see_every_mapping_too() -> None:
    query = "resources=VCPU:1&resources1=VCPU:2&resources2=VCPU:2&group_policy=none"
    one = index_of(provider(1, totals={VCPU: 5}))
    assert answer(one, query, 34)["allocation_requests"] == [
        {"allocations": {"p1": {"resources": {VCPU: 5}}}, "mappings": {"": ["p1"], "1": ["p1"], "2": ["p1"]}}
    ]
    pair = "resources1=VCPU:1&resources2=VCPU:1&group_policy=isolate"
    two = numa_host()
    assert [found["mappings"] for found in answer(two, pair, 34)["allocation_requests"]] == [
        {"1": ["p2"], "2": ["p3"]}, {"1": ["p3"], "2": ["p2"]},
    ]  # fmt: skip
    old = answer(two, pair, 33)["allocation_requests"]
    assert len(old) == 2, "alike as they look: upstream shows both, and its clients count them"
    assert old[0]["allocations"] == old[1]["allocations"]


@pytest.mark.parametrize("version", [12, 28, 39])
def test_a_summary_follows_its_provider(version: int) -> None:
    def seen() -> tuple[int, int]:
        of_host = answer(index, "resources=VCPU:1", version)["provider_summaries"]["p1"]
        return of_host["resources"][VCPU]["used"], len(of_host.get("traits", ()))

    index = index_of(host(1))
    assert seen() == (0, 0)
    index.apply(Delta(usages=[Usage(1, 1, {VCPU: 3})]))
    assert seen() == (3, 0)
    index.apply(Delta(providers=[host(1, traits=frozenset({"A"}))]))
    assert seen() == (0, 1 if version > 16 else 0)
    index.apply(Delta(deleted=[1]))
    index.apply(Delta(providers=[provider(2, totals={VCPU: 1})]))
    assert list(answer(index, "resources=VCPU:1", version)["provider_summaries"]) == ["p2"]


def test_many_hosts_are_answered_alike_with_a_limit_and_without() -> None:
    hosts = [host(number, "ab"[number % 2]) for number in range(1, 101)]
    index = index_of(*hosts, segment(200, "a", addresses=50), segment(201, "b", addresses=50))
    query = "resources=VCPU:1,IPV4_ADDRESS:1&resources1=DISK_GB:1"
    everything = answer(index, query, 39)
    assert len(everything["allocation_requests"]) == 100
    for found in everything["allocation_requests"]:
        assert found["mappings"][""][:1] == found["mappings"]["1"]
        number = int(found["mappings"]["1"][0][1:])
        assert found["mappings"][""][1] == f"p{200 + number % 2}"
    for limit in (1, 10, 60, 99, 100, 101):
        some = answer(index, f"{query}&limit={limit}", 39)
        assert len(some["allocation_requests"]) == min(limit, 100)
        assert all(found in everything["allocation_requests"] for found in some["allocation_requests"])
        used = {uuid for found in some["allocation_requests"] for uuid in found["allocations"]}
        assert some["provider_summaries"].keys() == used
