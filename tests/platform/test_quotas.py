"""How much of a quota is left, and which of several layers holds."""

import pytest

from roost.compute.settings import ComputeSettings
from roost.network.settings import NetworkSettings
from roost.platform.quotas import QuotaUsage, defaults_of, effective, fill_in


@pytest.mark.parametrize(
    ("maximum", "used", "more", "has_room"),
    [
        (-1, 10**9, 1, True), (0, 0, 1, False), (3, 2, 1, True), (3, 2, 2, False), (3, 7, 1, False), (3, 0, 3, True),
        (3, 7, 0, True), (0, 0, 0, True),
    ],
)  # fmt: skip
def test_room_is_what_the_maximum_leaves(maximum: int, used: int, more: int, has_room: bool) -> None:
    assert QuotaUsage("p", "instances", maximum, used).has_room(more) is has_room


@pytest.mark.parametrize(
    ("maximum", "used", "each", "most", "count"),
    [
        (-1, 10**9, 4, 7, 7), (10, 0, 4, 7, 2), (10, 2, 4, 7, 2), (10, 3, 4, 7, 1), (10, 7, 4, 7, 0), (10, 12, 4, 7, 0),
        (100, 0, 4, 7, 7), (0, 0, 0, 7, 7), (0, 5, 0, 7, 7),
    ],
)  # fmt: skip
def test_as_many_fit_as_the_rest_has_room_for(maximum: int, used: int, each: int, most: int, count: int) -> None:
    usage = QuotaUsage("p", "cores", maximum, used)
    assert usage.count_that_fit(each, most=most) == count
    assert count == most or not usage.has_room(each * (count + 1))


def test_a_later_layer_holds_where_it_says_something() -> None:
    assert effective({"a": 1, "b": 2}, {"b": 3}, {"a": -1}) == {"a": -1, "b": 3}


def test_upstreams_quotas_hold_where_none_are_set() -> None:
    for settings, quotas in ((ComputeSettings(), (10, 20, 51_200)), (NetworkSettings(), (100, 100, 500))):
        options = {name: name for name in settings.__struct_fields__ if name.startswith("quota_")}
        options.pop("quota_metadata_items", None)
        assert tuple(defaults_of(settings, options).values()) == (-1, -1, -1)
        assert tuple(defaults_of(settings.with_upstream_quotas(), options).values()) == quotas
    assert fill_in(ComputeSettings(quota_cores=-1), {"quota_cores": 20, "quota_ram": 5}) == ComputeSettings(
        quota_cores=-1, quota_ram=5
    )
