"""Query strings of the Placement API."""

import pytest

from roost.placement.errors import QueryMalformed
from roost.placement.query import parse_candidates
from roost.seams.placement import CandidateQuery, RequestGroup

ONE, TWO = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"


def test_groups_are_read_with_the_unsuffixed_one_first() -> None:
    parsed = parse_candidates(
        [
            ("resources_nic0", "IPV4_ADDRESS:1"),
            ("member_of_nic0", f"in:{ONE},{TWO.replace('-', '').upper()}"),
            ("in_tree_nic0", ONE),
            ("resources", "VCPU:2,MEMORY_MB:512"),
            ("required", "CUSTOM_A,!CUSTOM_B"),
            ("required", "in:CUSTOM_C,CUSTOM_D"),
            ("member_of", ONE),
            ("member_of", f"!in:{TWO}"),
            ("limit", "10"),
        ]
    )
    assert parsed == CandidateQuery(
        groups=(
            RequestGroup(
                suffix="", resources={"VCPU": 2, "MEMORY_MB": 512},
                required=(frozenset({"CUSTOM_A"}), frozenset({"CUSTOM_C", "CUSTOM_D"})),
                forbidden=frozenset({"CUSTOM_B"}), member_of=(frozenset({ONE}),), forbidden_aggregates=frozenset({TWO}),
            ),
            RequestGroup(
                suffix="_nic0", resources={"IPV4_ADDRESS": 1}, member_of=(frozenset({ONE, TWO}),), in_tree=ONE
            ),
        ),
        limit=10,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("pairs", "key"),
    [
        ([("resources", "VCPU:x")], "resources"),
        ([("resources", "vcpu:1")], "resources"),
        ([("resources", "VCPU:99999999999")], "resources"),
        ([("required", "CUSTOM_A")], "resources"),
        ([("resources", "VCPU:1"), ("required1", "CUSTOM_A")], "resources1"),
        ([("resources", "VCPU:1"), ("required", "CUSTOM_A,!CUSTOM_A")], "required"),
        ([("resources", "VCPU:1"), ("required", "in:!CUSTOM_A")], "required"),
        ([("resources", "VCPU:1"), ("member_of", "in:")], "member_of"),
        ([("resources", "VCPU:1"), ("limit", "0")], "limit"),
        ([("resources", "VCPU:1"), ("group_policy", "some")], "group_policy"),
        ([("resources", "VCPU:1"), ("same_subtree", "_a")], "same_subtree"),
    ],
)
def test_a_malformed_parameter_is_named(pairs: list[tuple[str, str]], key: str) -> None:
    with pytest.raises(QueryMalformed) as refused:
        parse_candidates(pairs)
    assert refused.value.key == key
    assert refused.value.expected in str(refused.value)
