"""A cloud that would be: with hosts added, segments grown, and hosts drained; made of a copy of the index."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from roost.placement.search.index import Index
from roost.platform.errors import NotFound
from roost.seams.network import NetworkView, Segment
from roost.seams.placement import ADDRESS_CLASSES, DISK_GB, MEMORY_MB, VCPU
from roost.seeing.rules.changes import Change, ChangeKind, add_host, close_hosts, make
from roost.seeing.rules.questions import Text

HOSTS_MAX = 10_000
Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class HostsAdded(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New hosts without servers, on the segments and in the aggregates of the host `like`; sizes None: as its."""

    names: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=HOSTS_MAX)]
    like: Text
    vcpus: Positive | None = None
    ram_mb: Positive | None = None
    disk_gb: Positive | None = None


class SegmentNamed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A segment of a network, both by name or id; segment None: of a network that has none, or only one."""

    network: Text
    segment: Text | None = None


class SegmentGrown(SegmentNamed, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A segment with so many more addresses, of each IP version that it gives."""

    addresses: Positive


class WhatIf(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What would be otherwise. drained: names of hosts; drained_segments: all of whose hosts are drained."""

    hosts: Annotated[tuple[HostsAdded, ...], Meta(max_length=100)] = ()
    segments: Annotated[tuple[SegmentGrown, ...], Meta(max_length=1000)] = ()
    drained: Annotated[tuple[Text, ...], Meta(max_length=HOSTS_MAX)] = ()
    drained_segments: Annotated[tuple[SegmentNamed, ...], Meta(max_length=1000)] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for too many hosts in all, which is told as any other fault of a body."""
        if (count := sum(len(added.names) for added in self.hosts)) > HOSTS_MAX:
            raise ValueError(f"{count} hosts are added, {HOSTS_MAX} are the most")

    @property
    def networks(self) -> list[str]:
        """Return the networks that it names."""
        return list(dict.fromkeys(named.network for named in (*self.segments, *self.drained_segments)))


def change(index: Index, what_if: WhatIf, networks: Sequence[NetworkView]) -> list[str]:
    """Add the hosts, grow the segments and close the hosts that are drained; return the names of these.

    networks: in the order of what_if.networks. Raises NotFound for hosts and segments that there are not.
    """
    by_ref = dict(zip(what_if.networks, networks, strict=True))
    rows = {index.names[row]: row for row in index.trees().hosts.nonzero()[0].tolist()}
    for added in what_if.hosts:
        if added.like not in rows:
            raise NotFound(f"Compute host {added.like} could not be found.")
        sizes = {VCPU: added.vcpus, MEMORY_MB: added.ram_mb, DISK_GB: added.disk_gb}
        totals = {name: total for name, total in sizes.items() if total is not None}
        for name in added.names:
            add_host(index, name, rows[added.like], totals)
    for grown in what_if.segments:
        segment = _find_segment(by_ref[grown.network], grown)
        row = index.find_row(segment.provider_uuid)
        assert row is not None, "a segment with addresses has a provider"
        classes = [name for name in ADDRESS_CLASSES if name in index.inventories[row]]
        more = Change(
            kind=ChangeKind.GROW_SEGMENT,
            provider_uuid=segment.provider_uuid,
            place=segment.name,
            amounts=tuple((name, grown.addresses) for name in classes),
        )
        make(index, [more])
    drained = set(what_if.drained)
    for named in what_if.drained_segments:
        aggregate = _find_segment(by_ref[named.network], named).placement_aggregate
        members = index.rows_in_aggregate(aggregate or "").tolist()
        drained |= {index.names[row] for row in members if index.names[row] in rows}
    if missing := close_hosts(index, drained):
        raise NotFound(f"Compute host {', '.join(missing)} could not be found.")
    return sorted(drained)


def _find_segment(network: NetworkView, named: SegmentNamed) -> Segment:
    segments = [s for s in network.segments if named.segment in (None, s.name, s.provider_uuid)]
    if len(segments) == 1:
        return segments[0]
    names = ", ".join(sorted(segment.name for segment in network.segments)) or "none"
    raise NotFound(f"Network {named.network}: expected one of its segments: {names}; got {named.segment}.")
