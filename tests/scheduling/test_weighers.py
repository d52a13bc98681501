"""What makes one candidate better than another, by what it takes and what is free there."""

from collections.abc import Mapping

import pytest

from roost.scheduling.settings import Preference, SchedulingSettings
from roost.scheduling.weighers import find_tenths, free_addresses, free_memory, list_addresses, weigh
from roost.seams.placement import IPV4_ADDRESS, IPV6_ADDRESS, Candidate, ProviderSummary

SPREAD = SchedulingSettings()


def a_candidate(*segments: str) -> Candidate:
    """On the host, with an address of each class of these segments."""
    names = {uuid: dict.fromkeys(SUMMARIES[uuid].resources, 1) for uuid in segments}
    return Candidate("host", {}, {"host": {"VCPU": 1}, **names})


def summary(uuid: str, **resources: tuple[int, int]) -> ProviderSummary:
    return ProviderSummary(uuid, uuid, resources)


SUMMARIES: Mapping[str, ProviderSummary] = {
    one.uuid: one
    for one in (
        summary("host", VCPU=(8, 0), MEMORY_MB=(1024, 256)),
        summary("unused", **{IPV4_ADDRESS: (100, 0)}),
        summary("half", **{IPV4_ADDRESS: (100, 50)}),
        summary("nearly half", **{IPV4_ADDRESS: (100, 54)}),
        summary("full", **{IPV4_ADDRESS: (100, 100)}),
        summary("over", **{IPV4_ADDRESS: (100, 120)}),
        summary("empty", **{IPV4_ADDRESS: (0, 0)}),
        summary("dual", **{IPV4_ADDRESS: (100, 20), IPV6_ADDRESS: (10, 7)}),
    )
}


@pytest.mark.parametrize(
    ("segments", "tenths"),
    [
        ((), 10), (("unused",), 10), (("half",), 5), (("nearly half",), 5), (("full",), 0), (("over",), -2),
        (("empty",), 10), (("dual",), 3), (("unused", "half"), 5), (("half", "dual"), 3),
    ],
    ids=lambda value: " and ".join(value) or "none" if isinstance(value, tuple) else "",
)  # fmt: skip
def test_a_candidate_is_as_good_as_its_fullest_segment(segments: tuple[str, ...], tenths: int) -> None:
    addresses = [SUMMARIES[uuid].resources[name] for uuid, name in list_addresses(a_candidate(*segments))]
    assert free_addresses([find_tenths(*each) for each in addresses], SPREAD) == tenths


@pytest.mark.parametrize(
    ("resources", "free"),
    [({"MEMORY_MB": (1024, 256)}, 768), ({"MEMORY_MB": (1024, 2048)}, -1024), ({}, 0)],
    ids=["free", "over its capacity", "no memory"],
)
def test_a_host_is_as_good_as_its_free_memory(resources: dict[str, tuple[int, int]], free: int) -> None:
    assert free_memory(resources, SPREAD) == free


@pytest.mark.parametrize(("preference", "sign"), [("spread", 1), ("pack", -1), ("ignore", 0)])
def test_an_operator_prefers_much_or_little_or_does_not_look(preference: Preference, sign: int) -> None:
    addresses = SchedulingSettings(addresses=preference)
    memory = SchedulingSettings(memory=preference)
    assert free_addresses([5, 7], addresses) == 5 * sign
    assert free_memory(SUMMARIES["host"].resources, memory) == 768 * sign
    assert weigh(a_candidate("half"), SUMMARIES, addresses) == (5 * sign, 768)
    assert weigh(a_candidate("half"), SUMMARIES, memory) == (5, 768 * sign)


def test_addresses_decide_before_memory() -> None:
    richer = {**SUMMARIES, "host": summary("host", MEMORY_MB=(10**9, 0))}
    assert weigh(a_candidate("unused"), SUMMARIES, SPREAD) > weigh(a_candidate("half"), richer, SPREAD)
    assert weigh(a_candidate("half"), richer, SPREAD) > weigh(a_candidate("nearly half"), SUMMARIES, SPREAD)
