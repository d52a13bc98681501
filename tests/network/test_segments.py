"""Which hosts may have addresses where, and the host aggregates that say so."""

import pytest
from tests.network.parts import a_provider, a_source

from roost.network.model.networks import Host, ProviderSource
from roost.network.rules import segments
from roost.seams.compute import HostAggregateState

HOST = Host("h1", frozenset({"rack1", "rack2"}), "cell1")


@pytest.mark.parametrize(
    ("host", "physical_network", "cell", "reached", "inside"),
    [
        (HOST, None, None, True, True),
        (HOST, "rack1", "cell1", True, True),
        (HOST, "rack3", "cell2", False, False),
        (None, None, None, True, True),
        (None, "rack1", "cell1", False, False),
    ],
    ids=["everywhere", "its own", "another", "unknown, everywhere", "unknown"],
)
def test_a_host_reaches_its_physical_networks_and_its_cell(
    host: Host | None, physical_network: str | None, cell: str | None, reached: bool, inside: bool
) -> None:
    assert segments.reaches(host, a_provider("p", physical_network)) is reached
    assert segments.reaches(host, a_provider("p", None, cell=cell)) is inside


@pytest.mark.parametrize(
    ("physical_network", "cell", "says"),
    [
        (None, None, None),
        ("rack1", "cell1", None),
        ("rack3", None, "Host h1 does not reach physical network rack3."),
        (None, "cell2", "Pool p belongs to cell cell2, and host h1 to another."),
    ],
)
def test_a_port_stays_off_hosts_that_do_not_reach_its_addresses(
    physical_network: str | None, cell: str | None, says: str | None
) -> None:
    assert segments.find_refusal("h1", HOST, a_provider("p", physical_network, cell=cell)) == says


SEGMENT = a_source("g", routed=True, physical_network="rack1")
POOL = a_source("f", cell="cell1")
ALL = a_source("n1")
PLAIN = a_source("n2", physical_network="rack2")
FAR = a_source("n3", physical_network="rack9")


@pytest.mark.parametrize(
    ("source", "provider", "aggregate", "plain"),
    [
        (SEGMENT, "Neutron segment id g", "Neutron segment id g", False),
        (POOL, "Flat pool id f", "Flat pool id f", False),
        (ALL, "Neutron network id n1", "all-hosts", True),
        (PLAIN, "Neutron network id n2", "Physical network rack2", True),
    ],
    ids=["segment", "pool", "plain", "plain of a physical network"],
)
def test_a_provider_and_its_host_aggregate_are_named_by_their_kind(
    source: ProviderSource, provider: str, aggregate: str, plain: bool
) -> None:
    state = segments.host_aggregate(source)
    assert (segments.provider_name(source), state.name) == (provider, aggregate)
    assert segments.is_plain_aggregate(state) is plain
    assert (state == segments.plain_aggregate(source.physical_network)) is plain
    assert (state.uuid == segments.segment_aggregate_uuid(source.provider_uuid)) is not plain
    assert not segments.is_plain_aggregate(HostAggregateState("another", state.name)), "a user's own, named alike"


@pytest.mark.parametrize(
    ("host", "sources"),
    [
        (HOST, [SEGMENT, POOL, ALL, PLAIN]),
        (Host("h1", frozenset(), "cell2"), [ALL]),
        (Host("h1", frozenset({"rack9"}), "cell1"), [POOL, ALL, FAR]),
    ],
)
def test_a_host_is_in_the_aggregates_of_all_that_it_reaches(host: Host, sources: list[ProviderSource]) -> None:
    aggregates = segments.aggregates_by_host([host], [SEGMENT, POOL, ALL, PLAIN, FAR])
    assert aggregates == {"h1": {segments.host_aggregate(source).uuid for source in sources}}
