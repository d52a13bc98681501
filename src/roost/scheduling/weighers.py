"""Weighers: what makes one candidate better than another. More is better; the first that differs decides."""

from collections.abc import Callable, Iterable, Mapping

from roost.scheduling.settings import Preference, SchedulingSettings
from roost.seams.placement import ADDRESS_CLASSES, MEMORY_MB, Candidate, ProviderSummary

Summaries = Mapping[str, ProviderSummary]
Resources = Mapping[str, tuple[int, int]]
"""Resource class -> (capacity, used)."""
Address = tuple[str, str]
"""What addresses are taken of: a provider and a class."""
AddressWeigher = Callable[[Iterable[int], SchedulingSettings], int]
"""Weighs a candidate by how many tenths of its addresses are free on each segment, and sees nothing else."""
HostWeigher = Callable[[Resources, SchedulingSettings], int]
"""Weighs a candidate by what its host has, and sees nothing else."""

ADDRESSES = frozenset(ADDRESS_CLASSES)
SIGNS: Mapping[Preference, int] = {"spread": 1, "pack": -1, "ignore": 0}


def find_tenths(capacity: int, used: int) -> int:
    """Return the share that is free, in tenths."""
    return round((1 - used / max(capacity, 1)) * 10)


def free_addresses(tenths: Iterable[int], settings: SchedulingSettings) -> int:
    """Return the share of addresses that the candidate's fullest segment has free, in tenths: segments are spread."""
    return SIGNS[settings.addresses] * min(tenths, default=10)


def free_memory(resources: Resources, settings: SchedulingSettings) -> int:
    """Return the memory that the host has free, in MB: hosts are spread."""
    capacity, used = resources.get(MEMORY_MB, (0, 0))
    return SIGNS[settings.memory] * (capacity - used)


ADDRESS_WEIGHERS: tuple[AddressWeigher, ...] = (free_addresses,)
"""Those that look at the addresses; they come first."""

HOST_WEIGHERS: tuple[HostWeigher, ...] = (free_memory,)
"""Those that look at the host. There are no others: selection.py relies on it."""


def list_addresses(candidate: Candidate) -> tuple[Address, ...]:
    """Return of what the candidate takes addresses."""
    allocations = candidate.allocations
    return tuple([(uuid, name) for uuid, amounts in allocations.items() for name in amounts if name in ADDRESSES])


def weigh(candidate: Candidate, summaries: Summaries, settings: SchedulingSettings) -> tuple[int, ...]:
    """Return how good a candidate is, for sorting."""
    tenths = [find_tenths(*summaries[uuid].resources[name]) for uuid, name in list_addresses(candidate)]
    host = summaries[candidate.root_uuid].resources
    return (
        *(weigher(tenths, settings) for weigher in ADDRESS_WEIGHERS),
        *(weigher(host, settings) for weigher in HOST_WEIGHERS),
    )
