"""Weighers: what makes one candidate better than another. More is better; the first that differs decides."""

from collections.abc import Callable, Mapping, Sequence

from roost.scheduling.settings import Preference, SchedulingSettings
from roost.seams.placement import ADDRESS_CLASSES, MEMORY_MB, Candidate, ProviderSummary

Summaries = Mapping[str, ProviderSummary]
Weigher = Callable[[Candidate, Summaries, SchedulingSettings], float]

SIGNS: Mapping[Preference, int] = {"spread": 1, "pack": -1, "ignore": 0}


def free_addresses(candidate: Candidate, summaries: Summaries, settings: SchedulingSettings) -> float:
    """Return the share of addresses that the candidate's fullest segment has free, in tenths: segments are spread."""
    shares = [
        1 - summaries[uuid].resources[name][1] / max(summaries[uuid].resources[name][0], 1)
        for uuid, resources in candidate.allocations.items()
        for name in ADDRESS_CLASSES
        if name in resources
    ]
    return SIGNS[settings.addresses] * round(min(shares, default=1.0) * 10)


def free_memory(candidate: Candidate, summaries: Summaries, settings: SchedulingSettings) -> float:
    """Return the memory that the host has free, in MB: hosts are spread."""
    capacity, used = summaries[candidate.root_uuid].resources.get(MEMORY_MB, (0, 0))
    return SIGNS[settings.memory] * (capacity - used)


ADDRESS_WEIGHERS: tuple[Weigher, ...] = (free_addresses,)
"""Those that look at the addresses alone; they come first."""

HOST_WEIGHERS: tuple[Weigher, ...] = (free_memory,)
"""Those that look at the host alone. There are no others: selection.py relies on it."""

WEIGHERS: tuple[Weigher, ...] = (*ADDRESS_WEIGHERS, *HOST_WEIGHERS)
"""All, in order."""


def weigh(
    candidate: Candidate, summaries: Summaries, settings: SchedulingSettings, weighers: Sequence[Weigher] = WEIGHERS
) -> tuple[float, ...]:
    """Return how good a candidate is, for sorting."""
    return tuple(weigher(candidate, summaries, settings) for weigher in weighers)
