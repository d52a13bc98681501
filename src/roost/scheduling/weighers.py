"""Weighers: what makes one candidate better than another. More is better; the first that differs decides."""

from collections.abc import Callable, Mapping

from roost.seams.placement import ADDRESS_CLASSES, MEMORY_MB, Candidate, ProviderSummary

Summaries = Mapping[str, ProviderSummary]
Weigher = Callable[[Candidate, Summaries], float]


def free_addresses(candidate: Candidate, summaries: Summaries) -> float:
    """The share of addresses that the candidate's fullest segment has free, in tenths: load is spread over segments."""
    shares = [
        1 - summaries[uuid].resources[name][1] / max(summaries[uuid].resources[name][0], 1)
        for uuid, resources in candidate.allocations.items()
        for name in ADDRESS_CLASSES
        if name in resources
    ]
    return round(min(shares, default=1.0) * 10)


def free_memory(candidate: Candidate, summaries: Summaries) -> float:
    """Memory that the host has free: load is spread over hosts."""
    resources = summaries[candidate.root_uuid].resources
    capacity, used = resources.get(MEMORY_MB, (0, 0))
    return capacity - used


WEIGHERS: tuple[Weigher, ...] = (free_addresses, free_memory)


def weigh(candidate: Candidate, summaries: Summaries) -> tuple[float, ...]:
    """How good a candidate is, for sorting."""
    return tuple(weigher(candidate, summaries) for weigher in WEIGHERS)
