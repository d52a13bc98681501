"""What the index says of single rows, trees and sharing providers: the columns that a search sweeps."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.placement.worlds import AGGREGATES, RANDOM, a_world, host, index_of, provider, segment

from roost.placement.search.index import Column, Mask, derive_sharing, derive_trees, rows_of_aggregates, takes
from roost.seams.placement import SHARING, VCPU, Inventory


def a_column(*rows: Inventory | None, used: int = 0) -> Column:
    """The column of a class of which each provider has such an inventory, or none; used: of each."""
    index = index_of(
        *(
            provider(number, totals={} if inventory is None else {VCPU: inventory}, used={VCPU: used})
            for number, inventory in enumerate(rows)
        )
    )
    return index.column(VCPU)


@pytest.mark.parametrize(
    ("inventory", "used", "fit"),
    [
        pytest.param(None, 0, (), id="no inventory takes nothing"),
        pytest.param(Inventory(4), 0, (0, 1, 2, 3, 4), id="all of an unused one"),
        pytest.param(Inventory(4), 3, (0, 1), id="what is free"),
        pytest.param(Inventory(4), 4, (0,), id="a full one"),
        pytest.param(Inventory(4), 6, (0,), id="one in use beyond its capacity"),
        pytest.param(Inventory(4, reserved=1), 0, (0, 1, 2, 3), id="what is reserved is not free"),
        pytest.param(Inventory(2, allocation_ratio=2.0), 0, (0, 1, 2, 3, 4), id="more than there is, by its ratio"),
        pytest.param(Inventory(3, allocation_ratio=0.5), 0, (0, 1), id="whole units only"),
        pytest.param(Inventory(5, max_unit=2), 0, (0, 1, 2), id="no more than max_unit"),
        pytest.param(Inventory(5, min_unit=3), 0, (0, 3, 4, 5), id="no less than min_unit"),
        pytest.param(Inventory(5, step_size=2), 0, (0, 2, 4), id="steps of step_size"),
        pytest.param(Inventory(5, step_size=2), 2, (0, 2), id="steps of what is free"),
    ],
)
def test_a_row_takes_what_is_free_in_its_units(inventory: Inventory | None, used: int, fit: tuple[int, ...]) -> None:
    column = a_column(inventory, used=used)
    assert tuple(amount for amount in range(6) if takes(column, amount)[0]) == fit
    beside = a_column(inventory, Inventory(9, min_unit=2, step_size=2), used=used)
    assert tuple(amount for amount in range(6) if takes(beside, amount)[0]) == fit, "whatever other rows are"


@given(
    st.builds(
        Inventory, total=st.integers(0, 9), reserved=st.integers(0, 3), min_unit=st.integers(1, 3),
        max_unit=st.integers(1, 9), step_size=st.integers(1, 3), allocation_ratio=st.sampled_from([0.5, 1.0, 1.5]),
    ),
    st.integers(0, 9), st.integers(1, 12),
)  # fmt: skip
def test_a_row_takes_what_the_api_says(inventory: Inventory, used: int, amount: int) -> None:
    fits = (
        inventory.min_unit <= amount <= inventory.max_unit
        and amount % inventory.step_size == 0
        and used + amount <= int((inventory.total - inventory.reserved) * inventory.allocation_ratio)
    )
    assert takes(a_column(inventory, used=used), amount)[0] == fits


def numbers(mask: Mask) -> set[int]:
    return set(np.flatnonzero(mask).tolist())


# Row 0 has 1 and 2 below it, row 3 below 2; row 4 is alone, row 5 shares, with 6 below it.
FOREST = (
    host(1),
    host(2, parent_id=1, root_id=1),
    host(3, parent_id=1, root_id=1),
    host(4, parent_id=3, root_id=1),
    host(5),
    segment(6, "a", addresses=1),
    host(7, parent_id=6, root_id=6),
)


def test_trees_are_the_rows_below_each_root() -> None:
    trees = derive_trees(index_of(*FOREST))
    assert trees.nested
    assert trees.rows_by_root == {0: (0, 1, 2, 3), 5: (5, 6)}
    assert (numbers(trees.roots), numbers(trees.hosts)) == ({0, 4, 5}, {0, 4})
    assert [trees.rows_of(root) for root in (0, 4)] == [(0, 1, 2, 3), (4,)]


def test_a_forest_of_roots_is_not_nested() -> None:
    trees = derive_trees(index_of(host(1), segment(2, "a", addresses=1)))
    assert (trees.nested, trees.rows_by_root) == (False, {})
    assert (numbers(trees.roots), numbers(trees.hosts)) == ({0, 1}, {0})


def test_nothing_is_a_tree_of_an_empty_index() -> None:
    trees, sharing = derive_trees(index_of()), derive_sharing(index_of())
    assert numbers(trees.roots) == set()
    assert (len(sharing.rows), len(sharing.edge_row), sharing.rows_by_root) == (0, 0, {})


@pytest.mark.parametrize(
    ("world", "served"),
    [
        pytest.param([host(1, "a"), host(2, "b"), segment(10, "a", addresses=1)], {2: {0}},
                     id="hosts of its aggregate"),
        pytest.param([host(1, "a"), host(2, "b"), segment(10, "a", "b", addresses=1)], {2: {0, 1}},
                     id="hosts of any of its aggregates"),
        pytest.param([host(1, "a"), segment(10, addresses=1)], {1: set()}, id="nobody without an aggregate"),
        pytest.param([host(1), host(2, "a", parent_id=1, root_id=1), segment(10, "a", addresses=1)], {2: {0}},
                     id="a tree with one provider in its aggregate"),
        pytest.param([segment(10, "a", addresses=1), segment(11, "a", addresses=1)], {0: {1}, 1: {0}},
                     id="each other, never itself"),
        pytest.param([provider(1), provider(2, parent_id=1, root_id=1, traits=frozenset({SHARING}),
                                            placement_aggregates=frozenset("a")), host(3, "a")], {1: {2}},
                     id="others than its own tree"),
        pytest.param([host(1, "a"), host(2, "a")], {}, id="nobody shares without the trait"),
    ],
)  # fmt: skip
def test_a_sharing_provider_serves_the_trees_in_its_aggregates(world: list, served: dict[int, set[int]]) -> None:
    sharing = derive_sharing(index_of(*world))
    assert {row: set(roots.tolist()) for row, roots in sharing.roots_by_row.items()} == served
    assert set(sharing.rows.tolist()) == served.keys()
    edges = {(row, root) for row, roots in served.items() for root in roots}
    assert set(zip(sharing.edge_row.tolist(), sharing.edge_root.tolist(), strict=True)) == edges
    assert {(row, root) for root, rows in sharing.rows_by_root.items() for row in rows} == edges


@settings(max_examples=60, deadline=None)
@given(RANDOM)
def test_trees_and_sharing_are_what_the_providers_say(random: Random) -> None:
    world = a_world(random)
    index = index_of(*world)
    row = {one.id: index.row_by_uuid[one.uuid] for one in world}
    trees, sharing = derive_trees(index), derive_sharing(index)
    for one in world:
        if one.parent_id is None:
            assert set(trees.rows_of(row[one.id])) == {row[other.id] for other in world if other.root_id == one.id}
    shares = [one for one in world if SHARING in one.traits]
    assert numbers(trees.hosts) == {row[one.id] for one in world if one.parent_id is None and one not in shares}
    assert {(r, root) for root, rows in sharing.rows_by_root.items() for r in rows} == {
        (row[one.id], row[other.root_id])
        for one in shares
        for other in world
        if other.root_id != one.root_id and one.placement_aggregates & other.placement_aggregates
    }


@pytest.mark.parametrize("asked", ["", "a", "b", "ab", "abz", "z"])
def test_the_rows_of_aggregates_are_those_in_one_of_them(asked: str) -> None:
    world = [host(1, "a"), host(2, "a", "b"), host(3), host(4, *AGGREGATES)]
    expected = {row for row, one in enumerate(world) if one.placement_aggregates & set(asked)}
    assert numbers(rows_of_aggregates(index_of(*world), asked)) == expected


def test_a_trait_marks_the_rows_that_have_it() -> None:
    index = index_of(host(1), host(2, traits=frozenset({"CUSTOM_A"})))
    assert np.flatnonzero(index.trait_mask("CUSTOM_A")).tolist() == [1]
    assert not index.trait_mask("CUSTOM_NOBODY_HAS").any()


def test_who_shares_is_derived_once_for_an_index() -> None:
    index = index_of(host(1, "a"), segment(2, "a", addresses=3))
    assert index.sharing() is index.sharing()
