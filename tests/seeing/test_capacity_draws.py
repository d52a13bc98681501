"""`capacity` on drawn clouds: what it says exactly is what boots; else what boots lies between its two numbers."""

from collections.abc import Iterator
from random import Random

import pytest
from tests.seeing.clouds import CROSSING, DEFAULTS, SHAPES, Cloud, boot_until_refused, draw

from roost.seeing.rules.capacity import Capacity, find_capacity

DRAWS = 200
LOTS = 3


def drawn(number: int, *, exact: bool) -> tuple[Cloud, Capacity]:
    """The first cloud of a series of which capacity says that it is, or is not, exact."""
    attempt = 0
    while True:
        cloud = draw(f"{number}-{attempt}", SHAPES if exact else CROSSING)
        capacity = find_capacity(cloud.index(), cloud.requests(), Random(number), DEFAULTS)
        if capacity.exact == exact:
            return cloud, capacity
        attempt += 1


@pytest.fixture(scope="module")
def gaps(request: pytest.FixtureRequest) -> Iterator[list[tuple[int, int]]]:
    """Both numbers of each cloud, whose gap is printed at the end."""
    numbers: list[tuple[int, int]] = []
    yield numbers
    apart = [most - least for least, most in numbers]
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        gap = f"{sum(apart)} of {sum(most for _, most in numbers)} servers between both numbers, at most {max(apart)}"
        print(f"\n{len(numbers)} clouds whose limits cross: {apart.count(0)} without a gap; {gap}")  # noqa: T201


@pytest.mark.parametrize("number", range(DRAWS))
def test_as_many_boot_as_is_said_exactly(number: int) -> None:
    cloud, capacity = drawn(number, exact=True)
    assert capacity.least == capacity.most
    for lot in range(LOTS):
        assert boot_until_refused(cloud.index(), cloud.requests(), Random(lot)) == capacity.most


@pytest.mark.parametrize("number", range(DRAWS))
def test_what_boots_lies_between_both_numbers(number: int, gaps: list[tuple[int, int]]) -> None:
    cloud, capacity = drawn(number, exact=False)
    assert capacity.choices
    assert capacity.least <= boot_until_refused(cloud.index(), cloud.requests(), Random(number)) <= capacity.most
    gaps.append((capacity.least, capacity.most))
