"""Why a search found nothing: what each requirement left, and which rows may fill which slot."""

from random import Random

import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from tests.placement.naive import tried
from tests.placement.worlds import RANDOM, a_query, a_world, host, index_of, provider, segment

from roost.placement.search.funnel import explain, options_of
from roost.placement.search.narrowing import make_plan
from roost.seams.placement import (
    IPV4_ADDRESS,
    MEMORY_MB,
    VCPU,
    CandidateQuery,
    FunnelStep,
    RequestGroup,
    Requirement,
    Shortage,
)

SERVER = RequestGroup(suffix="", resources={VCPU: 1})
NIC = RequestGroup(suffix="_0", resources={IPV4_ADDRESS: 1})


def steps(world: list, *groups: RequestGroup, **query: object) -> list[tuple[str, int]]:
    funnel = explain(index_of(*world), CandidateQuery(groups=groups, **query))
    return [(step.describe(), step.hosts_left) for step in funnel.steps]


TREE = [
    provider(1, totals={MEMORY_MB: 9}),
    provider(2, totals={VCPU: 1}, parent_id=1, root_id=1),
    provider(3, totals={VCPU: 1}, parent_id=1, root_id=1, traits=frozenset("X")),
    provider(4, totals={VCPU: 9, MEMORY_MB: 9}),
]
TWO = tuple(RequestGroup(suffix=f"_{n}", resources={VCPU: 1}) for n in "12")
MARKED = RequestGroup(suffix="_2", resources={}, required=(frozenset("X"),))


@pytest.mark.parametrize(
    ("world", "groups", "query", "last"),
    [
        pytest.param([], (SERVER,), {}, [("hosts", 0), ("inventory of VCPU", 0), ("1 VCPU free", 0)], id="no hosts"),
        pytest.param(TREE, (SERVER,), {"root_required": frozenset("X")},
                     [("hosts", 2), ("root with trait X", 0), ("inventory of VCPU", 0), ("1 VCPU free", 0)],
                     id="a trait of the root, which a child does not have for it"),
        pytest.param(TREE, (SERVER,), {"root_forbidden": frozenset("X")},
                     [("hosts", 2), ("root without trait X", 2), ("inventory of VCPU", 2), ("1 VCPU free", 2),
                      ("all of it together", 2)], id="a trait that no root has"),
        pytest.param(TREE[:3], (RequestGroup(suffix="", resources={VCPU: 1, MEMORY_MB: 1}),), {"nested": False},
                     [("1 MEMORY_MB free", 1), ("all of it together", 1), ("no two providers of one tree", 0)],
                     id="flat"),
        pytest.param(TREE[:2], TWO, {}, [("1 VCPU free (group _2)", 1), ("all of it together", 0)],
                     id="two groups and room for one"),
        pytest.param(TREE[3:], TWO, {"group_policy": "isolate"},
                     [("all of it together", 1), ("each group on a provider of its own", 0)], id="isolated"),
        pytest.param(TREE[:3], (RequestGroup(suffix="_1", resources={MEMORY_MB: 1}), MARKED),
                     {"same_subtree": (frozenset({"_1", "_2"}),)},
                     [("all of it together", 1), ("groups _1 and _2 in one subtree", 1)], id="in one subtree"),
        pytest.param(TREE[:3], (RequestGroup(suffix="_1", resources={VCPU: 1}, forbidden=frozenset("X")), MARKED),
                     {"same_subtree": (frozenset({"_1", "_2"}),)},
                     [("all of it together", 1), ("groups _1 and _2 in one subtree", 0)], id="in two subtrees"),
    ],
)  # fmt: skip
def test_every_requirement_is_a_step(
    world: list, groups: tuple[RequestGroup, ...], query: dict, last: list[tuple[str, int]]
) -> None:
    assert steps(world, *groups, **query)[-len(last) :] == last


def test_sharing_providers_are_no_hosts() -> None:
    assert steps([host(1, "a"), segment(10, "a", addresses=0)], NIC)[0] == ("hosts", 1)


@settings(max_examples=200, deadline=None)
@given(RANDOM)
def test_steps_only_narrow_and_the_last_one_is_what_the_search_finds(random: Random) -> None:
    world, query = a_world(random), a_query(random)
    counts = [step.hosts_left for step in explain(index_of(*world), query).steps]
    assert counts == sorted(counts, reverse=True)
    if not tried(world, query):
        assert counts[-1] == 0


@pytest.mark.parametrize(
    ("root", "options"),
    [(0, [[0], [2]]), (1, [[1], []]), (2, [[], [2]])],
    ids=["a host that is served", "a host that is not", "the sharing provider itself"],
)
def test_the_options_of_a_root_are_its_own_rows_and_those_that_serve_it(root: int, options: list[list[int]]) -> None:
    index = index_of(host(1, "a"), host(2), segment(10, "a", addresses=1))
    plan = make_plan(index, CandidateQuery(groups=(SERVER, NIC)))
    assert options_of(index, plan, root) == options


def test_the_options_of_a_tree_are_all_its_rows_that_fit() -> None:
    index = index_of(*TREE)
    plan = make_plan(index, CandidateQuery(groups=(SERVER, RequestGroup(suffix="_1", resources={MEMORY_MB: 1}))))
    assert options_of(index, plan, 0) == [[1, 2], [0]]
    assert options_of(index, plan, 3) == [[3], [3]]


def test_a_sharing_provider_that_does_not_fit_is_no_option() -> None:
    index = index_of(host(1, "a"), segment(10, "a", addresses=1), segment(11, "a", addresses=1, used=1))
    plan = make_plan(index, CandidateQuery(groups=(SERVER, NIC)))
    assert options_of(index, plan, 0) == [[0], [1]]


CPU, RAM, ADDRESS = "1 VCPU free", "1 MEMORY_MB free", "1 IPV4_ADDRESS free (group _0)"


@pytest.mark.parametrize(
    ("hosts", "shortages"),
    [
        pytest.param([(1, 1, "a")], [], id="it all fits, but for what is asked together"),
        pytest.param([(0, 1, "a"), (0, 0, "a")], [], id="what is free nowhere at all"),
        pytest.param([], [], id="no hosts"),
        pytest.param([(1, 0, "a"), (0, 1, "a"), (0, 1, "a")],
                     [(RAM, CPU, 2, ("a",)), (CPU, RAM, 1, ("a",))], id="not where the other is"),
        pytest.param([(1, 0, "a"), (0, 1, "b")],
                     [(RAM, CPU, 1, ("b",)), (CPU, RAM, 1, ("a",))], id="each in an aggregate of the query"),
        pytest.param([(1, 0, "ax"), (0, 1, "x")],
                     [(RAM, CPU, 1, ()), (CPU, RAM, 1, ("a",))], id="in none of the query's"),
        pytest.param([(1, 1, "b"), (1, 0, "a"), (0, 1, "a")],
                     [(ADDRESS, RAM, 1, ("a",)), (RAM, ADDRESS, 1, ("b",))],
                     id="the third, and the one before it that is short where it is free"),
    ],
)  # fmt: skip
def test_what_is_free_in_different_places_is_told_from_both_sides(
    hosts: list[tuple[int, int, str]], shortages: list[tuple[str, str, int, tuple[str, ...]]]
) -> None:
    world = [
        provider(n, totals={VCPU: 1, MEMORY_MB: 1}, used={VCPU: 1 - cpu, MEMORY_MB: 1 - ram},
                 placement_aggregates=frozenset(near))
        for n, (cpu, ram, near) in enumerate(hosts)
    ]  # fmt: skip
    world += [segment(50, "a", "x", addresses=1), segment(51, "b", addresses=1, used=1)]
    group = RequestGroup(suffix="", resources={VCPU: 1, MEMORY_MB: 1})
    nic = replace(NIC, member_of=(frozenset("ab"),))
    funnel = explain(index_of(*world), CandidateQuery(groups=(group, nic)))
    assert [
        (one.has.describe(), one.lacks.describe(), one.hosts, one.placement_aggregates) for one in funnel.shortages
    ] == shortages


def test_a_shortage_in_placements_words() -> None:
    has, lacks = (FunnelStep(requirement=Requirement.FREE, names=(name,), amount=1) for name in (VCPU, MEMORY_MB))
    assert Shortage(has=has, lacks=lacks, hosts=2).describe() == "2 with 1 VCPU free but not 1 MEMORY_MB free"
