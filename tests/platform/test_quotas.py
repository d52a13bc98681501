"""How much of a quota is left, and which of several layers holds."""

import pytest

from roost.compute.rules import quotas as compute_rules
from roost.compute.settings import UPSTREAM_QUOTAS as COMPUTE_QUOTAS
from roost.compute.settings import ComputeSettings
from roost.network.rules import quotas as network_rules
from roost.network.settings import UPSTREAM_QUOTAS as NETWORK_QUOTAS
from roost.network.settings import NetworkSettings
from roost.platform.quotas import QuotaUsage, defaults_of, effective, fill_in, limit_refusal, limited, usages_of


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


def test_a_usage_is_what_a_project_may_have_and_has() -> None:
    maxima = {"mine": {"cores": 4, "ram": -1}, "yours": {"cores": 0, "ram": 5}}
    used = {"mine": {"cores": 7, "ram": 1, "networks": 3}, "nobody's": {"cores": 9}}
    assert usages_of(maxima, used) == {
        "mine": {"cores": QuotaUsage("mine", "cores", 4, 7), "ram": QuotaUsage("mine", "ram", -1, 1)},
        "yours": {"cores": QuotaUsage("yours", "cores", 0, 0), "ram": QuotaUsage("yours", "ram", 5, 0)},
    }


@pytest.mark.parametrize(
    ("maximum", "used", "is_over"), [(-1, 10**9, False), (0, 0, False), (0, 1, True), (3, 3, False), (3, 4, True)]
)
def test_more_than_the_maximum_is_over_it(maximum: int, used: int, is_over: bool) -> None:
    assert QuotaUsage("p", "cores", maximum, used).is_over is is_over


@pytest.mark.parametrize(
    ("quotas", "has_limit"),
    [({}, False), ({"cores": -1}, False), ({"cores": 0}, True), ({"cores": -1, "ram": 5}, True)],
)
def test_a_project_has_a_limit_that_has_one_of_any_resource(quotas: dict[str, int], has_limit: bool) -> None:
    assert limited({"free": {"cores": -1, "ram": -1}, "p": quotas}) == ({"p": quotas} if has_limit else {})


@pytest.mark.parametrize("text", [network_rules.LIMIT_TOO_SMALL, compute_rules.LIMIT_TOO_SMALL])
@pytest.mark.parametrize(
    ("quotas", "too_small"),
    [
        ({}, None), ({"port": 3}, None), ({"port": -1}, None), ({"port": 0}, ("port", 0)), ({"port": 2}, ("port", 2)),
        ({"subnet": 0, "port": 2}, ("port", 2)), ({"port": 1, "cores": 1}, ("port", 1)), ({"cores": 1}, ("cores", 1)),
    ],
)  # fmt: skip
def test_a_new_quota_is_not_below_what_is_used(
    text: str, quotas: dict[str, int], too_small: tuple[str, int] | None
) -> None:
    usages = {name: QuotaUsage("p", name, 9, used) for name, used in {"port": 3, "subnet": 0, "cores": 3}.items()}
    expected = None
    if too_small is not None:
        resource, maximum = too_small
        reserved = " and reserved 3." if text is compute_rules.LIMIT_TOO_SMALL else " 3"
        expected = f"Quota limit {maximum} for {resource} must be greater than or equal to already used{reserved}"
    assert limit_refusal(usages, quotas, text) == expected


def test_upstreams_quotas_hold_where_none_are_set() -> None:
    for settings, upstream, quotas in (
        (ComputeSettings(), COMPUTE_QUOTAS, {"instances": 10, "cores": 20, "ram": 51_200}),
        (NetworkSettings(), NETWORK_QUOTAS, {"network": 100, "subnet": 100, "port": 500}),
    ):
        assert defaults_of(settings, quotas) == dict.fromkeys(quotas, -1)
        assert defaults_of(fill_in(settings, upstream), quotas) == quotas
    assert fill_in(ComputeSettings(quota_cores=-1), {"quota_cores": 20, "quota_ram": 5}) == ComputeSettings(
        quota_cores=-1, quota_ram=5
    )
