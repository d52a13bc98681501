"""Requests and filters: what a server's NICs ask of the ledger."""

import pytest
from msgspec.structs import replace

from roost.scheduling.filters import apply_filters, narrow
from roost.scheduling.request import (
    CANDIDATES_MAX,
    CANDIDATES_MIN,
    CANDIDATES_PER_SERVER,
    KINDS_MAX,
    Narrowing,
    NicRequest,
    Request,
    address_group,
    alternatives,
    build_queries,
    build_query,
    build_request,
    kinds_of,
    place_of,
    reached_through,
    stays,
    suffix_of,
)
from roost.scheduling.settings import SchedulingSettings
from roost.seams.compute import FlavorGroup, ForcedHost, RequestSpec
from roost.seams.network import NetworkView, Port, Segment
from roost.seams.placement import DISABLED, Requirement

SPEC = RequestSpec(vcpus=1, memory_mb=512, disk_gb=0)
ROUTED = NetworkView(
    id="net", name="public", routed=True,
    segments=tuple(
        Segment(provider_uuid=f"seg{n}", name=f"rack{n}", placement_aggregate=f"agg{n}", classes=("IPV4_ADDRESS",))
        for n in (1, 2)
    ),
)  # fmt: skip
PLAIN = NetworkView(
    id="plain", name="backend", routed=False,
    segments=(Segment(provider_uuid="plain", name="backend", placement_aggregate="aggp", classes=("IPV4_ADDRESS",)),),
)  # fmt: skip
NETWORKS = {"net": ROUTED, "plain": PLAIN}


def a_port(tag: str = "0", network: str = "net", **changes: object) -> Port:
    same = {
        "id": f"port{tag}", "tag": tag, "network_id": network, "project_id": "p", "mac_address": "m", "revision": 1,
        "preserve_on_delete": False, "needs_address": True,
    }  # fmt: skip
    return Port(**{**same, **changes})


def query_of(*ports: Port, **options: object):
    request = apply_filters(*alternatives(build_request(SPEC, ports, NETWORKS, **options)))
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
    bare = Segment(provider_uuid="seg3", name="rack3", placement_aggregate=None, classes=("IPV4_ADDRESS",))
    some = NetworkView(id="net", name="public", routed=True, segments=(*ROUTED.segments, bare))
    none = NetworkView(id="net", name="public", routed=True, segments=(bare,))
    (bare_request,) = alternatives(build_request(SPEC, [a_port()], {"net": some}))
    request = apply_filters(bare_request)
    assert request.member_of == (frozenset({"agg1", "agg2"}),)
    impossible = apply_filters(*alternatives(build_request(SPEC, [a_port()], {"net": none})))
    assert impossible.impossible is not None
    assert "public" in impossible.impossible


def unlike(name: str, *kinds: tuple[str, ...]) -> NetworkView:
    made = tuple(
        Segment(provider_uuid=f"{name}{n}", name=f"{name}{n}", placement_aggregate=f"a{name}{n}", classes=kind)
        for n, kind in enumerate(kinds)
    )
    return NetworkView(id=name, name=name, routed=True, segments=made)


V4, V6 = "IPV4_ADDRESS", "CUSTOM_IPV6_ADDRESS"


def test_a_group_asks_for_one_address_of_each_class_of_its_kind_of_segment() -> None:
    network = unlike("n", (V4, V6), (V4,), (V4, V6), ())
    asked = [
        build_query(apply_filters(one), limit=9)
        for one in alternatives(build_request(SPEC, [a_port(network="n")], {"n": network}))
    ]
    both, four, none = (query.groups for query in asked)
    assert both[1].resources == {V4: 1, V6: 1}
    assert both[1].member_of == both[0].member_of == (frozenset({"an0", "an2"}),)
    assert four[1].resources == {V4: 1}
    assert four[1].member_of == four[0].member_of == (frozenset({"an1"}),)
    assert len(none) == 1
    assert none[0].member_of == (frozenset({"an3"}),)


def test_unlike_networks_are_combined_and_like_ones_cost_one_query() -> None:
    one, other, same = unlike("n", (V4, V6), (V4,)), unlike("m", (V6,), ()), unlike("s", (V4, V6), (V4, V6))
    networks = {"n": one, "m": other, "s": same}
    ports = [a_port("0", "n"), a_port("1", "m"), a_port("2", "s")]
    assert len(alternatives(build_request(SPEC, ports, networks))) == 4
    assert len(alternatives(build_request(SPEC, ports[2:], networks))) == 1
    held = a_port("0", "n", addresses=("10.0.0.1",), provider_uuid="n1", pinned=True, needs_address=False)
    (request,) = alternatives(build_request(SPEC, [held], networks))
    assert apply_filters(request).member_of == (frozenset({"an1"}),)


def test_too_many_combinations_are_refused_with_the_reason() -> None:
    networks = {f"n{i}": unlike(f"n{i}", (V4, V6), (V4,), (V6,), ()) for i in range(4)}
    ports = [a_port(str(i), f"n{i}") for i in range(4)]
    assert len(alternatives(build_request(SPEC, ports[:3], networks))) == KINDS_MAX
    (request,) = alternatives(build_request(SPEC, ports, networks))
    assert "256 combinations" in (request.impossible or "")
    assert apply_filters(request).impossible == request.impossible


def test_a_forced_host_and_what_a_flavor_and_an_image_ask_for_are_parts_of_the_query() -> None:
    own = FlavorGroup(
        suffix="", resources=(("CUSTOM_GPU", 1), ("VCPU", 4)), required=frozenset("BA"), forbidden=frozenset("C")
    )
    numbered = FlavorGroup(suffix="1", resources=(("VGPU", 2),), required=frozenset("D"), forbidden=frozenset("E"))
    spec = replace(
        SPEC, isolated=True, forced_host=ForcedHost(name="h1", provider_uuid="p1"), flavor_groups=(own, numbered),
        image_traits=frozenset("AF"),
    )  # fmt: skip
    (request,) = alternatives(build_request(spec, [a_port()], NETWORKS))
    query = build_query(apply_filters(request), limit=10)
    host, granular, nic = query.groups
    assert host.resources == {"VCPU": 4, "MEMORY_MB": 512, "CUSTOM_GPU": 1}
    assert (host.required, host.forbidden) == ((frozenset("A"), frozenset("B"), frozenset("F")), {"C", DISABLED})
    assert (host.in_tree, query.group_policy) == ("p1", "isolate")
    assert (granular.suffix, granular.resources) == ("1", {"VGPU": 2})
    assert (granular.required, granular.forbidden) == ((frozenset("D"),), frozenset("E"))
    assert nic.suffix == "_nic0"
    assert len({request, *alternatives(build_request(spec, [a_port()], NETWORKS))}) == 1, "equal ones go together"


def test_a_request_that_asks_for_nothing_more_is_what_it_was() -> None:
    (request,) = alternatives(build_request(SPEC, [a_port()], NETWORKS))
    query = build_query(apply_filters(request), limit=10)
    assert (query.groups[0].in_tree, query.groups[0].required, query.group_policy) == (None, (), "none")


@pytest.mark.parametrize(
    ("provider_uuid", "pinned", "free_to_leave", "kept"),
    [
        (None, False, False, False), (None, False, True, False), (None, True, True, False),
        ("pool", False, False, True), ("pool", False, True, False), ("pool", True, False, True),
        ("pool", True, True, True),
    ],
)  # fmt: skip
def test_a_claimed_address_stays_unless_it_may_be_left(
    provider_uuid: str | None, pinned: bool, free_to_leave: bool, kept: bool
) -> None:
    assert stays(a_port(provider_uuid=provider_uuid, pinned=pinned), free_to_leave=free_to_leave) is kept


def nowhere(network: NetworkView, *numbers: int, **fields: object) -> NetworkView:
    """The network with other fields for some of its segments."""
    segments = tuple(replace(one, **fields) if n in numbers else one for n, one in enumerate(network.segments))
    return replace(network, segments=segments)


@pytest.mark.parametrize(
    ("network", "kinds"),
    [
        pytest.param(unlike("n"), (None,), id="no segments"),
        pytest.param(unlike("n", (V4,), (V4,)), ((V4,),), id="all alike"),
        pytest.param(unlike("n", (), (V4,), (V6,), (V4, V6)), ((V4, V6), (V6,), (V4,), ()),
                     id="those that give most first"),
        pytest.param(nowhere(unlike("n", (V4,), (V6,)), 1, gives_addresses=False), ((V4,),), id="a dry segment"),
        pytest.param(nowhere(unlike("n", (V4,), (V6,)), 0, placement_aggregate=None), ((V6,),), id="unreached"),
        pytest.param(nowhere(unlike("n", (V4,)), 0, gives_addresses=False), (None,), id="nothing but dry ones"),
    ],
)  # fmt: skip
def test_the_kinds_of_a_network_are_those_where_a_port_gets_addresses(network: NetworkView, kinds: tuple) -> None:
    assert kinds_of(network) == kinds


MIXED = nowhere(unlike("n", (V4,), (V4, V6), (), (V4,)), 3, placement_aggregate=None)
DRY = nowhere(MIXED, 0, gives_addresses=False)


@pytest.mark.parametrize(
    ("network", "pinned_to", "classes", "reached"),
    [
        pytest.param(MIXED, None, None, {"an0", "an1", "an2"}, id="all that hosts reach"),
        pytest.param(MIXED, None, (V4,), {"an0"}, id="those of a kind"),
        pytest.param(MIXED, None, (V4, V6), {"an1"}, id="those of another kind"),
        pytest.param(MIXED, None, (), {"an2"}, id="those where nothing runs out"),
        pytest.param(MIXED, "n1", None, {"an1"}, id="the one of its address"),
        pytest.param(MIXED, "n1", (V4,), {"an1"}, id="the one of its address, of whatever kind"),
        pytest.param(MIXED, "n3", None, set(), id="the one of its address, that no host reaches"),
        pytest.param(DRY, None, (V4,), {"an0"}, id="a dry one is left to the group"),
        pytest.param(DRY, None, (), {"an2"}, id="a dry one is not without addresses that run out"),
    ],
)
def test_a_nic_is_reached_through_the_segments_that_it_may_be_on(
    network: NetworkView, pinned_to: str | None, classes: tuple[str, ...] | None, reached: set[str]
) -> None:
    nic = NicRequest(tag="0", network=network, needs_address=True, pinned_to=pinned_to, classes=classes)
    assert reached_through(nic) == reached


FLAT = replace(ROUTED, flat=True)


@pytest.mark.parametrize(
    ("network", "pinned_to", "classes", "words"),
    [
        (PLAIN, None, None, "network backend"),
        (PLAIN, "plain", None, "network backend"),
        (ROUTED, None, None, "network public"),
        (ROUTED, None, (V4,), "network public"),
        (ROUTED, "seg2", None, "segment rack2 of network public"),
        (ROUTED, "gone", None, "network public"),
        (FLAT, "seg1", None, "cell rack1 of network public"),
        (MIXED, None, (V4, V6), "network n where it has IPv4 and IPv6"),
        (MIXED, None, (V4,), "network n where it has IPv4 alone"),
        (MIXED, None, (), "network n where it has no addresses that run out"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) and " " in value else "",
)
def test_a_place_is_said_in_words(
    network: NetworkView, pinned_to: str | None, classes: tuple[str, ...] | None, words: str
) -> None:
    nic = NicRequest(tag="0", network=network, needs_address=False, pinned_to=pinned_to, classes=classes)
    assert place_of(nic) == words


@pytest.mark.parametrize("tag", ["0", "eth0"])
def test_the_suffix_of_a_group_is_its_nics_tag(tag: str) -> None:
    assert suffix_of(tag) == f"_nic{tag}"


@pytest.mark.parametrize(
    ("network", "pinned_to", "classes", "where"),
    [
        pytest.param(PLAIN, None, (V4,), {"in_tree": "plain"}, id="the provider of a plain network"),
        pytest.param(FLAT, "seg2", (V4,), {"in_tree": "seg2"}, id="the pool that it is held to"),
        pytest.param(ROUTED, None, (V4,), {"member_of": ({"agg1", "agg2"},)}, id="any segment"),
        pytest.param(MIXED, None, (V4, V6), {"member_of": ({"an1"},)}, id="a segment of its kind"),
        pytest.param(MIXED, None, (V4,), {"member_of": ({"an0"},)}, id="a segment of its kind that hosts reach"),
    ],
)
def test_a_nics_group_asks_for_one_address_of_each_class(
    network: NetworkView, pinned_to: str | None, classes: tuple[str, ...], where: dict[str, object]
) -> None:
    nic = NicRequest(tag="7", network=network, needs_address=True, pinned_to=pinned_to, classes=classes)
    group = address_group(nic)
    assert (group.suffix, group.resources) == ("_nic7", dict.fromkeys(classes, 1))
    assert (group.in_tree, group.member_of) == (where.get("in_tree"), where.get("member_of", ()))


def test_what_narrows_a_request_is_kept_in_order() -> None:
    before = Request(resources=(), nics=())
    zoned = Narrowing(words="in zone a", requirement=Requirement.MEMBER_OF)
    request = before.narrowed(zoned, in_tree="t").narrowed(impossible="no hosts")
    assert (request.narrowings, request.in_tree, request.impossible) == ((zoned,), "t", "no hosts")
    assert before.narrowings == ()


def test_all_that_is_left_out_by_aggregates_is_one_row_of_the_funnel() -> None:
    zoned = Narrowing(words="in zone a", requirement=Requirement.MEMBER_OF)
    request = Request(resources=(), nics=()).outside("outside of x", frozenset({"X"})).narrowed(zoned)
    request = request.outside("outside of y", frozenset({"Y"}))
    both = Narrowing(words="outside of x and outside of y", requirement=Requirement.NOT_MEMBER_OF)
    assert request.narrowings == (zoned, both)
    assert request.forbidden_aggregates == {"X", "Y"}


@pytest.mark.parametrize(("ip_aware", "groups"), [(True, ["", "_nic0"]), (False, [""])])
def test_every_alternative_is_narrowed_and_there_is_one_where_addresses_are_not_looked_at(
    ip_aware: bool, groups: list[str]
) -> None:
    (request,) = narrow(build_request(SPEC, [a_port()], NETWORKS), SchedulingSettings(ip_aware=ip_aware))
    assert [group.suffix for group in build_query(request, limit=1).groups] == groups
    kinds = [replace(ROUTED.segments[0], classes=("IPV4_ADDRESS", "CUSTOM_IPV6_ADDRESS")), ROUTED.segments[1]]
    mixed = {"net": replace(ROUTED, segments=tuple(kinds))}
    requests = narrow(build_request(SPEC, [a_port()], mixed), SchedulingSettings(ip_aware=ip_aware))
    assert len(requests) == (2 if ip_aware else 1)


@pytest.mark.parametrize(
    ("servers", "limit"),
    [(1, CANDIDATES_MIN), (100, 100 * CANDIDATES_PER_SERVER), (10**6, CANDIDATES_MAX)],
)
def test_more_servers_are_offered_more_candidates_within_bounds(servers: int, limit: int) -> None:
    requests = narrow(build_request(SPEC, [a_port()], NETWORKS, excluded_hosts=["h1"]))
    assert [query.limit for query in build_queries(requests, servers=servers)] == [limit + 1]
