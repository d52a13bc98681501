"""How the providers of one tree are combined: where there is no choice, and where slots have to be filled in turn."""

import itertools
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.placement.worlds import RANDOM, index_of, provider

from roost.placement.search.combinations import Chosen, SearchBudget, combinations, only_combination
from roost.placement.search.index import Index
from roost.placement.search.narrowing import Plan, Slot, Want, make_plan
from roost.seams.placement import VCPU, CandidateQuery, Distinct, RequestGroup

NONE = np.zeros(1, np.bool_)


def a_plan(*suffixes: str, **fields: object) -> Plan:
    """Slots of one unit each, without an index; the unsuffixed ones first."""
    slots = tuple(Slot(number, suffix, (), NONE, None) for number, suffix in enumerate(suffixes))
    plain = {
        "slots": slots, "viable": NONE, "spread": suffixes.count(""), "any_of": (), "isolate": False, "subtrees": (),
        "flat": False, "distinct": Distinct.ROLES,
    }  # fmt: skip
    return Plan(**{**plain, **fields})


@pytest.mark.parametrize(
    ("suffixes", "options", "only"),
    [
        pytest.param(("",), [[1]], (1,), id="one class"),
        pytest.param(("", ""), [[1], [1]], (1, 1), id="two classes of one provider"),
        pytest.param(("", ""), [[1], [2]], (1, 2), id="two classes of two providers"),
        pytest.param(("", "_1"), [[1], [2]], (1, 2), id="a group elsewhere"),
        pytest.param(("", "_1"), [[1], [1]], None, id="a group on the unsuffixed one's provider"),
        pytest.param(("_1", "_2"), [[1], [2]], (1, 2), id="two groups apart"),
        pytest.param(("_1", "_2"), [[1], [1]], None, id="two groups on one provider"),
        pytest.param(("", "", "_1"), [[1], [1], [2]], (1, 1, 2), id="two classes together and a group apart"),
        pytest.param(("", "", "_1", "_2"), [[1], [1], [2], [2]], None, id="two groups together beside two classes"),
        pytest.param(("", "_1"), [[1], [2, 3]], None, id="a choice"),
        pytest.param(("", "_1"), [[], [2]], None, id="nobody"),
    ],
)
def test_there_is_one_combination_where_there_is_no_choice(
    suffixes: Sequence[str], options: list[list[int]], only: Chosen | None
) -> None:
    assert only_combination(a_plan(*suffixes), options) == only


@pytest.mark.parametrize("fields", [{"any_of": (frozenset("X"),)}, {"subtrees": ((0, 1),)}, {"flat": True}],
                         ids=lambda fields: next(iter(fields)))  # fmt: skip
def test_what_has_to_be_checked_together_is_left_to_the_search(fields: dict) -> None:
    assert only_combination(a_plan("", "_1", **fields), [[1], [2]]) is None


@settings(max_examples=100, deadline=None)
@given(RANDOM)
def test_the_only_combination_is_the_one_that_the_search_finds(random: Random) -> None:
    world = [provider(1, totals={"DISK_GB": 1})]
    for number in range(2, random.randint(3, 5)):
        names = random.sample((VCPU, "GPU"), random.randint(1, 2))
        totals = {name: random.randint(1, 2) for name in names}
        world.append(provider(number, totals=totals, parent_id=1, root_id=1))
    suffixes = ["", "_1", "_2"][: random.randint(1, 3)]
    groups = [RequestGroup(suffix=suffix, resources={random.choice((VCPU, "GPU")): 1}) for suffix in suffixes]
    index = index_of(*world)
    plan = make_plan(index, CandidateQuery(groups=tuple(groups)))
    options = [np.flatnonzero(slot.own).tolist() for slot in plan.slots]
    only = only_combination(plan, options)
    if only is not None:
        assert list(combinations(index, plan, options, SearchBudget())) == [only]


def on_devices(room: Sequence[int], amounts: Sequence[int], **query: object) -> tuple[Index, Plan, list[list[int]]]:
    """A root with such devices below it, each with so much room; groups that ask for amounts of one of them."""
    index = index_of(
        provider(1, totals={"DISK_GB": 1}),
        *(provider(2 + n, totals={VCPU: most}, parent_id=1, root_id=1) for n, most in enumerate(room)),
    )
    groups = tuple(RequestGroup(suffix=f"_{n}", resources={VCPU: amount}) for n, amount in enumerate(amounts))
    plan = make_plan(index, CandidateQuery(groups=groups, **query))
    return index, plan, [np.flatnonzero(slot.own).tolist() for slot in plan.slots]


@pytest.mark.parametrize(
    ("room", "amounts", "policy", "found"),
    [
        ([1, 1], [1, 1], "none", {(1, 2)}),
        ([2, 1], [1, 1], "none", {(1, 1), (1, 2)}),
        ([2, 1], [1, 1], "isolate", {(1, 2)}),
        ([2, 2], [1, 2], "none", {(1, 2), (2, 1)}),
        ([3], [1, 2], "none", {(1, 1)}),
        ([3], [2, 2], "none", set()),
        ([1, 1], [1, 1, 1], "isolate", set()),
    ],
)
def test_groups_are_put_where_they_fit_together(
    room: Sequence[int], amounts: Sequence[int], policy: str, found: set[Chosen]
) -> None:
    given_ = on_devices(room, amounts, group_policy=policy)
    assert set(combinations(*given_, SearchBudget())) == found


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4), st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.sampled_from(["none", "isolate"]), st.sampled_from(Distinct),
)  # fmt: skip
def test_every_way_is_found_once(room: list[int], amounts: list[int], policy: str, distinct: Distinct) -> None:
    index, plan, options = on_devices(room, amounts, group_policy=policy, distinct=distinct)

    def key(chosen: Chosen) -> object:
        """What tells combinations apart: which groups of the same amount have which rows, or each group its own."""
        if distinct is Distinct.MAPPINGS:
            return chosen
        return frozenset(
            (n, tuple(sorted(at for m, at in zip(amounts, chosen, strict=True) if m == n))) for n in amounts
        )

    expected = set()
    for chosen in itertools.product(range(1, len(room) + 1), repeat=len(amounts)):
        used = {row: sum(n for n, at in zip(amounts, chosen, strict=True) if at == row) for row in chosen}
        if all(used[row] <= room[row - 1] for row in used) and (policy == "none" or len(used) == len(chosen)):
            expected.add(key(chosen))
    keys = [key(chosen) for chosen in combinations(index, plan, options, SearchBudget())]
    assert len(keys) == len(set(keys))
    assert set(keys) == expected


def test_a_slot_without_wants_is_filled_by_its_options_alone() -> None:
    index = index_of(provider(1, totals={VCPU: 1}), provider(2, totals={VCPU: 1}, parent_id=1, root_id=1))
    slots = (Slot(0, "_1", (Want(VCPU, 1, index.column(VCPU)),), NONE, None), Slot(1, "_2", (), NONE, None))
    plan = a_plan("_1", "_2", slots=slots)
    assert list(combinations(index, plan, [[0, 1], [0]], SearchBudget())) == [(0, 0), (1, 0)]
