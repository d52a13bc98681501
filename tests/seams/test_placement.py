"""Sums of allocations, capacity, and the claim of a consumer that is there already."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.seams.placement import (
    CAPACITY_MAX,
    Allocations,
    ConsumerState,
    FunnelStep,
    Inventory,
    Requirement,
    add_allocations,
    covers_allocations,
    same_allocations,
    show_allocations,
    subtract_allocations,
)


@pytest.mark.parametrize(
    ("inventory", "capacity"),
    [
        (Inventory(8), 8),
        (Inventory(8, reserved=3), 5),
        (Inventory(8, reserved=8), 0),
        (Inventory(8, allocation_ratio=1.5), 12),
        (Inventory(8, reserved=1, allocation_ratio=0.5), 3),  # whole units
        (Inventory(2**31 - 1, allocation_ratio=1e300), CAPACITY_MAX),
    ],
)
def test_capacity_is_what_is_not_reserved_by_its_ratio_in_whole_units(inventory: Inventory, capacity: int) -> None:
    assert inventory.capacity == capacity


def test_a_consumer_claims_something_else_at_the_generation_at_which_it_was_read() -> None:
    state = ConsumerState(
        consumer_uuid="c", generation=3, consumer_type="PORT", project_id="p", user_id="u",
        allocations={"host": {"VCPU": 1}},
    )  # fmt: skip
    claim = state.claiming({"segment": {"IPV4_ADDRESS": 1}})
    assert claim.allocations == {"segment": {"IPV4_ADDRESS": 1}}
    assert (claim.generation, claim.any_generation) == (3, False)
    assert (claim.consumer_uuid, claim.consumer_type, claim.project_id, claim.user_id) == ("c", "PORT", "p", "u")


HOST = {"host": {"VCPU": 2, "DISK_GB": 9}}
SEGMENT = {"segment": {"IPV4_ADDRESS": 1}}


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        ((), {}),
        ((HOST,), HOST),
        ((HOST, SEGMENT), {**HOST, **SEGMENT}),
        ((HOST, {"host": {"VCPU": 1}}), {"host": {"VCPU": 3, "DISK_GB": 9}}),
        ((SEGMENT, SEGMENT, SEGMENT), {"segment": {"IPV4_ADDRESS": 3}}),
    ],
    ids=["of nothing", "of one", "of two providers", "of one class", "of three"],
)
def test_allocations_add_up(parts: tuple[Allocations, ...], total: Allocations) -> None:
    assert add_allocations(*parts) == total
    assert HOST == {"host": {"VCPU": 2, "DISK_GB": 9}}, "what was given is as it was"


@pytest.mark.parametrize(
    ("allocations", "words"),
    [
        ({}, "nothing"),
        (HOST, "2 VCPU of host, 9 DISK_GB of host"),
        ({**SEGMENT, **HOST}, "2 VCPU of host, 9 DISK_GB of host, 1 IPV4_ADDRESS of segment"),
    ],
    ids=["nothing", "of one", "by provider"],
)
def test_allocations_are_said_by_provider(allocations: Allocations, words: str) -> None:
    assert show_allocations(allocations) == words


@pytest.mark.parametrize(
    ("part", "left"),
    [
        ({}, HOST),
        (HOST, {}),
        ({"host": {"VCPU": 1}}, {"host": {"VCPU": 1, "DISK_GB": 9}}),
        ({"host": {"VCPU": 2}}, {"host": {"DISK_GB": 9}}),
    ],
    ids=["nothing", "all of it", "some of a class", "a class"],
)
def test_what_is_left_has_no_amounts_of_zero(part: Allocations, left: Allocations) -> None:
    assert subtract_allocations(HOST, part) == left


@pytest.mark.parametrize(
    ("whole", "part", "covers"),
    [
        ({}, {}, True),
        (HOST, {}, True),
        (HOST, HOST, True),
        (HOST, {"host": {"VCPU": 1}}, True),
        (HOST, {"host": {"VCPU": 3}}, False),
        (HOST, {"host": {"MEMORY_MB": 1}}, False),
        (HOST, SEGMENT, False),
        ({}, {"host": {"VCPU": 0}}, True),
        ({"host": {"VCPU": 0}}, {}, True),
    ],
)
def test_allocations_cover_what_is_no_more_than_they_are(whole: Allocations, part: Allocations, covers: bool) -> None:
    assert covers_allocations(whole, part) == covers
    assert same_allocations(whole, part) == (covers and covers_allocations(part, whole))
    assert same_allocations(part, whole) == same_allocations(whole, part)


some_allocations = st.dictionaries(
    st.sampled_from("abc"), st.dictionaries(st.sampled_from("xyz"), st.integers(1, 9), min_size=1)
)


@given(some_allocations, some_allocations)
def test_what_was_added_can_be_taken_away_again(one: Allocations, other: Allocations) -> None:
    assert subtract_allocations(add_allocations(one, other), other) == one
    assert add_allocations(one, other) == add_allocations(other, one)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (FunnelStep(requirement=Requirement.HOSTS), "hosts"),
        (FunnelStep(requirement=Requirement.INVENTORY, names=("VCPU", "DISK_GB")), "inventory of VCPU and DISK_GB"),
        (FunnelStep(requirement=Requirement.INVENTORY), "inventory of nothing"),
        (FunnelStep(requirement=Requirement.TRAIT, names=("A", "B")), "trait A or B"),
        (FunnelStep(requirement=Requirement.FREE, names=("VCPU",), amount=2), "2 VCPU free"),
        (FunnelStep(requirement=Requirement.FREE, names=("VCPU",), amount=2, suffix="_1"), "2 VCPU free (group _1)"),
        (FunnelStep(requirement=Requirement.SAME_SUBTREE, names=("_1", "_2")), "groups _1 and _2 in one subtree"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_step_of_a_funnel_is_described_in_placements_words(step: FunnelStep, words: str) -> None:
    assert step.describe() == words
