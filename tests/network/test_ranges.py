"""Ranges of addresses, against sets of whole numbers."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from roost.network.model.networks import AddressRange
from roost.network.rules.addressing import holds, join, subtract

SIZE = 40
BASE = 2**127
"""Whole numbers of either family: far above what 64 bits hold."""

points = st.sets(st.integers(0, SIZE - 1))


def ranges(numbers: set[int]) -> tuple[AddressRange, ...]:
    return join(AddressRange(BASE + number, BASE + number) for number in numbers)


def numbers_of(items: tuple[AddressRange, ...]) -> set[int]:
    found = [number - BASE for item in items for number in range(item.first, item.last + 1)]
    assert len(found) == len(set(found)), "ranges overlap"
    assert all(item.first <= item.last for item in items), "a range is empty"
    assert all(one.last + 1 < other.first for one, other in itertools.pairwise(items)), "ranges touch"
    return set(found)


@given(points, points)
def test_ranges_are_sets(one: set[int], other: set[int]) -> None:
    assert numbers_of(subtract(ranges(one), ranges(other))) == one - other
    assert numbers_of(join([*ranges(one), *ranges(other)])) == one | other
    assert {number for number in range(SIZE) if holds(ranges(one), BASE + number)} == one


class Counted(int):
    """A whole number that counts how often one is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < int(other)

    def __le__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) <= int(other)


def test_in_which_of_many_ranges_an_address_is_is_looked_up_and_not_searched_for() -> None:
    """To look at a fragmented /16 took a minute, during which nothing else went on."""
    pools = tuple(AddressRange(Counted(number), Counted(number)) for number in range(10, 4010, 4))
    held = [Counted(number + shift) for number in range(10, 4010, 4) for shift in (0, 1)]
    Counted.compared = 0
    assert sum(holds(pools, address) for address in held) == len(held) / 2
    assert Counted.compared < 100 * len(held)
