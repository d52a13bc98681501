"""Pools that change, against a model of sets: free and held are the pools at every step, whatever is held where."""

from hypothesis import given
from hypothesis import strategies as st
from tests.network.test_ranges import BASE, numbers_of, points, ranges

from roost.network.model.ports import Holding
from roost.network.rules.subnet_changes import begin_change, end_change


@given(points, points, points, points, points, st.booleans(), st.booleans())
def test_free_and_held_are_the_pools_at_every_step(
    pools: set[int], target: set[int], held: set[int], lost: set[int], got: set[int], counts: bool, turned_back: bool
) -> None:
    """Ports take and lose addresses between the two ends, and the change may be turned back."""
    free = pools - held
    holdings = {number: Holding(BASE + number, number in pools, number in pools) for number in held}
    wanted, whole = target, pools
    for goal in [target, pools] if turned_back else [target]:
        wanted = goal
        begun = begin_change(ranges(whole), ranges(goal), free=ranges(free), held=holdings.values(), counts=counts)
        holdings |= {item.address - BASE: item for item in begun.held}
        free, leaving = numbers_of(begun.free), numbers_of(begun.leaving)
        assert leaving == whole - goal
        whole = whole | goal
        check(whole, free, holdings)
        assert all(holdings[n].claimed for n in held & goal if n in holdings and counts)
        for number in lost & holdings.keys():
            if holdings.pop(number).in_pool:
                free.add(number)
        for number in got & free:
            free.remove(number)
            holdings[number] = Holding(BASE + number, True, True)
        check(whole, free, holdings)
    ended = end_change(ranges(wanted), free=ranges(free), held=holdings.values(), counts=counts)
    assert {n - BASE for n in ended.unclaimed} == {
        n for n, item in holdings.items() if item.claimed and not (counts and n in wanted)
    }
    holdings |= {item.address - BASE: item for item in ended.held}
    check(wanted, numbers_of(ended.free), holdings)
    assert all(item.claimed == (counts and item.in_pool) for item in holdings.values())


def check(pools: set[int], free: set[int], holdings: dict[int, Holding]) -> None:
    in_pool = {number for number, item in holdings.items() if item.in_pool}
    assert free | in_pool == pools
    assert not free & holdings.keys()
