"""Gaps in how networks are laid out: the rule, with a case for each kind of provider."""

from typing import Any, cast

import pytest

from roost.network.model.networks import Host, ProviderSource
from roost.network.rules.segments import find_gaps


class OfCidr:
    """As much of a subnet as the rule reads."""

    def __init__(self, cidr: str) -> None:
        self.cidr = cidr


def a_source(*cidrs: str, **fields: Any) -> ProviderSource:
    subnets = cast("Any", tuple(map(OfCidr, cidrs)))
    return ProviderSource(
        **{"provider_uuid": "s1", "routed": True, "physical_network": "r1", "subnets": subnets, **fields}
    )


ON_R1, ON_R2 = Host("h1", frozenset({"r1"})), Host("h2", frozenset({"r2"}))


@pytest.mark.parametrize(
    ("hosts", "source", "gaps"),
    [
        ([ON_R1], a_source("10.1.0.0/28"), []),
        ([], a_source(), []),
        ([ON_R1], a_source(), []),
        ([], a_source("10.1.0.0/28", "10.2.0.0/28", "10.3.0.0/28", "10.4.0.0/28"),
         ["no host reaches segment s1 (10.1.0.0/28, 10.2.0.0/28, 10.3.0.0/28, ...): "
          "have an agent report physical network r1"]),
        ([], a_source("10.1.0.0/28", "10.2.0.0/28", "10.3.0.0/28"),
         ["no host reaches segment s1 (10.1.0.0/28, 10.2.0.0/28, 10.3.0.0/28): "
          "have an agent report physical network r1"]),
        ([ON_R1, ON_R2], a_source("10.1.0.0/28"),
         ["host h2 reaches no network: have its agent report a physical network of one"]),
        ([ON_R2], a_source("10.1.0.0/28", routed=False),
         ["no host reaches network s1 (10.1.0.0/28): have an agent report physical network r1",
          "host h2 reaches no network: have its agent report a physical network of one"]),
        ([], a_source("10.1.0.0/28", routed=False, physical_network=None),
         ["no host reaches network s1 (10.1.0.0/28): start an agent"]),
        ([ON_R1], a_source("10.1.0.0/28", routed=False, physical_network=None), []),
        ([Host("h3", frozenset(), "cell2")], a_source("10.1.0.0/28", physical_network=None, cell="cell1"),
         ["no host reaches the pool of cell cell1 (10.1.0.0/28): start an agent with --cell cell1",
          "host h3 reaches no network: have its agent report a physical network of one"]),
        ([Host("h1", frozenset())], a_source("10.1.0.0/28", physical_network=None, cell="cell1"), []),
    ],
)  # fmt: skip
def test_what_nobody_can_use(hosts: list[Host], source: ProviderSource, gaps: list[str]) -> None:
    assert find_gaps(hosts, [source]) == gaps
