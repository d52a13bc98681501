"""Choosing for several servers at once: together they fit, and load is spread."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.scheduling.selection import select
from roost.scheduling.settings import Preference, SchedulingSettings
from roost.seams.placement import Candidate, Candidates, ProviderSummary


def world(hosts_by_segment: dict[str, int], free_by_segment: dict[str, int], vcpus: int = 4) -> Candidates:
    candidates, summaries = [], {}
    for segment, free in free_by_segment.items():
        summaries[segment] = ProviderSummary(segment, segment, {"IPV4_ADDRESS": (free + 10, 10)})
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
