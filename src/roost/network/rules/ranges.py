"""Joins, subtracts and searches ranges of addresses, which are whole numbers."""

from bisect import bisect_right
from collections.abc import Iterable

from roost.network.model.networks import AddressRange

Ranges = tuple[AddressRange, ...]


def join(ranges: Iterable[AddressRange]) -> Ranges:
    """Return the same addresses in as few ranges as there can be, in order."""
    joined: list[AddressRange] = []
    for item in sorted(ranges):
        if joined and item.first <= joined[-1].last + 1:
            joined[-1] = AddressRange(joined[-1].first, max(joined[-1].last, item.last))
        else:
            joined.append(item)
    return tuple(joined)


def subtract(ranges: Iterable[AddressRange], others: Iterable[AddressRange]) -> Ranges:
    """Return the addresses of `ranges` that are not in `others`, in order."""
    rest: list[AddressRange] = []
    cuts = join(others)
    start = 0
    for item in join(ranges):
        first = item.first
        while start < len(cuts) and cuts[start].last < item.first:
            start += 1
        position = start
        while position < len(cuts) and cuts[position].first <= item.last:
            cut = cuts[position]
            if first < cut.first:
                rest.append(AddressRange(first, cut.first - 1))
            first = cut.last + 1
            position += 1
        if first <= item.last:
            rest.append(AddressRange(first, item.last))
    return tuple(rest)


def holds(ranges: Ranges, address: int) -> bool:
    """Return whether one of the ranges has the address. ranges: joined and in order, for a binary search."""
    position = bisect_right(ranges, address, key=lambda item: item.first)
    return position > 0 and address <= ranges[position - 1].last
