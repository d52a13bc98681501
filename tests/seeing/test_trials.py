"""Whether servers that leave their hosts fit elsewhere, all of them together."""

from random import Random

from msgspec.structs import replace
from tests.seeing.clouds import DEFAULTS, FAST, draw
from tests.seeing.test_capacity import BIG, racks

from roost.placement.search.index import Index
from roost.scheduling.host_aggregates import AggregatesAsked
from roost.scheduling.request import Request
from roost.seams.compute import FlavorGroup
from roost.seams.placement import DISABLED, VCPU
from roost.seeing.rules.changes import add_host, close_hosts
from roost.seeing.rules.trials import Elsewhere, Leaving, fit_elsewhere, has_room, search


def leave(index: Index, *servers: tuple[str, Request]) -> Elsewhere:
    leaving = [Leaving(server_id=server_id, request=request) for server_id, request in servers]
    return fit_elsewhere(index, leaving, Random(1), DEFAULTS)


def test_each_alone_would_fit_and_both_do_not() -> None:
    """Server by server, both would be let go to the same last address."""
    cloud = racks(1)
    index, asks = cloud.index(), cloud.request()
    assert has_room(search(index, cloud.requests(), Random(1)))
    elsewhere = leave(index, ("s1", asks), ("s2", asks))
    assert not elsewhere.fits
    assert (len(elsewhere.hosts), len(elsewhere.refused)) == (1, 1)
    ((request, answer),) = next(iter(elsewhere.refused.values()))
    assert answer is not None
    assert answer.funnel is not None
    assert answer.funnel.steps[-1].hosts_left == 0
    assert index.used[index.row_by_uuid["rack0"]]["IPV4_ADDRESS"] == 0, "the index is left as it was"
    assert elsewhere.index.used[elsewhere.index.row_by_uuid["rack0"]]["IPV4_ADDRESS"] == 1
    assert request.impossible is None


def test_who_can_go_to_one_host_only_goes_first() -> None:
    cloud = racks(hosts=0)
    cloud.nics = ()
    for name in ("any", "fast"):
        cloud.add_host(name, VCPU=1, **BIG)
    cloud.providers["fast"] = replace(cloud.providers["fast"], traits=frozenset({FAST}))
    picky = cloud.request(flavor_groups=(FlavorGroup(suffix="", required=frozenset({FAST})),))
    for lot in range(8):
        leaving = [Leaving(server_id="s1", request=cloud.request()), Leaving(server_id="s2", request=picky)]
        elsewhere = fit_elsewhere(cloud.index(), leaving, Random(lot), DEFAULTS)
        assert elsewhere.hosts == {"s1": "any", "s2": "fast"}


def test_large_servers_go_before_small_ones() -> None:
    cloud = racks(hosts=0)
    cloud.nics = ()
    for name in ("h1", "h2"):
        cloud.add_host(name, VCPU=4, **BIG)
    small, large = cloud.request(), cloud.request(vcpus=4)
    assert leave(cloud.index(), *((f"s{n}", small) for n in range(4)), ("l", large)).fits


def test_a_server_with_an_impossible_request_stays_with_its_reason() -> None:
    cloud = racks(9)
    cloud.aggregates = AggregatesAsked(zone="gone", zone_aggregates=frozenset())
    (((request, answer),),) = leave(cloud.index(), ("s1", cloud.request())).refused.values()
    assert answer is None
    assert request.impossible is not None


def test_closed_hosts_take_nobody_and_unknown_names_are_returned() -> None:
    cloud = racks(9, 9, hosts=1)
    index = cloud.index()
    assert close_hosts(index, ["r0-h0", "nobody"]) == ["nobody"]
    assert set(leave(index, ("s1", cloud.request())).hosts.values()) == {"r1-h0"}


def test_a_host_that_is_added_is_as_the_other_one_but_empty_open_and_of_its_own_size() -> None:
    cloud = racks(9, hosts=1)
    cloud.providers["r0-h0"] = replace(
        cloud.providers["r0-h0"], traits=frozenset({DISABLED, FAST}), used={**cloud.providers["r0-h0"].used, VCPU: 4}
    )
    index = cloud.index()
    add_host(index, "new", index.row_by_uuid["r0-h0"], {VCPU: 7})
    row = index.row_by_uuid[next(uuid for uuid in index.row_by_uuid if uuid.startswith("what-if-"))]
    assert (index.names[row], index.traits[row]) == ("new", {FAST})
    assert index.placement_aggregates[row] == {"a-rack0"}
    assert (index.inventories[row][VCPU].total, index.used[row][VCPU]) == (7, 0)
    assert leave(index, ("s1", cloud.request(vcpus=7))).fits


def test_a_copy_is_another_index() -> None:
    """Whatever is done to a copy, the index answers as before; so does the copy when the index changes."""
    for number in range(10):
        cloud = draw(f"copy-{number}")
        index = cloud.index()
        before = [search(index, cloud.requests(), Random(1)), list(index.traits), dict(index.networks)]
        other = index.copy()
        close_hosts(other, [name for name in other.names if name.startswith("r")])
        add_host(other, "new", other.row_by_uuid["r0-h0"], {VCPU: 99})
        assert [search(index, cloud.requests(), Random(1)), list(index.traits), dict(index.networks)] == before
        assert "new" not in index.names
        third = index.copy()
        close_hosts(index, ["r0-h0"])
        assert search(third, cloud.requests(), Random(1)) == before[0]
