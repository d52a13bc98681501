"""The search: example worlds, and a property test against a search that tries everything."""

from collections.abc import Iterable
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.placement.naive import key_of, tried
from tests.placement.worlds import CLASSES, RANDOM, a_query, a_world, host, index_of, provider, segment

from roost.placement.model import ProviderRow, Usage
from roost.placement.search.answers import encode
from roost.placement.search.candidates import (
    SOLE_LIMIT_MIN,
    amounts_of,
    find,
    gather,
    rows_by_suffix,
    summarize,
    to_candidates,
)
from roost.placement.search.combinations import SearchBudget, combinations
from roost.placement.search.index import Delta, Index
from roost.placement.search.matching import find_in, match
from roost.placement.search.narrowing import make_plan
from roost.placement.settings import PlacementSettings
from roost.seams.placement import (
    DISK_GB,
    IPV4_ADDRESS,
    MEMORY_MB,
    SHARING,
    VCPU,
    CandidateQuery,
    Candidates,
    Distinct,
    Inventory,
    RequestGroup,
)

SERVER = RequestGroup(suffix="", resources={VCPU: 1, MEMORY_MB: 512, DISK_GB: 10})


def nic(suffix: str, *aggregates: str, in_tree: str | None = None, amount: int = 1) -> RequestGroup:
    member_of = (frozenset(aggregates),) if aggregates else ()
    return RequestGroup(suffix=suffix, resources={IPV4_ADDRESS: amount}, member_of=member_of, in_tree=in_tree)


def ask(index: Index, *groups: RequestGroup, policy: str = "none", limit: int = 0, start: int = 0) -> Candidates:
    return find_in(index, CandidateQuery(groups=groups, group_policy=policy, limit=limit), start=start)


def picks(found: Candidates) -> list[tuple[str, ...]]:
    """Of each candidate its host and the providers of its NICs, in order of their suffixes."""
    return [
        (one.root_uuid, *(rows[0] for suffix, rows in sorted(one.providers_by_suffix.items()) if suffix))
        for one in found.candidates
    ]


def test_hosts_of_a_dry_segment_are_left_out() -> None:
    index = index_of(
        host(1, "a"), host(2, "b"), host(3), segment(10, "a", addresses=5, used=5), segment(11, "b", addresses=5)
    )
    assert picks(ask(index, SERVER, nic("_nic0", "a", "b"))) == [("p2", "p11")]
    assert {one.root_uuid for one in ask(index, SERVER).candidates} == {"p1", "p2", "p3"}


def test_two_nics_on_one_network_take_two_addresses_of_one_segment() -> None:
    index = index_of(host(1, "a"), host(2, "b"), segment(10, "a", addresses=2, used=1), segment(11, "b", addresses=2))
    found = ask(index, SERVER, nic("_nic0", "a", "b"), nic("_nic1", "a", "b"))
    assert picks(found) == [("p2", "p11", "p11")]
    assert found.candidates[0].allocations["p11"] == {IPV4_ADDRESS: 2}


def test_exchangeable_nics_give_each_combination_once() -> None:
    index = index_of(host(1, "a", "b"), segment(10, "a", addresses=9), segment(11, "b", addresses=9))
    nics = [nic(f"_{number}", "a", "b") for number in range(2)]
    assert picks(ask(index, SERVER, *nics)) == [("p1", "p10", "p10"), ("p1", "p10", "p11"), ("p1", "p11", "p11")]
    assert picks(ask(index, SERVER, *nics, policy="isolate")) == [("p1", "p10", "p11")]


def test_two_networks_are_claimed_from_a_segment_of_each() -> None:
    index = index_of(
        host(1, "a", "x"), host(2, "b"), host(3, "b", "x"),
        segment(10, "a", addresses=1), segment(11, "b", addresses=1), segment(12, "x", addresses=1),
    )  # fmt: skip
    found = ask(index, SERVER, nic("_0", "a", "b"), nic("_1", "x"))
    assert picks(found) == [("p1", "p10", "p12"), ("p3", "p11", "p12")]


def test_a_host_on_two_segments_of_a_network_has_a_candidate_with_each() -> None:
    index = index_of(host(1, "a", "b"), host(2, "a"), segment(10, "a", addresses=1), segment(11, "b", addresses=1))
    every = [("p2", "p10"), ("p1", "p10"), ("p1", "p11")]
    assert picks(ask(index, SERVER, nic("_0", "a", "b"))) == every, "who gives one alone comes first"
    assert picks(ask(index, SERVER, nic("_0", "a", "b"), limit=2)) == [("p1", "p10"), ("p2", "p10")]


def test_a_host_that_can_help_itself_is_found_where_its_neighbours_fail() -> None:
    index = index_of(
        host(1, "a"),
        provider(
            2, totals={VCPU: 8, MEMORY_MB: 4096, DISK_GB: 100, IPV4_ADDRESS: 1}, placement_aggregates=frozenset("a")
        ),
        segment(10, "a", addresses=1),
    )
    assert picks(ask(index, SERVER, nic("_0"), nic("_1"))) == [("p2", "p2", "p10")]


def devices(count: int, *, capacity: int, first: int = 1) -> list[ProviderRow]:
    """A host p<first> with so many devices below it, all alike."""
    below = [
        provider(first + number, totals={IPV4_ADDRESS: capacity}, parent_id=first, root_id=first)
        for number in range(1, count + 1)
    ]
    return [provider(first, totals={VCPU: 8}), *below]


def found_on(
    world: Iterable[ProviderRow], count: int, policy: str, *, amount: int = 1, limit: int = 0, **how: bool
) -> list[tuple[int, ...]]:
    """The candidates of a VCPU and of so many groups that are alike, with all their mappings."""
    index = index_of(*world)
    groups = [RequestGroup(suffix="", resources={VCPU: 1}), *(nic(f"_{n}", amount=amount) for n in range(count))]
    query = CandidateQuery(groups=tuple(groups), group_policy=policy, distinct=Distinct.MAPPINGS)
    gathered = gather(index, make_plan(index, query), limit=limit, **how)
    return [one.rows for one in gathered.all()]


@pytest.mark.parametrize(("policy", "capacity", "count"), [("isolate", 1, 20_160), ("none", 1, 20_160)])
def test_every_mapping_of_alike_devices_is_given_once(policy: str, capacity: int, count: int) -> None:
    found = found_on(devices(8, capacity=capacity), 6, policy)
    assert len(found) == len(set(found)) == count
    some = found_on(devices(8, capacity=capacity), 6, policy, limit=28)
    assert len({frozenset(chosen) for chosen in some}) == 28, "other devices come before the same ones exchanged"


@pytest.mark.parametrize(
    ("count", "groups", "policy", "amount"),
    [(64, 65, "isolate", 1), (64, 65, "none", 2), (8, 500, "none", 1)],
)
def test_what_cannot_fit_on_many_devices_is_not_tried_out(count: int, groups: int, policy: str, amount: int) -> None:
    """Trying would take for ever."""
    assert found_on(devices(count, capacity=3), groups, policy, amount=amount) == []


def test_groups_that_only_some_devices_serve_are_matched_not_tried_out() -> None:
    wide = [provider(100 + n, totals={VCPU: 1}, parent_id=1, root_id=1) for n in range(30)]
    index = index_of(*devices(2, capacity=1), *wide)
    asked = [RequestGroup(suffix=f"_{n}", resources={VCPU: 1}, required=()) for n in range(9)]
    scarce = [nic(f"_x{n}", in_tree="p1") for n in range(3)]
    assert picks(ask(index, *asked, *scarce, policy="isolate")) == []


def test_a_search_that_finds_nothing_for_long_ends() -> None:
    """Eight halves do not fit on seven devices, but the eight small parts before them fit in millions of ways."""
    index = index_of(*devices(7, capacity=100))
    amounts = [*range(1, 9), *range(51, 59)]
    plan = make_plan(index, CandidateQuery(groups=tuple(nic(f"_{n}", amount=n) for n in amounts)))
    options = [np.flatnonzero(slot.own).tolist() for slot in plan.slots]
    budget = SearchBudget()
    budget.steps_left = 2000
    assert list(combinations(index, plan, options, budget)) == []
    assert budget.steps_left < 0


def test_sharing_providers_that_share_with_each_other_give_each_combination_once() -> None:
    index = index_of(segment(10, "a", addresses=9), segment(11, "a", addresses=9))
    found = {tuple(sorted(pick[1:])) for pick in picks(ask(index, nic("_0"), nic("_1")))}
    assert len(found) == len(ask(index, nic("_0"), nic("_1")).candidates) == 3


def test_a_sharing_provider_that_can_help_itself_is_found_where_hosts_fail() -> None:
    marked = frozenset({"CUSTOM_ROOT"})
    index = index_of(
        host(1, "a", traits=marked),
        segment(10, "a", "b", addresses=1),
        provider(11, totals={IPV4_ADDRESS: 1}, placement_aggregates=frozenset("b"), traits=marked | {SHARING}),
    )
    query = CandidateQuery(groups=(nic("_0"), nic("_1")), root_required=marked)
    assert [set(pick) for pick in picks(find_in(index, query))] == [{"p11", "p10"}]


@settings(max_examples=150, deadline=None)
@given(RANDOM)
def test_many_groups_on_few_devices_are_found_as_by_trying_everything(random: Random) -> None:
    world = [provider(1, totals={MEMORY_MB: 1})]
    world += [
        provider(n, totals={name: random.randint(1, 4) for name in CLASSES}, parent_id=1, root_id=1)
        for n in range(2, random.randint(5, 7))
    ]
    kinds = [{VCPU: random.randint(1, 2)}, {VCPU: random.randint(1, 3)}, {IPV4_ADDRESS: 1, VCPU: random.randint(1, 2)}]
    made = [RequestGroup(suffix=f"_{n}", resources=random.choice(kinds)) for n in range(random.randint(3, 5))]
    policy, distinct = random.choice(["none", "none", "isolate"]), random.choice(list(Distinct))
    query = CandidateQuery(groups=tuple(made), group_policy=policy, distinct=distinct)
    index, by_uuid = index_of(*world), {one.uuid: one for one in world}
    parts = [(group, group.resources) for group in made]
    found = find(index, make_plan(index, query), limit=0)
    keys = [key_of(query, parts, [by_uuid[index.uuids[row]] for row in one.rows]) for one in found]
    assert len(keys) == len(set(keys))
    assert set(keys) == tried(world, query)


def test_a_dead_end_is_one_only_for_the_same_groups_on_the_same_providers() -> None:
    """p1 and p2 have given the same both times, but only with the unsuffixed group on p2 is there room for `_1`."""
    marked = frozenset({"CUSTOM_A"})
    index = index_of(
        provider(1, totals={VCPU: 5}),
        provider(2, totals={VCPU: 5}, parent_id=1, root_id=1, traits=marked),
        provider(3, totals={DISK_GB: 1}, parent_id=1, root_id=1),
    )
    groups = [
        RequestGroup(suffix="", resources={VCPU: 1}),
        RequestGroup(suffix="_0", resources={VCPU: 1}),
        RequestGroup(suffix="_1", resources={VCPU: 1}, required=(marked,)),
        RequestGroup(suffix="_2", resources={DISK_GB: 1}),
    ]
    found = ask(index, *groups, policy="isolate").candidates
    assert [one.providers_by_suffix[""] for one in found] == [("p1",), ("p2",)]
    assert {one.providers_by_suffix["_1"] for one in found} == {("p2",)}


def test_breadth_first_gives_one_of_each_host_and_depth_first_all_of_one() -> None:
    world = [one for host in range(4) for one in devices(8, capacity=1, first=1 + 100 * host)]
    for depth_first, hosts in ((False, 4), (True, 1)):
        found = found_on(world, 2, "isolate", limit=8, depth_first=depth_first)
        assert len({chosen[0] for chosen in found}) == hosts
        assert len(set(found)) == 8


def test_in_tree_restricts_a_group_to_the_plain_network() -> None:
    index = index_of(host(1, "all", "a"), host(2), segment(10, "a", addresses=5), segment(20, "all", addresses=5))
    assert picks(ask(index, SERVER, nic("_0", in_tree="p20"))) == [("p1", "p20")]
    assert picks(ask(index, SERVER, nic("_0", in_tree="p99"))) == []


def test_the_search_starts_at_another_host_when_told_to() -> None:
    index = index_of(host(1), host(2), host(3))
    assert [pick[0] for pick in picks(ask(index, SERVER, start=4))] == ["p2", "p3", "p1"]


def test_a_tree_gives_its_resources_together_and_required_traits_may_be_spread() -> None:
    index = index_of(
        provider(1, totals={MEMORY_MB: 100}, traits=frozenset({"CUSTOM_A"})),
        provider(2, totals={VCPU: 4}, parent_id=1, root_id=1),
        provider(3, totals={VCPU: 4}, parent_id=1, root_id=1, traits=frozenset({"CUSTOM_B"})),
    )
    need = RequestGroup(suffix="", resources={VCPU: 1, MEMORY_MB: 1})
    assert [one.allocations.keys() for one in ask(index, need).candidates] == [{"p2", "p1"}, {"p3", "p1"}]
    both = RequestGroup(
        suffix="", resources=need.resources, required=(frozenset({"CUSTOM_A"}), frozenset({"CUSTOM_B", "CUSTOM_C"}))
    )
    assert [one.allocations.keys() for one in ask(index, both).candidates] == [{"p3", "p1"}]


def test_no_candidate_says_how_many_hosts_each_requirement_left() -> None:
    index = index_of(
        host(1, "a"), host(2, "a", vcpu=1, used={VCPU: 1}), host(3, "b"), host(4),
        segment(10, "a", addresses=3, used=3), segment(11, "b", addresses=0),
    )  # fmt: skip
    funnel = ask(index, SERVER, nic("_nic0", "a", "b")).funnel
    assert funnel is not None
    assert [(step.describe(), step.hosts_left) for step in funnel.steps] == [
        ("hosts", 4),
        ("inventory of VCPU and MEMORY_MB and DISK_GB", 4),
        ("inventory of IPV4_ADDRESS (group _nic0)", 3),
        ("in placement aggregate a or b (group _nic0)", 3),
        ("1 VCPU free", 2),
        ("512 MEMORY_MB free", 2),
        ("10 DISK_GB free", 2),
        ("1 IPV4_ADDRESS free (group _nic0)", 0),
    ]


def test_the_funnel_has_a_step_for_each_set_of_aggregates_and_each_trait() -> None:
    slow, disabled = provider(3).traits | {"CUSTOM_SLOW"}, frozenset({"DISABLED"})
    index = index_of(host(1, "a"), host(2, "a", "b", traits=disabled), host(3, "b", traits=slow))
    group = RequestGroup(
        suffix="", resources={VCPU: 1}, member_of=(frozenset("b"), frozenset("a")),
        forbidden=frozenset({"DISABLED", "CUSTOM_SLOW"}), required=(frozenset({"X", "Y"}),),
        forbidden_aggregates=frozenset({"z"}), in_tree="p2",
    )  # fmt: skip
    funnel = ask(index, group).funnel
    assert funnel is not None
    assert [(step.describe(), step.hosts_left) for step in funnel.steps] == [
        ("hosts", 3),
        ("inventory of VCPU", 3),
        ("no trait CUSTOM_SLOW", 2),
        ("no trait DISABLED", 1),
        ("trait X or Y", 0),
        ("in the tree of provider p2", 0),
        ("in none of the placement aggregates z", 0),
        ("in placement aggregate b", 0),
        ("in placement aggregate a", 0),
        ("1 VCPU free", 0),
    ]


def test_the_funnel_ends_at_nothing_when_only_the_whole_does_not_fit() -> None:
    index = index_of(host(1, "a"), segment(10, "a", addresses=1))
    funnel = ask(index, SERVER, nic("_0", "a"), nic("_1", "a")).funnel
    assert funnel is not None
    assert [(step.describe(), step.hosts_left) for step in funnel.steps[-2:]] == [
        ("1 IPV4_ADDRESS free (group _1)", 1),
        ("all of it together", 0),
    ]


@pytest.mark.parametrize(
    ("chosen", "rows", "amounts"),
    [
        ((1, 1, 2, 2), {"": (1,), "_0": (2,), "_1": (2,)}, {1: {VCPU: 1, MEMORY_MB: 2}, 2: {IPV4_ADDRESS: 7}}),
        ((1, 2, 2, 3), {"": (1, 2), "_0": (2,), "_1": (3,)},
         {1: {VCPU: 1}, 2: {MEMORY_MB: 2, IPV4_ADDRESS: 3}, 3: {IPV4_ADDRESS: 4}}),
        ((2, 1, 1, 2), {"": (2, 1), "_0": (1,), "_1": (2,)},
         {2: {VCPU: 1, IPV4_ADDRESS: 4}, 1: {MEMORY_MB: 2, IPV4_ADDRESS: 3}}),
    ],
    ids=["groups on one provider are added up", "a group on that of a class", "in the order of the slots"],
)  # fmt: skip
def test_a_candidate_maps_groups_to_providers_and_takes_what_they_ask(
    chosen: tuple[int, ...], rows: dict[str, tuple[int, ...]], amounts: dict[int, dict[str, int]]
) -> None:
    server = RequestGroup(suffix="", resources={VCPU: 1, MEMORY_MB: 2})
    plan = make_plan(index_of(), CandidateQuery(groups=(server, nic("_0", amount=3), nic("_1", amount=4))))
    assert rows_by_suffix(plan, chosen) == rows
    assert amounts_of(plan, chosen) == amounts


def test_a_summary_has_every_class_with_its_capacity_and_use() -> None:
    inventories = {VCPU: Inventory(4, reserved=1, allocation_ratio=2.0), DISK_GB: Inventory(9)}
    summary = summarize(index_of(provider(1, totals=inventories, used={VCPU: 5})), 0)
    assert (summary.uuid, summary.name) == ("p1", "p1")
    assert summary.resources == {VCPU: (6, 5), DISK_GB: (9, 0)}


# Against a search that tries everything.


@settings(max_examples=1000, deadline=None)
@given(RANDOM, st.integers(0, 3), st.booleans(), st.integers(1, 4))
def test_the_search_finds_what_trying_everything_finds(random: Random, start, depth_first, limit) -> None:
    world, query = a_world(random), a_query(random)
    index = index_of(*world)
    plan = make_plan(index, query)
    by_uuid = {one.uuid: one for one in world}
    parts = [
        (query.groups[slot.group], {want.resource_class: want.amount for want in slot.wants}) for slot in plan.slots
    ]

    def keys_of(rows: Iterable[tuple[int, ...]]) -> list[object]:
        keys = [key_of(query, parts, [by_uuid[index.uuids[row]] for row in chosen]) for chosen in rows]
        assert len(keys) == len(set(keys)), "a candidate was given twice"
        return keys

    expected = tried(world, query)
    found = find(index, plan, limit=0, start=start, depth_first=depth_first)
    assert set(keys_of(one.rows for one in found)) == expected
    for most in (0, limit, SOLE_LIMIT_MIN):
        gathered = gather(index, plan, limit=most, start=start, depth_first=depth_first)
        keys = keys_of([one.rows for one in gathered.all()])
        assert len(gathered) == len(keys) == (min(most, len(expected)) if most else len(expected))
        assert set(keys) <= expected
    placed, answered = find_in(index, query), match(index, query, PlacementSettings(), start=start)
    funnel = placed.funnel
    assert placed == replace(to_candidates(index, query, answered.plan, answered.candidates), funnel=answered.funnel)
    assert bool(funnel) == (not expected)
    if funnel is not None:
        counts = [step.hosts_left for step in funnel.steps]
        assert counts == sorted(counts, reverse=True)
        assert counts[-1] == 0


@settings(max_examples=100, deadline=None)
@given(RANDOM)
def test_an_index_that_followed_changes_equals_one_that_was_loaded(random: Random) -> None:
    before, after, query = a_world(random), a_world(random), a_query(random)
    grown = index_of(*before)
    answer_of(grown, query)
    grown.apply(Delta(deleted=sorted({one.id for one in before} - {one.id for one in after}), providers=after))
    loaded = index_of(*after)
    assert len(grown) == len(loaded)
    assert grown.trait_masks.keys() == loaded.trait_masks.keys()
    assert [grown.has_class(name) for name in CLASSES] == [loaded.has_class(name) for name in CLASSES]
    assert answer_of(grown, query) == answer_of(loaded, query)


def answer_of(index: Index, query: CandidateQuery) -> tuple[set[str], dict]:
    """The answer's candidates and summaries, whatever their order."""
    plan = make_plan(index, query)
    answer = msgspec.json.decode(encode(index, plan, gather(index, plan, limit=0), (1, 39)))
    ordered = [msgspec.json.encode(one, order="deterministic").decode() for one in answer["allocation_requests"]]
    if query.distinct is Distinct.MAPPINGS:
        return set(ordered), answer["provider_summaries"]
    return {str(len(ordered))}, answer["provider_summaries"]  # which of the same ones was given is not said


def test_a_row_is_used_again_and_keeps_nothing_of_its_former_provider() -> None:
    index = index_of(host(1, "a"), segment(10, "a", addresses=5))
    index.apply(Delta(deleted=[10]))
    index.apply(Delta(providers=[host(11, "a")]))
    assert index.find_row("p10") is None
    assert index.find_row("p11") == 1
    assert picks(ask(index, nic("_0", "a"))) == []
    assert {one.root_uuid for one in ask(index, SERVER).candidates} == {"p1", "p11"}


def test_a_usage_changes_what_is_free_and_one_of_a_stranger_nothing() -> None:
    index = index_of(host(1, vcpu=2))
    index.apply(Delta(usages=[Usage(1, 7, {VCPU: 2, MEMORY_MB: 0, DISK_GB: 0}), Usage(99, 1, {VCPU: 1})]))
    assert ask(index, SERVER).candidates == ()
    index.apply(Delta(usages=[Usage(1, 8, {VCPU: 1, MEMORY_MB: 0, DISK_GB: 0})]))
    found = ask(index, SERVER)
    assert found.summaries["p1"].resources[VCPU] == (2, 1)


@pytest.mark.parametrize("count", [63, 64, 65, 200])
def test_the_index_grows_with_its_providers(count: int) -> None:
    index = index_of(*(host(number, "a") for number in range(count)), segment(999, "a", addresses=1))
    assert len(ask(index, SERVER, nic("_0", "a")).candidates) == count
