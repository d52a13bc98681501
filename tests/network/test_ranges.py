"""Ranges of addresses, against sets of whole numbers."""

from hypothesis import given
from hypothesis import strategies as st

from roost.network.model import AddressRange
from roost.network.ranges import holds, intersect, join, subtract

SIZE = 40
BASE = 2**127
"""Whole numbers of either family: far above what 64 bits hold."""

points = st.sets(st.integers(0, SIZE - 1))


def ranges(numbers: set[int]) -> tuple[AddressRange, ...]:
    return join(AddressRange(BASE + number, BASE + number) for number in numbers)


def numbers_of(items: tuple[AddressRange, ...]) -> set[int]:
    found = [number - BASE for item in items for number in range(item.first, item.last + 1)]
    assert len(found) == len(set(found)), "ranges overlap"
    return set(found)


@given(points, points)
def test_ranges_are_sets(one: set[int], other: set[int]) -> None:
    assert numbers_of(subtract(ranges(one), ranges(other))) == one - other
    assert numbers_of(intersect(ranges(one), ranges(other))) == one & other
    assert numbers_of(join([*ranges(one), *ranges(other)])) == one | other
    assert {number for number in range(SIZE) if holds(ranges(one), BASE + number)} == one
