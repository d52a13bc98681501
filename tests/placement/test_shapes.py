"""What changes of a provider: what it has, where it is, and the two halves of a reshape."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from roost.placement.errors import ProviderMalformed
from roost.placement.model import InventoryRow, ProviderPlace, ProviderRow
from roost.placement.rules.shapes import (
    decide_final_shape,
    decide_interim_shape,
    decide_parent,
    decide_shape,
    fits,
    interim_inventories,
    no_change,
)
from roost.seams.placement import Inventory, ProviderState

FOUR, EIGHT = Inventory(total=4), Inventory(total=8)
ROW = ProviderRow(
    id=7, uuid="u", name="host", generation=5, parent_id=None, root_id=7,
    inventories={"VCPU": FOUR, "DISK_GB": EIGHT}, used={"VCPU": 3, "DISK_GB": 0},
    resource_class_ids={"VCPU": 10, "DISK_GB": 11},
    traits=frozenset({"FAST", "NEAR"}), placement_aggregates=frozenset({"a"}),
)  # fmt: skip
STATE = ProviderState(uuid="u", name="host")


@pytest.mark.parametrize(
    ("fields", "changes"),
    [
        pytest.param({"inventories": {"VCPU": EIGHT, "DISK_GB": EIGHT}}, {"inventories_set": {"VCPU": EIGHT}},
                     id="an inventory of another size is set"),
        pytest.param({"inventories": {"VCPU": FOUR, "DISK_GB": EIGHT, "CUSTOM_GPU": FOUR}},
                     {"inventories_set": {"CUSTOM_GPU": FOUR}}, id="a new inventory is set"),
        pytest.param({"inventories": {"VCPU": FOUR}}, {"inventories_gone": frozenset({"DISK_GB"})},
                     id="an inventory that is not named goes"),
        pytest.param({"inventories": {"VCPU": FOUR}, "managed_classes": frozenset({"VCPU"})}, {},
                     id="an inventory that is not managed stays"),
        pytest.param({"inventories": {}, "managed_classes": frozenset({"DISK_GB"})},
                     {"inventories_gone": frozenset({"DISK_GB"})}, id="a managed inventory that is not named goes"),
        pytest.param({"traits": frozenset({"FAST", "NEW"})},
                     {"traits_new": frozenset({"NEW"}), "traits_gone": frozenset({"NEAR"})},
                     id="traits come and go"),
        pytest.param({"traits": frozenset({"NEW"}), "managed_traits": frozenset({"NEW", "FAST"})},
                     {"traits_new": frozenset({"NEW"}), "traits_gone": frozenset({"FAST"})},
                     id="a trait that is not managed stays"),
        pytest.param({"traits": frozenset(), "managed_traits": frozenset()}, {}, id="who manages none removes none"),
        pytest.param({"placement_aggregates": frozenset({"b"})},
                     {"aggregates_new": frozenset({"b"}), "aggregates_gone": frozenset({"a"})},
                     id="aggregates come and go"),
        pytest.param({"placement_aggregates": frozenset()}, {"aggregates_gone": frozenset({"a"})},
                     id="the last aggregate goes"),
        pytest.param({"name": "other"}, {"name": "other"}, id="another name is a change"),
        pytest.param({}, {}, id="what is not said stays"),
        pytest.param({"inventories": {"VCPU": FOUR, "DISK_GB": EIGHT}, "traits": frozenset({"NEAR", "FAST"}),
                      "placement_aggregates": frozenset({"a"})}, {}, id="what is so already is no change"),
    ],
)  # fmt: skip
def test_only_what_differs_is_written(fields: Mapping[str, object], changes: Mapping[str, object]) -> None:
    change, in_use = decide_shape(replace(STATE, **fields), ROW)
    assert change == (replace(no_change(ROW, generation_steps=1), **changes) if changes else None)
    assert in_use == frozenset()


@pytest.mark.parametrize(
    ("named", "managed", "in_use"),
    [
        ({"DISK_GB": EIGHT}, None, {"VCPU"}),
        ({"DISK_GB": EIGHT}, frozenset({"DISK_GB"}), set()),
        ({"DISK_GB": EIGHT}, frozenset({"VCPU", "DISK_GB"}), {"VCPU"}),
        ({"VCPU": Inventory(total=1)}, None, set()),
        ({}, None, {"VCPU"}),
    ],
)
def test_an_inventory_in_use_may_shrink_and_not_go(named: dict, managed: frozenset[str] | None, in_use: set) -> None:
    _, found = decide_shape(replace(STATE, inventories=named, managed_classes=managed), ROW)
    assert found == in_use


@pytest.mark.parametrize(
    ("inventories", "fit"),
    [
        ({"VCPU": Inventory(total=3), "DISK_GB": EIGHT}, True),
        ({"VCPU": Inventory(total=3)}, True),
        ({"VCPU": Inventory(total=2), "DISK_GB": EIGHT}, False),
        ({"VCPU": Inventory(total=4, reserved=2), "DISK_GB": EIGHT}, False),
        ({"VCPU": Inventory(total=2, allocation_ratio=1.5)}, True),
        ({"DISK_GB": EIGHT}, False),
        ({}, False),
    ],
)
def test_what_is_in_use_fits_within_the_capacity(inventories: Mapping[str, Inventory], fit: bool) -> None:
    assert fits(ROW.used, inventories, ROW.inventories) is fit


@pytest.mark.parametrize(("total", "fit"), [(9, True), (3, True), (2, True), (1, False), (None, False)])
def test_where_more_is_in_use_than_there_is_a_class_loses_nothing(total: int | None, fit: bool) -> None:
    before = {"VCPU": Inventory(total=2)}
    assert fits({"VCPU": 3}, {} if total is None else {"VCPU": Inventory(total=total)}, before) is fit


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_no_change_is_a_generation_alone(steps: int) -> None:
    change = no_change(ROW, generation_steps=steps)
    assert (change.provider_id, change.name, change.generation_steps) == (7, "host", steps)
    assert change.present_class_ids == {"VCPU": 10, "DISK_GB": 11}
    assert not any(
        (change.inventories_set, change.inventories_gone, change.traits_new, change.traits_gone,
         change.aggregates_new, change.aggregates_gone)
    )  # fmt: skip


# 1 <- 2 <- 3, 1 <- 4; and 5 <- 6.
PLACES = [ProviderPlace(*place) for place in ((1, None, 1), (2, 1, 1), (3, 2, 1), (4, 1, 1), (5, None, 5), (6, 5, 5))]


@pytest.mark.parametrize(
    ("provider_id", "parent_id", "changed"),
    [
        pytest.param(5, None, {}, id="a root stays a root"),
        pytest.param(2, 1, {}, id="a child stays where it is"),
        pytest.param(5, 4, {5: (4, 1), 6: (5, 1)}, id="a tree is hung below another one"),
        pytest.param(
            1, 6, {1: (6, 5), 2: (1, 5), 3: (2, 5), 4: (1, 5)}, id="a tree of three levels comes with its root"
        ),
        pytest.param(3, 4, {3: (4, 1)}, id="a leaf moves within its tree"),
        pytest.param(2, 6, {2: (6, 5), 3: (2, 5)}, id="a branch moves to another tree"),
        pytest.param(2, None, {2: (None, 2), 3: (2, 2)}, id="a branch becomes a tree"),
        pytest.param(3, None, {3: (None, 3)}, id="a leaf becomes a tree"),
    ],
)
def test_a_provider_moves_with_all_below_it(
    provider_id: int, parent_id: int | None, changed: dict[int, tuple[int | None, int]]
) -> None:
    places = decide_parent(PLACES, provider_id=provider_id, parent_id=parent_id, may_reparent=True)
    assert places == {place_id: ProviderPlace(place_id, *place) for place_id, place in changed.items()}
    assert decide_parent(PLACES[::-1], provider_id=provider_id, parent_id=parent_id, may_reparent=True) == places


@pytest.mark.parametrize(
    ("provider_id", "parent_id", "may_reparent", "words"),
    [
        pytest.param(1, 1, True, "loop", id="below itself"),
        pytest.param(1, 2, True, "loop", id="below its child"),
        pytest.param(1, 3, True, "loop", id="below its grandchild"),
        pytest.param(1, 3, False, "loop", id="below its grandchild though it has no parent yet"),
        pytest.param(3, 4, False, "re-parenting", id="it has a parent already"),
        pytest.param(3, None, False, "un-parenting", id="it cannot be taken off its parent"),
    ],
)
def test_a_parent_that_cannot_be_is_refused(
    provider_id: int, parent_id: int | None, may_reparent: bool, words: str
) -> None:
    with pytest.raises(ProviderMalformed, match=words):
        decide_parent(PLACES, provider_id=provider_id, parent_id=parent_id, may_reparent=may_reparent)


@given(st.lists(st.integers(0, 7), min_size=2, max_size=8), st.data())
def test_after_a_move_every_root_is_the_top_of_its_tree(numbers: list[int], data: st.DataObject) -> None:
    parents = {at: number if number < at else None for at, number in enumerate(numbers)}

    def top(at: int, known: Mapping[int, int | None]) -> int:
        parent = known[at]
        return at if parent is None else top(parent, known)

    places = [ProviderPlace(at, parent, top(at, parents)) for at, parent in parents.items()]
    moved = data.draw(st.sampled_from(sorted(parents)))
    parent = data.draw(st.sampled_from([None, *sorted(parents)]))
    above = parent
    while above not in (None, moved):
        above = parents[above]
    if above == moved:
        with pytest.raises(ProviderMalformed):
            decide_parent(places, provider_id=moved, parent_id=parent, may_reparent=True)
        return
    after = {place.id: place for place in places}
    after |= decide_parent(places, provider_id=moved, parent_id=parent, may_reparent=True)
    now = {at: place.parent_id for at, place in after.items()}
    assert now == {**parents, moved: parent}
    assert {at: place.root_id for at, place in after.items()} == {at: top(at, now) for at in now}


# A reshape: first what will be is there beside what was, then what was goes.

RESHAPES = [
    pytest.param({"VCPU": FOUR, "DISK_GB": EIGHT}, {}, set(), id="as it is"),
    pytest.param({"VCPU": EIGHT, "DISK_GB": EIGHT}, {"VCPU": EIGHT}, set(), id="one grows"),
    pytest.param({"VCPU": FOUR}, {}, {"DISK_GB"}, id="one goes"),
    pytest.param({"DISK_GB": EIGHT, "CUSTOM_GPU": FOUR}, {"CUSTOM_GPU": FOUR}, {"VCPU"}, id="one comes, one goes"),
    pytest.param({}, {}, {"VCPU", "DISK_GB"}, id="all go"),
]


@pytest.mark.parametrize(("new", "set_first", "gone"), RESHAPES)
def test_a_reshape_sets_first_and_removes_after_the_claims(
    new: Mapping[str, Inventory], set_first: Mapping[str, Inventory], gone: set[str]
) -> None:
    interim = decide_interim_shape(ROW, new)
    assert (interim.inventories_set, interim.inventories_gone) == (set_first, frozenset())
    assert interim.generation_steps == (1 if new else 0), "as upstream counts"
    final, _ = decide_final_shape(ROW, new, {})
    assert (final.inventories_set, final.inventories_gone, final.generation_steps) == ({}, gone, 1)


def test_claims_within_a_reshape_may_use_what_was_and_what_will_be() -> None:
    new = {"VCPU": Inventory(total=9, reserved=1, min_unit=2, max_unit=6, step_size=2), "CUSTOM_GPU": FOUR}
    assert dict(interim_inventories(ROW, new)) == {
        "VCPU": InventoryRow(8, 2, 6, 2, 3),
        "DISK_GB": InventoryRow(8, 1, EIGHT.max_unit, 1, 0),
        "CUSTOM_GPU": InventoryRow(4, 1, FOUR.max_unit, 1, 0),
    }


@pytest.mark.parametrize(
    ("new", "change", "in_use"),
    [
        ({}, {}, ("VCPU",)),
        ({}, {(7, 10): -3}, ()),
        ({}, {(7, 10): -2}, ("VCPU",)),
        ({}, {(7, 10): -3, (7, 11): 1}, ("DISK_GB",)),
        ({}, {(8, 10): -3}, ("VCPU",)),
        ({"VCPU": FOUR}, {}, ()),
    ],
    ids=["nothing was released", "all was released", "one unit is left", "another is claimed meanwhile",
         "another provider's was released", "it stays"],
)  # fmt: skip
def test_what_goes_must_not_be_in_use_after_the_claims(
    new: Mapping[str, Inventory], change: Mapping[tuple[int, int], int], in_use: tuple[str, ...]
) -> None:
    assert decide_final_shape(ROW, new, change)[1] == in_use
