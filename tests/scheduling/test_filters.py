"""What each filter asks for, alone: what it adds to the request, and in which words it says so."""

import pytest
from msgspec.structs import replace

from roost.placement.search.index import Index
from roost.placement.search.matching import find_in
from roost.scheduling.explain import explain
from roost.scheduling.filters import (
    REQUEST_FILTERS,
    RequestFilter,
    apply_filters,
    availability_zone,
    disabled_hosts,
    flavor_requirements,
    forced_host,
    image_traits,
    ip_aware,
    isolated_aggregates,
    project_aggregates,
    routed_networks,
)
from roost.scheduling.host_aggregates import AggregatesAsked, IsolatedAggregate
from roost.scheduling.request import Kind, Narrowing, NicRequest, Request, address_group, build_query
from roost.scheduling.settings import SchedulingSettings
from roost.seams.compute import FlavorGroup, ForcedHost
from roost.seams.network import NetworkView, Segment
from roost.seams.placement import DISABLED, IPV4_ADDRESS, IPV6_ADDRESS, RequestGroup, Requirement

V4, V6, BOTH = (IPV4_ADDRESS,), (IPV6_ADDRESS,), (IPV4_ADDRESS, IPV6_ADDRESS)
BARE = Request(resources=(("VCPU", 1),), nics=())
SETTINGS = SchedulingSettings()


def a_segment(name: str, classes: tuple[str, ...] = V4, **fields: object) -> Segment:
    return Segment(**{"provider_uuid": f"s-{name}", "name": name, "placement_aggregate": f"a-{name}",
                      "classes": classes, **fields})  # fmt: skip


def a_network(*segments: Segment, name: str = "public", routed: bool = True) -> NetworkView:
    return NetworkView(id=name, name=name, routed=routed, segments=segments)


PUBLIC = a_network(a_segment("rack1"), a_segment("rack2"))


def a_nic(network: NetworkView = PUBLIC, **fields: object) -> NicRequest:
    return NicRequest(**{"tag": "0", "network": network, "needs_address": True, "classes": V4, **fields})


def asked(narrow: RequestFilter, request: Request) -> dict[str, object]:
    """What a filter changed, beside its words; a filter never takes anything away."""
    narrowed = narrow(request, SETTINGS)
    assert narrowed.narrowings[: len(request.narrowings)] == request.narrowings
    return {
        name: getattr(narrowed, name)
        for name in request.__struct_fields__
        if name != "narrowings" and getattr(narrowed, name) != getattr(request, name)
    }


def words(narrow: RequestFilter, request: Request) -> list[tuple[str, Requirement | None, str, tuple[str, ...]]]:
    return [(one.describe(), one.requirement, one.suffix, one.names) for one in narrow(request, SETTINGS).narrowings]


@pytest.mark.parametrize(
    "narrow", [one for one in REQUEST_FILTERS if one is not disabled_hosts], ids=lambda one: one.__name__
)
def test_a_filter_with_nothing_to_ask_changes_nothing(narrow: RequestFilter) -> None:
    assert narrow(BARE, SETTINGS) == BARE


@pytest.mark.parametrize("narrow", REQUEST_FILTERS, ids=lambda one: one.__name__)
def test_a_filter_leaves_what_earlier_ones_asked_for(narrow: RequestFilter) -> None:
    group = RequestGroup(suffix="_x", resources={"CUSTOM_X": 1})
    before = replace(
        BARE, nics=(a_nic(),), flavor_groups=(FlavorGroup(suffix="", required=frozenset("B")),),
        required_traits=frozenset("A"), forbidden_traits=frozenset("C"), member_of=(frozenset("z"),), groups=(group,),
    )  # fmt: skip
    after = narrow(before, SETTINGS)
    assert after.required_traits >= {"A"}
    assert after.forbidden_traits >= {"C"}
    assert after.member_of[:1] == (frozenset("z"),)
    assert after.groups[:1] == (group,)


def test_hosts_that_are_disabled_are_left_out() -> None:
    request = replace(BARE, forbidden_traits=frozenset({"X"}))
    assert asked(disabled_hosts, request) == {"forbidden_traits": {"X", DISABLED}}
    assert words(disabled_hosts, request) == [("enabled", Requirement.NO_TRAIT, "", (DISABLED,))]


def test_a_host_that_an_operator_named_is_the_only_one() -> None:
    request = replace(BARE, forced_host=ForcedHost(name="h1", provider_uuid="p1"))
    assert asked(forced_host, request) == {"in_tree": "p1"}
    assert words(forced_host, request) == [("named h1", Requirement.IN_TREE, "", ("p1",))]


@pytest.mark.parametrize(
    ("groups", "isolated", "changes"),
    [
        pytest.param((FlavorGroup(suffix="", required=frozenset("AB"), forbidden=frozenset("C")),), False,
                     {"required_traits": frozenset("AB"), "forbidden_traits": frozenset("C")},
                     id="traits of the host"),
        pytest.param((FlavorGroup(suffix="", resources=(("CUSTOM_GPU", 1),)),), False, {},
                     id="resources of the host are in the request already"),
        pytest.param((FlavorGroup(suffix="1", resources=(("VGPU", 2),), required=frozenset("BA"),
                                  forbidden=frozenset("C")),), False,
                     {"groups": (RequestGroup(suffix="1", resources={"VGPU": 2}, forbidden=frozenset("C"),
                                              required=(frozenset("A"), frozenset("B"))),)}, id="a granular group"),
        pytest.param((FlavorGroup(suffix="1", resources=(("VGPU", 1),)),
                      FlavorGroup(suffix="2", resources=(("VGPU", 1),))), True,
                     {"groups": (RequestGroup(suffix="1", resources={"VGPU": 1}),
                                 RequestGroup(suffix="2", resources={"VGPU": 1})), "group_policy": "isolate"},
                     id="groups apart"),
    ],
)  # fmt: skip
def test_a_flavor_asks_for_traits_and_groups(
    groups: tuple[FlavorGroup, ...], isolated: bool, changes: dict[str, object]
) -> None:
    request = replace(BARE, flavor_groups=groups, isolated=isolated)
    assert asked(flavor_requirements, request) == changes


@pytest.mark.parametrize(
    ("nics", "member_of", "said"),
    [
        pytest.param((a_nic(),), [{"a-rack1", "a-rack2"}], ["reach network public"], id="any segment of a network"),
        pytest.param((a_nic(), a_nic(a_network(a_segment("box"), name="back", routed=False))),
                     [{"a-rack1", "a-rack2"}, {"a-box"}], ["reach network public", "reach network back"],
                     id="every network"),
        pytest.param((a_nic(needs_address=False, pinned_to="s-rack2", classes=None),), [{"a-rack2"}],
                     ["reach segment rack2 of network public"], id="the segment of an address"),
        pytest.param((a_nic(a_network(a_segment("rack1"), a_segment("rack2", placement_aggregate=None))),),
                     [{"a-rack1"}], ["reach network public"], id="a segment that no host reaches is skipped"),
        pytest.param((a_nic(a_network(a_segment("rack1", BOTH), a_segment("rack2"))),), [{"a-rack2"}],
                     ["reach network public where it has IPv4 alone"], id="segments of the kind that is asked for"),
    ],
)  # fmt: skip
def test_a_host_reaches_one_segment_of_every_network(
    nics: tuple[NicRequest, ...], member_of: list[set[str]], said: list[str]
) -> None:
    request = replace(BARE, nics=nics)
    assert asked(routed_networks, request) == {"member_of": tuple(map(frozenset, member_of))}
    narrowed = routed_networks(request, SETTINGS).narrowings
    assert [one.names for one in narrowed] == [tuple(sorted(one)) for one in member_of]
    assert [one.nic for one in narrowed] == list(nics)
    assert [one.describe() for one in narrowed] == said


GPU, OTHER_GPU = (
    FlavorGroup(suffix=suffix, resources=(("VGPU", 2),), required=frozenset("A"), forbidden=frozenset("B"))
    for suffix in ("1", "_x")
)
NARROWED: dict[RequestFilter, tuple[Request, list[str]]] = {
    project_aggregates: (
        replace(BARE, aggregates=AggregatesAsked(project_id="p", project_aggregates=frozenset("g"))),
        ["in a host aggregate of project p"],
    ),
    availability_zone: (
        replace(BARE, aggregates=AggregatesAsked(zone="z", zone_aggregates=frozenset("g"))),
        ["in availability zone z"],
    ),
    disabled_hosts: (BARE, ["enabled"]),
    isolated_aggregates: (
        replace(BARE, aggregates=AggregatesAsked(isolated=(IsolatedAggregate("g", "gold", frozenset("T")),))),
        ["outside of isolated aggregates gold"],
    ),
    forced_host: (replace(BARE, forced_host=ForcedHost(name="h1", provider_uuid="p1")), ["named h1"]),
    flavor_requirements: (
        replace(
            BARE,
            flavor_groups=(FlavorGroup(suffix="", required=frozenset("A"), forbidden=frozenset("B")), GPU, OTHER_GPU),
            isolated=True,
        ),
        [
            "without trait B that the flavor forbids", "with trait A that the flavor requires",
            "without trait B that group 1 of the flavor forbids", "with trait A that group 1 of the flavor requires",
            "without trait B that group x of the flavor forbids", "with trait A that group x of the flavor requires",
            "with 2 VGPU free for group 1 of the flavor", "with 2 VGPU free for group x of the flavor",
        ],
    ),
    image_traits: (replace(BARE, image_traits=frozenset("A")), ["with trait A that the image requires"]),
    routed_networks: (replace(BARE, nics=(a_nic(),)), ["reach network public"]),
    ip_aware: (replace(BARE, nics=(a_nic(),)), ["with a free address on network public"]),
}  # fmt: skip
"""A request that the filter narrows, and how the funnel reads then, beside what the request alone reads."""


ALL_ON = SchedulingSettings(limit_tenants_to_placement_aggregate=True, enable_isolated_aggregate_filtering=True)


def rows_of(request: Request) -> list[str]:
    answer = find_in(Index(), build_query(request, limit=1))
    return [words for words, _ in explain([(request, answer)], {}).funnel]


@pytest.mark.parametrize("narrow", REQUEST_FILTERS, ids=lambda one: one.__name__)
def test_a_filter_that_changes_a_request_says_so_in_the_funnel_in_its_own_words(narrow: RequestFilter) -> None:
    request, said = NARROWED[narrow]
    narrowed = narrow(request, ALL_ON)
    assert build_query(narrowed, limit=1) != build_query(request, limit=1)
    assert narrowed.narrowings != request.narrowings
    before = rows_of(request)
    assert [words for words in rows_of(narrowed) if words not in before] == said


def test_groups_that_are_to_be_apart_are_the_flavors_wish() -> None:
    request, _ = NARROWED[flavor_requirements]
    assert words(flavor_requirements, request)[-1] == (
        "with each group on a provider of its own, as group_policy of the flavor asks", Requirement.ISOLATED, "", ()
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "of_one", "of_many"),
    [
        (Kind.BE, "x", "x"), (Kind.BE_OPEN, "x", "x"), (Kind.HAVE, "with x", "with x"),
        (Kind.REACH_NETWORK, "reaches x", "reach x"), (Kind.REACH_SUBNET, "reaches x", "reach x"),
    ],
)  # fmt: skip
def test_a_requirement_has_the_verb_of_its_kind(kind: Kind, of_one: str, of_many: str) -> None:
    narrowing = Narrowing(kind=kind, words="x")
    assert [narrowing.describe(hosts=hosts) for hosts in (0, 1, 2)] == [of_many, of_one, of_many]
    assert narrowing.describe() == of_many


@pytest.mark.parametrize("segments", [(), (a_segment("rack1", placement_aggregate=None),)], ids=["none", "no host"])
def test_a_network_that_no_host_reaches_is_impossible(segments: tuple[Segment, ...]) -> None:
    changes = asked(routed_networks, replace(BARE, nics=(a_nic(a_network(*segments)),)))
    assert list(changes) == ["impossible"]
    assert "no host reaches network public" in str(changes["impossible"])


DUAL = a_network(a_segment("rack1", BOTH))
LOCAL = a_network(a_segment("rack1", ()))
DRY = a_network(a_segment("rack1", (), gives_addresses=False))


@pytest.mark.parametrize(
    ("nic", "said"),
    [
        pytest.param(a_nic(), ["with a free address on network public", "reach a subnet of network public"],
                     id="one address"),
        pytest.param(a_nic(DUAL, classes=BOTH), ["with a free IPv4 address on network public",
                     "with a free IPv6 address on network public", "reach a subnet of network public"],
                     id="one of each family"),
    ],
)  # fmt: skip
def test_a_nic_asks_for_an_address_of_each_class(nic: NicRequest, said: list[str]) -> None:
    request = replace(BARE, nics=(replace(nic, tag="7"),))
    assert asked(ip_aware, request) == {"groups": (address_group(replace(nic, tag="7")),)}
    found = words(ip_aware, request)
    assert [one for one, *_ in found] == said
    assert [names for _, requirement, _, names in found if requirement is Requirement.FREE] == [
        (name,) for name in nic.classes or ()
    ]
    assert {suffix for _, _, suffix, _ in found} == {"_nic7"}


@pytest.mark.parametrize(
    "nic",
    [a_nic(needs_address=False, classes=None), a_nic(LOCAL, classes=()), a_nic(LOCAL, classes=None)],
    ids=["it has one", "all that it gets is no capacity", "of any kind"],
)
def test_a_nic_that_claims_no_address_asks_for_none(nic: NicRequest) -> None:
    assert asked(ip_aware, replace(BARE, nics=(nic,))) == {}


@pytest.mark.parametrize(("needs_address", "possible"), [(True, False), (False, True)])
def test_a_network_without_addresses_is_impossible_for_who_needs_one(needs_address: bool, possible: bool) -> None:
    nic = a_nic(DRY, needs_address=needs_address, classes=None)
    changes = asked(ip_aware, replace(BARE, nics=(nic,)))
    assert list(changes) == ([] if possible else ["impossible"])


@pytest.mark.parametrize(
    ("traits", "before", "after"),
    [
        ({"B", "A"}, set(), {"A", "B"}), ({"A"}, {"A"}, {"A"}), ({"A"}, {"C"}, {"A", "C"}),
    ],
)  # fmt: skip
def test_an_image_asks_for_its_traits_by_name(traits: set[str], before: set[str], after: set[str]) -> None:
    request = replace(BARE, image_traits=frozenset(traits), required_traits=frozenset(before))
    assert image_traits(request, SETTINGS).required_traits == after
    assert words(image_traits, request) == [
        (f"with trait {trait} that the image requires", Requirement.TRAIT, "", (trait,)) for trait in sorted(traits)
    ]
    forced = replace(request, forced_host=ForcedHost(name="h1", provider_uuid="u1"))
    assert image_traits(forced, SETTINGS).required_traits == after


def test_the_image_comes_right_after_the_flavor() -> None:
    assert REQUEST_FILTERS.index(image_traits) == REQUEST_FILTERS.index(flavor_requirements) + 1


def test_a_host_that_is_forced_may_be_disabled_and_lack_the_flavors_and_the_images_traits() -> None:
    host = ForcedHost(name="h1", provider_uuid="u1", anyway=True)
    traits = (FlavorGroup(suffix="", resources={}, required=frozenset({"FAST"})),)
    request = replace(BARE, forced_host=host, flavor_groups=traits, image_traits=frozenset({"FAST"}))
    assert asked(disabled_hosts, request) == {}
    assert asked(flavor_requirements, request) == {}
    assert asked(image_traits, request) == {}
    assert asked(forced_host, request) == {"in_tree": "u1"}


def test_what_is_switched_off_asks_for_nothing() -> None:
    for request_filter, option in (
        (routed_networks, "query_placement_for_routed_network_aggregates"),
        (ip_aware, "ip_aware"),
    ):
        request = replace(BARE, nics=(a_nic(a_network(a_segment("rack1"))),))
        assert request_filter(request, SETTINGS) != request
        assert request_filter(request, replace(SETTINGS, **{option: False})) == request


def test_what_is_impossible_is_asked_for_no_further() -> None:
    request = replace(BARE, nics=(a_nic(a_network()), a_nic()))
    narrowed = apply_filters(request)
    assert narrowed.impossible is not None
    assert (narrowed.member_of, narrowed.groups) == ((), ())
    assert narrowed.forbidden_traits == {DISABLED}, "what came before it stays"
