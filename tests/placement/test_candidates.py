"""The search: example worlds, and a property test against a search that tries everything."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.placement.candidates import find, search
from roost.placement.index import Delta, Index, IndexedProvider, Usage
from roost.placement.narrowing import make_plan
from roost.seams.placement import (
    DISK_GB,
    IPV4_ADDRESS,
    MEMORY_MB,
    SHARING,
    VCPU,
    CandidateQuery,
    Candidates,
    Inventory,
    RequestGroup,
)


def provider(number: int, **fields) -> IndexedProvider:
    """A provider whose uuid and name are `p<number>`; totals and used by resource class."""
    totals, used = fields.pop("totals", {}), fields.pop("used", {})
    made = {
        "id": number, "uuid": f"p{number}", "name": f"p{number}", "generation": 0, "parent_id": None,
        "root_id": number, "traits": frozenset(), "placement_aggregates": frozenset(),
        "inventories": {
            name: total if isinstance(total, Inventory) else Inventory(total, 0, 1, total)
            for name, total in totals.items()
        },
        "used": {name: used.get(name, 0) for name in totals},
    }  # fmt: skip
    return IndexedProvider(**{**made, **fields})


def host(number: int, *aggregates: str, vcpu: int = 8, **fields) -> IndexedProvider:
    totals = {VCPU: vcpu, MEMORY_MB: 4096, DISK_GB: 100}
    return provider(number, totals=totals, placement_aggregates=frozenset(aggregates), **fields)


def segment(number: int, *aggregates: str, addresses: int, used: int = 0) -> IndexedProvider:
    return provider(
        number, totals={IPV4_ADDRESS: addresses}, used={IPV4_ADDRESS: used},
        placement_aggregates=frozenset(aggregates), traits=frozenset({SHARING}),
    )  # fmt: skip


def index_of(*providers: IndexedProvider) -> Index:
    index = Index()
    index.apply(Delta(providers=providers))
    return index


SERVER = RequestGroup(suffix="", resources={VCPU: 1, MEMORY_MB: 512, DISK_GB: 10})


def nic(suffix: str, *aggregates: str, in_tree: str | None = None, amount: int = 1) -> RequestGroup:
    member_of = (frozenset(aggregates),) if aggregates else ()
    return RequestGroup(suffix=suffix, resources={IPV4_ADDRESS: amount}, member_of=member_of, in_tree=in_tree)


def ask(index: Index, *groups: RequestGroup, policy: str = "none", limit: int = 0, start: int = 0) -> Candidates:
    return search(index, CandidateQuery(groups=groups, group_policy=policy, limit=limit), start=start)


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
    assert picks(ask(index, SERVER, nic("_0", "a", "b"))) == [("p1", "p10"), ("p2", "p10"), ("p1", "p11")]
    assert picks(ask(index, SERVER, nic("_0", "a", "b"), limit=2)) == [("p1", "p10"), ("p2", "p10")]


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


# Against a search that tries everything.

CLASSES = (VCPU, IPV4_ADDRESS)
AGGREGATES = ("a", "b", "c")
TRAITS = ("CUSTOM_A", "CUSTOM_B")


def subset(names: tuple[str, ...]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(names))


def some(names: tuple[str, ...]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(names), min_size=1, max_size=2)


@st.composite
def worlds(draw: st.DrawFn) -> list[IndexedProvider]:
    made: list[IndexedProvider] = []
    for number in range(1, draw(st.integers(1, 5)) + 1):
        parent = draw(st.sampled_from([None, None, *made]))
        names = draw(subset(CLASSES))
        inventories = {
            name: Inventory(
                draw(st.integers(0, 4)), 0, draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(1, 2))
            )
            for name in sorted(names)
        }
        made.append(
            provider(
                number, totals=inventories, used={name: draw(st.integers(0, 2)) for name in sorted(names)},
                parent_id=parent.id if parent else None, root_id=parent.root_id if parent else number,
                traits=draw(subset((*TRAITS, SHARING))), placement_aggregates=draw(subset(AGGREGATES)),
            )
        )  # fmt: skip
    return made


@st.composite
def groups(draw: st.DrawFn, suffix: str) -> RequestGroup:
    names = sorted(draw(st.frozensets(st.sampled_from(CLASSES), min_size=1)))
    return RequestGroup(
        suffix=suffix,
        resources={name: draw(st.integers(1, 3)) for name in names},
        required=tuple(draw(st.lists(some(TRAITS), max_size=1))),
        forbidden=draw(st.one_of(st.just(frozenset()), some(TRAITS))),
        member_of=tuple(draw(st.lists(some(AGGREGATES), max_size=1))),
        forbidden_aggregates=draw(st.one_of(st.just(frozenset()), some(AGGREGATES))),
        in_tree=draw(st.sampled_from([None, None, None, "p1", "p3"])),
    )


@st.composite
def queries(draw: st.DrawFn) -> CandidateQuery:
    made = [draw(groups("")) for _ in range(draw(st.integers(0, 1)))]
    for number in range(draw(st.integers(0 if made else 1, 2))):
        if number and draw(st.booleans()):
            made.append(
                RequestGroup(**{**fields_of(made[-1]), "suffix": f"_{number}"}) if made[-1].suffix else nic("_x")
            )
        else:
            made.append(draw(groups(f"_{number}")))
    return CandidateQuery(groups=tuple(made), group_policy=draw(st.sampled_from(["none", "isolate"])))


def fields_of(group: RequestGroup) -> dict:
    return {name: getattr(group, name) for name in group.__struct_fields__}


def tried(world: list[IndexedProvider], query: CandidateQuery) -> set[tuple]:
    """Every candidate of the query, found by trying every provider for every part of it."""
    by_uuid = {one.uuid: one for one in world}
    found = set()
    parts = [
        (group, {name: amount})
        for group in query.groups
        if not group.suffix
        for name, amount in group.resources.items()
    ] + [(group, group.resources) for group in query.groups if group.suffix]
    for root in (one for one in world if one.parent_id is None):
        tree = [one for one in world if one.root_id == root.id]
        reached = frozenset().union(*(one.placement_aggregates for one in tree))
        choices = [
            [
                one
                for one in world
                if fits(one, resources) and allowed(one, group, root, by_uuid)
                and (one.root_id == root.id or (SHARING in one.traits and one.placement_aggregates & reached))
            ]
            for group, resources in parts
        ]  # fmt: skip
        for chosen in itertools.product(*choices):
            if holds_together(query, parts, chosen):
                found.add(key_of(query, parts, chosen))
    return found


def fits(one: IndexedProvider, resources) -> bool:
    for name, amount in resources.items():
        held = one.inventories.get(name)
        if held is None or amount + one.used[name] > held.capacity or amount % held.step_size:
            return False
        if not held.min_unit <= amount <= held.max_unit:
            return False
    return True


def allowed(one: IndexedProvider, group: RequestGroup, root: IndexedProvider, by_uuid) -> bool:
    own = one.root_id == root.id
    if group.in_tree is not None:
        named = by_uuid.get(group.in_tree)
        if named is None or named.root_id != one.root_id or (not group.suffix and not own):
            return False
    if group.forbidden & one.traits or group.forbidden_aggregates & one.placement_aggregates:
        return False
    held = one.placement_aggregates
    if group.suffix:
        return all(any_of & held for any_of in group.member_of) and all(
            any_of & one.traits for any_of in group.required
        )
    if group.forbidden_aggregates & root.placement_aggregates:
        return False
    span = root.placement_aggregates
    in_all = all(any_of & held for any_of in group.member_of)
    return in_all or (own and all(any_of & span for any_of in group.member_of))


def holds_together(query: CandidateQuery, parts, chosen) -> bool:
    taken: Counter = Counter()
    for (_group, resources), one in zip(parts, chosen, strict=True):
        for name, amount in resources.items():
            taken[one.uuid, name] += amount
    for one in chosen:
        for name, held in one.inventories.items():
            amount = taken[one.uuid, name]
            if amount and (amount + one.used[name] > held.capacity or amount > held.max_unit):
                return False
    granular = [one.uuid for (group, _), one in zip(parts, chosen, strict=True) if group.suffix]
    if query.group_policy == "isolate" and len(set(granular)) < len(granular):
        return False
    spread = [(group, one) for (group, _), one in zip(parts, chosen, strict=True) if not group.suffix]
    traits = frozenset().union(*(one.traits for _, one in spread))
    return all(any_of & traits for group, _ in spread[:1] for any_of in group.required)


def key_of(query: CandidateQuery, parts, chosen) -> tuple:
    """What makes two candidates the same: which class of which group is where; equal groups can be exchanged."""
    places = []
    for (group, resources), one in zip(parts, chosen, strict=True):
        likeness = tuple(sorted((name, repr(value)) for name, value in fields_of(group).items() if name != "suffix"))
        places.append((bool(group.suffix), likeness, tuple(sorted(resources)), one.uuid))
    return tuple(sorted(places))


def key_of_candidate(query: CandidateQuery, one) -> tuple:
    places = []
    for group in query.groups:
        likeness = tuple(sorted((name, repr(value)) for name, value in fields_of(group).items() if name != "suffix"))
        if group.suffix:
            (uuid,) = one.providers_by_suffix[group.suffix]
            places.append((True, likeness, tuple(sorted(group.resources)), uuid))
    return tuple(sorted(places))


@settings(max_examples=200, deadline=None)
@given(worlds(), queries(), st.integers(0, 3))
def test_the_search_finds_what_trying_everything_finds(world, query, start) -> None:
    index = index_of(*world)
    plan = make_plan(index, query)
    found = list(find(index, plan, limit=0, start=start))
    parts = [
        (query.groups[slot.group], {want.resource_class: want.amount for want in slot.wants}) for slot in plan.slots
    ]
    by_uuid = {one.uuid: one for one in world}
    keys = [key_of(query, parts, [by_uuid[index.uuids[row]] for row in one.rows]) for one in found]
    assert len(keys) == len(set(keys)), "a combination was given twice"
    assert set(keys) == tried(world, query)
    funnel = search(index, query).funnel
    assert bool(funnel) == (not keys)
    if funnel is not None:
        counts = [step.hosts_left for step in funnel.steps]
        assert counts == sorted(counts, reverse=True)
        assert counts[-1] == 0


@settings(max_examples=100, deadline=None)
@given(worlds(), worlds(), queries())
def test_an_index_that_followed_changes_equals_one_that_was_loaded(before, after, query) -> None:
    grown = index_of(*before)
    gone = {one.id for one in before} - {one.id for one in after}
    search(grown, query)
    grown.apply(Delta(deleted=sorted(gone), providers=after))
    loaded = index_of(*after)
    assert len(grown) == len(loaded)
    assert {key_of_candidate(query, one) for one in search(grown, query).candidates} == {
        key_of_candidate(query, one) for one in search(loaded, query).candidates
    }


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
