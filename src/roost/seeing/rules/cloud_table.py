"""What a cloud has free, whatever is asked for: by segment, zone and aggregate, and what is stranded."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from roost.placement.search.index import I64, Index, Mask, rows_of_aggregates
from roost.seams.network import NetworkView
from roost.seams.placement import ADDRESS_CLASSES, DISABLED, DISK_GB, MEMORY_MB, VCPU
from roost.seeing.rules.host_groups import HostGroups

SIZES = (VCPU, MEMORY_MB, DISK_GB)


class HostsRoom(Struct, frozen=True, kw_only=True):
    """What some hosts have. open: those that take servers, of which alone the rest is told. vcpus_free and the like:
    what is free; overcommitted hosts count as 0.
    """

    hosts: int
    open: int
    vcpus: int
    vcpus_free: int
    memory_mb: int
    memory_mb_free: int
    disk_gb: int
    disk_gb_free: int


class SegmentLine(Struct, frozen=True, kw_only=True):
    """A segment, or a network without, with its addresses of the class that has fewest free, and its hosts.

    vcpus_stranded: free on its open hosts where it has no address. addresses_stranded: free where no open host of it
    has a VCPU.
    """

    network: str
    segment: str
    addresses: int
    addresses_free: int
    room: HostsRoom
    vcpus_stranded: int
    addresses_stranded: int


class GroupLine(Struct, frozen=True):
    """A zone or a host aggregate."""

    name: str
    room: HostsRoom


class CloudTable(Struct, frozen=True):
    """All of it."""

    total: HostsRoom
    segments: tuple[SegmentLine, ...]
    zones: tuple[GroupLine, ...]
    aggregates: tuple[GroupLine, ...]


def make_table(index: Index, networks: Sequence[NetworkView], groups: HostGroups) -> CloudTable:
    """Return the table. Cost: some steps for each host, some array operations for each line."""
    hosts = index.trees().hosts
    amounts = {name: _amounts(index, name) for name in SIZES}
    is_open = hosts & ~index.trait_mask(DISABLED)

    def room(of: Mask) -> HostsRoom:
        here = np.flatnonzero(of & is_open)
        sums = [int(column[here].sum()) for name in SIZES for column in amounts[name]]
        return HostsRoom(
            hosts=int(np.count_nonzero(of & hosts)),
            open=len(here),
            **dict(zip(HostsRoom.__struct_fields__[2:], sums, strict=True)),
        )

    segments = []
    for network in networks:
        for segment in network.segments:
            of = np.zeros(index.rows, np.bool_)
            if segment.placement_aggregate is not None:
                of[index.root_row[rows_of_aggregates(index, [segment.placement_aggregate])]] = True
            total, free = _addresses(index, segment.provider_uuid)
            here = room(of)
            segments.append(
                SegmentLine(
                    network=network.name,
                    segment=segment.name,
                    addresses=total,
                    addresses_free=free,
                    room=here,
                    vcpus_stranded=here.vcpus_free if not free and segment.classes else 0,
                    addresses_stranded=free if not here.vcpus_free else 0,
                )
            )
    rows = {index.names[row]: row for row in np.flatnonzero(hosts).tolist()}

    def lines(named: Mapping[str, frozenset[str]]) -> tuple[GroupLine, ...]:
        masks = {name: np.zeros(index.rows, np.bool_) for name in named}
        for name, members in named.items():
            masks[name][[rows[host] for host in members]] = True
        return tuple(GroupLine(name, room(mask)) for name, mask in masks.items())

    return CloudTable(room(hosts), tuple(segments), lines(groups.zones), lines(groups.aggregates))


def _amounts(index: Index, resource_class: str) -> tuple[I64, I64]:
    """Return what each host tree has of a class, and has free; int64, shape (rows,), at the root."""
    capacity, free = np.zeros(index.rows, np.int64), np.zeros(index.rows, np.int64)
    column = index.column(resource_class)
    for row in np.flatnonzero(column.most >= 0).tolist():
        root, had = int(index.root_row[row]), index.inventories[row][resource_class].capacity
        capacity[root] += had
        free[root] += max(had - index.used[row][resource_class], 0)
    return capacity, free


def _addresses(index: Index, provider_uuid: str) -> tuple[int, int]:
    """Return (capacity, free) of the address class of a segment that has fewest free."""
    row = index.find_row(provider_uuid)
    if row is None:
        return 0, 0
    pairs = [
        (inventory.capacity, max(inventory.capacity - index.used[row][name], 0))
        for name, inventory in index.inventories[row].items()
        if name in ADDRESS_CLASSES
    ]
    return min(pairs, key=lambda pair: pair[1], default=(0, 0))
