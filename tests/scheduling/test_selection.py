"""Choosing for several servers at once: together they fit, and each is where it would be had it come alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from cProfile import Profile
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.scheduling.selection import join, select
from roost.scheduling.settings import Preference, SchedulingSettings
from roost.scheduling.weighers import weigh
from roost.seams.placement import Candidate, Candidates, ProviderSummary


def world(
    hosts_by_segment: dict[str, int], free_by_segment: dict[str, int], vcpus: int = 4, *, used: int = 10
) -> Candidates:
    candidates, summaries = [], {}
    for segment, free in free_by_segment.items():
        summaries[segment] = ProviderSummary(segment, segment, {"IPV4_ADDRESS": (free + used, used)})
        for number in range(hosts_by_segment[segment]):
            host = f"{segment}-{number}"
            summaries[host] = ProviderSummary(host, host, {"VCPU": (vcpus, 0), "MEMORY_MB": (1000, 0)})
            amounts = {host: {"VCPU": 1}, segment: {"IPV4_ADDRESS": 1}}
            candidates.append(Candidate(host, {"": (host,), "_nic0": (segment,)}, amounts))
    return Candidates(tuple(candidates), summaries)


def test_servers_of_one_request_share_what_is_free() -> None:
    found = world({"a": 10, "b": 10}, {"a": 3, "b": 20})
    chosen = select(found, 15, Random(1))
    assert len(chosen) == 15
    assert sum("a" in candidate.allocations for candidate in chosen) <= 3


def test_each_host_is_taken_once_before_any_is_taken_twice() -> None:
    chosen = select(world({"a": 5}, {"a": 100}), 5, Random(1))
    assert len({candidate.root_uuid for candidate in chosen}) == 5


@pytest.mark.parametrize(
    ("addresses", "memory", "chosen"),
    [
        ("spread", "spread", ("b", "1")),
        ("spread", "pack", ("b", "0")),
        ("pack", "spread", ("a", "1")),
        ("pack", "pack", ("a", "0")),
        ("ignore", "pack", ("", "0")),
    ],
)
def test_settings_say_where_servers_go_first(
    addresses: Preference, memory: Preference, chosen: tuple[str, str]
) -> None:
    """Segment a has less addresses free than b; of its hosts, the first has less memory free than the second."""
    found = world({"a": 2, "b": 2}, {"a": 5, "b": 500})
    for number in (0, 1):
        for segment in "ab":
            host = f"{segment}-{number}"
            found.summaries[host].resources["MEMORY_MB"] = (1000, 500 - 100 * number)  # type: ignore[index]
    (candidate,) = select(found, 1, Random(1), SchedulingSettings(addresses=addresses, memory=memory))
    segment, number = candidate.root_uuid.split("-")
    assert (chosen[0] or segment, chosen[1]) == (segment, number)


def test_excluded_hosts_are_not_chosen() -> None:
    chosen = select(world({"a": 2}, {"a": 100}), 8, Random(1), excluded=frozenset({"a-0"}))
    assert Counter(candidate.root_uuid for candidate in chosen) == {"a-1": 4}


@pytest.mark.parametrize(
    ("excluded", "quiet", "elsewhere", "chosen"),
    [
        ("", "", False, {"a-0", "a-1", "a-2"}),
        ("", "a-0", False, {"a-1", "a-2"}),
        ("a-1", "a-0", False, {"a-2"}),
        ("a-1", "a-0 a-2", False, {"a-0", "a-2"}),  # better one that may be silent than none
        ("a-1", "a-0 a-2", True, set()),  # better another segment than one whose hosts may be silent
        ("a-1", "a-0", True, {"a-2"}),
        ("a-0 a-1 a-2", "a-2", False, set()),
    ],
)
def test_hosts_that_were_not_heard_of_lately_are_chosen_last(
    excluded: str, quiet: str, elsewhere: bool, chosen: set[str]
) -> None:
    found = world({"a": 3}, {"a": 100})
    candidates = select(
        found, 12, Random(1), excluded=frozenset(excluded.split()), quiet=frozenset(quiet.split()), elsewhere=elsewhere
    )
    assert {candidate.root_uuid for candidate in candidates} == chosen


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 6), min_size=1), st.integers(0, 30), st.integers())
def test_what_is_chosen_always_fits_and_nothing_that_fits_is_left_out(
    free: dict[str, int], count: int, seed: int
) -> None:
    found = world(dict.fromkeys(free, 2), free, vcpus=2)
    chosen = select(found, count, Random(seed))
    taken = Counter((uuid, name) for c in chosen for uuid, amounts in c.allocations.items() for name in amounts)
    for (uuid, name), amount in taken.items():
        capacity, used = found.summaries[uuid].resources[name]
        assert amount <= capacity - used
    assert len(chosen) == min(count, sum(min(room, 4) for room in free.values()))


@st.composite
def clouds(draw: st.DrawFn) -> Candidates:
    """Segments of a few sizes with hosts of a few sizes, of which some reach two segments, or take two addresses."""
    sizes = draw(st.lists(st.sampled_from([1, 3, 13, 61]), min_size=1, max_size=5))
    summaries = {
        f"s{n}": ProviderSummary(f"s{n}", f"s{n}", {"IPV4_ADDRESS": (size, draw(st.integers(0, size)))})
        for n, size in enumerate(sizes)
    }
    reached = st.lists(st.sampled_from(sorted(summaries)), min_size=1, max_size=2, unique=True)
    candidates = []
    for number in range(draw(st.integers(1, 8))):
        host, segments = f"h{number}", draw(reached)
        memory_mb, vcpus = draw(st.sampled_from([1024, 2048, 4096])), draw(st.sampled_from([2, 40]))
        summaries[host] = ProviderSummary(host, host, {"VCPU": (vcpus, 0), "MEMORY_MB": (memory_mb * 10, 0)})
        together = draw(st.booleans())
        for ways in [segments] if together else [[segment] for segment in segments]:
            amounts = {host: {"VCPU": 1, "MEMORY_MB": 512}, **{way: {"IPV4_ADDRESS": 1} for way in ways}}
            candidates.append(Candidate(host, {}, amounts))
    return Candidates(tuple(candidates), summaries)


def with_taken(answer: Candidates, chosen: Sequence[Candidate]) -> Candidates:
    """What a search finds once the candidates that were chosen are claimed: those that still fit."""
    taken: Counter[tuple[str, str]] = Counter()
    for candidate in chosen:
        for uuid, amounts in candidate.allocations.items():
            taken.update({(uuid, name): amount for name, amount in amounts.items()})
    summaries = {
        uuid: ProviderSummary(
            uuid, uuid, {name: (size, used + taken[uuid, name]) for name, (size, used) in summary.resources.items()}
        )
        for uuid, summary in answer.summaries.items()
    }
    return Candidates(tuple(c for c in answer.candidates if fits(c, summaries)), summaries)


def fits(candidate: Candidate, summaries: Mapping[str, ProviderSummary]) -> bool:
    amounts = [(uuid, name, n) for uuid, taken in candidate.allocations.items() for name, n in taken.items()]
    frees = [summaries[uuid].resources[name] for uuid, name, _ in amounts]
    return all(used + n <= size for (_, _, n), (size, used) in zip(amounts, frees, strict=True))


PREFERENCES = st.sampled_from(["spread", "pack", "ignore"])


@given(clouds(), st.integers(1, 60), st.integers(), PREFERENCES, PREFERENCES)
def test_each_choice_is_the_best_by_what_those_before_it_left(
    found: Candidates, count: int, seed: int, addresses: Preference, memory: Preference
) -> None:
    settings = SchedulingSettings(addresses=addresses, memory=memory)
    chosen = select(found, count, Random(seed), settings)
    for number, candidate in enumerate(chosen):
        now = with_taken(found, chosen[:number])
        weights = [weigh(each, now.summaries, settings) for each in now.candidates]
        assert weigh(candidate, now.summaries, settings) == max(weights)
    assert len(chosen) == count or not with_taken(found, chosen).candidates


@given(st.lists(st.sampled_from([1, 3, 13, 61]), min_size=1, max_size=6), st.integers(1, 200), st.integers())
def test_many_of_one_request_share_segments_as_as_many_requests_would(sizes: list[int], count: int, seed: int) -> None:
    """Within one address, or where a segment has more of them for it, one tenth: the weigher sees no less."""
    segments = {f"s{number}": size for number, size in enumerate(sizes)}
    found = world(dict.fromkeys(segments, 4), segments, vcpus=100, used=0)
    random, singles = Random(seed), list[Candidate]()
    for _ in range(count):
        singles += select(with_taken(found, singles), 1, random)
    together = select(found, count, random)
    assert len(together) == len(singles) == min(count, sum(sizes))
    counts, counts_of_singles = counts_by_segment(together), counts_by_segment(singles)
    for segment, size in segments.items():
        assert abs(counts[segment] - counts_of_singles[segment]) <= max(1, -(-size // 10))


def counts_by_segment(chosen: Sequence[Candidate]) -> Counter[str]:
    return Counter(uuid for candidate in chosen for uuid in candidate.allocations if uuid != candidate.root_uuid)


def test_small_segments_are_not_filled_before_large_ones() -> None:
    """Three of 13 addresses, three of 61, for 100 servers: each gives about the same share, not the same number."""
    sizes = dict(zip("abcdef", [13, 61] * 3, strict=True))
    found = world(dict.fromkeys(sizes, 10), sizes, vcpus=100, used=0)
    counts = counts_by_segment(select(found, 100, Random(1)))
    shares = [counts[segment] / size for segment, size in sizes.items()]
    assert max(shares) - min(shares) <= 0.15


def calls_for(hosts: int, count: int) -> int:
    """How many functions a selection on eight segments calls."""
    segments = dict.fromkeys("abcdefgh", 1000)
    found, profile = world(dict.fromkeys(segments, hosts // 8), segments), Profile()
    profile.runcall(select, found, count, Random(1))
    return sum(entry.callcount for entry in profile.getstats())


def test_a_choice_costs_as_much_among_sixteen_times_as_many_hosts() -> None:
    few, many = (calls_for(hosts, 300) - calls_for(hosts, 100) for hosts in (96, 1536))
    assert many < 1.5 * few


def test_one_search_is_its_own_answer() -> None:
    found = world({"a": 1}, {"a": 1})
    assert join([found]) is found


def test_the_answers_of_several_searches_are_chosen_from_together() -> None:
    one, other = world({"a": 2}, {"a": 1}), world({"a": 1, "b": 2}, {"a": 1, "b": 5})
    joined = join([one, Candidates((), {}), other])
    assert joined.candidates == (*one.candidates, *other.candidates)
    assert joined.summaries == {**one.summaries, **other.summaries}
    assert joined.funnel is None
