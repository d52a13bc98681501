"""Which order a build has, by the agents that live and the conductor's credentials."""

import pytest

from roost.compute.model.work import BuildOrder, Credentials, Stage
from roost.compute.old_agents.rules.orders import (
    EARLY,
    EARLY_CREATE,
    LATE,
    ORDERS,
    count_hosts_below,
    older_agents,
    order_of,
    version_wanted,
)

USABLE, REVOKED = Credentials(True), Credentials(False, "the token is refused")


@pytest.mark.parametrize(
    ("hosts_by_version", "credentials", "order", "says"),
    [
        pytest.param({}, USABLE, EARLY, "every live agent", id="no host is no old host"),
        pytest.param({4: 60}, USABLE, EARLY, "every live agent", id="this release"),
        pytest.param({3: 1, 4: 59}, USABLE, EARLY, "every live agent", id="version 3 will do"),
        pytest.param({0: 2, 4: 9}, USABLE, EARLY, "every live agent", id="who says no version knows early alone"),
        pytest.param(
            {2: 1, 4: 59}, USABLE, EARLY_CREATE, "1 live host has an agent of a service version below 3", id="2"
        ),
        pytest.param({1: 3, 2: 7, 4: 9}, USABLE, LATE, "3 live hosts have agents of a service version below 2", id="1"),
        pytest.param({1: 0, 4: 9}, USABLE, EARLY, "every live agent", id="hosts that went do not count"),
        pytest.param({4: 60}, REVOKED, LATE, "no network credentials: the token is refused", id="revoked"),
        pytest.param({1: 60}, REVOKED, LATE, "no network credentials", id="both"),
    ],
)
def test_the_order_follows_from_the_oldest_agent_and_the_credentials(
    hosts_by_version: dict[int, int], credentials: Credentials, order: BuildOrder, says: str
) -> None:
    chosen = order_of(hosts_by_version, credentials)
    assert (chosen.name, chosen.stages) == (order.name, order.stages)
    assert says in chosen.reason


@pytest.mark.parametrize(("below", "hosts"), [(1, 0), (2, 3), (3, 10), (9, 19)])
def test_hosts_are_below_a_version_if_they_say_an_older_one(below: int, hosts: int) -> None:
    assert count_hosts_below({0: 5, 1: 3, 2: 7, 4: 9}, below) == hosts


def test_older_agents_are_told_in_words() -> None:
    assert older_agents(1, below=2) == "1 live host has an agent of a service version below 2"
    assert older_agents(2, below=3) == "2 live hosts have agents of a service version below 3"


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: str(order.name))
def test_every_order_places_before_it_launches(order: BuildOrder) -> None:
    assert order.stages[-1] is Stage.LAUNCH
    assert Stage.PLACE in order.stages
    assert [order.after(stage) for stage in order.stages[:-1]] == list(order.stages[1:])


def test_an_order_is_told_without_the_stage_that_only_asks() -> None:
    assert order_of({1: 1}, USABLE).sentence() == (
        "late: place -> launch, since 1 live host has an agent of a service version below 2"
    )


@pytest.mark.parametrize(
    ("hosts_by_version", "version"), [({1: 1, 3: 5}, 2), ({2: 1, 3: 5}, 3), ({3: 1}, None), ({}, None)]
)
def test_the_next_order_needs_agents_of_a_version(hosts_by_version: dict[int, int], version: int | None) -> None:
    assert version_wanted(order_of(hosts_by_version, USABLE)) == version
