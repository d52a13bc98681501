"""Requests and filters: what a server's NICs ask of the ledger."""

from roost.scheduling.filters import apply_filters
from roost.scheduling.request import build_query, build_request
from roost.seams.compute import RequestSpec
from roost.seams.network import NetworkView, Port, Segment
from roost.seams.placement import DISABLED

SPEC = RequestSpec(vcpus=1, memory_mb=512, disk_gb=0)
ROUTED = NetworkView(
    id="net", name="public", routed=True,
    segments=tuple(
        Segment(provider_uuid=f"seg{n}", name=f"rack{n}", placement_aggregate=f"agg{n}", has_inventory=True)
        for n in (1, 2)
    ),
)  # fmt: skip
PLAIN = NetworkView(
    id="plain", name="backend", routed=False,
    segments=(Segment(provider_uuid="plain", name="backend", placement_aggregate="aggp", has_inventory=True),),
)  # fmt: skip
NETWORKS = {"net": ROUTED, "plain": PLAIN}


def a_port(tag: str = "0", network: str = "net", **changes: object) -> Port:
    same = {
        "id": f"port{tag}", "tag": tag, "network_id": network, "project_id": "p", "mac_address": "m", "revision": 1,
        "preserve_on_delete": False, "needs_address": True,
    }  # fmt: skip
    return Port(**{**same, **changes})  # type: ignore[arg-type]


def query_of(*ports: Port, **options: object):
    request = apply_filters(build_request(SPEC, ports, NETWORKS, **options))  # type: ignore[arg-type]
    return build_query(request, limit=10)


def test_a_port_without_an_address_asks_for_one_on_any_segment_of_its_network() -> None:
    host, nic = query_of(a_port()).groups
    assert host.resources == {"VCPU": 1, "MEMORY_MB": 512}
    assert host.member_of == (frozenset({"agg1", "agg2"}),)
    assert host.forbidden == {DISABLED}
    assert nic.resources == {"IPV4_ADDRESS": 1}
    assert nic.member_of == (frozenset({"agg1", "agg2"}),)


def test_a_plain_network_is_asked_for_by_its_provider() -> None:
    _host, nic = query_of(a_port(network="plain")).groups
    assert nic.in_tree == "plain"


def test_two_nics_are_two_groups_and_their_networks_are_anded() -> None:
    host, one, two = query_of(a_port("0"), a_port("1", "plain")).groups
    assert host.member_of == (frozenset({"agg1", "agg2"}), frozenset({"aggp"}))
    assert {one.suffix, two.suffix} == {"_nic0", "_nic1"}


def test_a_port_with_an_address_holds_the_server_to_its_segment_and_claims_nothing() -> None:
    port = a_port(addresses=("10.0.0.1",), provider_uuid="seg2", pinned=True, needs_address=False)
    (host,) = query_of(port).groups
    assert host.member_of == (frozenset({"agg2"}),)


def test_an_address_of_this_very_build_may_be_left_when_its_segment_has_no_host() -> None:
    port = a_port(addresses=("10.0.0.1",), provider_uuid="seg2", pinned=False, needs_address=False)
    assert len(query_of(port).groups) == 1
    _host, nic = query_of(port, free_to_leave=True).groups
    assert nic.resources == {"IPV4_ADDRESS": 1}


def test_a_segment_without_an_aggregate_is_skipped_and_a_network_of_such_is_impossible() -> None:
    bare = Segment(provider_uuid="seg3", name="rack3", placement_aggregate=None, has_inventory=True)
    some = NetworkView(id="net", name="public", routed=True, segments=(*ROUTED.segments, bare))
    none = NetworkView(id="net", name="public", routed=True, segments=(bare,))
    request = apply_filters(build_request(SPEC, [a_port()], {"net": some}))
    assert request.member_of == (frozenset({"agg1", "agg2"}),)
    impossible = apply_filters(build_request(SPEC, [a_port()], {"net": none}))
    assert impossible.impossible is not None
    assert "public" in impossible.impossible
