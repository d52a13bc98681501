"""Which rows fit a group by themselves, and which trees they reach: one requirement at a time."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from tests.placement.naive import allowed, fits
from tests.placement.worlds import RANDOM, a_group, a_world, host, index_of, provider, segment

from roost.placement.search.index import Mask
from roost.placement.search.narrowing import AGGREGATE_COST_ROWS, fitting, make_plan, reached_trees
from roost.seams.placement import SHARING, VCPU, CandidateQuery, RequestGroup


def numbers(mask: Mask) -> set[int]:
    return set(np.flatnonzero(mask).tolist())


def mask_of(rows: int, *marked: int) -> Mask:
    mask = np.zeros(rows, np.bool_)
    mask[list(marked)] = True
    return mask


WORLD = (
    host(1, "a", vcpu=2, traits=frozenset({"X"})),
    host(2, "b", vcpu=4, traits=frozenset({"Y"})),
    host(3, "a", "b", vcpu=8, parent_id=2, root_id=2, traits=frozenset({"X", "Y"})),
    provider(4),
)


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        pytest.param({}, {0, 1, 2, 3}, id="nothing is asked of every provider"),
        pytest.param({"resources": {VCPU: 4}}, {1, 2}, id="so much is free"),
        pytest.param({"resources": {VCPU: 1, "CUSTOM_NONE": 1}}, set(), id="a class that nobody has"),
        pytest.param({"required": (frozenset("X"),)}, {0, 2}, id="a trait"),
        pytest.param({"required": (frozenset("XY"),)}, {0, 1, 2}, id="one of two traits"),
        pytest.param({"required": (frozenset("X"), frozenset("Y"))}, {2}, id="both traits"),
        pytest.param({"required": (frozenset({"NOBODYS"}),)}, set(), id="a trait that nobody has"),
        pytest.param({"forbidden": frozenset("X")}, {1, 3}, id="without a trait"),
        pytest.param({"forbidden": frozenset("XY")}, {3}, id="without any of two traits"),
        pytest.param({"member_of": (frozenset("a"),)}, {0, 2}, id="in an aggregate"),
        pytest.param({"member_of": (frozenset("ab"),)}, {0, 1, 2}, id="in one of two aggregates"),
        pytest.param({"member_of": (frozenset("a"), frozenset("b"))}, {2}, id="in both aggregates"),
        pytest.param({"forbidden_aggregates": frozenset("b")}, {0, 3}, id="outside an aggregate"),
        pytest.param({"in_tree": "p1"}, {0}, id="in a tree of one"),
        pytest.param({"in_tree": "p3"}, {1, 2}, id="in the tree of a child"),
        pytest.param({"in_tree": "p99"}, set(), id="in the tree of nobody"),
        pytest.param({"resources": {VCPU: 3}, "required": (frozenset("Y"),), "forbidden": frozenset("X")}, {1},
                     id="all of it at once"),
    ],
)  # fmt: skip
def test_a_provider_fits_a_group_that_it_satisfies_alone(fields: dict, rows: set[int]) -> None:
    group = RequestGroup(**{"suffix": "_1", "resources": {}, **fields})
    assert numbers(fitting(index_of(*WORLD), group)) == rows


@pytest.mark.parametrize("hosts", [1, AGGREGATE_COST_ROWS, AGGREGATE_COST_ROWS + 1, 5 * AGGREGATE_COST_ROWS])
def test_aggregates_are_the_same_by_rows_and_by_aggregates(hosts: int) -> None:
    world = [host(number, "ab"[number % 2]) for number in range(hosts)]
    group = RequestGroup(suffix="_1", resources={VCPU: 1}, member_of=(frozenset({"a", "z"}),))
    assert numbers(fitting(index_of(*world), group)) == set(range(0, hosts, 2))


@settings(max_examples=100, deadline=None)
@given(RANDOM)
def test_a_provider_fits_as_by_looking_at_each(random: Random) -> None:
    world, group = a_world(random), a_group(random, "_1")
    index, by_uuid = index_of(*world), {one.uuid: one for one in world}
    roots = {one.id: one for one in world if one.parent_id is None}
    assert {index.uuids[row] for row in numbers(fitting(index, group))} == {
        one.uuid
        for one in world
        if fits(one, group.resources) and allowed(one, group, roots[one.root_id], by_uuid)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("own", "shared", "reached"),
    [
        pytest.param((), None, set(), id="nobody"),
        pytest.param((0,), None, {0}, id="a root by itself"),
        pytest.param((2,), None, {1}, id="a tree by a child"),
        pytest.param((0, 1, 2), None, {0, 1}, id="a tree once"),
        pytest.param((), (3,), {0}, id="whom a sharing provider serves"),
        pytest.param((3,), (3,), {0, 3}, id="its own tree and whom it serves"),
        pytest.param((1,), (1, 3), {0, 1}, id="a row that does not share serves nobody else"),
    ],
)
def test_a_tree_is_reached_by_its_own_rows_and_by_those_that_serve_it(
    own: tuple[int, ...], shared: tuple[int, ...] | None, reached: set[int]
) -> None:
    index = index_of(host(1, "a"), host(2), host(3, parent_id=2, root_id=2), segment(4, "a", addresses=1))
    masks = mask_of(index.rows, *own), None if shared is None else mask_of(index.rows, *shared)
    assert numbers(reached_trees(index, *masks)) == reached


@pytest.mark.parametrize("shared", [None, (1,)])
def test_who_reaches_does_not_change_what_it_was_given(shared: tuple[int, ...] | None) -> None:
    index = index_of(host(1, "a"), segment(2, "a", addresses=1))
    own = mask_of(index.rows, 1)
    reached_trees(index, own, None if shared is None else mask_of(index.rows, *shared))
    assert numbers(own) == {1}


NIC = {"resources": {"IPV4_ADDRESS": 1}}


@pytest.mark.parametrize(
    ("groups", "twins"),
    [
        pytest.param([NIC, NIC, NIC], [-1, 0, 1], id="each is the twin of the one before"),
        pytest.param([NIC, {"resources": {VCPU: 1}}, NIC], [-1, -1, 0], id="another kind in between"),
        pytest.param([NIC, {**NIC, "in_tree": "p1"}], [-1, -1], id="one is held to a tree"),
        pytest.param([NIC, {**NIC, "required": (frozenset("X"),)}], [-1, -1], id="one wants a trait"),
        pytest.param([NIC, {**NIC, "forbidden": frozenset("X")}], [-1, -1], id="one forbids a trait"),
        pytest.param([NIC, {**NIC, "member_of": (frozenset("a"),)}], [-1, -1], id="one wants an aggregate"),
        pytest.param([NIC, {**NIC, "forbidden_aggregates": frozenset("a")}], [-1, -1], id="one shuns an aggregate"),
        pytest.param([{**NIC, "required": (frozenset("X"), frozenset("Y"))},
                      {**NIC, "required": (frozenset("Y"), frozenset("X"))}], [-1, 0], id="in another order"),
    ],
)  # fmt: skip
def test_groups_that_ask_for_the_same_are_twins(groups: list[dict], twins: list[int]) -> None:
    asked = tuple(RequestGroup(suffix=f"_{number}", **fields) for number, fields in enumerate(groups))
    plan = make_plan(index_of(*WORLD), CandidateQuery(groups=asked))
    assert [slot.twin for slot in plan.slots] == twins
    apart = CandidateQuery(groups=asked, same_subtree=(frozenset({"_0"}),))
    assert make_plan(index_of(*WORLD), apart).slots[1].twin == -1, "one alone is in a subtree"


def test_the_unsuffixed_group_has_a_slot_for_each_class_and_its_traits_concern_them_together() -> None:
    group = RequestGroup(suffix="", resources={VCPU: 1, "DISK_GB": 1}, required=(frozenset("X"),))
    plan = make_plan(index_of(*WORLD), CandidateQuery(groups=(group, RequestGroup(suffix="_1", **NIC))))
    assert [[want.resource_class for want in slot.wants] for slot in plan.slots] == [
        [VCPU], ["DISK_GB"], ["IPV4_ADDRESS"],
    ]  # fmt: skip
    assert (plan.spread, plan.any_of) == (2, (frozenset("X"),))


def test_a_subtree_of_one_group_asks_for_nothing() -> None:
    groups = (RequestGroup(suffix="_1", **NIC), RequestGroup(suffix="_2", resources={VCPU: 1}))
    asked = (frozenset({"_1"}), frozenset({"_1", "_2"}))
    plan = make_plan(index_of(*WORLD), CandidateQuery(groups=groups, same_subtree=asked))
    assert plan.subtrees == ((0, 1),)


@pytest.mark.parametrize(("nested", "world", "flat"), [(True, WORLD, False), (False, WORLD, True),
                                                       (False, WORLD[:1], False)])  # fmt: skip
def test_a_query_is_flat_where_there_are_trees_to_keep_apart(nested: bool, world: tuple, flat: bool) -> None:
    query = CandidateQuery(groups=(RequestGroup(suffix="", resources={VCPU: 1}),), nested=nested)
    assert make_plan(index_of(*world), query).flat is flat


@pytest.mark.parametrize(
    ("required", "forbidden", "viable"),
    [("", "", {0, 1}), ("X", "", {0}), ("Y", "", {1}), ("XY", "", set()), ("", "X", {1}), ("Y", "X", {1}),
     ("Z", "", set())],
)  # fmt: skip
def test_a_root_has_the_traits_that_are_asked_of_it(required: str, forbidden: str, viable: set[int]) -> None:
    query = CandidateQuery(
        groups=(RequestGroup(suffix="", resources={VCPU: 1}),),
        root_required=frozenset(required), root_forbidden=frozenset(forbidden),
    )  # fmt: skip
    assert numbers(make_plan(index_of(*WORLD), query).viable) == viable


def test_a_sharing_provider_serves_where_it_is_in_the_aggregates_itself() -> None:
    """The aggregates of a root span its tree; of a sharing provider they count only as its own."""
    disk = provider(3, totals={"DISK_GB": 9}, placement_aggregates=frozenset("b"), traits=frozenset({SHARING}))
    index = index_of(provider(1, totals={VCPU: 1}, placement_aggregates=frozenset("ab")),
                     provider(2, totals={VCPU: 1}, parent_id=1, root_id=1), disk)  # fmt: skip

    def viable(*aggregates: str) -> set[int]:
        members = tuple(frozenset(one) for one in aggregates)
        group = RequestGroup(suffix="", resources={VCPU: 1, "DISK_GB": 1}, member_of=members)
        return numbers(make_plan(index, CandidateQuery(groups=(group,))).viable)

    assert viable() == viable("b") == {0}
    assert viable("a") == set()


DISK = provider(9, totals={"DISK_GB": 9}, placement_aggregates=frozenset("a"), traits=frozenset({SHARING}))


@pytest.mark.parametrize(
    ("fields", "viable"),
    [
        pytest.param({}, {0, 1}, id="the tree and who shares with it"),
        pytest.param({"in_tree": "p1"}, set(), id="within one tree nobody shares"),
        pytest.param({"forbidden_aggregates": frozenset("b")}, {0}, id="a root in a shunned aggregate"),
        pytest.param({"forbidden_aggregates": frozenset("a")}, set(), id="who shares is in a shunned aggregate"),
    ],
)
def test_the_unsuffixed_group_is_narrowed_with_its_whole_tree(fields: dict, viable: set[int]) -> None:
    """The root of p2 is in b as well, its child, which has the VCPU, is in none."""
    world = [
        provider(1, totals={VCPU: 1}, placement_aggregates=frozenset("a")),
        provider(2, placement_aggregates=frozenset("ab")),
        provider(3, totals={VCPU: 1}, parent_id=2, root_id=2),
        DISK,
    ]
    group = RequestGroup(suffix="", resources={VCPU: 1, "DISK_GB": 1}, **fields)
    assert numbers(make_plan(index_of(*world), CandidateQuery(groups=(group,))).viable) == viable
